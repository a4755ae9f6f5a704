//! memcached's flags for what is otherwise here: they are understood, checked as memcached checks them, and change nothing but that the log says so.

use clap::Args;

/// See the head of the file.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Of memcached, without effect")]
pub struct IgnoredFlags {
    /// Growth of slab classes
    #[arg(short = 'f', long = "slab-growth-factor", value_name = "FACTOR")]
    slab_growth: Option<f64>,

    /// Smallest slab chunk, in bytes
    #[arg(short = 'n', long = "slab-min-size", value_name = "BYTES")]
    slab_min_size: Option<u64>,

    /// Keep no versions
    #[arg(short = 'C', long)]
    disable_cas: bool,

    /// Keep memory from being swapped
    #[arg(short = 'k', long)]
    lock_memory: bool,

    /// NAPI identifiers of receive queues
    #[arg(short = 'N', long = "napi_ids", value_name = "N")]
    napi_ids: Option<u64>,
}

impl IgnoredFlags {
    /// A sentence for each that was said.
    ///
    /// # Errors
    /// memcached would refuse it as well. A sentence.
    pub fn notes(&self) -> Result<Vec<String>, String> {
        if self.slab_growth.is_some_and(|growth| growth.is_nan() || growth <= 1.0) {
            return Err("-f must be greater than 1".to_owned());
        }
        if self.slab_min_size == Some(0) {
            return Err("-n must be greater than 0".to_owned());
        }
        const NO_SLABS: &str = "items lie in a log, not in slabs";
        let said = [
            (self.slab_growth.is_some(), "-f", NO_SLABS),
            (self.slab_min_size.is_some(), "-n", NO_SLABS),
            (self.disable_cas, "-C", "every item has its version, which costs no memory that -C would spare"),
            (
                self.lock_memory,
                "-k",
                "memory is not locked; MemorySwapMax=0 of systemd keeps this process from being swapped",
            ),
            (self.napi_ids.is_some(), "-N", "connections go to edges in turn"),
        ];
        let said = said.into_iter().filter(|(is_said, ..)| *is_said);
        Ok(said.map(|(_, flag, why)| format!("{flag} changes nothing: {why}")).collect())
    }
}
