//! Where a batch's time goes. A clock is read only here: [`Model::infer`] costs nothing for it.

use super::{Batch, InputError, Model, Scratch, Stage};
use crate::memo::Names;
use crate::reduce::Tuning;
use base::{Clock, Nanos};

/// Time of each stage; [`Model::infer_timed`] adds to it.
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
    /// What adds each stage's time by `clock`, from now on: for [`Model::infer_staged`].
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

impl Model {
    /// As [`Model::infer`], with each stage's time by `clock` added to `stages`. Cost: five readings of the clock.
    ///
    /// # Errors
    /// As [`Model::check`].
    pub fn infer_timed(
        &self,
        batch: &Batch<'_>,
        tuning: Tuning,
        scratch: &mut Scratch,
        scores: &mut Vec<f32>,
        clock: Clock,
        stages: &mut Stages,
    ) -> Result<(), InputError> {
        self.infer_staged(batch, Names::Table, tuning, scratch, scores, stages.timer(clock))
    }
}
