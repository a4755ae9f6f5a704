//! What the demonstration prints, and its page.

use super::clients::Kind;
use super::conduct::{Event, worst};
use super::draw;
use super::path::{Hop, Paths};
use super::tally::Tally;
use crate::cluster::Members;
use base::Nanos;
use bench::report::environment;
use bench::report::format::{micros, percent, whole};
use bench::report::{Block, Drawing, Report, Section, Table, Tile};
use bench::tally::Latency;
use serde::Serialize;
use serve::trace::Trace;
use std::fmt::Write as _;

/// Seconds between two looks of a browser at a page that is not finished.
const REFRESH: u32 = 2;

/// What transactions came to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Audit {
    /// Orders in the store.
    pub orders: i64,
    /// Orders that were acknowledged: at least, at most.
    pub acknowledged: (i64, i64),
    /// Pieces that were sold.
    pub sold: i64,
    /// Goods of which what is in stock and sold is not what there was.
    pub unbalanced: u64,
}

impl Audit {
    /// What is wrong with it.
    fn wrong(&self) -> u64 {
        let (least, most) = self.acknowledged;
        self.unbalanced + u64::from(!(least..=most).contains(&self.orders))
    }
}

/// A kind of requests.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(skip)]
    pub kind: Option<Kind>,
    /// What was asked, and how.
    pub name: &'static str,
    /// Requests that were answered.
    pub answered: u64,
    /// Of these, answered by the cache, or with a compute unit.
    pub from_box: u64,
    /// Answers that cannot have been right.
    pub wrong: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// As clients saw it.
    pub latency: Latency,
    /// Bytes of all messages.
    pub sent: u64,
    /// Bytes of all replies.
    pub received: u64,
    /// Where a request was, from its traces.
    pub hops: Vec<Hop>,
    /// How many traces.
    pub traces: usize,
    /// Hops of the trace that came by most.
    pub most_hops: usize,
}

/// Something that happened, and what it meant.
#[derive(Clone, Debug, Serialize)]
pub struct Happened {
    /// What.
    pub what: String,
    /// Seconds since the beginning.
    pub at_s: f64,
    /// Milliseconds until all was well again.
    pub whole_ms: f64,
    /// Whose clients waited longest.
    pub kind: &'static str,
    /// Milliseconds between two of their answers.
    pub longest_ms: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    #[serde(skip)]
    pub started: Nanos,
    #[serde(skip)]
    pub took: Nanos,
    /// In the order of all tables.
    pub rows: Vec<Row>,
    /// In their order.
    pub events: Vec<Happened>,
    /// A request that came by most hops: how many.
    pub hops: usize,
    /// The same, with its spans.
    #[serde(skip)]
    pub trace: Option<Trace>,
    /// Items that all kinds of clients saw the same.
    pub compared: Option<usize>,
    /// What transactions came to.
    pub audit: Option<Audit>,
    /// In words.
    pub findings: Vec<String>,
}

impl Outcome {
    /// What is known at this moment.
    pub fn of(tallies: Vec<(Kind, Tally)>, paths: &Paths, events: Vec<Event>, begun: Nanos) -> Outcome {
        let happened = |event: &Event| {
            let (kind, longest) = worst(event, &tallies)?;
            Some(Happened {
                what: event.what.clone(),
                at_s: event.at.since(begun).0 as f64 / 1e9,
                whole_ms: event.until.since(event.at).0 as f64 / 1e6,
                kind: kind.name(),
                longest_ms: longest.0 as f64 / 1e6,
            })
        };
        let row = |(kind, tally): &(Kind, Tally)| Row {
            kind: Some(*kind),
            name: kind.name(),
            answered: tally.latency.len(),
            from_box: tally.from_box,
            wrong: tally.wrongs,
            failed: tally.failed,
            latency: Latency::of(&tally.latency),
            sent: tally.sent,
            received: tally.received,
            hops: paths.hops(*kind),
            traces: paths.count(*kind),
            most_hops: paths.most_hops(*kind),
        };
        let said = tallies.iter().flat_map(|(kind, tally)| {
            tally.wrong.iter().chain(&tally.failures).map(|what| format!("{}: {what}", kind.name()))
        });
        let longest = paths.longest();
        Outcome {
            started: Nanos(0),
            took: Nanos(0),
            rows: tallies.iter().map(row).collect(),
            events: events.iter().filter_map(happened).collect(),
            hops: longest.map_or(0, |(_, hops)| hops),
            trace: longest.map(|(trace, _)| trace.clone()),
            compared: None,
            audit: None,
            findings: said.collect(),
        }
    }

