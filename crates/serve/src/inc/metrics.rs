//! What nodes counted and how long they took, as Prometheus text: `--metrics ADDR`.
//!
//! ```text
//!  GET /metrics ──▶ admin thread ──a question──▶ each node's thread, between two turns ──Seen──▶ admin thread ──▶ text
//! ```
//!
//! So nothing is shared and nothing is done while nobody asks. A node that is busy answers after its turn, within 20 ms when idle.
//!
//! | family | labels | |
//! |---|---|---|
//! | `millrace_inc_events_total` | node, tier (user, xdp, socket), event | counters |
//! | `millrace_inc_state` | node, tier, what | what goes up and down: items, entries, epoch |
//! | `millrace_inc_seconds` | node, tier, outcome | histograms: from reading a datagram to what it caused; of the XDP tier one in so many is timed |

use super::book;
use super::driver::Driver;
use super::machine::Machine;
use super::times::Outcome;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use protocol::coherence::NodeId;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Counts of machines that are no sums of events.
const STATES: [&str; 5] = ["items", "epoch", "live boxes", "under way", "xdp entries"];

/// Of a node, at one moment.
#[derive(Debug)]
pub struct Seen {
    node: NodeId,
    counts: Vec<(&'static str, &'static str, u64)>,
    times: Vec<Distribution>,
}

/// A histogram in Prometheus' shape.
#[derive(Debug)]
struct Distribution {
    tier: &'static str,
    outcome: &'static str,
    /// Upper ends in nanoseconds, and how many were no longer.
    buckets: Vec<(u64, u64)>,
    count: u64,
    sum_ns: f64,
}

impl Seen {
    fn of<M: Machine>(node: NodeId, driver: &Driver<M>) -> Seen {
        let machine = driver.machine().counters().into_iter();
        let mut counts: Vec<_> = machine.map(|(name, count)| (tier(name), name, count)).collect();
        counts.extend(driver.traffic().named().map(|(name, count)| ("socket", name, count)));
        let mut times: Vec<_> = Outcome::ALL
            .iter()
            .map(|(outcome, name)| user_times(name, driver.times().of(*outcome)))
            .filter(|times| times.count > 0)
            .collect();
        times.extend(driver.machine().fast_times().iter().map(|(name, times)| fast_times(name, times)));
        Seen { node, counts, times }
    }
}

fn tier(name: &str) -> &'static str {
    if name.starts_with("xdp ") { "xdp" } else { "user" }
}

/// At 1, 2, 5, 10, … microseconds up to a second.
fn user_times(outcome: &'static str, times: &hdrhistogram::Histogram<u64>) -> Distribution {
    let steps = (3..9).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)));
    Distribution {
        tier: "user",
        outcome,
        buckets: steps.chain([1_000_000_000]).map(|end| (end, times.count_between(0, end))).collect(),
        count: times.len(),
        sum_ns: times.mean() * times.len() as f64,
    }
}

/// At powers of two. What a bucket's samples took is taken for its middle.
fn fast_times(outcome: &'static str, times: &xdp::Histogram) -> Distribution {
    let mut sum_ns = 0.0;
    let mut count = 0;
    let bucket = |(bit, samples): (usize, &u64)| {
        sum_ns += *samples as f64 * 1.5 * (1u64 << bit) as f64;
        count += samples;
        ((2u64 << bit) - 1, count)
    };
    let buckets = times.buckets().iter().enumerate().map(bucket).collect();
    Distribution { tier: "xdp", outcome, buckets, count, sum_ns }
}

/// A node's end: answers what is asked.
#[derive(Debug)]
pub struct Questions {
    node: NodeId,
    asked: mpsc::Receiver<oneshot::Sender<Seen>>,
}

impl Questions {
    /// Answers whoever asked meanwhile.
    pub fn answer<M: Machine>(&self, driver: &Driver<M>) {
        while let Ok(asker) = self.asked.try_recv() {
            // Who went away does not want it any more.
            let _ = asker.send(Seen::of(self.node, driver));
        }
    }
}

/// The other end.
#[derive(Clone, Debug)]
pub struct Asker(mpsc::Sender<oneshot::Sender<Seen>>);

/// Both ends, for a node.
pub fn questions(node: NodeId) -> (Asker, Questions) {
    let (ask, asked) = mpsc::channel();
    (Asker(ask), Questions { node, asked })
}

/// The port's routes.
pub fn routes(askers: Vec<Asker>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(Arc::new(askers))
}

