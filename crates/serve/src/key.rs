//! `millrace key`: the secret that members of a cluster share.

use base::key::{Key as Secret, KeyError};
use protocol::coherence::guard::Keys;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Make the key by which the members of a cluster know each other.
///
/// A key file holds 32 hexadecimal digits, and nobody but its owner may read it (mode 0600). Copy it to every member, and name it there with
/// --key. Whoever has it can pass for a member: keep it as you keep a password. To change it, end all members, give them the new one, and
/// start them again.
#[derive(clap::Args, Debug)]
pub struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Write a new key into a file, which must not be there
    New {
        /// The file
        file: PathBuf,
    },
    /// Write what clients of the in-network cache need of a cluster's key into a file, which must not be there: who has it can read and write, and not pass
    /// for a node. Name it in their topology: [cluster] client_key = "FILE"
    Client {
        /// The cluster's key
        key: PathBuf,
        /// The file
        file: PathBuf,
    },
    /// Check that a file holds a key, and that nobody else can read it
    Check {
        /// The file
        file: PathBuf,
        /// Print a JSON object instead of words
        #[arg(long)]
        json: bool,
    },
}

impl Key {
    /// Runs it.
    ///
    /// # Errors
    /// The file is there, or cannot be written; or it is no key.
    pub fn run(&self) -> Result<(), KeyError> {
        let line = match &self.command {
            Command::New { file } => {
                Secret::generate().write_new(file)?;
                format!(
                    "{}: a new key; copy it to every member, and name it there with --key",
                    file.display()
                )
            }
            Command::Client { key, file } => {
                Keys::client_key(&Secret::read(key)?).write_new(file)?;
                let file = file.display();
                format!("{file}: the key of clients; name it in their topology: [cluster] client_key")
            }
            Command::Check { file, json } => {
                let read = Secret::read(file);
                let what = match &read {
                    Ok(_) => "a key that only its owner can read".to_owned(),
                    Err(why) => why.to_string(),
                };
                if *json {
                    let said = serde_json::json!({ "path": file, "good": read.is_ok(), "what": what });
                    let _ = writeln!(io::stdout(), "{said}");
                    return read.map(drop);
                }
                read?;
                format!("{}: {what}", file.display())
            }
        };
        // Whoever does not listen has the file.
        let _ = writeln!(io::stdout(), "{line}");
        Ok(())
    }
}
