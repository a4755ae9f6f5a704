//! The server's machine, frame by frame: a test is the client, and says what time it is.

mod bounds;
mod calls;
mod calm;
mod faults;
mod gate;
mod handshake;
mod lifetime;
mod property;
mod refused;
mod services;
mod streams;
mod wire;

use super::{Options, Server};
use crate::connection::handshake::{Hello, Welcome};
use crate::frame::Kind;
use crate::link::Transport;
use crate::status::Code;
use base::units::Nanos;
use services::{Bytes, Seen};
use wire::{Heard, Peer, wire_like};

const NOW: Nanos = Nanos::from_secs(1);

fn server_with(options: Options) -> (Server, Seen) {
    let seen = Seen::default();
    (Server::new(options).service(Bytes(seen.clone())), seen)
}

fn connect(server: &mut Server, room: usize) -> (Peer, Welcome) {
    connect_over(Transport::Memory, server, room, NOW)
}

fn connect_over(transport: Transport, server: &mut Server, room: usize, now: Nanos) -> (Peer, Welcome) {
    let (link, peer) = wire_like(transport, room);
    server.accept(link, now);
    peer.hello(Hello::default());
    settle(server, now);
    let welcome = peer.hear_welcome();
    (peer, welcome)
}

fn settle(server: &mut Server, now: Nanos) {
    while server.poll(now) > 0 {}
}

/// A server with a client.
fn pair() -> (Server, Seen, Peer) {
    let (mut server, seen) = server_with(Options::default());
    let (peer, _) = connect(&mut server, usize::MAX);
    (server, seen, peer)
}

fn code(heard: &Heard) -> Code {
    assert_eq!(heard.header.kind, Kind::Reply);
    Code::of(heard.header.method)
}

fn text(heard: &Heard) -> &str {
    std::str::from_utf8(&heard.body).expect("a text")
}
