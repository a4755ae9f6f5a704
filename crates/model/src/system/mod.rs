//! The published systems: how their machines are composed, and their experiments.
//!
//! | module | system |
//! |---|---|
//! | [`offpath`] | off-path SmartNIC study (OSDI 2023): RDMA paths through a NIC with an SoC behind a PCIe switch |

pub mod offpath;

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
    published: (&'static str, &'static str),
}

impl System {
    /// What its authors published.
    ///
    /// # Errors
    /// The file is wrong: a sentence with file and line.
    pub fn results(&self) -> Result<Results, String> {
        Results::parse(self.published.1, self.published.0)
    }
}

/// All.
pub const ALL: &[System] = &[System {
    name: "offpath",
    title: "Characterizing Off-path SmartNIC (OSDI 2023)",
    experiments: offpath::experiments::ALL,
    published: ("published/offpath.toml", include_str!("../../published/offpath.toml")),
}];
