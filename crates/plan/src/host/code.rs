//! What our own code takes by itself: everything it touches in the first-level cache, one core, nobody else.
//!
//! These are no predictions and never shown as such: a model of hardware does not say how many instructions a GET has.

use super::calls;
use super::figures::Figures;
use base::touch::yield_once;
use base::{Clock, Nanos, Prng};
use bench::probe::timing::samples_of;
use protocol::coherence::compute::Item;
use protocol::coherence::home::items::Items;
use protocol::coherence::table::Layout;
use protocol::coherence::{Config, Home, Life, NodeId};
use protocol::memcache::udp::Frame;
use protocol::memcache::{Line, Parser, Reply, Step};
use protocol::wire::{BoxId, ClientId, HomeId, Incarnation, Kind, Message, OpNumber, Packet, Verb, Version};
use ring::pair;
use ring::spsc::{Consume, Hybrid, Kind as _, Produce};
use std::error::Error;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

/// Items of a store that fits the first-level cache.
const FEW: u64 = 64;
const METHOD: &str = "our code, everything in the first-level cache";

/// All of them.
///
/// # Errors
/// The system gives no link for calls.
pub fn measure(figures: &mut Figures, span: Nanos) -> Result<(), Box<dyn Error>> {
    store(figures, span);
    rings(figures, span);
    figures.note("code.resume", &resume(span), "ns", METHOD);
    figures.note("code.request", &request(span), "ns", METHOD);
    figures.note("code.machine", &machine(span), "ns", METHOD);
    node(figures, span)
}

/// A call, and the clock that cycles of a handler are counted by.
///
/// # Errors
/// The system gives no link.
pub fn node(figures: &mut Figures, span: Nanos) -> Result<(), Box<dyn Error>> {
    figures.note("code.call", &calls::code(span)?, "ns", METHOD);
    figures.note(
        "cores.clock",
        &calls::clock(span),
        "GHz",
        "multiplications and additions in a chain, 4 cycles each",
    );
    Ok(())
}

/// The store's GET, plain and in groups of [`store::GROUP`].
pub fn store(figures: &mut Figures, span: Nanos) {
    let mut shelf = super::check::store::Stocked::new(FEW);
    figures.note("code.get", &shelf.plain(span), "ns", METHOD);
    figures.note("code.get_staged", &shelf.staged(store::GROUP, span), "ns", METHOD);
}

/// A message through a ring and a call over a pair, both halves by this thread.
pub fn rings(figures: &mut Figures, span: Nanos) {
    let (mut p, mut c) = Hybrid::heap::<[u32; 13]>(1024);
    let through = samples_of(span, || {
        let _ = p.try_push([7; 13]);
        p.publish();
        c.try_pop()
    });
    figures.note("code.ring", &through, "ns", METHOD);
    let (mut client, mut server) = pair::pair::<[u32; 13], [u32; 13]>(1024);
    let calls = samples_of(span, || {
        let _ = client.try_send([7; 13]);
        client.flush();
        server.answer(1, |_, request| request);
        client.poll()
    });
    figures.note("code.echo", &calls, "ns", METHOD);
}

/// A yield and its resumption.
fn resume(span: Nanos) -> Vec<f64> {
    let mut cx = Context::from_waker(Waker::noop());
    let both = samples_of(span, || {
        let mut future = pin!(async {
            yield_once().await;
            yield_once().await;
        });
        // Opaque, or the compiler knows how often it yields.
        [(); 3].map(|()| black_box(future.as_mut()).poll(&mut cx).is_ready())
    });
    both.into_iter().map(|ns| ns / 3.0).collect()
}

/// A memcached GET in a datagram: frame, parsing, and the reply's text.
fn request(span: Nanos) -> Vec<f64> {
    let frame = Frame { request_id: 1, sequence: 0, count: 1 };
    let datagram = [&frame.emit()[..], b"get key:00000001\r\n"].concat();
    let (mut room, value) = (vec![0; 4096], [7u8; 64]);
    samples_of(span, || {
        let (frame, text) = Frame::parse(black_box(&datagram)).expect("it is one");
        let mut parser = Parser::new(1 << 20);
        let Step::Command { command, .. } = parser.next(text) else { unreachable!("it is a command") };
        black_box(&command);
        let mut reply = Reply::new(&mut room);
        reply.value(b"key:00000001", 0, None, black_box(&value));
        reply.line(Line::End);
        reply.written().len() + frame.emit().len()
    })
}

/// A home answers a GET: parsing the packet, the machine, and the reply's packet.
fn machine(span: Nanos) -> Vec<f64> {
    let layout = Arc::new(Layout::two_levels(1, 0, 1, 1).expect("a layout"));
    let mut items = serve::inc::items::StoreItems::new(base::Bytes::from_mib(8)).expect("memory");
    let key = |at: u64| format!("key:{at:08}").into_bytes();
    for at in 0..FEW {
        let item =
            Item { value: vec![7; 100], flags: 0, kind: Kind::Bytes, version: Version(1), end: Nanos::MAX };
        assert!(items.store(&key(at), item), "there is room");
    }
    let (config, now) = (Config::default(), Clock::shared().now());
    let life = (Incarnation(1), Life::First);
    let mut home = Home::new(&config, HomeId(1), layout, life, now, items);
    let packets: Vec<Vec<u8>> = (0..FEW)
        .map(|at| {
            let mut message = Message::request(Verb::Get, &key(at));
            message.header.client = ClientId(1);
            message.header.home = HomeId(1);
            message.header.operation = OpNumber(1 << 63 | at);
            let mut packet = Vec::new();
            message.emit(&mut packet);
            packet
        })
        .collect();
    let (mut prng, mut out, mut bytes) = (Prng::new(1), Vec::new(), Vec::new());
    samples_of(span, || {
        let packet = Packet::parse(&packets[prng.below(FEW) as usize]).expect("ours");
        home.handle(now, NodeId::Box(BoxId(1)), &packet.to_message(), &mut out);
        bytes.clear();
        out.drain(..).for_each(|(_, message)| message.emit(&mut bytes));
        bytes.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_of_code_takes_some_time() {
        let mut figures = Figures::default();
        measure(&mut figures, Nanos::from_millis(1)).expect("links");
        let platform = figures.platform(&bench::probe::facts::Machine::read()).expect("it is sound");
        for name in ["get", "get_staged", "ring", "echo", "resume", "request", "machine", "call"] {
            let ns = platform.number(&format!("code.{name}")).expect("it was measured").value;
            assert!(ns > 0.0 && ns < 1e6, "{name}: {ns} ns");
        }
    }
}
