//! A node's metrics: its [`Report`] and the stages of its requests.

use super::durable::DurableReport;
use super::service::{ChainReport, Counters, HomeReport, KvReport};
use super::shared::{Report, Shared};
use crate::memcached::outcomes;
use crate::metrics::{Buckets, Page};

crate::families! { "millrace_kv_";
    UPTIME gauge "uptime" seconds [] "Since the node started.";
    EXECUTED counter "requests_executed" count [] "Requests that the engine executed.";
    EXPIRED counter "requests_expired" count [] "Requests whose deadline had passed before they were executed.";
    BLOCKED counter "reply_waits" count [] "Times that an edge's port waited for room for its replies.";
    PASSES counter "engine_passes" count [] "Passes of the engine in which it did something for this service.";
    STAGE histogram "stage" seconds ["stage"] "Time of a request in each stage: receive, queue, execute, reply, send.";
    CONNECTIONS gauge "connections" count [] "Connections open.";
    ACCEPTED counter "connections_accepted" count [] "Connections accepted.";
    REJECTED counter "connections_rejected" count [] "Connections turned away: too many were open, or there was no memory or descriptor.";
    CLOSED counter "connections_closed" count ["reason"] "Connections that the node closed: idle, slow_reader (replies not read), protocol (an unreadable stream).";
    HANDSHAKES counter "tls_handshakes" count ["outcome"] "TLS handshakes: full, resumed; failed (no TLS, or not believed), ended (too slow, or too many under way).";
    LOGINS counter "logins" count ["outcome"] "Logins of clients (-S, -Y): accepted, failed.";
    SHM_CONNECTIONS gauge "shm_connections" count [] "Shared-memory connections open.";
    SHM_REFUSED counter "shm_connections_refused" count [] "Shared-memory connections refused because of shm.memory.";
    REQUESTS counter "requests" count [] "Requests that edges submitted to the engine.";
    RECEIVED counter "received" bytes [] "Read from clients.";
    SENT counter "sent" bytes [] "Written to clients.";
    READS counter "read_calls" count [] "Read system calls.";
    WRITES counter "write_calls" count [] "Write system calls.";
    WAKEUPS counter "edge_wakeups" count [] "Times that an edge woke up with something to do.";
    YIELDS counter "connection_yields" count [] "Times that a pipeline was cut so that other connections had their turn.";
    VALUES_REFUSED counter "values_refused" count [] "Values refused because arriving values filled net.buffer_limit.";
    UDP_REFUSED counter "udp_replies_refused" count [] "UDP replies refused because of udp.amplification.";
    BUFFERED gauge "buffered" bytes [] "What connections buffer.";
    SHM_SEGMENTS gauge "shm_segments" bytes [] "Segments of shared-memory connections.";
    COMMANDS counter "commands" count ["command"] "Keys asked for, and commands, since the start or `stats reset`.";
    OUTCOMES counter "command_outcomes" count ["command", "outcome"] "Commands by outcome, since the start or `stats reset`.";
    VALUES counter "value" bytes ["direction"] "Bytes of values: sent (found, and answered with), received (brought by commands that store).";
    ITEMS gauge "items" count [] "Items.";
    ITEM_BYTES gauge "item" bytes [] "Bytes of items.";
    REMOVED counter "items_removed" count ["reason"] "Items that went without being deleted: evicted, expired, flushed.";
    GHOST_HITS counter "ghost_hits" count [] "New keys that had been evicted lately.";
    GHOST_MISSES counter "ghost_misses" count ["quarter"] "Gets that missed a key which had been evicted lately: 1, it was among the latest quarter of those that are remembered, to 4. Memory for a quarter of ghost_room items more would have found those of 1.";
    GHOST_ROOM gauge "ghost_room_items" count [] "Keys of evicted items that are remembered at most.";
    CLEANED counter "segments_cleaned" count [] "Segments that the cleaner emptied.";
    COPIED counter "copied" bytes [] "What the cleaner copied.";
    MEMORY_LIMIT gauge "memory_limit" bytes [] "Memory that the store may have.";
    MEMORY gauge "memory" bytes [] "Memory that the store has.";
    MEMORY_PARTS gauge "memory_part" bytes ["part"] "Of that: segments, large values, index, keys of evicted items (ghosts).";
    SEGMENTS gauge "segments" count ["state"] "Segments with memory: used, free.";
    BUCKETS gauge "index_buckets" count ["kind"] "Buckets of the index: main, and overflow in use.";
    HOME counter "home_events" count ["event"] "What the home of boxes counted, if boxes are before this server: requests and keys by what became of them, packets of its socket.";
    HOME_WAITING gauge "home_waiting" count [] "Connections whose commands wait for boxes.";
    MEMORY_BEGAN gauge "memory_began_info" count ["how"] "Always 1; how the memory of items began: anonymous, warm (from the process before, memory_file), cold.";
    RESUMED_ITEMS gauge "resumed_items" count [] "Items that were taken over from the process before.";
    RESUME gauge "resume" seconds [] "What taking them over took, or finding out that they cannot be.";
    LOGGED counter "logged_effects" count [] "What commands did and the log has (--durability log; 0 without one, here and below).";
    LOG_WRITTEN counter "log_written" bytes [] "Written to the log, its superblocks included.";
    LOG_SIZE gauge "log" bytes ["state"] "Of the log: used, free.";
    LOG_PENDING gauge "log_pending_effects" count [] "Effects that are not durable yet.";
    SYNCS counter "log_syncs" count [] "Times that the log was made durable.";
    SYNC_TIME counter "log_sync" seconds [] "What that took, altogether.";
    SYNC_MAX gauge "log_sync_max" seconds [] "The longest of them since the start.";
    SNAPSHOTS counter "snapshots" count ["outcome"] "Snapshots: made, failed.";
    SNAPSHOT_ITEMS gauge "snapshot_items" count [] "Items in the newest snapshot.";
    SNAPSHOT_TIME gauge "snapshot" seconds [] "What the last snapshot that was made took.";
    RECOVERED_ITEMS gauge "recovered_items" count [] "Items that log and snapshot had at the start.";
    RECOVERED_EFFECTS gauge "recovered_effects" count [] "Effects of the log that were done again at the start.";
    RECOVERY gauge "recovery" seconds [] "What the start from log and snapshot took.";
    CHAIN counter "chain_transactions" count ["kind"] "Transactions of commands whose items lie in a chain (--durability chain; 0 without one, here and below): read, write.";
    CHAIN_EVENTS counter "chain_events" count ["event"] "Of these commands: conflict (others changed the item, tried again), contended (given up after many of them), unanswered (not done), unknown (perhaps done), asked (questions for what became of a transaction), removed (expired items).";
    CHAIN_WAITING gauge "chain_waiting_commands" count [] "Commands that wait for the chain.";
    BY_HOME counter "txn_by_home" count [] "Transactions of the chain's clients that were asked for here, at the home of boxes; 0 where there is none, here and below.";
    BY_HOME_UNDER_WAY gauge "txn_by_home_under_way" count [] "Of these, still under way.";
    BY_HOME_AGAIN counter "txn_by_home_again" count [] "Times that one of them was sent to the chain again, since nobody had said what became of it.";
    CHAIN_SILENT gauge "chain_silent" count ["chain"] "1 if the last transaction of this chain that ended had no answer; a chain each, here and below, and none without one.";
    CHAIN_UNDER_WAY gauge "chain_under_way" count ["chain"] "Transactions that have no outcome yet.";
    CHAIN_TIME histogram "chain_transaction" seconds ["chain"] "From when a transaction was begun to its outcome.";
    PAGES gauge "pages_info" count ["of", "pages"] "Always 1; which pages are under segments and index.";
}

