//! The load: what clients ask for, how often, for how long.

use super::record::now;
use base::Nanos;
use serve::process::parse::duration;
use std::time::Duration;

/// What clients do.
#[derive(clap::Args, Clone, Debug)]
pub struct Load {
    /// For how long
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,

    /// But not more operations than this: all are recorded and judged
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub operations: u64,

    /// And not more in a second, of all clients; unless said, as fast as it goes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: Option<u64>,

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

impl Load {
    /// As options, without the rate.
    pub fn arguments(&self) -> Vec<String> {
        let all = [
            ("--duration", format!("{}us", self.duration.as_micros())),
            ("--operations", self.operations.to_string()),
            ("--keys", self.keys.to_string()),
            ("--skew", self.skew.to_string()),
            ("--writes", self.writes.to_string()),
            ("--compute", self.compute.to_string()),
            ("--value-size", self.value_size.to_string()),
            ("--seed", self.seed.to_string()),
        ];
        all.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect()
    }
}

/// How often one client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one operation to the next; 0: at once.
    pub every: Nanos,
}

impl Pace {
    /// Of one of so many clients that together have a rate; 0: as fast as it goes.
    pub fn of(rate: u64, clients: u32) -> Pace {
        Pace { every: Nanos((u64::from(clients) * 1_000_000_000).checked_div(rate).unwrap_or(0)) }
    }

    /// Waits until it is time, and says when it is for the next. What was missed is not made up for.
    pub fn wait(self, next: Nanos) -> Nanos {
        if self.every == Nanos(0) {
            return next;
        }
        let early = next.since(now());
        if early > Nanos(0) {
            std::thread::sleep(early.into());
        }
        next.max(now()).plus(self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        load: Load,
    }

    #[test]
    fn a_load_is_read_as_it_is_written() {
        let text = "x --seconds 1.5 --operations 7 --keys 9 --skew 0.5 --writes 1 --compute 2 --value-size 30 --seed 4";
        let load = Command::parse_from(text.split(' ')).load;
        let again = Command::parse_from([vec!["x".to_string()], load.arguments()].concat()).load;
        assert_eq!(format!("{load:?}"), format!("{again:?}"));
    }

    #[test]
    fn clients_share_a_rate() {
        assert_eq!(Pace::of(1000, 4).every, Nanos::from_millis(4));
        assert_eq!(Pace::of(0, 4).every, Nanos(0));
    }
}
