//! `millrace rec`: recommendation inference (crate `rec`): models served and measured, memo plans made, query logs prepared.
//!
//! | file | what it is |
//! |---|---|
//! | `serve` | edges, preprocessing, engine: a server of one model |
//! | `bench` | load on such a server |
//! | `plan` | a memo plan from a query log; `table`: the table of a model that it is for |
//! | `import` | query logs checked, thinned and split |
//! | `synth` | query logs and models from a seed |
//! | `files` | how these tools read and write |
//! | `recommend.proto` | the fabric's service; `recommend.rs` and `recommend.desc` are made of it by `fabric::build` and committed |
//! | `registers` | what can be tuned of a server |

pub mod bench;
mod files;
mod import;
mod plan;
pub mod registers;
pub mod serve;
mod synth;
mod table;
#[cfg(test)]
mod tests;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("recommend.rs");
}

use clap::{Args, Subcommand};

/// Recommendation models: serve and measure them, plan memoised reduction, prepare query logs
#[derive(Args, Debug)]
pub struct Rec {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(Box<serve::Serve>),
    Bench(Box<bench::Bench>),
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
            Command::Serve(serve) => serve.run().map_err(Into::into),
            Command::Bench(bench) => bench.run().map_err(Into::into),
            Command::Plan(plan) => plan.run(),
            Command::Import(import) => import.run(),
            Command::Synth(synth) => synth.run(),
        }
    }
}
