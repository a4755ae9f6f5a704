//! What a proxy's admin port shows: commands, connections, and what its clients of the in-network cache did.

use super::shared::Shared;
use crate::memcached::outcomes;
use crate::metrics::Page;

crate::families! { "millrace_proxy_";
    UPTIME gauge "uptime" seconds [] "Since the proxy started.";
    CONNECTIONS gauge "connections" count [] "Connections open.";
    ACCEPTED counter "connections_accepted" count [] "Connections accepted.";
    REJECTED counter "connections_rejected" count [] "Connections turned away: too many were open, or there was no descriptor.";
    CLOSED counter "connections_closed" count ["reason"] "Connections that the proxy closed: slow_reader (replies not read).";
    LOGINS counter "logins" count ["outcome"] "Logins of clients (-S, -Y): accepted, failed.";
    REQUESTS counter "requests" count [] "Commands taken from clients.";
    RECEIVED counter "received" bytes [] "Read from clients.";
    SENT counter "sent" bytes [] "Written to clients.";
    BUFFERED gauge "buffered" bytes [] "What connections buffer.";
    COMMANDS counter "commands" count ["command"] "Keys asked for, and commands, since the start or `stats reset`.";
    OUTCOMES counter "command_outcomes" count ["command", "outcome"] "Commands by outcome, since the start or `stats reset`.";
    FAILED counter "commands_failed" count ["reason"] "Commands without a result: unanswered (not done), unknown (perhaps done), contended (given up), refused (by a home).";
    IN_FLIGHT gauge "operations_in_flight" count [] "Operations of the cache that are under way.";
    EVENTS counter "client_events" count ["event"] "What clients of the cache and their sockets counted.";
}

/// Adds what the proxy counts.
pub fn collect(shared: &Shared, page: &mut Page) {
    let (net, counters) = (&shared.net, &shared.commands);
    for (family, number) in [
        (UPTIME, shared.uptime_s()),
        (CONNECTIONS, net.curr_connections.read()),
        (ACCEPTED, net.total_connections.read()),
        (REJECTED, net.rejected_connections.read()),
        (REQUESTS, net.requests.read()),
        (RECEIVED, net.bytes_read.read()),
        (SENT, net.bytes_written.read()),
        (BUFFERED, shared.buffered.taken() as u64),
    ] {
        page.add(family, &[], number);
    }
    let failed = net.auth_errors.read();
    page.add(LOGINS, &["accepted"], net.auth_cmds.read().saturating_sub(failed));
    page.add(LOGINS, &["failed"], failed);
    page.add(CLOSED, &["slow_reader"], net.slow_reader_kicks.read());
    let (commands, outcomes) = outcomes!(counters, |counter| counter.read());
    for (command, count) in commands {
        page.add(COMMANDS, &[command], count);
    }
    for (command, outcome, count) in outcomes {
        page.add(OUTCOMES, &[command, outcome], count);
    }
    for (reason, counter) in [
        ("unanswered", &counters.unanswered),
        ("unknown", &counters.unknown_outcomes),
        ("contended", &counters.contended),
        ("refused", &counters.refused),
    ] {
        page.add(FAILED, &[reason], counter.read());
    }
    for (name, count) in shared.client_counters() {
        match name {
            "under way" => page.add(IN_FLIGHT, &[], count),
            name => page.add(EVENTS, &[&name.replace(' ', "_")], count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;
    use crate::proxy::Options;
    use protocol::wire::BoxId;

    #[test]
    fn a_proxy_shows_all_its_families() {
        let options = Options { threads: 2, pipeline: 1, connections: 1 };
        let shared = Shared::new(options, BoxId(1), Vec::new(), 1 << 20);
        shared.commands.get_hits.add(3);
        for thread in 0..2 {
            shared.publish(thread, vec![("under way", 2), ("asked box", 5)]);
        }
        let mut page = Page::default();
        collect(&shared, &mut page);
        let text = page.text();
        lint::hold(&text);
        for wanted in [
            "command_outcomes_total{command=\"get\",outcome=\"hit\"} 3\n",
            "operations_in_flight 4\n",
            "client_events_total{event=\"asked_box\"} 10\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(FAMILIES.iter().all(|family| text.contains(&format!("# TYPE {} ", family.name))), "{text}");
        let samples = text.lines().filter(|line| line.starts_with("millrace_proxy_command")).count();
        assert_eq!(samples, shared.commands.all().len());
    }
}
