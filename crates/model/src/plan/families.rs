//! Which composition makes a setting of a workload: by the platform's family and by what the workload's operations need.

use super::{Builder, PlanError};
use crate::machine;
use crate::platform::COMPOSED;
use crate::platform::Platform;
use crate::system::{dagger, incbricks, offpath, rpcacc};
use crate::workload::Workload;

/// A kind of machine.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As platform files say it.
    pub name: &'static str,
    /// Its compositions: the first that fits a workload is taken.
    pub compositions: &'static [Composition],
}

/// A way to make settings.
#[derive(Clone, Copy, Debug)]
pub struct Composition {
    /// What it is meant for.
    pub what: &'static str,
    /// Whether it can say what a workload's operations do.
    pub fits: fn(&Workload) -> bool,
    /// Makes the setting.
    pub builder: Builder,
}

/// All.
pub const ALL: &[Family] = &[
    Family {
        name: COMPOSED,
        compositions: &[Composition {
            what: "requests to one server",
            fits: |workload| workload.classes.iter().all(|class| class.copies < 2),
            builder: machine::setting,
        }],
    },
    Family {
        name: "off-path-smartnic",
        compositions: &[
            Composition {
                what: "replication of what is stored",
                fits: |workload| workload.classes.iter().all(|class| class.store > 0 && class.copies > 1),
                builder: offpath::replication::setting,
            },
            Composition {
                what: "lookups in a store",
                fits: |workload| workload.classes.iter().all(|class| class.lookups > 0 && class.rows == 0),
                builder: offpath::disaggregated::setting,
            },
            Composition { what: "whatever messages can ask for", fits: |_| true, builder: machine::setting },
        ],
    },
    Family {
        name: "fpga-rpc-nic",
        compositions: &[Composition { what: "calls", fits: |_| true, builder: dagger::setting }],
    },
    Family {
        name: "coherent-accelerator",
        compositions: &[Composition { what: "requests", fits: |_| true, builder: machine::setting }],
    },
    Family {
        name: "in-network-cache",
        compositions: &[Composition {
            what: "key-value stores",
            fits: incbricks::is_key_value,
            builder: incbricks::setting,
        }],
    },
    Family {
        name: "host",
        compositions: &[Composition {
            what: "requests to a node",
            fits: |workload| workload.classes.iter().all(|class| class.copies < 2),
            builder: machine::setting,
        }],
    },
    Family { name: "pcie-rpc-accelerator", compositions: &[PROTOBUF] },
    Family { name: "onchip-rpc-accelerator", compositions: &[PROTOBUF] },
    Family { name: "rpc-smartnic", compositions: &[PROTOBUF] },
];

const PROTOBUF: Composition =
    Composition { what: "calls with Protobuf messages", fits: |_| true, builder: rpcacc::setting };

/// The composition of a workload on a platform.
///
/// # Errors
/// Nobody composes this family.
pub fn builder(platform: &Platform, workload: &Workload) -> Result<Builder, PlanError> {
    let unknown = || PlanError::Family { platform: platform.name.clone(), family: platform.family.clone() };
    let family = ALL.iter().find(|family| family.name == platform.family).ok_or_else(unknown)?;
    let fitting = family.compositions.iter().find(|composition| (composition.fits)(workload));
    fitting.map(|composition| composition.builder).ok_or_else(|| {
        PlanError::Question(format!(
            "platform {} serves no workload like {}: its family has compositions for {}",
            platform.name,
            workload.name,
            family.compositions.iter().map(|of| of.what).collect::<Vec<_>>().join(", ")
        ))
    })
}
