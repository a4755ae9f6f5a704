//! F8: requests without payload: requester machines one by one at one responder until it is full, then at the other.

use super::{CLIENTS, PLATFORM, Requesters, measure, total};
use crate::experiment::Rows;
use crate::load::Loop;
use crate::platform::{LoadError, Platforms};
use crate::system::offpath::machine::{Card, Machine, Side};
use crate::system::offpath::verbs::Verb;

/// Fill one responder.
const FIRST: usize = 5;

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let window = Requesters::new(&platform)?.window;
    let mut rows = Rows::default();
    let variants = [
        ("RNIC ①", Card::Rnic, [Side::Host; 2]),
        ("①", Card::Snic, [Side::Host; 2]),
        ("②", Card::Snic, [Side::Soc; 2]),
        ("① then ②", Card::Snic, [Side::Host, Side::Soc]),
        ("② then ①", Card::Snic, [Side::Soc, Side::Host]),
    ];
    for (variant, card, [first, then]) in variants {
        for verb in Verb::ALL {
            for clients in 1..=CLIENTS {
                let mut machine = Machine::new(&platform, card, clients, seed)?;
                let loops: Vec<_> = (0..clients)
                    .map(|client| {
                        let side = if client < FIRST { first } else { then };
                        let program = machine.one_sided(client, verb, side, 0);
                        Loop { mix: program.into(), window, arguments: super::BLOCKS }
                    })
                    .collect();
                let (_, seen) = measure(machine, &loops, 0, seed);
                let point = format!("{} {clients} clients", verb.name());
                let at = ("F8", variant, &*point);
                rows.add(at, "throughput", "Mops", total(&seen) / 1e6);
                let (of_first, of_then) = seen.split_at(FIRST.min(clients));
                rows.add(at, "throughput of the first", "Mops", total(of_first) / 1e6);
                rows.add(at, "throughput of the second", "Mops", total(of_then) / 1e6);
                if clients == CLIENTS {
                    rows.add(("F8", variant, verb.name()), "peak", "Mops", total(&seen) / 1e6);
                }
            }
        }
    }
    sums(&mut rows);
    Ok(rows)
}

/// Both alone added up, and together over one alone.
fn sums(rows: &mut Rows) {
    let mut more = Rows::default();
    for verb in Verb::ALL {
        let peak = |variant: &str| rows.find("F8", variant, verb.name(), "peak").map_or(0.0, |row| row.value);
        let [host, soc, both, turned] = ["①", "②", "① then ②", "② then ①"].map(peak);
        let together = ("F8", "① + ②", verb.name());
        more.add(together, "peak", "Mops", both.max(turned));
        more.add(together, "sum of both alone", "Mops", host + soc);
        more.add(together, "peak over ①", "ratio", both.max(turned) / host);
        more.add(together, "peak over ②", "ratio", both.max(turned) / soc);
        more.add(together, "peak over the sum of both alone", "ratio", both.max(turned) / (host + soc));
    }
    rows.append(more);
}
