//! What happens, in words, for traces and reports: short enough to be read by the hundred.

use super::nodes::Numbers;
use base::{Nanos, Picos};
use protocol::coherence::NodeId;
use protocol::coherence::client::{Answer, Call};
use protocol::wire::Version;
use sim::faults::{Plan, Step};
use sim::nodes::Node;
use std::fmt::Write;

/// A moment, in microseconds to the nanosecond.
pub fn moment(at: Picos) -> String {
    format!("{}.{:03} µs", at.0 / 1_000_000, at.0 / 1_000 % 1_000)
}

/// What a client wants.
pub fn call(call: &Call) -> String {
    let mut text = format!("{} {}", call.verb.name(), call.key.escape_ascii());
    // Writing to a string cannot fail.
    if !call.value.is_empty() {
        let _ = write!(text, " \"{}\"", call.value.escape_ascii());
    }
    if call.operand != 0 {
        let _ = write!(text, " by {}", call.operand);
    }
    if call.version != Version(0) {
        let _ = write!(text, " of version {}", call.version);
    }
    if call.life != Nanos::MAX {
        let _ = write!(text, " for {}", call.life);
    }
    if call.no_cache {
        text.push_str(" past boxes");
    }
    text
}

/// What a client was answered.
pub fn answer(answer: &Answer) -> String {
    let mut text = answer.status.name().to_string();
    if !answer.value.is_empty() {
        let _ = write!(text, " \"{}\"", answer.value.escape_ascii());
    }
    if answer.number != 0 {
        let _ = write!(text, " number {}", answer.number);
    }
    if answer.version != Version(0) {
        let _ = write!(text, " version {}", answer.version);
    }
    if answer.from_box {
        text.push_str(" from a box");
    }
    text
}

/// Who sent something.
pub fn sender(names: &Numbers, id: NodeId) -> String {
    names.node_of(id).map_or_else(|| format!("{id:?}"), |node| names.name(node))
}

/// What the plan does now, to the first `count` nodes, of which these are the names.
pub fn step(name: impl Fn(Node) -> String, count: u32, plan: &Plan, step: Step) -> String {
    let fault = |number: u32| plan.0.get(number as usize).map_or(String::new(), |fault| fault.to_string());
    let name = |node| if node < count { name(node) } else { format!("node {node}, that is not there,") };
    match step {
        Step::Crash(node) => format!("{} crashes", name(node)),
        Step::Restart(node) => format!("{} starts again", name(node)),
        Step::Begin(number, ..) => format!("begins: {}", fault(number)),
        Step::End(number) => format!("ends: {}", fault(number)),
        Step::Power(nodes) => format!("no power: nodes {nodes}"),
        Step::Trouble(node, trouble) => format!("{}: {} begins", name(node), trouble.name()),
        Step::Relief(node, trouble) => format!("{}: {} ends", name(node), trouble.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::Verb;

    #[test]
    fn they_are_short() {
        assert_eq!(moment(Picos(1_234_567_890)), "1234.567 µs");
        let wanted = Call { life: Nanos(5), ..Call::new(Verb::Set, b"k").value(b"v") };
        assert_eq!(call(&wanted), "SET k \"v\" for 5 ns");
    }
}
