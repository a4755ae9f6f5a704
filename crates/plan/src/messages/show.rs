//! The tables of `millrace model messages`.

use super::counted::Counted;
use super::host::Sending;
use super::link::{Clocked, Link};
use crate::model::repro::{beside, number};
use base::Picos;
use bench::report::Table;
use codec::decode::Writes;
use codec::encode::Strategy;
use model::experiment::Rows;
use model::experiment::compare::Compared;
use model::system::rpcacc::traffic::Traffic;

/// A result is met within this share of what was published.
pub const BAND: f64 = 0.25;

/// A family, with all that was found of its messages.
pub struct Seen {
    pub name: String,
    pub counted: Vec<Counted>,
    pub sending: Vec<Sending>,
    /// The same messages over each link.
    pub over: Vec<Vec<Counted>>,
}

impl Seen {
    /// The mean over its messages.
    fn mean(&self, of: impl Fn(&Counted) -> f64) -> f64 {
        self.counted.iter().map(of).sum::<f64>() / self.counted.len() as f64
    }
}

fn sum(bytes: &[u64]) -> f64 {
    bytes.iter().sum::<u64>() as f64
}

/// What crosses for a message, exact: means over a family's messages.
pub fn crossings(families: &[Seen]) -> Table {
    let mut table = Table::new([
        "a message of",
        "wire B",
        "fields",
        "writes by field",
        "one-shot",
        "fewer",
        "B by field",
        "one-shot",
        "reads cpu",
        "walk",
        "affinity",
        "B cpu",
        "walk",
        "affinity",
    ]);
    for family in families {
        let writes = [
            family.mean(|of| of.by_field.writes().len() as f64),
            family.mean(|of| of.one_shot.writes().len() as f64),
        ];
        let mut row = vec![
            family.name.clone(),
            number(family.mean(|of| of.wire as f64)),
            number(family.mean(|of| of.shape().fields() as f64)),
            number(writes[0]),
            number(writes[1]),
            format!("{:.1} x", writes[0] / writes[1]),
            number(family.mean(|of| sum(&of.by_field.writes()))),
            number(family.mean(|of| sum(&of.one_shot.writes()))),
        ];
        row.extend((0..3).map(|way| number(family.mean(|of| of.sent[way].reads().len() as f64))));
        row.extend((0..3).map(|way| number(family.mean(|of| sum(&of.sent[way].reads())))));
        table.row(row);
    }
    table
}

/// A lane alone over each link: microseconds of decoding and of the link's part of sending.
pub fn alone(families: &[Seen], links: &[Link], clocked: &Clocked) -> Table {
    let mut table = Table::new([
        "a message of",
        "link",
        "by field us",
        "one-shot us",
        "speed-up",
        "cpu us",
        "walk us",
        "affinity us",
    ]);
    let us = |time: Picos| time.as_secs_f64() * 1e6;
    for family in families {
        for (link, over) in links.iter().zip(&family.over) {
            let mean = |of: &dyn Fn(&Counted) -> f64| over.iter().map(of).sum::<f64>() / over.len() as f64;
            let by_field = mean(&|of| us(of.decode_time(Writes::FieldByField, clocked)));
            let one_shot = mean(&|of| us(of.decode_time(Writes::OneShot, clocked)));
            let mut row = vec![family.name.clone(), link.name.clone(), number(by_field), number(one_shot)];
            row.push(format!("{:.2} x", by_field / one_shot));
            row.extend((0..3).map(|way| number(mean(&|of| us(of.sent[way].time)))));
            table.row(row);
        }
    }
    table
}

/// What the model's accelerator makes of the counted crossings: rows of P-E4 and P-E6.
pub fn modelled(families: &[Seen], rows: &[&Rows]) -> Table {
    let mut table = Table::new([
        "a message of",
        "by field Gbps",
        "one-shot",
        "own memory",
        "one-shot / field",
        "cpu us",
        "walk us",
        "affinity us",
        "walk / affinity",
    ]);
    let value = |experiment: &str, variant: &str, point: &str, metric: &str| {
        let found = rows.iter().find_map(|rows| rows.find(experiment, variant, point, metric));
        found.map_or(f64::NAN, |row| row.value)
    };
    for family in families {
        let rate = |variant: &str| value("P-E4", variant, &family.name, "throughput");
        let time = |variant: &str| value("P-E6", variant, &family.name, "serialization time");
        let mut row = vec![family.name.clone()];
        row.extend(["field-by-field", "one-shot", "off-chip memory"].map(|variant| number(rate(variant))));
        row.push(format!("{:.2} x", value("P-E4", "one-shot", &family.name, "speed-up over field-by-field")));
        row.extend(["CPU-only", "ProtoACC-PCIe", "memory-affinity"].map(|variant| number(time(variant))));
        row.push(format!(
            "{:.2} x",
            value("P-E6", "memory-affinity", &family.name, "speed-up over ProtoACC-PCIe")
        ));
        table.row(row);
    }
    table
}

/// The host's part of sending, measured here: means over a family's messages.
pub fn host(families: &[Seen]) -> Table {
    let columns = Strategy::ALL.map(|strategy| match strategy {
        Strategy::CpuOnly => "cpu ns",
        Strategy::AcceleratorOnly => "walk ns",
        Strategy::MemoryAffinity => "affinity ns",
    });
    let without = ["cpu, no copies", "walk", "affinity, no copies"];
    let mut table = Table::new(
        ["a message of"].into_iter().chain(columns).chain(without).chain(["affinity / cpu", "both / cpu"]),
    );
    for family in families {
        let mean = |of: &dyn Fn(&Sending) -> f64| {
            family.sending.iter().map(of).sum::<f64>() / family.sending.len() as f64
        };
        let mut row = vec![family.name.clone()];
        row.extend((0..3).map(|way| number(mean(&|of| of.whole[way]))));
        row.extend((0..3).map(|way| number(mean(&|of| of.uncopied[way]))));
        row.push(format!("{:.2}", mean(&|of| of.whole[2]) / mean(&|of| of.whole[0])));
        row.push(format!("{:.2}", mean(&|of| of.uncopied[2]) / mean(&|of| of.whole[0])));
        table.row(row);
    }
    table
}

/// Published results beside what the codec's messages came to, and beside what the model reckons of its shapes.
pub fn comparison(codec: &[Compared<'_>], shapes: &[Compared<'_>]) -> Table {
    let mut table = Table::new(["result", "published", "codec", "deviation", "25 %", "model's shapes"]);
    for (one, other) in codec.iter().zip(shapes) {
        let (Some([published, modelled, deviation]), Some(error)) =
            (beside(&one.verdict), one.verdict.error())
        else {
            continue;
        };
        let reckoned = beside(&other.verdict).map_or(String::new(), |[_, modelled, _]| modelled);
        let verdict = if error.abs() <= BAND { "ok" } else { "missed" };
        let result = format!("{:8}{}", one.result.id, one.result.what);
        table.row([result, published, modelled, deviation, verdict.into(), reckoned]);
    }
    table
}

/// The results that were missed.
pub fn missed<'a>(codec: &'a [Compared<'_>]) -> impl Iterator<Item = &'a str> {
    let is_missed = |one: &&Compared<'_>| one.verdict.error().is_some_and(|error| error.abs() > BAND);
    codec.iter().filter(is_missed).map(|one| one.result.id.as_str())
}
