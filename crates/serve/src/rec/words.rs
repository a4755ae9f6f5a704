//! The fabric's messages (`recommend.proto`) to queries, and answers to messages.

use super::counters::{Counters, Stages};
use super::refusal::Refusal;
use crate::rec::proto::millrace as proto;
use codec::memory::OutOfMemory;
use proto::{DescribeReplyMut, InferReplyMut, InferRequestView, StagesView};
use rec::request::Served;
use rec::request::{Builder, Queries};
use rec::request::{What, Wrong};

/// The queries of a request, of which there may be `most`.
///
/// # Errors
/// What is wrong with which tensor.
pub fn queries(request: InferRequestView<'_>, served: &Served, most: usize) -> Result<Queries, Refusal> {
    let mut builder = Builder::new(served, most);
    let people = request.queries();
    if !people.is_empty() {
        let others = [("dense", request.dense().is_empty()), ("bags", request.bags().is_empty())];
        if let Some((name, _)) = others.into_iter().find(|(_, is_empty)| !is_empty) {
            return Err(Wrong::of(name, What::Twice).into());
        }
        builder.features(Exact(people.iter().map(|query| query.features().iter()), people.len()))?;
        let dense: Vec<f32> = people.iter().flat_map(|query| query.dense()).copied().collect();
        let width = served.model().dense();
        if let Some(at) = people.iter().position(|query| query.dense().len() != width) {
            let have = people.get(at).map_or(0, |query| query.dense().len());
            let want = format!("{width} dense features in each query");
            return Err(
                Wrong::of("dense", What::Shape { want, have: format!("{have} in query {at}") }).into()
            );
        }
        if width > 0 {
            builder.dense(dense.into_iter())?;
        }
        return Ok(builder.finish()?);
    }
    if request.batch() > 0 {
        builder.len(request.batch() as usize, "batch")?;
    }
    if !request.dense().is_empty() {
        builder.dense(request.dense().iter().copied())?;
    }
    for bags in request.bags() {
        let mut weights = bags.weights().iter().copied();
        builder.bags(
            bags.table(),
            bags.values().iter().copied(),
            bags.offsets().iter().map(|&offset| i64::from(offset)),
            (weights.len() > 0).then_some(&mut weights),
        )?;
    }
    Ok(builder.finish()?)
}

/// Writes scores.
///
/// # Errors
/// No memory.
pub fn put_scores(
    served: &Served,
    scores: &[f32],
    stages: &Stages,
    to: &mut InferReplyMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let outputs = served.model().outputs();
    to.set_model(&served.name)?;
    to.set_version(&served.version)?;
    to.set_batch((scores.len() / outputs.max(1)) as u32);
    to.set_outputs(outputs as u32);
    to.set_scores(scores)?;
    let mut to = to.stages_mut()?;
    to.set_queue_ns(stages.queue.0);
    to.set_parse_ns(stages.parse.0);
    to.set_preprocess_ns(stages.preprocess.0);
    to.set_wait_ns(stages.wait.0);
    to.set_reduce_ns(stages.reduce.0);
    to.set_mlp_ns(stages.mlp.0);
    to.set_together(stages.together);
    Ok(())
}

/// Reads times.
pub fn take_stages(from: StagesView<'_>) -> Stages {
    use base::Nanos;
    Stages {
        queue: Nanos(from.queue_ns()),
        parse: Nanos(from.parse_ns()),
        preprocess: Nanos(from.preprocess_ns()),
        wait: Nanos(from.wait_ns()),
        reduce: Nanos(from.reduce_ns()),
        mlp: Nanos(from.mlp_ns()),
        together: from.together(),
    }
}

/// Writes what the model takes and the server counted.
///
/// # Errors
/// No memory.
pub fn put_description(
    served: &Served,
    counters: &Counters,
    to: &mut DescribeReplyMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    to.set_name(&served.name)?;
    to.set_version(&served.version)?;
    to.set_generation(served.generation);
    to.set_dense(served.model().dense() as u32);
    to.set_outputs(served.model().outputs() as u32);
    for table in served.model().tables() {
        let mut to = to.push_tables()?;
        to.set_name(&table.name)?;
        to.set_rows(table.rows().into());
        to.set_dim(table.dim() as u32);
        to.set_format(&table.format().to_string())?;
    }
    for (name, value, _) in counters.all() {
        let mut to = to.push_counters()?;
        to.set_name(name)?;
        to.set_value(value);
    }
    Ok(())
}

/// An iterator of known length.
struct Exact<I>(I, usize);

impl<I: Iterator> Iterator for Exact<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.1 = self.1.saturating_sub(1);
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Exact<I> {}