/// Adds what the node counts.
pub fn collect(shared: &Shared, page: &mut Page) {
    let report = shared.report();
    add(page, &report);
    values(page, &report.kv);
    ghosts(page, &report.kv);
    for (name, spans) in shared.on_core.stages.histograms() {
        page.add_buckets(STAGE, &[name], &Buckets::of_histogram(&spans));
    }
    let figures = shared.chain.as_deref().unwrap_or_default();
    let asked = figures.iter().map(|figures| figures.asked_again()).sum::<u64>();
    page.add(CHAIN_EVENTS, &["asked"], asked);
    for figures in figures {
        let chain = &figures.chain().to_string()[..];
        page.add(CHAIN_SILENT, &[chain], figures.is_silent());
        page.add(CHAIN_UNDER_WAY, &[chain], figures.under_way());
        page.add_buckets(CHAIN_TIME, &[chain], &Buckets::of_histogram(&figures.spans()));
    }
}

fn add(page: &mut Page, report: &Report) {
    let Report { uptime_s, engine, net, kv, buffered_bytes, segment_bytes, .. } = report;
    for (family, number) in [
        (UPTIME, *uptime_s),
        (EXECUTED, engine.executed),
        (EXPIRED, engine.expired),
        (BLOCKED, engine.blocked),
        (PASSES, engine.passes),
        (CONNECTIONS, net.curr_connections),
        (ACCEPTED, net.total_connections),
        (REJECTED, net.rejected_connections),
        (SHM_CONNECTIONS, net.shm_connections),
        (SHM_REFUSED, net.shm_refusals),
        (REQUESTS, net.requests),
        (RECEIVED, net.bytes_read),
        (SENT, net.bytes_written),
        (READS, net.reads),
        (WRITES, net.writes),
        (WAKEUPS, net.wakeups),
        (YIELDS, net.conn_yields),
        (VALUES_REFUSED, net.buffer_refusals),
        (UDP_REFUSED, net.udp_refusals),
        (BUFFERED, *buffered_bytes),
        (SHM_SEGMENTS, *segment_bytes),
        (ITEMS, kv.store.items),
        (ITEM_BYTES, kv.store.item_bytes),
        (CLEANED, kv.store.cleaned),
        (COPIED, kv.store.copied),
        (MEMORY_LIMIT, kv.store.limit_bytes),
        (MEMORY, kv.store.memory_bytes),
    ] {
        page.add(family, &[], number);
    }
    let store = &kv.store;
    for (family, label, number) in [
        (HANDSHAKES, "full", net.tls_handshakes - net.tls_resumed),
        (HANDSHAKES, "resumed", net.tls_resumed),
        (HANDSHAKES, "failed", net.tls_failures),
        (HANDSHAKES, "ended", net.tls_timeouts),
        (LOGINS, "accepted", net.auth_cmds.saturating_sub(net.auth_errors)),
        (LOGINS, "failed", net.auth_errors),
        (CLOSED, "idle", net.idle_kicks),
        (CLOSED, "slow_reader", net.slow_reader_kicks),
        (CLOSED, "protocol", net.protocol_kicks),
        (REMOVED, "evicted", store.evictions),
        (REMOVED, "expired", store.expired),
        (REMOVED, "flushed", store.flushed),
        (MEMORY_PARTS, "segments", store.segment_bytes),
        (MEMORY_PARTS, "large_values", store.large_bytes),
        (MEMORY_PARTS, "index", store.index_bytes),
        (MEMORY_PARTS, "ghosts", store.ghost_bytes),
        (SEGMENTS, "used", store.segments - store.segments_free),
        (SEGMENTS, "free", store.segments_free),
        (BUCKETS, "main", store.buckets),
        (BUCKETS, "overflow", store.overflow_buckets),
    ] {
        page.add(family, &[label], number);
    }
    for (of, pages) in [("segments", &store.heap_pages), ("index", &store.index_pages)] {
        page.add(PAGES, &[of, pages], true);
    }
    home(page, kv);
    page.add(MEMORY_BEGAN, &[kv.began.how], true);
    page.add(RESUMED_ITEMS, &[], kv.began.items);
    page.add(RESUME, &[], kv.began.seconds);
    durable(page, &kv.durable.clone().unwrap_or_default());
    chain(page, &kv.chain.clone().unwrap_or_default());
    commands(page, &kv.commands);
}

