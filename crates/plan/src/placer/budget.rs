//! How many moves a minute may have, whatever they are for.
//!
//! A move is counted when it is decided, also if a register then refuses: a node that refuses everything is asked no more often than one that takes it.
//! Going back counts, too; so that it always can, a move forward leaves room for one.

use std::collections::VecDeque;

/// Over which time moves are counted.
pub const WINDOW_US: u64 = 60_000_000;

/// See the head of the file.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// Moves a minute.
    moves_max: usize,
    /// When the moves of the last minute were, and whether each was to find something out.
    moves: VecDeque<(u64, bool)>,
}

impl Budget {
    /// So many moves a minute, of which these have been made.
    pub(super) fn new(moves_max: usize, made_us: &[u64]) -> Budget {
        Budget { moves_max, moves: made_us.iter().map(|at| (*at, false)).collect() }
    }

    /// So many a minute from now on.
    pub(super) fn set_moves(&mut self, moves_max: usize) {
        self.moves_max = moves_max;
    }

    /// Moves that may still be made now.
    pub(super) fn left(&mut self, now_us: u64) -> usize {
        self.moves.retain(|(at, _)| now_us.saturating_sub(*at) < WINDOW_US);
        self.moves_max.saturating_sub(self.moves.len())
    }

    /// Whether a move forward may be made, with room for going back.
    pub(super) fn has_room(&mut self, now_us: u64) -> bool {
        self.left(now_us) >= self.moves_max.clamp(1, 2)
    }

    /// Whether one to find something out may be made: those have a third of the budget.
    pub(super) fn has_room_to_explore(&mut self, now_us: u64) -> bool {
        self.has_room(now_us)
            && self.moves.iter().filter(|(_, is_try)| *is_try).count() < self.moves_max.div_ceil(3)
    }

    /// One is made.
    pub(super) fn count(&mut self, now_us: u64, is_try: bool) {
        self.moves.push_back((now_us, is_try));
    }

    /// When those of the last minute were made.
    pub(super) fn made_us(&self) -> Vec<u64> {
        self.moves.iter().map(|(at, _)| *at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_its_moves_and_there_is_room_to_go_back() {
        let mut budget = Budget::new(4, &[]);
        assert!(budget.has_room_to_explore(0));
        budget.count(0, true);
        budget.count(1, true);
        assert!(budget.has_room(2) && !budget.has_room_to_explore(2), "a third of four is two");
        budget.count(2, false);
        assert!((budget.left(3), budget.has_room(3)) == (1, false), "the last is for going back");
        assert_eq!((budget.left(WINDOW_US), budget.made_us()), (2, vec![1, 2]));
        assert!(!Budget::new(0, &[]).has_room(0) && Budget::new(1, &[]).has_room(0));
        assert_eq!(Budget::new(3, &[5, 6, 7]).left(8), 0);
    }
}
