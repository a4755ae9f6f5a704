//! F6: what posting costs, and what a doorbell for several requests gains or loses, by batch and by who posts. One requester machine.

use super::{Flow, PLATFORM, alone, peak};
use crate::experiment::Rows;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::offpath::machine::{Card, Side};
use crate::system::offpath::verbs::Verb;

const BATCHES: [u64; 13] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128];
/// Its name, card and flow.
type Poster = (&'static str, Card, fn(Verb) -> Flow);

const VARIANTS: [Poster; 5] = [
    ("RNIC ①", Card::Rnic, |verb| Flow::OneSided(Side::Host, verb)),
    ("SNIC ①", Card::Snic, |verb| Flow::OneSided(Side::Host, verb)),
    ("SNIC ②", Card::Snic, |verb| Flow::OneSided(Side::Soc, verb)),
    ("SNIC ③ S2H", Card::Snic, |verb| Flow::Internal(Side::Soc, verb)),
    ("SNIC ③ H2S", Card::Snic, |verb| Flow::Internal(Side::Host, verb)),
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    posting(&mut rows, &platform)?;
    for (variant, card, flow) in VARIANTS {
        for verb in Verb::ALL {
            for bytes in [0, 64] {
                let mut single = None;
                for batch in BATCHES {
                    let point = format!("{} {bytes} B batch {batch}", verb.name());
                    let at = ("F6", variant, &*point);
                    let (rate, _) = peak(&platform, (card, flow(verb)), 1, (bytes, batch), seed)?;
                    rows.add(at, "throughput", "Mops", rate / 1e6);
                    rows.add(at, "latency", "us", alone(&platform, (card, flow(verb)), (bytes, batch))?);
                    rows.add(
                        at,
                        "improvement by doorbell batching",
                        "ratio",
                        rate / *single.get_or_insert(rate),
                    );
                }
            }
        }
    }
    Ok(rows)
}

/// Fig. 10a: a core's time for one request.
fn posting(rows: &mut Rows, platform: &Platform) -> Result<(), LoadError> {
    let sides = [
        ("RNIC host", "host.post_rnic", "host.clock"),
        ("SNIC host", "host.post_snic", "host.clock"),
        ("SNIC SoC", "soc.mmio", "soc.clock"),
        ("client", "client.post", "client.clock"),
    ];
    for (variant, post, clock) in sides {
        let at = ("F6", variant, "");
        rows.add(at, "posting", "cycles", platform.value(post, Dimension::Cycles)?);
        rows.add(at, "posting latency", "ns", platform.cycles(post, clock)?.as_secs_f64() * 1e9);
    }
    Ok(())
}
