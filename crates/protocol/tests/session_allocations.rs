//! Small messages in the steady state allocate nothing, at either end.

use base::Nanos;
use protocol::session::{Config, Heard, Listener, Session};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct Counting;

// SAFETY: every call goes to `System`, which keeps the contract; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn carry(from: &mut Session, to: &mut Session, now: Nanos, out: &mut Vec<u8>) {
    while from.poll_transmit(now, out).is_some() {
        to.handle_datagram(now, out);
        out.clear();
    }
}

#[test]
fn the_steady_state_allocates_nothing() {
    let config = Config::default();
    let mut opener = Session::open(&config, Nanos::ZERO, 1, 2);
    let mut listener = Listener::new(&config, [3, 4]);
    let mut out = Vec::with_capacity(4096);
    let mut accepter = loop {
        out.clear();
        opener.poll_transmit(Nanos::ZERO, &mut out).expect("an Open");
        let mut reply = Vec::new();
        match listener.handle_datagram(Nanos::ZERO, &"here", true, &out, &mut reply) {
            Heard::Session(accepter) => break accepter,
            _ => opener.handle_datagram(Nanos::ZERO, &reply),
        }
    };
    out.clear();
    let mut before = 0;
    for round in 0..10_000u64 {
        if round == 1000 {
            before = ALLOCATIONS.get();
        }
        let now = Nanos::from_micros(20 * round);
        for _ in 0..round % 40 {
            // Before the handshake is done there is no room; that is not the steady state.
            let _ = opener.send(&[&[7; 16], &[8; 48]]);
        }
        carry(&mut opener, &mut accepter, now, &mut out);
        while accepter.poll_message().is_some() {}
        let _ = accepter.send(&[&[9; 64]]);
        carry(&mut accepter, &mut opener, now, &mut out);
        while opener.poll_message().is_some() {}
    }
    assert!(opener.stats().messages_received > 9000 && accepter.stats().messages_received > 100_000);
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
