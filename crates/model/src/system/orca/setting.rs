//! A workload on a machine of this family: its alternatives, for the planner.
//!
//! They are: host cores; the SmartNIC's cores, where there are any; the accelerator with its data in host memory; the accelerator with its data in local
//! memory, where the working set fits. Protobuf needs cores: no accelerator here decodes it. Cycles that a class asks for beside rows are a host
//! core's, to which the accelerator hands requests over its ring.
//!
//! Power is what rises with work; a polling core is idle here when it polls in vain.

use super::serve::{Data, Popularity, Rings, Servers, Work};
use crate::alternative::{Alternative, Part, Place, Power, Setting};
use crate::kernel::ResourceId;
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::workload::{Class, Workload};

/// The most requests of a batch.
const MOST_BATCHED: u64 = 32;
/// Arguments choose cores, banks and channels: many more than there are.
const ARGUMENTS: u64 = 1 << 20;

impl From<&Class> for Work {
    fn from(class: &Class) -> Work {
        Work {
            request: class.request,
            reply: class.reply,
            accesses: class.lookups,
            access: class.lookup.max(1),
            rows: class.rows,
            row: class.row,
            store: class.store,
            copies: class.copies,
            cycles: class.cycles,
            fields: class.fields,
        }
    }
}

/// The machine with its alternatives.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let cores = platform.count("host.cores")?;
    let cores = workload.host_cores.map_or(cores, |may| may.clamp(1, cores));
    let entry = (workload.working_set / workload.keys.max(1)).max(1);
    let popularity = Popularity { keys: workload.keys, skew: workload.skew, entry };
    let batch = (workload.window / cores).clamp(1, MOST_BATCHED);
    let mut servers = Servers::new(platform, cores, popularity, batch, seed)?;
    let mut alternatives = vec![Alternative {
        name: "host cores".into(),
        what: "two-sided RPC, each core its clients".into(),
        place: Place::Host,
        parts: parts(workload, |work| Ok(vec![(1.0, servers.host(work)?)]))?,
    }];
    if servers.machine.soc.is_some() {
        alternatives.push(Alternative {
            name: "SmartNIC cores".into(),
            what: "a cache of the host's data on the NIC, RDMA reads for the rest".into(),
            place: Place::NicCores,
            parts: parts(workload, |work| servers.soc(work))?,
        });
    }
    if servers.machine.fabric.is_some() && workload.classes.iter().all(|class| class.fields == 0) {
        let by_host = workload.classes.iter().any(|class| class.rows == 0 && class.cycles > 0.0);
        let place = if by_host { Place::Several } else { Place::Accelerator };
        let mut way = |name: &str, what: &str, data| {
            let of = |work: &Work| Ok(vec![(1.0, servers.accelerator(work, data, Rings::Pointers)?)]);
            let parts = parts(workload, of)?;
            Ok::<_, LoadError>(Alternative { name: name.into(), what: what.into(), place, parts })
        };
        alternatives.push(way("accelerator", "rings and cpoll, data in host memory", Data::Host)?);
        if platform.has("local.capacity") && workload.working_set <= platform.bytes("local.capacity")? {
            alternatives.push(way(
                "accelerator, local memory",
                "rings and cpoll, data beside it",
                Data::Local,
            )?);
        }
    }
    let host_cores = all_of(servers.machine.host.first, servers.machine.host.count);
    let power = power(platform, &servers, &host_cores)?;
    Ok(Setting { kernel: servers.machine.kernel, alternatives, host_cores, power, arguments: ARGUMENTS })
}

fn parts(
    workload: &Workload,
    mut programs: impl FnMut(&Work) -> Result<Vec<(f64, crate::ProgramId)>, LoadError>,
) -> Result<Vec<Part>, LoadError> {
    let mut parts = vec![];
    for class in &workload.classes {
        for (share, program) in programs(&Work::from(class))? {
            parts.push(Part { class: class.name.clone(), share: class.share * share, program });
        }
    }
    Ok(parts)
}

