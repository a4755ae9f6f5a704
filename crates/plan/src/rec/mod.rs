//! Recommendation: the tools that work on files.

mod files;
mod import;
mod plan;
mod synth;
mod table;
#[cfg(test)]
mod tests;

use clap::Subcommand;

// The commands of `millrace rec` that work on query logs and models in files.
#[derive(Subcommand, Debug)]
#[allow(missing_docs)] // a comment would be the command's help
pub enum Tools {
    Plan(plan::Plan),
    Import(import::Import),
    Synth(synth::Synth),
}

impl Tools {
    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, as a sentence.
    pub fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        match self {
            Tools::Plan(plan) => plan.run(),
            Tools::Import(import) => import.run(),
            Tools::Synth(synth) => synth.run(),
        }
    }
}