fn ghosts(page: &mut Page, kv: &KvReport) {
    let store = &kv.store;
    page.add(GHOST_HITS, &[], store.ghost_hits);
    page.add(GHOST_ROOM, &[], store.ghost_room);
    for (quarter, count) in ["1", "2", "3", "4"].into_iter().zip(store.ghost_misses) {
        page.add(GHOST_MISSES, &[quarter], count);
    }
}

fn values(page: &mut Page, kv: &KvReport) {
    for (direction, bytes) in [("sent", kv.values.sent), ("received", kv.values.received)] {
        page.add(VALUES, &[direction], bytes);
    }
}

fn chain(page: &mut Page, ChainReport { counters, waiting, by_home }: &ChainReport) {
    page.add(CHAIN, &["read"], counters.reads);
    page.add(CHAIN, &["write"], counters.writes);
    for (event, count) in [
        ("conflict", counters.conflicts),
        ("contended", counters.contended),
        ("unanswered", counters.unanswered),
        ("unknown", counters.unknown),
        ("removed", counters.removed),
    ] {
        page.add(CHAIN_EVENTS, &[event], count);
    }
    page.add(CHAIN_WAITING, &[], *waiting);
    page.add(BY_HOME, &[], by_home.asked);
    page.add(BY_HOME_UNDER_WAY, &[], by_home.under_way);
    page.add(BY_HOME_AGAIN, &[], by_home.again);
}

