//! `millrace model`: the hardware model's files, and what its answers rest on.
//!
//! A file per command; platforms are named as `millrace model platforms` lists them, or by the path of a file.

mod answering;
mod audit;
mod diff;
mod evaluation;
mod files;
mod fit;
pub(crate) mod of_file;
mod rank;
pub mod repro;
mod validate;

use crate::host::{CheckHost, ThisHost};
use clap::Subcommand;
use model::Platform;
use model::platform::shipped::SHIPPED;
use model::system::{self, System};
use std::error::Error;
use std::sync::LazyLock;

/// The published systems, each with its experiments: those of the model, and those that run a protocol as well.
pub static SYSTEMS: LazyLock<Vec<System>> = LazyLock::new(|| {
    let experiments = |of: &System| match of.name {
        "incbricks" => of.with_experiments(crate::timed::incbricks::ALL),
        _ => *of,
    };
    system::ALL.iter().map(experiments).collect()
});

/// The hardware model: list platforms, check files, say what answers rest on, fit constants, count them
#[derive(clap::Args, Debug)]
pub struct Model {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Platforms(files::List),
    Check(files::Check),
    Audit(audit::Audit),
    Fit(fit::Fit),
    Rank(rank::Rank),
    Validate(validate::Validate),
    Messages(crate::messages::Messages),
    ThisHost(ThisHost),
    CheckHost(CheckHost),
}

type Failure = Box<dyn Error>;

impl Model {
    /// Does it.
    ///
    /// # Errors
    /// A file that is wrong, with line and reason; a name that there is not.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Platforms(list) => list.run(),
            Command::Check(check) => check.run(),
            Command::Audit(audit) => audit.run(),
            Command::Fit(fit) => fit.run(),
            Command::Rank(rank) => rank.run(),
            Command::Validate(validate) => validate.run(),
            Command::Messages(messages) => messages.run(),
            Command::ThisHost(probe) => probe.run(),
            Command::CheckHost(check) => check.run(),
        }
    }
}

/// A published system by its name.
///
/// # Errors
/// There is none; those that there are.
fn system(name: &str) -> Result<&'static System, Failure> {
    SYSTEMS.iter().find(|system| system.name == name).ok_or_else(|| {
        let known: Vec<_> = SYSTEMS.iter().map(|system| system.name).collect();
        format!("there is no system {name}; there are {}", known.join(", ")).into()
    })
}

/// A shipped platform by its name, or that of a file by its path.
///
/// # Errors
/// There is none, or its file is wrong.
pub fn platform(name: &str) -> Result<Platform, Failure> {
    let (text, file) = platform_text(name)?;
    Ok(Platform::parse(&text, &file)?)
}

/// The text of a platform that is named so, and what its file is called.
///
/// # Errors
/// There is none.
pub(crate) fn platform_text(name: &str) -> Result<(String, String), Failure> {
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Ok((text.to_string(), format!("{name}.toml"))),
        None if std::path::Path::new(name).is_file() => Ok((read(name)?, name.to_owned())),
        None => {
            let known = SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(format!("{name} is neither a file nor a shipped platform; there are {known}").into())
        }
    }
}

fn read(file: &str) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|cause| format!("{file}: {cause}").into())
}
