//! All machines together: scenarios, one for each gap that the published protocol leaves, for each failure, and for what can come between
//! a key and its owner; schedules from a seed; and every order of a small world.

/// What a scenario expects: else it is a violation, as what the checker finds is.
macro_rules! expect {
    ($w:ident, $what:literal, $is:expr, $should:expr) => {
        let is = $is;
        $w.expect($what, is, $should)
    };
}

/// Each scenario as a test, without any mistake.
macro_rules! scenarios {
    ($($name:ident)*) => {
        mod alone {
            $(#[test]
            fn $name() {
                super::$name(None).assert_well();
            })*
        }
    };
}

mod draining;
mod exhaustive;
mod failures;
mod gaps;
mod guarded;
mod moving;
mod owned;
mod planted;
mod ranges;
mod schedules;
mod shards;
mod slow;
mod tickets;
mod transactions;
mod world;