fn all_of(first: ResourceId, count: u32) -> Vec<ResourceId> {
    (0..count).map(|i| ResourceId(first.0 + i)).collect()
}

fn power(platform: &Platform, servers: &Servers<'_>, host: &[ResourceId]) -> Result<Vec<Power>, LoadError> {
    let of = |name: &str| platform.value(name, Dimension::Power);
    let each = |at: &[ResourceId], watts: f64| at.iter().map(|at| (*at, watts)).collect();
    let mut power = vec![Power {
        name: "host package".into(),
        idle: of("host.power_idle")?,
        busy: each(host, of("host.power_core")?),
    }];
    if let Some((cores, _)) = servers.machine.soc {
        let busy = each(&all_of(cores.first, cores.count), of("soc.power_core")?);
        power.push(Power { name: "SmartNIC".into(), idle: of("soc.power_idle")?, busy });
    }
    if let Some(fabric) = servers.machine.fabric {
        let idle = of("accelerator.power_idle")?;
        let busy = vec![(fabric.unit.units, of("accelerator.power")? - idle)];
        power.push(Power { name: "accelerator".into(), idle, busy });
    }
    Ok(power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternative::Offered;
    use crate::platform::shipped::shipped;
    use base::Picos;

    fn workload(fields: u64) -> Workload {
        let text = format!(
            r#"
name = "kv"
title = "a store"
keys = 100_000_000
skew = 0.9
working_set = "7 GiB"
window = 256
[[class]]
name = "GET"
share = 1.0
request = "16 B"
reply = "64 B"
lookups = 3
lookup = "64 B"
fields = {fields}
"#
        );
        Workload::parse(&text, "kv.toml").expect("it is right")
    }

    #[test]
    fn a_machine_offers_what_it_has() {
        let names = |platform: &str, fields| {
            let platform = shipped(platform).expect("it is shipped").expect("it is right");
            let setting = setting(&platform, &workload(fields), 1).expect("it is complete");
            for alternative in &setting.alternatives {
                let shares: f64 = alternative.parts.iter().map(|part| part.share).sum();
                assert!((shares - 1.0).abs() < 1e-9, "{}", alternative.name);
            }
            let names: Vec<_> = setting.alternatives.iter().map(|a| a.name.clone()).collect();
            (names.join("; "), setting.power.len())
        };
        assert_eq!(names("connectx6", 0), ("host cores".into(), 1));
        assert_eq!(names("bluefield2-eth", 0), ("host cores; SmartNIC cores".into(), 2));
        assert_eq!(names("harp-upi", 0).0, "host cores; SmartNIC cores; accelerator");
        assert_eq!(
            names("u280-hbm2", 0).0,
            "host cores; SmartNIC cores; accelerator; accelerator, local memory"
        );
        assert_eq!(names("cxl-type2", 0).0, "host cores; accelerator; accelerator, local memory");
        assert_eq!(names("cxl-type2", 8).0, "host cores");
    }

    #[test]
    fn every_alternative_runs_on_every_machine() {
        for (name, _) in crate::platform::shipped::SHIPPED {
            let platform = shipped(name).expect("it is shipped").expect("it is right");
            if platform.family != "coherent-accelerator" {
                continue;
            }
            let make = || setting(&platform, &workload(0), 1).expect("it is complete");
            for i in 0..make().alternatives.len() {
                let mut shares = vec![0.0; make().alternatives.len()];
                shares[i] = 1.0;
                let span = Picos::from_micros(50);
                let ran = make().run(&shares, Offered::Window(256), 1, Picos::from_micros(20), span);
                assert!(ran.all.rate() > 1e6, "{name}, {i}: {}", ran.all.rate());
                assert!(ran.watts.iter().all(|watts| *watts > 5.0));
            }
        }
    }
}