async fn metrics(State(askers): State<Arc<Vec<Asker>>>) -> impl IntoResponse {
    let mut answers = Vec::new();
    for asker in askers.iter() {
        let (answer, answered) = oneshot::channel();
        // A node that has ended says nothing.
        if asker.0.send(answer).is_ok() {
            answers.push(answered);
        }
    }
    let mut seen = Vec::new();
    for answer in answers {
        seen.extend(answer.await);
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text(&seen))
}

/// Prometheus text format 0.0.4.
pub fn text(all: &[Seen]) -> String {
    let mut out = String::with_capacity(4 << 10);
    family(&mut out, "millrace_inc_events_total", "counter", "What nodes of the in-network cache counted.");
    for seen in all {
        for (tier, name, count) in seen.counts.iter().filter(|(_, name, _)| !STATES.contains(name)) {
            let (node, event) = (book::name(seen.node), label(name));
            let _ = writeln!(
                out,
                "millrace_inc_events_total{{node=\"{node}\",tier=\"{tier}\",event=\"{event}\"}} {count}"
            );
        }
    }
    family(&mut out, "millrace_inc_state", "gauge", "What they have at this moment.");
    for seen in all {
        for (tier, name, count) in seen.counts.iter().filter(|(_, name, _)| STATES.contains(name)) {
            let (node, what) = (book::name(seen.node), label(name));
            let _ = writeln!(
                out,
                "millrace_inc_state{{node=\"{node}\",tier=\"{tier}\",what=\"{what}\"}} {count}"
            );
        }
    }
    let meaning = "From reading a datagram to what it caused; of the xdp tier a sample.";
    family(&mut out, "millrace_inc_seconds", "histogram", meaning);
    for seen in all {
        seen.times.iter().for_each(|times| distribution(&mut out, &book::name(seen.node), times));
    }
    out
}

fn family(out: &mut String, name: &str, kind: &str, meaning: &str) {
    let _ = writeln!(out, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
}

fn label(name: &str) -> String {
    name.trim_start_matches("xdp ").replace(' ', "_")
}

fn distribution(out: &mut String, node: &str, times: &Distribution) {
    let labels = format!("node=\"{node}\",tier=\"{}\",outcome=\"{}\"", times.tier, times.outcome);
    for (end, count) in &times.buckets {
        let seconds = *end as f64 / 1e9;
        let _ = writeln!(out, "millrace_inc_seconds_bucket{{{labels},le=\"{seconds}\"}} {count}");
    }
    let _ = writeln!(out, "millrace_inc_seconds_bucket{{{labels},le=\"+Inf\"}} {}", times.count);
    let _ = writeln!(out, "millrace_inc_seconds_sum{{{labels}}} {}", times.sum_ns / 1e9);
    let _ = writeln!(out, "millrace_inc_seconds_count{{{labels}}} {}", times.count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::BoxId;

    fn seen() -> Seen {
        let mut user = hdrhistogram::Histogram::new_with_bounds(1, 1 << 40, 2).expect("bounds");
        for ns in [1500, 7000, 7000] {
            user.record(ns).expect("it is within");
        }
        let counts = vec![
            ("user", "hits", 3),
            ("xdp", "xdp hits", 9),
            ("xdp", "xdp entries", 2),
            ("socket", "sent", 4),
        ];
        let times = vec![user_times("answered", &user), fast_times("hit", &xdp::Histogram::default())];
        Seen { node: NodeId::Box(BoxId(1)), counts, times }
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample_of_the_family_before_it() {
        let text = text(&[seen(), seen()]);
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().expect("a name");
            } else if !line.starts_with('#') {
                let (name, number) = line.rsplit_once(' ').expect(line);
                assert!(name.starts_with(family) && name.ends_with('}'), "{line}");
                assert!(number.parse::<f64>().is_ok(), "{line}");
            }
        }
        for sample in [
            "millrace_inc_events_total{node=\"box:1\",tier=\"user\",event=\"hits\"} 3",
            "millrace_inc_events_total{node=\"box:1\",tier=\"xdp\",event=\"hits\"} 9",
            "millrace_inc_state{node=\"box:1\",tier=\"xdp\",what=\"entries\"} 2",
            "millrace_inc_seconds_bucket{node=\"box:1\",tier=\"user\",outcome=\"answered\",le=\"0.000002\"} 1",
            "millrace_inc_seconds_bucket{node=\"box:1\",tier=\"user\",outcome=\"answered\",le=\"0.00001\"} 3",
            "millrace_inc_seconds_count{node=\"box:1\",tier=\"user\",outcome=\"answered\"} 3",
        ] {
            assert!(text.contains(sample), "{sample} in\n{text}");
        }
    }
}
