//! Commands of product `model`: the hardware model, published evaluations on it, the planner, the placer, sweeps.

use super::{Failure, printed};
use clap::Subcommand;
use plan::model::Model;
use plan::model::repro::Repro;
use plan::placer::PlaceArgs;
use plan::planner::Plan;
use plan::sweep::Sweep;
use std::process::ExitCode;

#[derive(Subcommand)]
pub enum Command {
    Model(Model),
    Place(Box<PlaceArgs>),
    Plan(Box<Plan>),
    Repro(Repro),
    Sweep(Sweep),
}

impl Command {
    /// Runs it; what it came to is its exit status.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Model(model) => printed(model.run())?,
            Command::Place(place) => printed(place.run())?,
            Command::Plan(plan) => printed(plan.run())?,
            Command::Repro(repro) => {
                let code = repro.status_of_failure();
                let failed =
                    |Failure { code: its, error }| Failure { code: if its == 1 { code } else { its }, error };
                return printed(repro.run()).map(ExitCode::from).map_err(failed);
            }
            Command::Sweep(sweep) => printed(sweep.run())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
