//! F7: RDMA (③, the SoC as requester) and DMA (③*) between SoC and host by payload: latency, throughput, bandwidth, and DMA over RDMA.

use super::{Flow, PLATFORM, add_latencies, alone, gbps, peak, size};
use crate::experiment::Rows;
use crate::platform::{LoadError, Platforms};
use crate::system::offpath::machine::{Card, Side};
use crate::system::offpath::verbs::Verb;

const PAYLOADS: [u64; 18] = [
    16,
    32,
    64,
    128,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    16_384,
    32_768,
    65_536,
    131_072,
    262_144,
    524_288,
    1 << 20,
    4 << 20,
];

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for verb in Verb::ALL {
        for bytes in PAYLOADS {
            let point = format!("{} {}", verb.name(), size(bytes));
            let mut rates = [0.0, 0.0];
            let ways = [("RDMA", Flow::Internal(Side::Soc, verb)), ("DMA", Flow::Dma(verb))];
            for (rate, (variant, flow)) in rates.iter_mut().zip(ways) {
                let at = ("F7", variant, &*point);
                let (its, seen) = peak(&platform, (Card::Snic, flow), 0, (bytes, 1), seed)?;
                *rate = its;
                rows.add(at, "latency", "us", alone(&platform, (Card::Snic, flow), (bytes, 1))?);
                rows.add(at, "throughput", "Mops", its / 1e6);
                rows.add(at, "bandwidth", "Gbps", gbps(its, bytes));
                add_latencies(&mut rows, at, &seen);
            }
            rows.add(("F7", "DMA", &point), "throughput over RDMA", "ratio", rates[1] / rates[0]);
        }
    }
    Ok(rows)
}
