//! The published systems: how their machines are composed, and their experiments.
//!
//! | module | system |
//! |---|---|
//! | [`incbricks`] | IncBricks (ASPLOS 2017): a coherent cache in boxes beside switches |
//! | [`host`] | no published system: a core with its memory, rings and sockets, as `millrace probe` measures this machine |
//! | [`offpath`] | off-path SmartNIC study (OSDI 2023): RDMA paths through a NIC with an SoC behind a PCIe switch |
//! | [`dagger`] | Dagger (2020): RPCs by a NIC in the processor's package, over UPI or PCIe |
//! | [`orca`] | ORCA (HPCA 2023): a cache-coherent accelerator behind a plain NIC, rings and cpoll |
//! | [`rpcacc`] | RPCAcc (2024): Protobuf messages by an accelerator on a PCIe NIC, on chip, on a SmartNIC's cores |

pub mod dagger;
pub mod host;
pub mod incbricks;
pub mod offpath;
pub mod orca;
pub mod rpcacc;

use crate::experiment::Experiment;
use crate::experiment::published::Results;

/// A published system.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// As commands call it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its setups, in the order of its review.
    pub experiments: &'static [Experiment],
    /// Platforms that they run on.
    pub platforms: &'static [&'static str],
    published: (&'static str, &'static str),
}

impl System {
    /// Experiments that nobody published results of.
    pub const fn own(name: &'static str, title: &'static str, experiments: &'static [Experiment]) -> System {
        System::with(name, title, experiments, ("own", "system = \"\"\nsource = \"\"\nresult = []"))
    }

    /// Experiments beside published results: the name and the text of their file.
    pub const fn with(
        name: &'static str,
        title: &'static str,
        experiments: &'static [Experiment],
        published: (&'static str, &'static str),
    ) -> System {
        System { name, title, experiments, platforms: &[], published }
    }

    /// The same with these experiments, for those whose experiments need more than this crate knows.
    #[must_use]
    pub const fn with_experiments(self, experiments: &'static [Experiment]) -> System {
        System { experiments, ..self }
    }

    /// One that one can work out in the head.
    #[cfg(test)]
    pub(crate) const fn of_toys() -> System {
        use crate::experiment::toy;
        let published = ("toy.toml", toy::RESULTS);
        System {
            name: "toy",
            title: "a toy",
            experiments: &[toy::EXPERIMENT],
            platforms: &["toy"],
            published,
        }
    }

    /// What its authors published.
    ///
    /// # Errors
    /// The file is wrong: a sentence with file and line.
    pub fn results(&self) -> Result<Results, String> {
        Results::parse(self.published.1, self.published.0)
    }
}

/// All. Experiments of IncBricks are not here, but beside the protocol that they run: `plan::model::SYSTEMS`.
pub const ALL: &[System] = &[
    System {
        name: "offpath",
        title: "Characterizing Off-path SmartNIC (OSDI 2023)",
        experiments: offpath::experiments::ALL,
        platforms: &["bluefield2-ib"],
        published: ("published/offpath.toml", include_str!("../../published/offpath.toml")),
    },
    System {
        name: "dagger",
        title: "Dagger: RPCs with near-memory reconfigurable NICs (2020)",
        experiments: dagger::experiments::ALL,
        platforms: &["broadwell-fpga"],
        published: ("published/dagger.toml", include_str!("../../published/dagger.toml")),
    },
    System {
        name: "orca",
        title: "ORCA, or RAMBDA (HPCA 2023)",
        experiments: orca::experiments::ALL,
        platforms: &["harp-upi", "u280-ddr4", "u280-hbm2"],
        published: ("published/orca.toml", include_str!("../../published/orca.toml")),
    },
    System {
        name: "incbricks",
        title: "IncBricks (ASPLOS 2017)",
        // They run a protocol, which this crate does not know: `plan::model::SYSTEMS` has them.
        experiments: &[],
        platforms: &["xpliant-octeon"],
        published: ("published/incbricks.toml", include_str!("../../published/incbricks.toml")),
    },
    System {
        name: "rpcacc",
        title: "RPCAcc: a PCIe-attached RPC accelerator (2024)",
        experiments: rpcacc::experiments::ALL,
        platforms: &["pcie-rpc-accelerator", "onchip-rpc-accelerator", "bluefield3"],
        published: ("published/rpcacc.toml", include_str!("../../published/rpcacc.toml")),
    },
];
