//! E0: a device writes 3.5 GB/s at random; what memory sees.

use super::PROTOTYPE;
use crate::component::ddio::{Inbound, memory_traffic, write_amplification};
use crate::experiment::Rows;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platforms};

/// Bytes per second of the setup, and others.
const RATES: [f64; 5] = [1e9, 2e9, 3.5e9, 5e9, 7e9];
/// The setup's own is not printed; what pcie-bench writes to by default fits the cache's ways.
const WINDOWS: [u64; 6] = [1 << 20, 4 << 20, 8 << 20, 32 << 20, 128 << 20, 1 << 30];
const MESSAGES: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

pub(super) fn run(platforms: &Platforms, _: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PROTOTYPE)?;
    let mut rows = Rows::default();
    let share = platform.count("host.ddio_ways")? as f64 / platform.count("host.llc_ways")? as f64;
    let ways = (platform.bytes("host.llc")? as f64 * share) as u64;
    let background = platform.value("host.background", Dimension::Bandwidth)? / 8.0;
    let granule = platform.bytes("nvm.granule")?;
    let on = |is: bool| if is { "on" } else { "off" };
    for (ddio, tph) in [(false, false), (false, true), (true, false), (true, true)] {
        let variant = format!("DDIO {}, TPH {}", on(ddio), on(tph));
        let landing = Inbound { ddio, tph }.landing();
        let mut traffic = |point: &str, rate: f64, window: u64| {
            let traffic = memory_traffic(landing, rate, window, ways);
            let (read, write) = (traffic.read + background, traffic.write + background);
            rows.add(("E0", &variant, point), "memory read bandwidth", "MB/s", read / 1e6);
            rows.add(("E0", &variant, point), "memory write bandwidth", "MB/s", write / 1e6);
        };
        traffic("", 3.5e9, WINDOWS[1]);
        for rate in RATES {
            traffic(&format!("{} GB/s", rate / 1e9), rate, WINDOWS[1]);
        }
        for window in WINDOWS {
            traffic(&format!("window {} MiB", window >> 20), 3.5e9, window);
        }
        for size in MESSAGES {
            let amplification = write_amplification(landing, size, granule, WINDOWS[5], ways);
            let point = format!("NVM, messages of {size} B");
            rows.add(("E0", &variant, &point), "write amplification", "ratio", amplification);
        }
    }
    Ok(rows)
}
