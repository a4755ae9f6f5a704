//! The load: what clients ask for, how often, for how long.

use crate::load::args::duration;
use std::time::Duration;

/// What clients do.
#[derive(clap::Args, Clone, Debug)]
pub struct Load {
    /// For how long
    #[arg(long, value_name = "S", default_value = "5", value_parser = duration)]
    pub seconds: Duration,

    /// But not more operations than this: all are recorded and judged
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub operations: u64,

    /// Keys; three of four have text, the fourth a number. All are stored in the beginning
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub keys: u64,

    /// Of their popularity, by Zipf's law; 0: all alike
    #[arg(long, value_name = "THETA", default_value_t = 0.99)]
    pub skew: f64,

    /// Of a hundred operations, those that store or remove
    #[arg(long, value_name = "PERCENT", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub writes: u64,

    /// Of a hundred operations, those that compute: cas, append, incr, cond_put
    #[arg(long, value_name = "PERCENT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub compute: u64,

    /// Bytes of a text
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(24..=60_000))]
    pub value_size: u16,

    /// Which keys are popular, and what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
