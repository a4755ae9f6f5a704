//! The fabric over shared memory, through the whole generated path: encode, ring, decode, handler, and back.
//!
//! Its settings for this contest: the defaults. Both sides poll without a pause, as iceoryx2's do; what one turn of the client's loop
//! starts is published together, at the next poll.

use base::{Clock, Nanos};
use codec::memory::OutOfMemory;
use fabric::channel::{CallOptions, Channel};
use fabric::link::Address;
use fabric::service::Context;
use fabric::status::Status;

use crate::Contest;
use crate::sample::{self, Payloads, Sample, Watch};
use crate::server::{Phase, Serve};
use crate::systems::Folder;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks)]
mod generated {
    codec::include_proto!("fabric_contest");
}
use generated::contest::{
    Echo, EchoClient, EchoServer, SayReply, SayReplyMut, SayRequestMut, SayRequestView,
};

/// The service: hands the payload back.
struct Parrot;

impl Echo for Parrot {
    fn say(
        &self,
        request: SayRequestView<'_>,
        reply: &mut SayReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        Ok(reply.set_payload(request.payload())?)
    }
}

/// The server's process.
pub struct Server {
    server: fabric::server::Server,
    address: Address,
    clock: Clock,
}

impl Server {
    /// At a socket in the folder, which hands out the shared memory.
    pub fn new(folder: &Folder) -> Result<Server, String> {
        let address = Address::Shm(folder.path().join("millrace.sock"));
        let server = fabric::server::Server::new(Default::default())
            .service(EchoServer::new(Parrot))
            .listen(&address)
            .map_err(|error| format!("{address} cannot be listened on: {error}"))?;
        Ok(Server { server, address, clock: Clock::shared() })
    }
}

impl Serve for Server {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn serve(&mut self, phase: &Phase) -> Result<u64, String> {
        let before = self.server.totals().replies;
        while !phase.is_over() {
            self.server.poll(self.clock.now());
        }
        Ok(self.server.totals().replies - before)
    }
}

/// The client's side.
pub struct Client {
    channel: Channel,
    echo: EchoClient,
    payload_bytes: usize,
}

impl Client {
    /// One connection.
    pub fn connect(address: &str, contest: &Contest) -> Result<Client, String> {
        let address: Address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let channel = Channel::connect(&address, &Default::default()).map_err(|error| error.to_string())?;
        let echo = EchoClient::new(&channel).map_err(|error| error.to_string())?;
        Ok(Client { channel, echo, payload_bytes: contest.payload_bytes() })
    }

    #[inline]
    fn call(&mut self, place: usize, payloads: &Payloads) -> Result<(), String> {
        let fill = |request: &mut SayRequestMut<'_, '_>| -> Result<(), OutOfMemory> {
            request.set_payload(payloads.of(place))
        };
        let started = self.echo.say_async(&mut self.channel, &CallOptions::default(), place as u64, fill);
        started.map(drop).map_err(|error| error.to_string())
    }

    /// The places whose replies came and were right, into `answered`.
    #[inline]
    fn take(&mut self, payloads: &mut Payloads, answered: &mut Vec<usize>) -> Result<(), String> {
        let mut wrong = Ok(());
        self.channel.poll(answered.capacity(), |mut event| {
            let place = event.user as usize;
            let checked = match event.message::<SayReply>() {
                Ok(reply) => payloads.check(place, reply.payload()),
                Err(status) => Err(status.to_string()),
            };
            match checked {
                Ok(()) => answered.push(place),
                Err(error) => wrong = Err(error),
            }
        });
        wrong
    }
}

impl sample::Client for Client {
    fn run(&mut self, window: usize, time: Nanos) -> Result<Sample, String> {
        let mut payloads = Payloads::new(window, self.payload_bytes, 0);
        let mut answered = Vec::with_capacity(window);
        let mut watch = Watch::start(window, time);
        for place in 0..window {
            self.call(place, &payloads)?;
        }
        while !watch.is_over() {
            self.take(&mut payloads, &mut answered)?;
            for place in answered.drain(..) {
                watch.count();
                self.call(place, &payloads)?;
            }
        }
        let sample = watch.stop();
        while self.channel.in_flight() > 0 {
            self.take(&mut payloads, &mut answered)?;
            answered.clear();
        }
        Ok(sample)
    }
}