fn durable(page: &mut Page, log: &DurableReport) {
    for (family, labels, number) in [
        (LOGGED, &[][..], log.logged),
        (LOG_WRITTEN, &[], log.log_written_bytes),
        (LOG_SIZE, &["used"], log.log_used_bytes),
        (LOG_SIZE, &["free"], log.log_bytes - log.log_used_bytes),
        (LOG_PENDING, &[], log.pending),
        (SYNCS, &[], log.syncs),
        (SNAPSHOTS, &["made"], log.snapshots),
        (SNAPSHOTS, &["failed"], log.snapshots_failed),
        (SNAPSHOT_ITEMS, &[], log.snapshot_items),
        (RECOVERED_ITEMS, &[], log.recovered_items),
        (RECOVERED_EFFECTS, &[], log.recovered_effects),
    ] {
        page.add(family, labels, number);
    }
    for (family, seconds) in [
        (SYNC_TIME, log.sync_seconds),
        (SYNC_MAX, log.sync_max_seconds),
        (SNAPSHOT_TIME, log.snapshot_seconds),
        (RECOVERY, log.recovery_seconds),
    ] {
        page.add(family, &[], seconds);
    }
}

fn home(page: &mut Page, kv: &KvReport) {
    let home = kv.home.clone().unwrap_or_else(|| HomeReport::of(&Default::default(), 0, &Default::default()));
    page.add(HOME_WAITING, &[], home.waiting);
    for (event, count) in home.events {
        page.add(HOME, &[event], count);
    }
}

fn commands(page: &mut Page, counters: &Counters) {
    let (commands, outcomes) = outcomes!(counters, |counter| *counter);
    for (command, count) in commands {
        page.add(COMMANDS, &[command], count);
    }
    let refused =
        [("store", "too_large", counters.store_too_large), ("store", "no_memory", counters.store_no_memory)];
    for (command, outcome, count) in outcomes.into_iter().chain(refused) {
        page.add(OUTCOMES, &[command, outcome], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Server;
    use crate::kv::config::Config;
    use crate::kv::registers::Id;
    use crate::metrics::lint;

    /// Every family is on the page of a node that has just started, and the page keeps the rules.
    #[test]
    fn a_node_shows_all_its_families() {
        let mut config = Config::default();
        config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
        config.registers.write(Id::StoreMemory, 64 << 20).expect("a size");
        let node = Server::start(&config).expect("it starts");
        let mut page = Page::default();
        collect(node.shared(), &mut page);
        let text = page.text();
        lint::hold(&text);
        // But those of chains, of which it has none.
        for family in FAMILIES.iter().filter(|family| family.labels != ["chain"]) {
            assert!(text.contains(&format!("# TYPE {} ", family.name)), "{} in\n{text}", family.name);
        }
        // Counters that were said to be gauges, because of a part of their names.
        for name in ["millrace_kv_received_bytes_total", "millrace_kv_connections_accepted_total"] {
            assert!(text.contains(&format!("# TYPE {name} counter\n{name} 0\n")), "{text}");
        }
    }

    /// What commands count and is not on the page yet would be missed here.
    #[test]
    fn all_that_commands_count_is_shown() {
        let mut page = Page::default();
        commands(&mut page, &Counters::default());
        let samples = page.text().lines().filter(|line| !line.starts_with('#')).count();
        let counted = serde_json::to_value(Counters::default()).expect("numbers");
        assert_eq!(Some(samples), counted.as_object().map(serde_json::Map::len));
    }
}
