//! Why nobody serves, and why a reset is refused: what an operator reads.

use crate::chain::{Epoch, Gap, ReplicaId};
use base::Nanos;
use std::fmt;

/// Why nobody serves, for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The chain is new. It begins when these say that they live, too.
    Begin(Vec<ReplicaId>),
    /// The registry has no configuration, but this replica has entries, or acts by one.
    RegistryLost(ReplicaId),
    /// This replica has seen a configuration that is later than the registry's.
    RegistryBehind(ReplicaId, Epoch),
    /// These serve, and none of them says anything.
    Silent(Vec<ReplicaId>),
    /// Those that served were all down. These are not back, and are waited for a while.
    Gather(Vec<ReplicaId>),
    /// Those that served were all down, and none that is back has everything. These are not back; of those that are, these logs lack entries.
    NoneWhole(Vec<ReplicaId>, Vec<(ReplicaId, Gap)>),
}

/// Why an operator's reset is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetRefused {
    /// It does not lead, or is making another configuration durable.
    NotNow,
    /// Leases that an earlier controller granted may run until then.
    TooEarly(Nanos),
    /// This one serves, or may come back and serve: nothing needs a reset.
    Serves(ReplicaId),
    /// The replica that is to serve, or any, has not said that it lives.
    NobodyThere,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Begin(missing) => {
                let them = if missing.len() == 1 { "it" } else { "them" };
                write!(
                    f,
                    "the chain is new and begins when {} can be heard, too: start {them}",
                    list(missing)
                )
            }
            Waiting::RegistryLost(ReplicaId(id)) => write!(
                f,
                "the registry has no configuration of this chain, but replica {id} has data of it: give the controller the \
                 registry that the chain had, or `millrace chain reset`"
            ),
            Waiting::RegistryBehind(ReplicaId(id), Epoch(epoch)) => write!(
                f,
                "replica {id} knows epoch {epoch}, which the registry does not: give the controller the newest registry, or \
                 `millrace chain reset`"
            ),
            Waiting::Silent(serving) => {
                write!(f, "nothing is heard of {}, and nobody else has everything: start one", list(serving))
            }
            Waiting::Gather(missing) => write!(f, "all were down; waiting a moment for {}", list(missing)),
            Waiting::NoneWhole(away, gaps) => {
                f.write_str(
                    "all that served were down, and none that is back has everything that was acknowledged",
                )?;
                write_gaps(f, gaps)?;
                if !away.is_empty() {
                    write!(f, ": start {}; if that cannot be, choose", list(away))?;
                } else {
                    f.write_str(". Choose")?;
                }
                f.write_str(
                    ": put the disks back as they were, or `millrace chain reset --accept-data-loss` goes on with what is left",
                )
            }
        }
    }
}

impl fmt::Display for ResetRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResetRefused::NotNow => f.write_str("another configuration is being made"),
            ResetRefused::TooEarly(_) => f.write_str("leases of an earlier controller may still run"),
            ResetRefused::Serves(ReplicaId(id)) => {
                write!(f, "replica {id} serves, or may come back as it was: nothing needs a reset")
            }
            ResetRefused::NobodyThere => f.write_str("no replica that could serve can be heard"),
        }
    }
}

impl std::error::Error for ResetRefused {}

/// Which transactions no log has, if that is known.
fn write_gaps(f: &mut fmt::Formatter<'_>, gaps: &[(ReplicaId, Gap)]) -> fmt::Result {
    if gaps.is_empty() {
        return f.write_str(
            " (their logs were made anew, or what they are kept on does not survive the end of a process)",
        );
    }
    for (number, (ReplicaId(id), Gap { first, last })) in gaps.iter().enumerate() {
        let begin = if number == 0 { ": of" } else { ", and" };
        let them = if first == last {
            format!("transaction {}", first.0)
        } else {
            format!("transactions {} to {}", first.0, last.0)
        };
        write!(f, "{begin} {them} the log of replica {id} lacks some or all")?;
    }
    Ok(())
}

fn list(replicas: &[ReplicaId]) -> String {
    let numbers: Vec<_> = replicas.iter().map(|replica| replica.0.to_string()).collect();
    match &numbers[..] {
        [one] => format!("replica {one}"),
        _ => format!("replicas {}", numbers.join(", ")),
    }
}
