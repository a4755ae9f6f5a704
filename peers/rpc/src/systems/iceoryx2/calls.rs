//! Request and response.
//!
//! Replies come in the order of the requests, so the client looks at the oldest call only.

use std::collections::VecDeque;

use base::Nanos;
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::{client, server};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::request_response::PortFactory;

use super::{failed, name, node};
use crate::Contest;
use crate::sample::{self, Payloads, Sample, Watch};
use crate::server::{Phase, Serve};
use crate::systems::Folder;

type Calls = PortFactory<ipc::Service, [u8], (), [u8], ()>;
type Pending = PendingResponse<ipc::Service, [u8], (), [u8], ()>;

fn service(node: &Node<ipc::Service>, contest: &Contest) -> Result<Calls, String> {
    node.service_builder(&name("echo"))
        .request_response::<[u8], [u8]>()
        .enable_safe_overflow_for_requests(false)
        .enable_safe_overflow_for_responses(false)
        .max_active_requests_per_client(contest.widest())
        .max_loaned_requests(contest.widest())
        .max_response_buffer_size(1)
        .max_borrowed_responses_per_pending_response(1)
        .max_clients(1)
        .max_servers(1)
        .open_or_create()
        .map_err(failed("no service"))
}

/// The server's process.
pub struct Server {
    port: server::Server<ipc::Service, [u8], (), [u8], ()>,
    // Kept: the service is gone with its last user.
    _service: Calls,
    _node: Node<ipc::Service>,
}

impl Server {
    /// Opens the service, which needs no address.
    pub fn new(folder: &Folder, contest: &Contest) -> Result<Server, String> {
        let node = node(folder)?;
        let service = service(&node, contest)?;
        let port = service
            .server_builder()
            .initial_max_slice_len(contest.payload_bytes())
            .create()
            .map_err(failed("no server"))?;
        Ok(Server { port, _service: service, _node: node })
    }
}

impl Serve for Server {
    fn address(&self) -> String {
        String::new()
    }

    fn serve(&mut self, phase: &Phase) -> Result<u64, String> {
        let mut calls = 0;
        while !phase.is_over() {
            let Some(request) = self.port.receive().map_err(failed("no request"))? else { continue };
            let payload = request.payload();
            let reply = request.loan_slice_uninit(payload.len()).map_err(failed("no room for a reply"))?;
            reply.write_from_slice(payload).send().map_err(failed("a reply does not go"))?;
            calls += 1;
        }
        Ok(calls)
    }
}

/// The client's side.
pub struct Client {
    port: client::Client<ipc::Service, [u8], (), [u8], ()>,
    payload_bytes: usize,
    _service: Calls,
    _node: Node<ipc::Service>,
}

impl Client {
    /// Opens the service.
    pub fn open(folder: &Folder, contest: &Contest) -> Result<Client, String> {
        let node = node(folder)?;
        let service = service(&node, contest)?;
        let port = service
            .client_builder()
            .initial_max_slice_len(contest.payload_bytes())
            .create()
            .map_err(failed("no client"))?;
        Ok(Client { port, payload_bytes: contest.payload_bytes(), _service: service, _node: node })
    }

    fn call(&self, payload: &[u8]) -> Result<Pending, String> {
        let request = self.port.loan_slice_uninit(payload.len()).map_err(failed("no room for a request"))?;
        request.write_from_slice(payload).send().map_err(failed("a request does not go"))
    }
}

impl sample::Client for Client {
    fn run(&mut self, window: usize, time: Nanos) -> Result<Sample, String> {
        let mut payloads = Payloads::new(window, self.payload_bytes, 0);
        let mut in_flight: VecDeque<(usize, Pending)> = VecDeque::with_capacity(window);
        let mut watch = Watch::start(window, time);
        for place in 0..window {
            in_flight.push_back((place, self.call(payloads.of(place))?));
        }
        while !watch.is_over() {
            let Some(place) = take(&mut in_flight, &mut payloads)? else { continue };
            watch.count();
            in_flight.push_back((place, self.call(payloads.of(place))?));
        }
        let sample = watch.stop();
        while !in_flight.is_empty() {
            take(&mut in_flight, &mut payloads)?;
        }
        Ok(sample)
    }
}

/// The oldest call's place, when its reply is there and right.
#[inline]
fn take(
    in_flight: &mut VecDeque<(usize, Pending)>,
    payloads: &mut Payloads,
) -> Result<Option<usize>, String> {
    let (place, pending) = in_flight.front().expect("the window is never empty");
    let Some(reply) = pending.receive().map_err(failed("no reply"))? else { return Ok(None) };
    let place = *place;
    payloads.check(place, reply.payload())?;
    drop(reply);
    in_flight.pop_front();
    Ok(Some(place))
}
