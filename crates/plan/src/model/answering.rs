//! How the rows that results name answer to numbers, for commands: which experiments, the runs of all moves on threads.

use super::Failure;
use crate::parallel;
use model::Platforms;
use model::experiment::published::Results;
use model::experiment::response::{Based, Job, Parameter, Response, jobs, logarithms, places};
use model::experiment::{Experiment, Rows};
use model::platform::{LoadError, NumberPlace};
use model::system::System;
use serve::process::panics::caught;

/// Events of an experiment, about, and by how much spans may be shorter for that.
pub const EVENTS: (u64, u64) = (2_000_000, 4);
/// … with `--quick`.
pub const QUICK_EVENTS: (u64, u64) = (300_000, 16);

/// Experiments as they are, and what numbers do to them.
pub struct Answering {
    /// Those whose rows results name.
    pub based: Vec<Based>,
    /// Their rows at the places that results name.
    pub response: Response,
}

impl Answering {
    /// Runs all that it takes; without moves of numbers that are not free if `free_only`.
    pub fn of(
        systems: &[&System],
        (results, parameters): (&Results, &[Parameter]),
        events: (u64, u64),
        (free_only, seed): (bool, u64),
    ) -> Result<Answering, Failure> {
        let named = |of: &&Experiment| results.all.iter().any(|result| result.experiments().contains(&of.id));
        let all = systems.iter().flat_map(|system| system.experiments);
        let experiments: Vec<Experiment> = all.filter(named).copied().collect();
        let names: Vec<_> = systems.iter().map(|system| system.name).collect();
        let names = names.join(", ");
        let based = parallel::map(experiments, &format!("{names}: as it is"), |of| {
            Based::run(of, &Platforms::shipped(), seed, events)
        });
        let based = based.into_iter().collect::<Result<Vec<_>, _>>()?;
        let places = places(results);
        let all = jobs(&based, parameters, free_only);
        let moved = parallel::map(all, &format!("{names}: each number moved"), |job: Job| {
            let parameter = &parameters[job.parameter];
            let at = [(parameter.place.clone(), parameter.value(job.position))];
            run(&based[job.of], &at).map(|rows| (job, logarithms(&places, &rows)))
        });
        let moved = moved.into_iter().collect::<Result<Vec<_>, _>>()?;
        let base = based
            .iter()
            .map(|of| logarithms(&places, &of.rows))
            .reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| if a.is_nan() { b } else { a }).collect());
        let response = Response::of(parameters, base.unwrap_or_default(), &moved);
        Ok(Answering { based, response })
    }
}

/// What an experiment says with these values.
pub fn run(of: &Based, values: &[(NumberPlace, f64)]) -> Result<Rows, String> {
    let with =
        || values.iter().map(|(place, value)| format!("{place} = {value}")).collect::<Vec<_>>().join(", ");
    match caught(|| of.at(&Platforms::shipped(), values)) {
        Ok(rows) => rows.map_err(|error: LoadError| format!("{}: {error}", of.id())),
        Err(panic) => Err(format!("{} cannot run with {}: {panic}", of.id(), with())),
    }
}
