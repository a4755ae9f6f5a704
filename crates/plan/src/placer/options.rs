//! What an operator says of how services may be moved: the limit, budgets, times, and the policy.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Predictions, corrected by what came.
    Model,
    /// The published guideline: the fastest place until it is full, then the next.
    Greedy,
    /// Nobody: it stays as it is.
    Leave,
    /// These registers of services, by full names, with these values.
    Fixed(BTreeMap<String, String>),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Model => f.write_str("model"),
            Policy::Greedy => f.write_str("greedy"),
            Policy::Leave => f.write_str("leave"),
            Policy::Fixed(values) => {
                f.write_str("fixed:")?;
                values.iter().enumerate().try_for_each(|(n, (name, value))| {
                    write!(f, "{}{name}={value}", if n > 0 { "," } else { "" })
                })
            }
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let wrong = || {
            format!(
                "{text:?} is no policy: there are model, greedy, leave, and fixed:REGISTER=VALUE[,...], for example \
                 fixed:cache.engine.mode=dedicated"
            )
        };
        match text {
            "model" => Ok(Policy::Model),
            "greedy" => Ok(Policy::Greedy),
            "leave" => Ok(Policy::Leave),
            _ => {
                let list = text.strip_prefix("fixed:").filter(|list| !list.is_empty()).ok_or_else(wrong)?;
                let one = |pair: &str| {
                    let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
                    Ok((name.trim().to_owned(), value.trim().to_owned()))
                };
                list.split(',').map(one).collect::<Result<_, String>>().map(Policy::Fixed)
            }
        }
    }
}

/// See the head of the file. Times in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Who decides.
    pub policy: Policy,
    /// The 99th percentile that requests are to keep, in nanoseconds.
    pub p99_max_ns: Option<f64>,
    /// Moves a minute, of all services together.
    pub moves_per_minute: u32,
    /// A move must be better by this share, beyond what predictions may be off.
    pub hysteresis: f64,
    /// A service that was moved stays for this long, unless it goes back or its load changes.
    pub dwell_us: u64,
    /// What comes this soon after a move does not count.
    pub settle_us: u64,
    /// Then a move is judged by what comes for this long.
    pub judge_us: u64,
    /// What is older is not gone by.
    pub stale_us: u64,
    /// What was worse than expected is not tried again for this long; the next time for twice as long.
    pub bar_us: u64,
    /// A service whose registers somebody else set is left alone for this long.
    pub hands_off_us: u64,
    /// Whether choices may be tried of which too little is known.
    pub explores: bool,
    /// Decisions are made and not obeyed.
    pub is_dry_run: bool,
    /// Whether memory may go from one cache to another.
    #[serde(default)]
    pub moves_memory: bool,
    /// What a miss of a service costs where one of another costs 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub miss_costs: BTreeMap<String, f64>,
    /// Of these services only; of all, if there are none.
    pub services: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: Policy::Model,
            p99_max_ns: None,
            moves_per_minute: 12,
            hysteresis: 0.1,
            dwell_us: 5_000_000,
            settle_us: 500_000,
            judge_us: 1_500_000,
            stale_us: 2_000_000,
            bar_us: 30_000_000,
            hands_off_us: 60_000_000,
            explores: true,
            is_dry_run: false,
            moves_memory: true,
            miss_costs: BTreeMap::new(),
            services: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_shown() {
        for text in ["model", "greedy", "leave", "fixed:cache.engine.mode=dedicated,demo.place.handlers=edge"]
        {
            assert_eq!(text.parse::<Policy>().expect("a policy").to_string(), text);
        }
        for wrong in ["", "best", "fixed", "fixed:", "fixed:engine.mode"] {
            assert!(
                wrong.parse::<Policy>().is_err_and(|why| why.contains("model, greedy, leave")),
                "{wrong}"
            );
        }
    }
}
