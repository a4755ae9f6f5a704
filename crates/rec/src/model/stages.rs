//! Where a batch's time goes. A clock is read only here: [`Model::infer`] costs nothing for it.

use super::{Batch, InputError, Model, Scratch, Stage};
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
        let mut began = clock.now();
        self.infer_staged(batch, tuning, scratch, scores, |stage| {
            let now = clock.now();
            let spent = match stage {
                Stage::Reduce => &mut stages.reduce,
                Stage::Bottom => &mut stages.bottom,
                Stage::Interact => &mut stages.interact,
                Stage::Top => &mut stages.top,
            };
            spent.0 += now.since(began).0;
            began = now;
        })
    }
}
