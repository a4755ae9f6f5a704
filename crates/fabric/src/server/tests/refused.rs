//! Requests that wait for workers, and then for none.

use super::services::{ECHO, LATER};
use super::{NOW, code};
use super::{Seen, connect, server_with, settle};
use crate::monitor::{Monitor, Side};
use crate::registers::Registers;
use crate::server::{Executor, Full, Options, Origin, Server};
use crate::status::Code;
use base::units::Nanos;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes requests, and never has room for one.
struct Crowded(Arc<AtomicBool>);

impl Executor for Crowded {
    fn takes(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn submit(&mut self, _: Origin, _: &[u8]) -> Result<(), Full> {
        Err(Full)
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn flush(&mut self) {}

    fn collect(&mut self, _: Nanos, _: &mut dyn FnMut(u64, &[u8])) -> usize {
        0
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}

    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}
}

/// A server with a monitor and an engine that is crowded until `takes` is false.
fn crowded() -> (Server, Seen, Monitor, Arc<AtomicBool>) {
    let (server, seen) = server_with(Options::default());
    let (monitor, takes) = (Monitor::default(), Arc::new(AtomicBool::new(true)));
    let registers = Registers::default();
    registers.set_live("place.handlers", "engine").expect("a place");
    let crowded = Box::new(Crowded(Arc::clone(&takes)));
    let server = server.monitor(&monitor).registers(Arc::new(registers)).engine(crowded);
    (server, seen, monitor, takes)
}

/// Calls of a method that were received, and that ended well.
fn calls(monitor: &Monitor, method: &str) -> (u64, u64) {
    let calls = &monitor.snapshot().calls[&(Side::Server, format!("/test.Bytes/{method}"))];
    (calls.started, calls.ended[Code::Ok as usize])
}

#[test]
fn a_request_that_waited_for_workers_is_over_for_the_monitor_too() {
    let (mut server, seen, monitor, takes) = crowded();
    let (peer, _) = connect(&mut server, 10);
    peer.request(1, ECHO, b"x");
    settle(&mut server, NOW);
    assert_eq!((peer.hear().len(), calls(&monitor, "Echo")), (0, (1, 0)));
    takes.store(false, Ordering::Relaxed);
    peer.request(2, LATER, b"");
    server.poll(NOW);
    settle(&mut server, NOW);
    assert_eq!((code(&peer.hear()[0]), calls(&monitor, "Echo")), (Code::Ok, (1, 1)));
    // One that is deferred then is over when it is answered.
    assert_eq!(calls(&monitor, "Later"), (1, 0));
    seen.later.lock().expect("no poison").pop().expect("it was deferred").reply_bytes(b"");
    settle(&mut server, NOW);
    assert_eq!((peer.hear().len(), calls(&monitor, "Later")), (1, (1, 1)));
}
