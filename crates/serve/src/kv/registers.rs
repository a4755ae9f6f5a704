//! The node's registers: everything an operator may tune, as one list.
//!
//! Each has a name, a type with its unit, a range, a default and a sentence of help. The config file, `--set`, the HTTP
//! API, `millrace registers` and the metrics all read this list, so a register added here is everywhere at once. The machinery
//! is `base::registers`.

use base::registers::Kind::{Choice, Count, Micros, Seconds, Size, Switch};

pub use base::registers::{Register, SetError, Shown};

/// The values of the node's registers.
pub type Registers = base::registers::Registers<Id>;

base::registers! {
    listed by "`millrace registers` lists them";
    EngineForm "engine.form" Choice(&["plain", "staged", "coroutine"]), 0, 2, 1, live,
        "How the engine hides memory latency: not at all, by touching a group stage by stage, or by one coroutine per request.";
    EngineGroup "engine.group" Count, 1, 64, 16, live,
        "Requests touched together (staged) or interleaved (coroutine). 8 to 32 is useful; a core has about 16 misses outstanding.";
    EngineQuantum "engine.quantum" Count, 1, 4096, 64, live,
        "Requests admitted from one ring before the next ring has its turn.";
    EngineInFlight "engine.in_flight" Count, 1, 4096, 256, start,
        "Places in the in-flight table: requests that the engine has admitted and not yet answered.";
    EngineDeadline "engine.deadline" Micros, 0, 60_000_000, 0, live,
        "A request that has waited longer than this is answered SERVER_ERROR instead of being executed; 0 waits for ever.";
    EngineMode "engine.mode" Choice(&["shared", "dedicated"]), 0, 1, 0, live,
        "shared: whichever edge has work runs the engine. dedicated: the thread of its engine core does, and edges only do I/O. An edge follows with its next turn.";
    EdgeThreads "edge.threads" Count, 1, 256, 1, start,
        "Edge threads: each owns its connections and does their reads, parsing and writes (memcached's -t).";
    EdgePin "edge.pin" Switch, 0, 1, 0, start,
        "Pin edge thread i (and a dedicated engine after them) to the i-th allowed core.";
    EdgeBusyPoll "edge.busy_poll" Micros, 0, 1_000_000, 0, live,
        "How long an edge keeps polling its sockets and rings before it sleeps. Buys latency with CPU time.";
    EdgeReadBuffer "edge.read_buffer" Size, 2048, 1 << 20, 16 << 10, live,
        "Bytes that one read of one connection may take per wake-up.";
    RingEntries "ring.entries" Count, 16, 1 << 16, 1024, start,
        "Slots of the request ring between an edge and the engine, and of its response ring.";
    RingArena "ring.arena" Size, 256 << 10, 1 << 30, 1 << 20, start,
        "Bytes beside a response ring for the replies themselves. Values over an eighth of it travel out of line.";
    NetMaxConnections "net.max_connections" Count, 1, 1 << 20, 1024, live,
        "Connections beyond this are told so and closed (memcached's -c).";
    NetIdleTimeout "net.idle_timeout" Seconds, 0, 1 << 31, 0, live,
        "A connection that sent nothing for this long is closed; 0 never.";
    NetPipeline "net.pipeline" Count, 1, 1 << 16, 256, live,
        "What the requests of one connection may cost per turn; the rest of its pipeline waits its turn, so others are served \
         between. A small request costs 1, and 1 more per 4 KiB there or back; `stats` 32, a slice of a listing 16.";
    NetBufferLimit "net.buffer_limit" Size, 1 << 20, 1 << 40, 256 << 20, live,
        "Bytes that all connections together may buffer (values arriving, replies that slow readers leave). Beyond it new large \
         values are refused and the slowest readers closed.";
    NetBacklog "net.backlog" Count, 1, 65535, 1024, start,
        "Listen backlog (memcached's -b).";
    TlsHandshakes "tls.handshakes" Count, 1, 65535, 256, live,
        "TLS handshakes under way at an edge; of more, the oldest is ended.";
    TlsHandshakeTimeout "tls.handshake_timeout" Seconds, 1, 3600, 10, live,
        "A client whose TLS handshake takes longer is closed, whatever it sends meanwhile.";
    UdpAmplification "udp.amplification" Count, 1, 1000, 10, live,
        "A UDP reply longer than this many times its request is refused, so that forged requests cannot flood a third party.";
    ShmEntries "shm.entries" Count, 16, 1 << 16, 1024, start,
        "Slots of each ring of a shared-memory connection.";
    ShmArena "shm.arena" Size, 64 << 10, 1 << 30, 4 << 20, start,
        "Bytes in each direction beside a shared-memory connection's rings. A message may take half of it.";
    ShmMemory "shm.memory" Size, 1 << 20, 1 << 40, 1 << 30, live,
        "Bytes that the segments of all shared-memory connections may take together, beside store.memory; a client beyond is refused.";
    ShmBusyPoll "shm.busy_poll" Micros, 0, 1_000_000, 50, live,
        "How long an edge keeps polling a shared-memory connection that has gone quiet before it sleeps on it. A wake-up costs \
         the client a system call and both some ten microseconds.";
    TraceSample "trace.sample" Count, 0, 1 << 30, 0, live,
        "One of this many requests leaves spans, which GET /trace of the admin port shows; 0 none.";
    WaitSpin "wait.spin" Count, 0, 1 << 24, 64, live,
        "Dedicated engine: looks without a pause before whoever waits (engine for requests, edge for replies) starts to pause.";
    WaitPause "wait.pause" Count, 0, 1 << 24, 1024, live,
        "Dedicated engine: looks with a pause instruction between them before whoever waits goes to sleep.";
    WaitBlock "wait.block" Switch, 0, 1, 1, live,
        "Dedicated engine: whether whoever waits sleeps at last. off never sleeps and burns a core per thread.";
    StoreMemory "store.memory" Size, 8 << 20, 1 << 46, 64 << 20, live,
        "Memory for index and items together; never exceeded (memcached's -m, which leaves the index out).";
    StoreMode "store.mode" Choice(&["cache", "store"]), 0, 1, 0, start,
        "cache: evict when full. store: lose nothing, answer an error when full (memcached's -M).";
    StoreMaxValue "store.max_value" Size, 1 << 10, 1 << 30, 1 << 20, start,
        "Largest value accepted (memcached's -I).";
    StorePages "store.pages" Choice(&["base", "transparent", "2m", "1g"]), 0, 3, 1, start,
        "Pages under index and items: 4 KiB, transparent huge pages, or hugetlb pages reserved by the administrator.";
    StorePopulate "store.populate" Switch, 0, 1, 0, start,
        "Touch all memory at start, so that no later write pays for a first touch.";
    LogSize "log.size" Size, 8 << 20, 1 << 40, 64 << 20, start,
        "With --durability log: bytes of a log that is made. All of it is written at the first start. Four of the longest values at least.";
    LogCheckpointPercent "log.checkpoint_percent" Count, 5, 90, 50, live,
        "A snapshot is made, after which the log may forget, when so much of the log is in use.";
    LogCheckpointStep "log.checkpoint_step" Size, 4 << 10, 64 << 20, 64 << 10, live,
        "Bytes of items that are added to a snapshot between two looks at requests, or more where the log fills faster.";
    ChainedPatience "chained.patience" Seconds, 1, 3600, 10, start,
        "With --durability chain: a command that the chain has not answered for so long is answered SERVER_ERROR; one of which it is not known whether it was \
         done, after as long again.";
    ChainedQueue "chained.queue" Count, 1, 1 << 20, 16 << 10, live,
        "With --durability chain: commands that may wait for the chain; one beyond is answered SERVER_ERROR busy.";
    StoreDumps "store.dumps" Switch, 0, 1, 1, start,
        "Whether clients may list keys: stats cachedump, lru_crawler metadump (memcached's -X turns it off).";
    StoreFlushAll "store.flush_all" Switch, 0, 1, 1, start,
        "Whether clients may flush_all (memcached's -F turns it off).";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound() {
        base::registers::check::<Id>();
    }

    #[test]
    fn a_register_is_json_with_its_choices() {
        let row = crate::admin::rows(None, Registers::default().show()).remove(0);
        let json = serde_json::to_value(row).expect("strings and numbers");
        assert_eq!(json["name"], "engine.form");
        assert_eq!(json["choices"][1], "staged");
        assert_eq!(json["range"], serde_json::json!([0, 2]));
    }
}
