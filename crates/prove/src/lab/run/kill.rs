//! Who dies when, and who comes back when.

use crate::lab::{LabError, place};
use base::Nanos;
use protocol::coherence::NodeId;
use serve::process::parse::duration;
use std::fmt;
use std::time::Duration;

/// What can die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A box, home, controller or client.
    Node(NodeId),
    /// The program of a `--link`, counted from 1.
    Link(usize),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Node(node) => f.write_str(&place::name(*node)),
            Role::Link(number) => write!(f, "link:{number}"),
        }
    }
}

/// A role and when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Who.
    pub role: Role,
    /// Since the beginning.
    pub at: Nanos,
}

/// What happens to a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the beginning.
    pub at: Nanos,
    /// To whom.
    pub role: Role,
    /// It comes back; else it dies.
    pub lives: bool,
}

impl Kill {
    /// Reads `box:1@2s`, `client:1@2s`, `link:1@2s`.
    pub fn parse(text: &str) -> Result<Kill, String> {
        let (who, at) = text
            .split_once('@')
            .ok_or_else(|| format!("{text:?} says no time; write for example box:1@2s"))?;
        let role = match who.strip_prefix("link:") {
            Some(number) => {
                let number = number.parse().ok().filter(|number| *number > 0);
                Role::Link(number.ok_or_else(|| format!("{who:?} is no link; the first --link is link:1"))?)
            }
            None => Role::Node(place::parse(who)?),
        };
        Ok(Kill { role, at: duration(at)?.into() })
    }
}

/// Deaths and returns in order. One who dies while he is dead is not killed again.
///
/// # Errors
/// Somebody is to be killed who is not there.
pub fn schedule(kills: &[Kill], back: Duration, roles: &[Role]) -> Result<Vec<Step>, LabError> {
    let mut steps: Vec<Step> = Vec::new();
    let mut kills = kills.to_vec();
    kills.sort_by_key(|kill| kill.at);
    for Kill { role, at } in kills {
        if !roles.contains(&role) {
            return Err(LabError::NoRole(role.to_string(), roles.iter().map(Role::to_string).collect()));
        }
        if steps.iter().any(|step| step.role == role && step.lives && step.at >= at) {
            continue;
        }
        steps.push(Step { at, role, lives: false });
        steps.push(Step { at: at.plus(back.into()), role, lives: true });
    }
    steps.sort_by_key(|step| step.at);
    Ok(steps)
}

/// One of each kind, one after the other, with time to recover: a ToR, a root, a home, a controller, a client, a link program, as far as
/// there are such. Also when the run may end.
pub fn all_roles(roles: &[Role], tor: NodeId, back: Duration, lease: Nanos) -> (Vec<Kill>, Nanos) {
    const START: Nanos = Nanos::from_secs(1);
    const REST: Nanos = Nanos::from_millis(500);
    // Boxes and homes wait for the next second of the clock: their lives are numbered by it.
    const NUMBERED: Nanos = Nanos::from_secs(1);
    let first = |is: &dyn Fn(&NodeId) -> bool| {
        roles.iter().find(|role| matches!(role, Role::Node(node) if is(node))).copied()
    };
    let last_box = roles.iter().rev().find(|role| matches!(role, Role::Node(NodeId::Box(_)))).copied();
    let kinds = [
        Some(Role::Node(tor)),
        last_box.filter(|root| *root != Role::Node(tor)),
        first(&|node| matches!(node, NodeId::Home(_))),
        first(&|node| matches!(node, NodeId::Controller(_))),
        first(&|node| matches!(node, NodeId::Client(_))),
        roles.iter().find(|role| matches!(role, Role::Link(_))).copied(),
    ];
    let mut at = START;
    let mut kills = Vec::new();
    for role in kinds.into_iter().flatten() {
        kills.push(Kill { role, at });
        let is_numbered = matches!(role, Role::Node(NodeId::Box(_) | NodeId::Home(_)));
        let numbered = if is_numbered { NUMBERED } else { Nanos(0) };
        at = at.plus(back.into()).plus(numbered).plus(lease).plus(lease).plus(REST);
    }
    (kills, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dies_comes_back() {
        let kills: Vec<_> = ["box:2@2s", "home:1@1500ms", "box:2@2.1s", "link:1@4s"]
            .map(|text| Kill::parse(text).expect("it is one"))
            .into();
        let roles = [kills[0].role, kills[1].role, kills[3].role];
        let steps = schedule(&kills, Duration::from_secs(1), &roles).expect("all are there");
        let shown: Vec<_> = steps.iter().map(|s| (s.at.0 / 1_000_000, s.role.to_string(), s.lives)).collect();
        let step = |at, name: &str, lives| (at, name.to_string(), lives);
        let want = [
            step(1500, "home:1", false),
            step(2000, "box:2", false),
            step(2500, "home:1", true),
            step(3000, "box:2", true),
            step(4000, "link:1", false),
            step(5000, "link:1", true),
        ];
        assert_eq!(shown, want);
        let error = schedule(&kills, Duration::ZERO, &roles[..1]).expect_err("no home").to_string();
        assert!(error.contains("no home:1") && error.contains("box:2"), "{error}");
        for bad in ["box:1", "box:1@", "bix:1@1s", "@1s", "link:0@1s", "link:x@1s"] {
            assert!(Kill::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_kind_dies_once() {
        let names = ["client:1", "client:2", "box:1", "box:2", "box:3", "home:1", "controller:0"];
        let mut roles: Vec<Role> =
            names.iter().map(|name| Role::Node(place::parse(name).expect("a name"))).collect();
        roles.push(Role::Link(1));
        let Role::Node(tor) = roles[2] else { unreachable!("it is a node") };
        let lease = Nanos::from_millis(500);
        let (kills, end) = all_roles(&roles, tor, Duration::from_millis(500), lease);
        let who: Vec<_> = kills.iter().map(|kill| kill.role.to_string()).collect();
        assert_eq!(who, ["box:1", "box:3", "home:1", "controller:0", "client:1", "link:1"]);
        assert_eq!((kills[1].at, end), (Nanos::from_secs(4), Nanos::from_secs(16)));
        assert!(schedule(&kills, Duration::ZERO, &roles).is_ok());
    }
}
