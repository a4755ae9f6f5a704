//! `millrace rec`: recommendation inference (crate `rec`), its tools.
//!
//! | file | what it is |
//! |---|---|
//! | `plan` | a memo plan from a query log |
//! | `import` | query logs checked, thinned and split |
//! | `synth` | query logs from a seed |
//! | `table` | the table of a model that a plan is for |
//! | `files` | how these read and write |

mod files;
mod import;
mod plan;
mod synth;
mod table;

use clap::{Args, Subcommand};

/// Recommendation models: plan memoised reduction, prepare query logs
#[derive(Args, Debug)]
pub struct Rec {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Plan(plan::Plan),
    Import(import::Import),
    Synth(synth::Synth),
}

impl Rec {
    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, as a sentence.
    pub fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        match &self.command {
            Command::Plan(plan) => plan.run(),
            Command::Import(import) => import.run(),
            Command::Synth(synth) => synth.run(),
        }
    }
}

#[cfg(test)]
mod tests;
