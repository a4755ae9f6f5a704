//! What a call into the kernel costs when there is nothing to do there: the price list of every event loop.

use super::session::{Session, Unit};
use super::timing::per_call;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::thread::futex;
use std::io;
use std::sync::atomic::AtomicU32;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 1;

/// Measures them all on this thread.
pub fn measure(session: &mut Session) {
    session.step("calls into the kernel");
    let getppid = || rustix::process::getppid();
    note(session, "getppid", "getppid", getppid, "the floor under every system call");
    note(
        session,
        "sched_yield",
        "sched_yield",
        rustix::thread::sched_yield,
        "giving the core away with nobody to take it",
    );
    let word = AtomicU32::new(0);
    let wake = || futex::wake(&word, futex::Flags::PRIVATE, 1);
    note(session, "futex_wake", "futex wake, no waiter", wake, "a wake-up that was not needed");
    if let Err(e) = with_descriptors(session) {
        session.skip("eventfd, epoll and read", e);
    }
}

fn with_descriptors(session: &mut Session) -> io::Result<()> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let mut word = [0u8; 8];
    let both = || {
        let written = rustix::io::write(&event, &1u64.to_ne_bytes());
        (written, rustix::io::read(&event, &mut word))
    };
    note(session, "eventfd", "eventfd write + read", both, "a doorbell through the kernel, both halves");
    let empty = || rustix::io::read(&event, &mut [0u8; 8]);
    note(session, "read_again", "read, nothing there", empty, "why a server stops after a short read");
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &event, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    let mut events = Vec::with_capacity(16);
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let wait = || epoll::wait(&poll, spare_capacity(&mut events), Some(&now));
    note(
        session,
        "epoll_wait",
        "epoll_wait(0), nothing there",
        wait,
        "one look at all sockets by a spinning thread",
    );
    Ok(())
}

fn note<T>(session: &mut Session, key: &str, label: &str, call: impl FnMut() -> T, reading: &str) {
    let samples = per_call(session, call);
    session.record(key, label, &samples, Unit::Nanos, "loop", reading);
}
