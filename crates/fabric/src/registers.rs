//! The fabric's registers: what can be changed of a channel, a server and what lies between them, most of it while it runs.
//!
//! One block, shared by [`std::sync::Arc`], serves as many channels and servers as should be tuned together. Whoever uses registers in a loop
//! keeps a [`Watch`] and reads them again when it says so. A change moves where and when the *next* frame goes and never a
//! frame that was taken, so no call is lost or doubled by it.
//!
//! Sources: Dagger's soft registers (item 13: batch size, number and sizes of buffers, messaging scheme), its thresholds (18), balancers
//! (25) and provisioning schemes (24).

use base::registers::Kind::{Choice, Count, PerSecond, Percent, Size, Switch};
use ring::wait::WaitPolicy;

pub use base::registers::{Register, SetError, Shown, Watch};

/// The values of the fabric's registers.
pub type Registers = base::registers::Registers<Id>;

base::registers! {
    listed by "the documentation of `fabric::registers` lists them";
    BatchMode "batch.mode" Choice(&["fixed", "adaptive"]), 0, 1, 1, live,
        "When frames put into a ring become visible: after every batch.size of them, or after as many as the load makes worth it.";
    BatchSize "batch.size" Count, 1, 64, 16, live,
        "Frames that become visible together; with batch.mode = adaptive the most. What waits is always shown before anyone sleeps.";
    PollThreshold "poll.threshold" PerSecond, 0, 1 << 40, 100_000, live,
        "Arrivals a second from which the core scans all rings instead of watching one line; 0 always scans.";
    PollHysteresis "poll.hysteresis" Percent, 25, 100, 50, live,
        "How far below poll.threshold the rate must fall before the core watches one line again.";
    PortMode "port.mode" Choice(&["inline", "doorbell", "coherent"]), 0, 2, 2, live,
        "How a ring opened from now on tells of new entries: each by its own word, by a doorbell a batch, or by phase words a burst.";
    RingEntries "ring.entries" Count, 16, 1 << 16, 1024, live,
        "Slots of each ring opened from now on: how many short frames may wait in one direction.";
    RingArena "ring.arena" Size, 64 << 10, 1 << 30, 1 << 20, live,
        "Bytes beside each ring opened from now on, for frames that do not fit a slot.";
    PlaceHandlers "place.handlers" Choice(&["auto", "edge", "host", "engine"]), 0, 3, 0, live,
        "Where a server runs methods without streams: on the thread that owns the connections (edge), on workers (host), on an engine core. auto: on workers if there are any.";
    PlaceOther "place.other" Choice(&["edge", "host", "engine"]), 0, 2, 0, live,
        "Another place for methods without streams: place.share percent of their requests run there instead of at place.handlers.";
    PlaceShare "place.share" Percent, 0, 100, 0, live,
        "Percent of the lines, keys or, of methods that have neither, calls that run at place.other, always the same ones; 0 splits nothing.";
    WorkersCount "workers.count" Count, 0, 256, 0, live,
        "Cores behind a server that run its handlers; with 0 the thread that owns the connections does.";
    WorkersBalancer "workers.balancer"
        Choice(&["static", "round_robin", "key_hash", "two_choices", "shortest_queue"]), 0, 4, 1, live,
        "Which worker gets the next request: its connection's, the next in turn, its key's, the emptier of two, the emptiest.";
    WorkersProvisioning "workers.provisioning" Choice(&["per_connection", "per_core", "single"]), 0, 2, 1, live,
        "Buffers between connections and workers: a ring pair for each connection, for each worker, or one queue for all.";
    AccOn "acc.on" Switch, 0, 1, 0, live,
        "Whether an accelerator decodes and serialises the messages of methods that the connections' thread handles; on starts one if the server has none.";
    AccThreads "acc.threads" Count, 1, 64, 1, live,
        "Threads that have lanes, of an accelerator started from now on.";
    AccLanes "acc.lanes" Count, 1, 64, 4, live,
        "Deserialiser lanes of each thread that take messages: as many as one started with, at most.";
    AccMemory "acc.memory" Size, 1 << 20, 1 << 40, 256 << 20, live,
        "Bytes of the memory of an accelerator started from now on.";
    AccWrites "acc.writes" Choice(&["one_shot", "field_by_field"]), 0, 1, 0, live,
        "How decoded fields cross to host memory: gathered, as few writes as a message has chunks, or each by itself.";
    AccSerialise "acc.serialise" Choice(&["cpu", "walk", "affinity"]), 0, 2, 2, live,
        "Who serialises replies: the CPU alone, the accelerator walking the host's objects, or each what is in its own memory.";
    AccFollow "acc.follow" Switch, 0, 1, 1, live,
        "Whether where a field is put follows the handlers that move it (automatic field updating).";
    AccUnits "acc.units" Count, 0, 64, 0, live,
        "How many of the server's kernels have a compute unit, the first registered first; the others' work is done by the host.";
    WaitSpin "wait.spin" Count, 0, 1 << 24, 64, live,
        "Looks without a pause before whoever waits starts to pause.";
    WaitPause "wait.pause" Count, 0, 1 << 24, 1024, live,
        "Looks with a pause instruction between them, of about 25 ns each, before whoever waits goes to sleep; where looks cost more, for as long.";
    WaitMonitor "wait.monitor" Count, 0, 1 << 24, 4, live,
        "Monitored waits (umwait, mwaitx), of some 40 us each, before whoever waits goes to sleep; nothing where the processor has none.";
    WaitBlock "wait.block" Switch, 0, 1, 1, live,
        "Whether whoever waits sleeps at last. off never sleeps and burns a core per thread.";
    CallsMax "calls.max" Count, 1, 1 << 16, 256, live,
        "Calls in flight on a connection accepted from now on; also what a client may ask for.";
    StreamWindow "stream.window" Count, 1, 4096, 64, live,
        "Messages of one stream, in one direction, that may be on their way; streams opened from now on.";
    ConnectionsMax "connections.max" Count, 1, 1 << 20, 1024, live,
        "Connections beyond this are refused.";
    ConnectionsIdle "connections.idle" base::registers::Kind::Seconds, 0, 1 << 31, 0, live,
        "A connection that sent nothing for this long is closed; 0 never.";
    LinkBuffers "link.buffers" Size, 1 << 20, 1 << 40, 64 << 20, live,
        "Bytes that frames which have begun to come may take, over all Unix and TCP links of the process, beside 64 KiB for each.";
    MonitorSample "monitor.sample" Count, 0, 1 << 30, 64, live,
        "One of this many calls is timed for the stage histograms; 0 times none. Counters count every call.";
    TraceSample "trace.sample" Count, 0, 1 << 30, 0, live,
        "One of this many calls leaves a span; 0 only those whose caller asks for it with a sampled traceparent.";
}

/// How whoever waits behaves now.
pub fn wait_policy(registers: &Registers) -> WaitPolicy {
    let count = |id| registers.read(id) as u32;
    WaitPolicy {
        spin: count(Id::WaitSpin),
        pause: count(Id::WaitPause),
        monitor: count(Id::WaitMonitor),
        block: registers.is_on(Id::WaitBlock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound() {
        base::registers::check::<Id>();
    }

    #[test]
    fn the_default_wait_is_the_rings() {
        let registers = Registers::default();
        assert_eq!(wait_policy(&registers), WaitPolicy::default());
        registers.set_live("wait.block", "off").expect("live");
        assert!(!wait_policy(&registers).block);
        let error = registers.set_live("workers.balancer", "best").expect_err("no such balancer");
        assert!(error.to_string().contains("two_choices"), "{error}");
    }
}
