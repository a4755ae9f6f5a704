//! Mistakes that can be made on purpose, one at a time, to see that the checker of `tests` finds them.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Moves are not counted.
    BudgetNotCounted,
    /// What is too old is gone by.
    StaleUsed,
    /// Any gain is worth a move, at once.
    HysteresisOff,
    /// A place that is full takes more.
    FullUsed,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 4] =
        [Planted::BudgetNotCounted, Planted::StaleUsed, Planted::HysteresisOff, Planted::FullUsed];
}