    /// Values that cannot have been there.
    pub fn wrong(&self) -> u64 {
        self.rows.iter().map(|row| row.wrong).sum::<u64>() + self.audit.map_or(0, |audit| audit.wrong())
    }

    /// Without the rows of other kinds.
    pub fn only(mut self, kinds: &[Kind]) -> Outcome {
        self.rows.retain(|row| row.kind.is_some_and(|kind| kinds.contains(&kind)));
        self
    }

    fn answered(&self) -> u64 {
        self.rows.iter().map(|row| row.answered).sum()
    }

    fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }

    pub fn verdict(&self) -> (bool, String) {
        let (answered, wrong, failed) = (whole(self.answered()), self.wrong(), self.failed());
        let lost = if failed == 0 { String::new() } else { format!(", {} without an answer", whole(failed)) };
        (
            wrong == 0,
            format!("{answered} requests answered, every value checked: {} wrong{lost}", whole(wrong)),
        )
    }

    /// The requests.
    pub fn requests(&self) -> Table {
        let mut table = Table::new([
            "request",
            "answered",
            "wrong",
            "no answer",
            "by cache or unit",
            "p50",
            "p99",
            "sent",
            "received",
        ]);
        for row in &self.rows {
            let boxes = match row.kind {
                Some(Kind::InNetwork | Kind::Profile | Kind::Pack) => {
                    percent(row.from_box as f64 / row.answered.max(1) as f64)
                }
                _ => String::new(),
            };
            let each = |bytes: u64| format!("{} B", whole(bytes / row.answered.max(1)));
            table.row([
                row.name.to_owned(),
                whole(row.answered),
                whole(row.wrong),
                whole(row.failed),
                boxes,
                micros(row.latency.p50_us),
                micros(row.latency.p99_us),
                each(row.sent),
                each(row.received),
            ]);
        }
        table
    }

    /// What happened.
    pub fn happenings(&self) -> Table {
        let mut table =
            Table::new(["what happened", "at", "all well after", "longest without an answer", "whose"]);
        for event in &self.events {
            table.row([
                event.what.clone(),
                format!("{:.1} s", event.at_s),
                format!("{:.0} ms", event.whole_ms),
                format!("{:.0} ms", event.longest_ms),
                event.kind.to_owned(),
            ]);
        }
        table
    }

    fn paths(&self) -> Table {
        let mut table = Table::new(["request", "path: microseconds at each hop, the median", "traces"]);
        for row in self.rows.iter().filter(|row| !row.hops.is_empty()) {
            let hops: Vec<String> =
                row.hops.iter().map(|hop| format!("{} {:.0}", hop.name(), hop.us)).collect();
            table.row([row.name.to_owned(), hops.join(" → "), whole(row.traces as u64)]);
        }
        table
    }

    /// What it came to, in sentences.
    pub fn sums(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(compared) = self.compared {
            lines.push(format!(
                "{compared} items read by a memcached, an in-network, a fabric and a gRPC client: the same bytes"
            ));
        }
        if let Some(audit) = self.audit {
            let (least, most) = audit.acknowledged;
            let placed = if least == most { whole(least as u64) } else { format!("{least} to {most}") };
            lines.push(format!(
                "{} orders in the store, {placed} were acknowledged; {} pieces sold, {} goods out of balance",
                whole(audit.orders.unsigned_abs()),
                whole(audit.sold.unsigned_abs()),
                audit.unbalanced
            ));
        }
        lines.extend(self.findings.iter().cloned());
        lines
    }
}

