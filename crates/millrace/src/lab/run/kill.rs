//! Who dies when, and who comes back when.

use crate::inc::{IncError, book};
use crate::load::args::duration;
use base::Nanos;
use protocol::coherence::NodeId;
use std::time::Duration;

/// A node and when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Who.
    pub node: NodeId,
    /// Since the beginning.
    pub at: Nanos,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the beginning.
    pub at: Nanos,
    /// To whom.
    pub node: NodeId,
    /// It comes back; else it dies.
    pub lives: bool,
}

impl Kill {
    /// Reads `box:1@2s`.
    pub fn parse(text: &str) -> Result<Kill, String> {
        let (node, at) = text
            .split_once('@')
            .ok_or_else(|| format!("{text:?} says no time; write for example box:1@2s"))?;
        Ok(Kill { node: book::parse(node)?, at: duration(at)?.into() })
    }
}

/// Deaths and returns in order. One who dies while he is dead is not killed again.
///
/// # Errors
/// Somebody is to be killed who is not there.
pub fn schedule(kills: &[Kill], back: Duration, nodes: &[NodeId]) -> Result<Vec<Step>, IncError> {
    let mut steps: Vec<Step> = Vec::new();
    let mut kills = kills.to_vec();
    kills.sort_by_key(|kill| kill.at);
    for Kill { node, at } in kills {
        if !nodes.contains(&node) {
            return Err(IncError::Unknown(node, nodes.to_vec()));
        }
        if steps.iter().any(|step| step.node == node && step.lives && step.at >= at) {
            continue;
        }
        steps.push(Step { at, node, lives: false });
        steps.push(Step { at: at.plus(back.into()), node, lives: true });
    }
    steps.sort_by_key(|step| step.at);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dies_comes_back() {
        let kills: Vec<_> = ["box:2@2s", "home:1@1500ms", "box:2@2.1s"]
            .map(|text| Kill::parse(text).expect("it is one"))
            .into();
        let nodes = [kills[0].node, kills[1].node];
        let steps = schedule(&kills, Duration::from_secs(1), &nodes).expect("all are there");
        let shown: Vec<_> = steps.iter().map(|s| (s.at.0 / 1_000_000, book::name(s.node), s.lives)).collect();
        let step = |at, name: &str, lives| (at, name.to_string(), lives);
        let want = [
            step(1500, "home:1", false),
            step(2000, "box:2", false),
            step(2500, "home:1", true),
            step(3000, "box:2", true),
        ];
        assert_eq!(shown, want);
        let error = schedule(&kills, Duration::ZERO, &nodes[..1]).expect_err("no home").to_string();
        assert!(error.contains("no home:1; it has box:2"), "{error}");
        for bad in ["box:1", "box:1@", "bix:1@1s", "@1s"] {
            assert!(Kill::parse(bad).is_err(), "{bad}");
        }
    }
}
