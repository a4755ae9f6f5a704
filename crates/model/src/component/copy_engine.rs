//! A copy engine beside the cores (Intel DSA): copies large blocks while the core goes on.
//!
//! Discipline: the engines take descriptors in order of arrival, whoever submitted them. The core pays for the submission alone. A copy pays off from
//! the size on at which the core itself would take longer than that.

use crate::kernel::{Kernel, ResourceId, Service, Step};
use crate::platform::{LoadError, Platform, transfer};
use base::Picos;

/// Engines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyEngine {
    at: ResourceId,
    latency: Picos,
    bits: f64,
}

impl CopyEngine {
    /// From the numbers `engines`, `latency` and `bandwidth` of a platform's table.
    ///
    /// # Errors
    /// One is missing.
    pub fn load(kernel: &mut Kernel, platform: &Platform, table: &str) -> Result<CopyEngine, LoadError> {
        let engines = platform.count(&format!("{table}.engines"))?;
        Ok(CopyEngine {
            at: kernel.resource(&format!("{table} copy engines"), engines as usize),
            latency: platform.span(&format!("{table}.latency"))?,
            bits: platform.bandwidth(&format!("{table}.bandwidth"))?,
        })
    }

    /// A batch of copies of so many bytes together, to its end.
    pub fn copy(&self, bytes: u64) -> Step {
        let service = Service::Fixed(transfer(bytes, self.bits));
        Step::Use { at: self.at, service, units: bytes, after: self.latency }
    }
}
