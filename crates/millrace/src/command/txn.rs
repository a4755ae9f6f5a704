//! `millrace txn`.

use serve::txn::{StatusOf, Transactions};
use std::process::ExitCode;

/// Do transactions over a chain of replicas (`millrace chain`).
///
/// A transaction is a list of operations, separated by ';' or new lines. All conditions and reads see the moment before it; if every condition
/// holds all writes are done at once, else nothing is. It is done once, however often it must be sent, and strictly serializable.
///
///   get KEY                   read
///   put KEY VALUE             write
///   add KEY N                 make a number larger (absent: 0); the sum is in the reply
///   del KEY                   delete
///   if-version KEY N          only if the key has this version (0: absent)
///   if-exists KEY, if-missing KEY
///   if-value KEY VALUE        only if it has this value
///   if-at-least KEY N         only if it is a number of at least N (absent: 0)
///
/// Words with spaces stand in quotes; \xHH is a byte. Without TEXT each line of standard input is a transaction of its own; empty
/// lines and those that begin with '#' are left out.
///
/// Every reply to a write says what it survives (the weakest of the replicas' media), and in how many copies it is.
///
/// Exit status, the highest of all transactions: 0 done, 1 aborted by a condition, 2 not done, 3 not known: then the message says how to ask again.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    verbatim_doc_comment,
    after_long_help = "\
Examples:
  millrace txn 'put ann 10; put bob 0'
  millrace txn 'if-at-least ann 4; add ann -4; add bob 4'
  millrace txn --cluster cluster.toml 'get ann'
  millrace txn --connect tcp:10.0.0.1:7401,tcp:10.0.0.2:7401 --json 'get ann; get bob'
  printf 'put a 1\\nget a\\n' | millrace txn
  millrace txn status 5f0c2ab90d1e4477a3b1c6d2e8f90312 1"
)]
pub struct Txn {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    transactions: Transactions,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Status(Box<StatusOf>),
    Bench(Box<bench::txn::Bench>),
}

impl Txn {
    /// Runs it.
    pub fn run(&self) -> ExitCode {
        match &self.command {
            Some(Command::Status(status)) => status.run(),
            Some(Command::Bench(bench)) => match bench.run() {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    serve::complain!("millrace: {why}");
                    ExitCode::FAILURE
                }
            },
            None => self.transactions.run(),
        }
    }
}
