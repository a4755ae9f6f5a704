//! Commands of product `model`: the hardware model, published evaluations on it, the planner, the placer, sweeps.

use clap::Subcommand;
use plan::model::Model;
use plan::model::repro::Repro;
use plan::placer::PlaceArgs;
use plan::planner::Plan;
use plan::sweep::Sweep;
use std::error::Error;

#[derive(Subcommand)]
pub enum Command {
    Model(Model),
    Place(Box<PlaceArgs>),
    Plan(Box<Plan>),
    Repro(Repro),
    Sweep(Sweep),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Command::Model(model) => model.run(),
            Command::Place(place) => place.run(),
            Command::Plan(plan) => plan.run(),
            Command::Repro(repro) => repro.run(),
            Command::Sweep(sweep) => sweep.run(),
        }
    }
}
