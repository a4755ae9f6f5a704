//! What can be tuned of a recommendation server: how queries are batched and rows prefetched, and what is refused.
//!
//! `--set NAME=VALUE` sets them at start; `--admin` shows them, and sets those that are live.

use base::registers::Kind::{Choice, Count, Micros, Size, Switch};

pub use base::registers::{Register, SetError, Shown};

/// The values of a server's registers.
pub type Registers = base::registers::Registers<Id>;

base::registers! {
    listed by "`millrace registers --rec` lists them";
    Batch "rec.batch" Count, 1, 4096, 64, live,
        "Queries that the engine computes together at most. A request with more is computed alone.";
    Linger "rec.linger" Micros, 0, 1_000_000, 0, live,
        "How long the engine waits for more queries when it has fewer than rec.batch. 0: it takes what is there.";
    Prefetch "rec.prefetch" Count, 0, 1024, 64, live,
        "How many rows ahead of the reduction are prefetched; 0 is none.";
    Queries "rec.queries" Count, 1, 1 << 20, 4096, live,
        "Queries that one request may hold.";
    Body "rec.body" Size, 1 << 10, 1 << 30, 16 << 20, live,
        "Bytes that the body of an HTTP request may have; a message of the fabric has a bound of its own.";
    BodyTimeout "rec.body_timeout" Micros, 1000, 1 << 40, 10_000_000, start,
        "How long the body of an HTTP request may take to arrive; then it is answered 408, and holds nothing any more.";
    InFlight "rec.in_flight" Count, 1, 1 << 16, 256, start,
        "Requests over HTTP that may be under way; further ones are answered 503.";
    Held "rec.held" Size, 1 << 20, 1 << 40, 256 << 20, live,
        "Bytes of requests that may be held at once, arrived or arriving; further ones are answered 503.";
    Deadline "rec.deadline" Micros, 0, 60_000_000, 0, live,
        "A request that has waited for the engine, or for its preprocessing there or on a host thread, for longer than this is ended and answered so (504, \
         DEADLINE_EXCEEDED); 0 waits for ever. What is in a batch is computed.";
    Ring "rec.ring" Count, 2, 1 << 16, 1024, start,
        "Slots of the ring from an edge to the engine, rounded up to a power of two. What finds no slot is refused.";
    PlacePreprocess "place.rec.preprocess" Choice(&["edge", "engine", "host"]), 0, 2, 0, live,
        "Where requests are read and checked: on the thread that serves their sockets, on the engine's core, or on a host thread. Those of more than \
         256 KiB always on a host thread.";
    HostThreads "rec.host_threads" Count, 1, 64, 1, start,
        "Host threads of the process, for this server; those of a node's services are one pool.";
    TraceSample "trace.sample" Count, 0, 1 << 30, 0, live,
        "One of this many requests leaves spans; 0 only those whose caller asks for it with a sampled traceparent.";
    WaitSpin "wait.spin" Count, 0, 1 << 24, 64, start,
        "Looks without a pause before a thread (sockets, engine, host) starts to pause.";
    WaitPause "wait.pause" Count, 0, 1 << 24, 1024, start,
        "Looks with a pause instruction between them before a thread goes to sleep.";
    WaitMonitor "wait.monitor" Count, 0, 1 << 24, 4, start,
        "Monitored waits (umwait, mwaitx), of some 40 us each, before a thread goes to sleep; nothing where the processor has none.";
    WaitBlock "wait.block" Switch, 0, 1, 1, start,
        "Whether a thread sleeps at last. off never sleeps: lower latency for a whole core per thread.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound() {
        base::registers::check::<Id>();
        assert_eq!(Registers::default().size(Id::Prefetch), rec::Tuning::default().prefetch);
    }
}
