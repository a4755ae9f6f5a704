//! What shells and `man` know of the command line: completions, and manual pages of all commands. Both are made from the same description as `--help`.

use clap::Command;
use clap_complete::Shell;
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Print completions for a shell.
///
/// bash: `millrace completions bash > /usr/share/bash-completion/completions/millrace`; zsh: into a folder of $fpath, as `_millrace`;
/// fish: `~/.config/fish/completions/millrace.fish`.
#[derive(clap::Args, Debug)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints them.
    ///
    /// # Errors
    /// Standard output is gone.
    pub fn run(&self, mut of: Command) -> io::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut of, "millrace", &mut script);
        io::stdout().lock().write_all(&script)
    }
}

/// Write manual pages: `millrace.1`, and one for each command, `millrace-up.1`, `millrace-rpc-call.1`.
///
/// `millrace man --dir /usr/local/share/man/man1`; without a folder the page of the whole is printed: `millrace man | man -l -`.
#[derive(clap::Args, Debug)]
pub struct Man {
    /// Where to write them: it is made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints the page of the whole, or writes all.
    ///
    /// # Errors
    /// Standard output is gone, or the folder cannot be written. A sentence.
    pub fn run(&self, mut of: Command) -> Result<(), Box<dyn Error>> {
        of.build();
        let Some(folder) = &self.dir else {
            return Ok(io::stdout().lock().write_all(&page(of)?)?);
        };
        let failed = |path: &Path, cause: io::Error| format!("cannot write {}: {cause}", path.display());
        fs::create_dir_all(folder).map_err(|cause| failed(folder, cause))?;
        for command in all(of) {
            let path = folder.join(format!("{}.1", name(&command)));
            fs::write(&path, page(command)?).map_err(|cause| failed(&path, cause))?;
        }
        Ok(())
    }
}

/// Whether one of its own, rather than clap's `help`.
fn is_ours(command: &&Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}

/// `millrace-rpc-call`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// A command, and all below it.
fn all(command: Command) -> Vec<Command> {
    let below: Vec<Command> = command.get_subcommands().filter(is_ours).cloned().flat_map(all).collect();
    [vec![command], below].concat()
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

// Of commands of these.
#[cfg(all(test, feature = "kv", feature = "rpc"))]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let mut cli = Cli::command();
        cli.build();
        let pages: Vec<(String, String)> = all(cli)
            .into_iter()
            .map(|of| (name(&of), String::from_utf8(page(of).expect("memory")).expect("text")))
            .collect();
        let text = |of: &str| &pages.iter().find(|(name, _)| name == of).expect(of).1;
        assert!(pages.len() > 60, "{}", pages.len());
        assert!(text("millrace").contains("millrace\\-up(1)"));
        assert!(text("millrace-up").contains("\\-\\-memory\\-limit"));
        assert!(text("millrace-rpc-call").contains("\\-\\-timeout"));
        assert!(!pages.iter().any(|(name, _)| name.contains("help")));
    }

    #[test]
    fn every_shell_gets_all_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "millrace", &mut script);
            let script = String::from_utf8(script).expect("text");
            for word in ["registers", "durability", "gateway"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