/// For a terminal.
pub fn text(outcome: &Outcome) -> String {
    let seconds = |span: Nanos| span.0 as f64 / 1e9;
    let mut out = format!(
        "\n  two boxes, a node, a chain of three and two controllers: started and filled in {:.1} s, driven for {:.1} s\n\n",
        seconds(outcome.started),
        seconds(outcome.took)
    );
    let _ = writeln!(out, "{}\n{}\n{}", outcome.requests(), outcome.happenings(), outcome.paths());
    if let Some(trace) = &outcome.trace {
        let _ = writeln!(out, "  a request by way of {} hops:\n", outcome.hops);
        serve::trace::text(trace).lines().for_each(|line| {
            let _ = writeln!(out, "  {line}");
        });
    }
    out.push('\n');
    for line in outcome.sums() {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "  {}", outcome.verdict().1);
    out
}

/// The page.
pub fn page(outcome: &Outcome) -> Report {
    let tiles = vec![
        Tile {
            label: "requests answered".into(),
            value: whole(outcome.answered()),
            note: "every value checked".into(),
        },
        Tile { label: "wrong".into(), value: whole(outcome.wrong()), note: "of these".into() },
        Tile { label: "no answer".into(), value: whole(outcome.failed()), note: "failed or given up".into() },
        Tile {
            label: "longest without an answer".into(),
            value: format!(
                "{:.0} ms",
                outcome.events.iter().map(|event| event.longest_ms).fold(0.0, f64::max)
            ),
            note: "any client, while something died".into(),
        },
    ];
    let mut sections = vec![
        Section { title: "At a glance".into(), blocks: vec![Block::Tiles(tiles)] },
        Section {
            title: "The path of each kind of request".into(),
            blocks: vec![
                Block::Text("First what clients saw, on average over all requests; then how long a request was at each hop, the median of those that were traced (one of eight) and came there. What is left was with the client and on the wire. Of in-network reads, the share that each answered.".into()),
                Block::Plot(Drawing::picture(draw::paths(&outcome.rows))),
            ],
        },
        Section { title: "Requests".into(), blocks: vec![Block::Table(outcome.requests())] },
        Section { title: "What happened meanwhile".into(), blocks: vec![Block::Table(outcome.happenings())] },
    ];
    if let Some(trace) = &outcome.trace {
        sections.push(Section {
            title: format!("A request by way of {} hops", outcome.hops),
            blocks: vec![Block::Plot(Drawing::picture(draw::waterfall(trace)))],
        });
    }
    let sums = outcome.sums();
    if !sums.is_empty() {
        let blocks = sums.into_iter().map(Block::Text).collect();
        sections.push(Section { title: "In the end".into(), blocks });
    }
    Report {
        title: "millrace demo".into(),
        subtitle: "Two boxes, a node with a store, a shop and a model, a chain of three replicas, controllers: processes on loopback.".into(),
        verdict: outcome.verdict(),
        sections,
        environment: environment::facts(),
    }
}

/// The page while it is not finished: a browser reads it again.
pub fn unfinished(page: &Report) -> String {
    let refresh = format!("<head><meta http-equiv=\"refresh\" content=\"{REFRESH}\">");
    page.html().replacen("<head>", &refresh, 1)
}

/// What can be done with it while it is left running.
pub fn to_try(members: &Members) -> String {
    let file = members.cluster_file();
    let (file, ports) = (file.display(), members.ports());
    let [memcached, fabric, grpc] = [ports[0], ports[1], ports[2]];
    format!(
        "\n  it goes on until Ctrl-C. Try:\n\n    \
         printf 'get profile:user1\\r\\nquit\\r\\n' | nc {} {}\n    \
         millrace inc get profile:user1 --cluster {file}\n    \
         millrace rpc call tcp:{fabric} shop.Shop/PlaceOrder -d '{{\"user\": \"user1\", \"item\": \"good1\", \"count\": 2}}'\n    \
         grpcurl -plaintext -d '{{\"user\": \"user1\"}}' {grpc} shop.Shop/GetProfile\n    \
         millrace cluster status {file}\n",
        memcached.ip(),
        memcached.port()
    )
}
