//! Operations, and what the clock does because of them, as entries for the search.
//!
//! Positions: event number k is at 2 k + 1, so that what the clock does has the even ones between.

use super::{Kv, Rules};
use crate::history::{self, History};
use crate::kv::{Act, Op, Ret, Status};
use crate::linear::Entry;
use base::Picos;

/// The times of a history's events.
pub(super) struct Windows<'a> {
    events: &'a [history::Event<Op, Ret>],
}

impl<'a> Windows<'a> {
    pub(super) fn of(history: &'a History<Op, Ret>) -> Windows<'a> {
        Windows { events: history.events() }
    }

    /// The operations of one key, by their calls, and behind them the deadlines that they set.
    pub(super) fn entries(&self, operations: &[Kv<'_>], rules: &Rules) -> Vec<Entry<Act, Ret>> {
        let mut entries: Vec<Entry<Act, Ret>> = (0u32..).zip(operations).map(|(i, o)| entry(i, o)).collect();
        for (number, operation) in (0u32..).zip(operations) {
            let (after_it, act) = match operation.op {
                Op::Flush { delay: Some(delay) } => (*delay, Act::Wipe),
                op => match op.ttl() {
                    Some(ttl) => (ttl, Act::Expire(number)),
                    None => continue,
                },
            };
            let was_done = operation.returned.is_none_or(|returned| returned.2.status == Status::Ok);
            if was_done {
                entries.push(self.clock_entry(operation, number, after_it, act, rules));
            }
        }
        entries
    }

    fn clock_entry(
        &self,
        cause: &Kv<'_>,
        number: u32,
        after_it: Picos,
        op: Act,
        rules: &Rules,
    ) -> Entry<Act, Ret> {
        let earliest = Picos(cause.called.0.plus(after_it).0.saturating_sub(rules.early.0));
        let latest = cause.returned.map(|returned| returned.0.plus(after_it).plus(rules.late));
        let called = 2 * self.events.partition_point(|event| event.at < earliest) as u64;
        let passed = latest.map(|latest| self.events.partition_point(|event| event.at <= latest));
        // A window that the history ends within is open.
        let returned = passed.filter(|&passed| passed < self.events.len()).map(|passed| 2 * passed as u64);
        Entry { op, ret: None, called, returned, after: Some(number as usize) }
    }
}

fn entry(number: u32, operation: &Kv<'_>) -> Entry<Act, Ret> {
    let position = |place: usize| 2 * place as u64 + 1;
    Entry {
        op: Act::Client(operation.op.clone(), number),
        ret: operation.returned.map(|returned| returned.2.clone()),
        called: position(operation.called.1),
        returned: operation.returned.map(|returned| position(returned.1)),
        after: None,
    }
}
