//! Commands of product `lab`: what is done to the servers, and must hold.

use super::Failure;
use clap::Subcommand;
use prove::check::Check;
use prove::demo::Demo;
use prove::demo::tour::Tour;
use prove::lab::Lab;
use prove::sim::Sim;
use prove::soak::Soak;

#[derive(Subcommand)]
pub enum Command {
    Demo(Demo),
    Tour(Tour),
    Check(Check),
    Sim(Box<Sim>),
    Lab(Lab),
    Soak(Soak),
}

impl Command {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Command::Demo(demo) => demo.run()?,
            Command::Tour(tour) => tour.run()?,
            Command::Check(check) => {
                check.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() })?
            }
            Command::Sim(sim) => sim.run()?,
            Command::Lab(lab) => lab.run().map_err(|e| Failure { code: e.exit_code(), error: e.into() })?,
            Command::Soak(soak) => soak.run()?,
        }
        Ok(())
    }
}
