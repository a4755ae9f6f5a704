//! Publish and subscribe, as a ping-pong: one topic there, one back, and one message on its way.

use base::Nanos;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::{failed, name, node};
use crate::Contest;
use crate::sample::{self, Payloads, Sample, Watch};
use crate::server::{Phase, Serve};
use crate::systems::Folder;

type Topic = PortFactory<ipc::Service, [u8], ()>;

fn topic(node: &Node<ipc::Service>, topic: &str) -> Result<Topic, String> {
    node.service_builder(&name(topic))
        .publish_subscribe::<[u8]>()
        .history_size(0)
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(1)
        .max_publishers(1)
        .max_subscribers(1)
        .open_or_create()
        .map_err(failed("no topic"))
}

/// One side: what it publishes to and what it hears.
struct Side {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    // Kept: the topics are gone with their last user.
    _topics: [Topic; 2],
    _node: Node<ipc::Service>,
}

impl Side {
    fn new(folder: &Folder, contest: &Contest, out: &str, back: &str) -> Result<Side, String> {
        let node = node(folder)?;
        let [out, back] = [topic(&node, out)?, topic(&node, back)?];
        let publisher = out
            .publisher_builder()
            .initial_max_slice_len(contest.payload_bytes())
            .create()
            .map_err(failed("no publisher"))?;
        let subscriber = back.subscriber_builder().create().map_err(failed("no subscriber"))?;
        Ok(Side { publisher, subscriber, _topics: [out, back], _node: node })
    }

    #[inline]
    fn publish(&self, payload: &[u8]) -> Result<(), String> {
        let message =
            self.publisher.loan_slice_uninit(payload.len()).map_err(failed("no room for a message"))?;
        message.write_from_slice(payload).send().map_err(failed("a message does not go"))?;
        Ok(())
    }
}

/// The server's process.
pub struct Server(Side);

impl Server {
    /// Hears "ping", publishes to "pong".
    pub fn new(folder: &Folder, contest: &Contest) -> Result<Server, String> {
        Side::new(folder, contest, "pong", "ping").map(Server)
    }
}

impl Serve for Server {
    fn address(&self) -> String {
        String::new()
    }

    fn serve(&mut self, phase: &Phase) -> Result<u64, String> {
        let mut calls = 0;
        while !phase.is_over() {
            let Some(ping) = self.0.subscriber.receive().map_err(failed("no message"))? else { continue };
            self.0.publish(ping.payload())?;
            calls += 1;
        }
        Ok(calls)
    }
}

/// The client's side.
pub struct Client {
    side: Side,
    payload_bytes: usize,
}

impl Client {
    /// Publishes to "ping", hears "pong".
    pub fn open(folder: &Folder, contest: &Contest) -> Result<Client, String> {
        let side = Side::new(folder, contest, "ping", "pong")?;
        Ok(Client { side, payload_bytes: contest.payload_bytes() })
    }

    /// The pong, when it is there and right.
    #[inline]
    fn take(&self, payloads: &mut Payloads) -> Result<bool, String> {
        let Some(pong) = self.side.subscriber.receive().map_err(failed("no message"))? else {
            return Ok(false);
        };
        payloads.check(0, pong.payload())?;
        Ok(true)
    }
}

impl sample::Client for Client {
    fn run(&mut self, window: usize, time: Nanos) -> Result<Sample, String> {
        assert_eq!(window, 1, "one message is on its way");
        let mut payloads = Payloads::new(1, self.payload_bytes, 0);
        let mut watch = Watch::start(window, time);
        self.side.publish(payloads.of(0))?;
        while !watch.is_over() {
            if self.take(&mut payloads)? {
                watch.count();
                self.side.publish(payloads.of(0))?;
            }
        }
        let sample = watch.stop();
        while !self.take(&mut payloads)? {}
        Ok(sample)
    }
}
