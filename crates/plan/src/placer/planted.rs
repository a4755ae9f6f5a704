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
    /// A cache takes twice what another gave.
    SumGrows,
    /// A cache takes before another gives.
    GrowsFirst,
    /// A cache gives half of what it has.
    StepUnbounded,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 7] = [
        Planted::BudgetNotCounted,
        Planted::StaleUsed,
        Planted::HysteresisOff,
        Planted::FullUsed,
        Planted::SumGrows,
        Planted::GrowsFirst,
        Planted::StepUnbounded,
    ];
}
