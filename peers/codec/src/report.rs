//! The run as a reader wants it: a table per family, or JSON.

use serde_json::{Value, json};

use crate::contest::Contest;
use crate::measure::{Figure, Row, Spread};
use crate::probe::Probe;

/// One family, measured.
pub struct Outcome {
    /// Who took part.
    pub contest: Contest,
    /// What each did, in the same order.
    pub rows: Vec<Row>,
}

/// One family's table.
pub fn table(outcome: &Outcome) -> String {
    let Outcome { contest, rows } = outcome;
    let bytes = contest.message_bytes();
    let sizes = contest.corpus.iter().map(|input| input.len());
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let mut out = format!(
        "\n{}: {bytes:.0} bytes a message [{least}..{most}]\n{:<20} {:>10} {:>6} {:>21} {:>10} {:>21} {:>10} {:>6} {:>21}\n",
        contest.name,
        "",
        "decode ns",
        "GB/s",
        "x prost [p10..p90]",
        "+ read ns",
        "x prost",
        "encode ns",
        "GB/s",
        "x prost",
    );
    for (contestant, row) in contest.contestants.iter().zip(rows) {
        out.push_str(&format!("{:<20} ", contestant.name()));
        out.push_str(&timed(&row.decode, &rows[0].decode, Some(bytes)));
        out.push_str(&timed(&row.read, &rows[0].read, None));
        if let (Some(encode), Some(prost)) = (&row.encode, &rows[0].encode) {
            out.push_str(&timed(encode, prost, Some(bytes)));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Time, rate where the message's size is given, and ratio to prost.
fn timed(figure: &Figure, prost: &Figure, bytes: Option<f64>) -> String {
    let ns = figure.ns().p50;
    let rate = bytes.map_or(String::new(), |bytes| format!("{:>6.2} ", bytes / ns));
    format!("{ns:>10.1} {rate}{:>21} ", ratio(figure.times(prost)))
}

/// The median ratio, and the spread.
pub fn ratio(Spread { p10, p50, p90 }: Spread) -> String {
    format!("{p50:.2} [{p10:.2}..{p90:.2}]")
}

/// The machine before and after, and what that says.
pub fn drift(before: &Probe, after: &Probe) -> String {
    let [arithmetic, copying] = before.drift_percent(after);
    format!(
        "machine: arithmetic {:.2} -> {:.2} ns/step ({arithmetic:+.1} %), copying 16 KiB {:.1} -> {:.1} GB/s ({copying:+.1} %)",
        before.arithmetic_ns, after.arithmetic_ns, before.copy_gbps, after.copy_gbps,
    )
}

/// The whole run for machines.
pub fn json(outcomes: &[Outcome], before: &Probe, after: &Probe) -> Value {
    let probe = |probe: &Probe| json!({ "arithmetic_ns": probe.arithmetic_ns, "copy_gbps": probe.copy_gbps });
    let families: Vec<Value> = outcomes.iter().map(family).collect();
    json!({ "probe": { "before": probe(before), "after": probe(after) }, "families": families })
}

fn family(Outcome { contest, rows }: &Outcome) -> Value {
    let spread = |spread: Spread| json!({ "p10": spread.p10, "p50": spread.p50, "p90": spread.p90 });
    let figure = |figure: &Figure, prost: &Figure| json!({ "ns": spread(figure.ns()), "times_prost": spread(figure.times(prost)) });
    let prost = &rows[0];
    let row = |(contestant, row): (&crate::contest::Contestant, &Row)| {
        json!({
            "library": contestant.library,
            "mode": contestant.mode.name(),
            "decode": figure(&row.decode, &prost.decode),
            "decode_and_read": figure(&row.read, &prost.read),
            "encode": row.encode.as_ref().zip(prost.encode.as_ref()).map(|(own, prost)| figure(own, prost)),
        })
    };
    json!({
        "family": contest.name,
        "message_bytes": contest.message_bytes(),
        "contestants": contest.contestants.iter().zip(rows).map(row).collect::<Vec<_>>(),
    })
}
