//! Where a batch's time goes. A clock is read only here: [`super::Model::infer`] costs nothing for it.

use super::Stage;
use base::{Clock, Nanos};

/// Time of each stage; a [`Stages::timer`] adds to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Rows of all tables, and checking the batch.
    pub reduce: Nanos,
    /// The bottom MLP.
    pub bottom: Nanos,
    /// Interaction.
    pub interact: Nanos,
    /// The top MLP.
    pub top: Nanos,
}

impl Stages {
    /// All of them together.
    pub fn total(&self) -> Nanos {
        Nanos(self.reduce.0 + self.bottom.0 + self.interact.0 + self.top.0)
    }
}

impl Stages {
    /// What adds each stage's time by `clock`, from now on: for [`super::Model::infer_staged`]. Cost: five readings of the clock a batch.
    pub fn timer(&mut self, clock: Clock) -> impl FnMut(Stage) + '_ {
        let mut began = clock.now();
        move |stage| {
            let now = clock.now();
            let spent = match stage {
                Stage::Reduce => &mut self.reduce,
                Stage::Bottom => &mut self.bottom,
                Stage::Interact => &mut self.interact,
                Stage::Top => &mut self.top,
            };
            spent.0 += now.since(began).0;
            began = now;
        }
    }
}
