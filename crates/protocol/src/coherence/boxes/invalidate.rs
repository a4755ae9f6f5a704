//! Invalidations that a box hears, hands on to those below it, and answers.

use super::super::rounds::{Ended, Target};
use super::super::{NodeId, Out, Planted};
use super::Box;
use crate::planted::Bugs;
use crate::wire::{Control, Message, Opcode, Round};
use base::Nanos;

/// Askers that one round of a box remembers.
const MAX_ASKERS: usize = 64;

impl<B: Bugs<Planted>> Box<B> {
    pub(super) fn invalidate(&mut self, now: Nanos, from: NodeId, message: &Message, out: &mut Out) {
        if !matches!(from, NodeId::Home(_) | NodeId::Box(_)) {
            self.stats.dropped += 1;
            return;
        }
        self.stats.invalidations += 1;
        let target = Target::of(message);
        let by = matches!(from, NodeId::Home(_)).then_some(message.header.round);
        self.drop_here(&target, by);
        self.give_back_all(now, &target, out);
        if now < self.answers_from {
            return;
        }
        let round = message.header.round;
        if let Some(askers) = self.rounds.purpose_mut(&target) {
            if !askers.contains(&(from, round)) && askers.len() < MAX_ASKERS {
                askers.push((from, round));
            }
            return;
        }
        let layout = self.table.layout();
        let children = match target.hash() {
            Some(hash) => self.children.of(hash, now),
            None => self.children.of_where(now, |hash| layout.home_of(hash) == target.home),
        };
        if children.0.is_empty() || self.planted.has(Planted::AckBeforeChildren) {
            self.answer_without_owned(target.clone(), from, round, out);
        }
        if !children.0.is_empty() && self.rounds.has_room() {
            self.rounds.begin(now, target, children, vec![(from, round)], out);
        }
    }

    /// Removes copies and kills tokens; `by` is the round of the home that wants it.
    fn drop_here(&mut self, target: &Target, by: Option<Round>) {
        let (removes, kills) = (Planted::AckWithoutRemoving, Planted::TokenSurvives);
        let (removes, kills) = (!self.planted.has(removes), !self.planted.has(kills));
        match target.hash() {
            Some(hash) => {
                if removes {
                    self.copies.drop_hash(hash);
                }
                if kills {
                    self.fills.kill(hash, by);
                }
            }
            None => {
                if removes {
                    let layout = self.table.layout();
                    self.copies.drop_where(|hash| layout.home_of(hash) == target.home);
                }
                if kills {
                    self.fills.kill_all();
                }
            }
        }
    }

    pub(super) fn hear_answer(&mut self, from: NodeId, message: &Message, out: &mut Out) {
        let ended = match from {
            NodeId::Box(id) => self.rounds.answered(message.header.round, id),
            _ => None,
        };
        if let Some(ended) = ended {
            self.round_is_over(ended, out);
        }
    }

    pub(super) fn round_is_over(&mut self, ended: Ended<Vec<(NodeId, Round)>>, out: &mut Out) {
        match ended.target.hash() {
            Some(hash) => self.children.clear(hash),
            None => {
                let layout = self.table.layout();
                self.children.clear_where(|hash| layout.home_of(hash) == ended.target.home);
            }
        }
        for (asker, round) in ended.purpose {
            self.answer_without_owned(ended.target.clone(), asker, round, out);
        }
    }
}

pub(super) fn answer(target: &Target, round: Round) -> Message {
    let mut message = Message::new(Opcode::Control(Control::InvalidateAck), &target.key);
    message.header.home = target.home;
    message.header.round = round;
    message
}
