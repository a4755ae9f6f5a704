//! `millrace rec`.

use clap::{Args, Subcommand};

/// Recommendation models: serve and measure them, plan memoised reduction, prepare query logs
#[derive(Args, Debug)]
pub struct Rec {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(Box<serve::rec::Serve>),
    Bench(Box<bench::rec::Bench>),
    #[command(flatten)]
    Tools(plan::rec::Tools),
}

impl Rec {
    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, as a sentence.
    pub fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        match &self.command {
            Command::Serve(serve) => serve.run().map_err(Into::into),
            Command::Bench(bench) => bench.run().map_err(Into::into),
            Command::Tools(tool) => tool.run(),
        }
    }
}
