//! E3: power at E2's peak, and requests per watt.
//!
//! Whoever polls is busy, whether requests come or not, so that power at full load does not depend on the load.
//! `power` is of the part that serves, as the paper
//! counts it; `with host` adds the host's package where that only carries the NIC and one core for completions.

use super::kv::{Point, Who, measure};
use crate::experiment::Rows;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, Platforms};

pub(super) fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let mut rows = Rows::default();
    for (gets, skew, batch) in [(1.0, 0.0, 32), (1.0, 0.9, 32), (0.5, 0.0, 32), (0.5, 0.9, 32), (1.0, 0.9, 1)]
    {
        let point = Point { gets, skew, batch, ..Point::PEAK };
        let label = point.label();
        let mut of_cpu = None;
        for who in Who::MAIN {
            let platform = platforms.named(who.platform())?;
            let rate = measure(platforms, who, point, seed)?.rate();
            let (watts, with_host) = watts(&platform, who, point.cores)?;
            let at = ("E3", who.name(), &*label);
            rows.add(at, "throughput", "Mops", rate / 1e6);
            rows.add(at, "power", "W", watts);
            rows.add(at, "power with host", "W", with_host);
            let per_watt = rate / 1e3 / watts;
            rows.add(at, "requests per watt", "Kops/W", per_watt);
            rows.add(at, "requests per watt with host", "Kops/W", rate / 1e3 / with_host);
            rows.add(at, "energy per request", "uJ", watts / rate * 1e6);
            let cpu = *of_cpu.get_or_insert(per_watt);
            rows.add(at, "requests per watt over CPU", "ratio", per_watt / cpu);
        }
    }
    Ok(rows)
}

/// Of the part that serves, and with the host.
fn watts(platform: &Platform, who: Who, cores: u64) -> Result<(f64, f64), LoadError> {
    let of = |name: &str| platform.value(name, Dimension::Power);
    let host =
        |cores: u64| Ok::<_, LoadError>(of("host.power_idle")? + cores as f64 * of("host.power_core")?);
    Ok(match who {
        Who::Cpu => (host(cores)?, host(cores)?),
        Who::SmartNic => {
            let soc =
                of("soc.power_idle")? + platform.count_or_none("soc.cores")? as f64 * of("soc.power_core")?;
            (soc, soc + host(0)?)
        }
        Who::Orca(_) | Who::Local(_) => (of("accelerator.power")?, of("accelerator.power")? + host(1)?),
    })
}
