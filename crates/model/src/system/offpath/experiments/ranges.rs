//! F3: 64 B requests to a range of addresses: the SmartNIC in a client machine, where DDIO can be switched off.
//!
//! How many requesters there were is not printed. Two, as in Fig. 5b: what two machines post is what the paper measures where the range does not
//! matter (78 M/s; 77.9 and 85 published). The other reading, a memory that takes no more in 48 KB, contradicts Fig. 3.

use super::{PLATFORM, Requesters, add_latencies, measure, size, total};
use crate::experiment::Rows;
use crate::load::Loop;
use crate::platform::{LoadError, Platforms};
use crate::system::offpath::machine::{Card, Host, Machine, Side};
use crate::system::offpath::verbs::Verb;

const VARIANTS: [(&str, Card, Side, bool); 5] = [
    ("RNIC ①", Card::Rnic, Side::Host, true),
    ("RNIC ① without DDIO", Card::Rnic, Side::Host, false),
    ("SNIC ①", Card::Snic, Side::Host, true),
    ("SNIC ① without DDIO", Card::Snic, Side::Host, false),
    ("SNIC ②", Card::Snic, Side::Soc, true),
];
const RANGES: [u64; 12] =
    [512, 1536, 3072, 6144, 8192, 12_288, 24_576, 49_152, 98_304, 1 << 20, 1 << 30, 10 << 30];
/// Requester machines.
const REQUESTERS: usize = 2;

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let window = Requesters::new(&platform)?.window;
    let mut rows = Rows::default();
    for (variant, card, side, ddio) in VARIANTS {
        for verb in Verb::ALL {
            for range in RANGES {
                let mut machine =
                    Machine::within(&platform, (card, Host::Client { ddio }), REQUESTERS, seed)?;
                let arguments = machine.blocks(side, range);
                let mut of = |client| machine.one_sided(client, verb, side, 64);
                let loops: Vec<_> =
                    (0..REQUESTERS).map(|c| Loop { mix: of(c).into(), window, arguments }).collect();
                let (_, seen) = measure(machine, &loops, 64, seed);
                let point = format!("{} in {}", verb.name(), size(range));
                let at = ("F3", variant, &*point);
                rows.add(at, "throughput", "Mops", total(&seen) / 1e6);
                add_latencies(&mut rows, at, &seen);
            }
        }
    }
    Ok(rows)
}
