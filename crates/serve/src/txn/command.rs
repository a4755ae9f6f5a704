//! `millrace txn`: transactions from the command line or standard input.

use super::{Options, TxnError, reply};
use crate::chain::registry::etcd::Login;
use crate::process::parse::duration;
use ::client::chain::{Shards, Source};
use clap::ValueEnum;
use fabric::link::Address;
use protocol::chain::client::Reads;
use protocol::chain::message::{RequestId, Status};
use protocol::chain::transaction::Abort;
use protocol::chain::{SessionId, Transaction};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Where `millrace chain up` serves if nothing else is said.
const USUAL: &str = "tcp:127.0.0.1:7401,tcp:127.0.0.1:7402,tcp:127.0.0.1:7403";

/// Transactions, and whom to ask for them: the arguments of `millrace txn`.
#[derive(clap::Args, Debug)]
pub struct Transactions {
    #[command(flatten)]
    whom: Whom,

    /// Who answers what only reads
    #[arg(long, value_enum, default_value_t, value_name = "WHO")]
    reads: Who,

    /// Transactions; without one they are read from standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

/// Which chain, and how replies are shown.
#[derive(clap::Args, Clone, Debug)]
struct Whom {
    /// Replicas: tcp:HOST:PORT, unix:/path, shm:/path, udp:HOST:PORT. One that lives is enough. Where nothing says where the chain is, ports 7401 to
    /// 7403 of this machine are asked, where `millrace chain up` serves
    #[arg(short, long, value_name = "ADDRESS", value_delimiter = ',')]
    connect: Vec<Address>,

    /// The file of the cluster; of several chains, each transaction goes to the one that has its keys
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,

    /// The admin port of a controller of the chain, which knows where its replicas are
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    controller: Vec<String>,

    /// The etcd in which the chain's controllers keep where its replicas are
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,

    #[command(flatten)]
    login: Login,

    /// This chain alone, by its number; in etcd it is 1, unless this says so
    #[arg(long, value_name = "N")]
    chain: Option<u32>,

    /// How long to wait for a reply
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,

    /// Print replies as JSON, one line each; errors too, so that there is a line for each transaction
    #[arg(long)]
    json: bool,
}

/// Who answers what only reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Who {
    /// The tail, which knows what is committed
    #[default]
    Tail,
    /// All in turn; one that is not the tail asks it about what is being written
    Any,
}

/// Say what became of a transaction whose reply was lost.
///
/// Session and sequence stand in the message that said so. A chain remembers the last replies of each session, until the session is closed or
/// forgotten for others.
///
/// Exit status: 0 done, 1 aborted, 2 nobody answers, 3 not known (yet, or any more).
#[derive(clap::Args, Debug)]
pub struct StatusOf {
    #[command(flatten)]
    whom: Whom,

    /// The session
    session: SessionId,

    /// The number that the transaction has in it
    sequence: u64,
}

/// How it ended, as an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done = 0,
    Aborted = 1,
    NotDone = 2,
    Unknown = 3,
}

impl Whom {
    fn client(&self, reads: Who) -> Result<Shards, TxnError> {
        let options = Options {
            reads: match reads {
                Who::Tail => Reads::Tail,
                Who::Any => Reads::Spread,
            },
            patience: self.timeout,
            timeout: self.timeout.min(Options::default().timeout),
            ..Options::default()
        };
        Shards::find(self.sources()?, self.chain, &options)
    }

    /// Where the chain is looked for.
    fn sources(&self) -> Result<Vec<Source>, TxnError> {
        let mut sources = Vec::new();
        if !self.connect.is_empty() {
            sources.push(Source::Replicas(self.connect.clone()));
        }
        sources.extend(self.cluster.clone().map(Source::File));
        sources.extend(self.controller.iter().cloned().map(Source::Controller));
        if !self.etcd.is_empty() {
            let access = self.login.read().map_err(|error| TxnError::NotFound(error.to_string()))?;
            sources.push(Source::Etcd { endpoints: self.etcd.clone(), access });
        }
        if sources.is_empty() {
            let usual = USUAL.split(',').map(|address| address.parse().expect("it is an address"));
            sources.push(Source::Replicas(usual.collect()));
        }
        Ok(sources)
    }

    /// Prints a reply.
    fn say(&self, text: &str, json: &serde_json::Value) {
        // A closed output is no reason to stop: what was asked is done.
        let mut out = std::io::stdout().lock();
        let _ = if self.json { writeln!(out, "{json}") } else { write!(out, "{text}") };
    }

    /// Says why there is no reply: for people on standard error, for programs as the line in which they look for the reply.
    fn complain(&self, error: &str, json: &serde_json::Value) {
        if self.json { self.say("", json) } else { crate::complain!("millrace: {error}") }
    }

    /// The exit status; of what ended without one, after saying why.
    fn exit(&self, end: Result<u8, TxnError>) -> ExitCode {
        ExitCode::from(end.unwrap_or_else(|error| {
            self.complain(&error.to_string(), &reply::error_json(&error));
            error.exit_code()
        }))
    }
}

impl Transactions {
    /// Does them; the exit status says how the worst ended.
    pub fn run(&self) -> ExitCode {
        self.whom.exit(self.execute())
    }

    fn execute(&self) -> Result<u8, TxnError> {
        let mut client = self.whom.client(self.reads)?;
        let mut worst = End::Done;
        if self.texts.is_empty() {
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(|error| TxnError::NotDone(format!("standard input: {error}")))?;
                if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                    worst = worst.max(self.one(&mut client, &line));
                }
            }
        }
        for text in &self.texts {
            worst = worst.max(self.one(&mut client, text));
        }
        client.close();
        Ok(worst as u8)
    }

    fn one(&self, client: &mut Shards, text: &str) -> End {
        let transaction: Transaction = match text.parse() {
            Ok(transaction) => transaction,
            Err(error) => {
                let json = serde_json::json!({ "done": false, "error": error.to_string() });
                self.whom.complain(&error.to_string(), &json);
                return End::NotDone;
            }
        };
        match client.execute(transaction.clone()) {
            Ok(outcome) => {
                let (mut text, mut json) =
                    (reply::text(&transaction, &outcome), reply::json(&transaction, &outcome));
                if outcome.abort == Some(Abort::Claimed)
                    && let Some((key, _)) = transaction.writes.first()
                    && let Ok(chain) = client.chain_of(key)
                    && let Ok(Some((_, claim))) = chain.claim()
                {
                    text += &format!("  the home that claimed it is at {}\n", claim.address);
                    let trouble = chain.trouble_of_home().map(|why| format!("  {why}\n"));
                    text += &trouble.unwrap_or_default();
                    json["abort"]["home"] = claim.address.into();
                }
                self.whom.say(&text, &json);
                if outcome.abort.is_none() { End::Done } else { End::Aborted }
            }
            Err(error) => {
                self.whom.complain(&error.to_string(), &reply::error_json(&error));
                if matches!(error, TxnError::Unknown { .. }) { End::Unknown } else { End::NotDone }
            }
        }
    }
}

impl StatusOf {
    /// Asks; the exit status says what is known.
    pub fn run(&self) -> ExitCode {
        self.whom.exit(self.ask())
    }

    fn ask(&self) -> Result<u8, TxnError> {
        let mut client = self.whom.client(Who::Tail)?;
        let id = RequestId { session: self.session, sequence: self.sequence };
        let nothing = Transaction::new();
        let (end, text, json) = match client.status(id)? {
            Status::Done(outcome) => {
                let end = if outcome.abort.is_none() { End::Done } else { End::Aborted };
                (end, reply::text(&nothing, &outcome), reply::json(&nothing, &outcome))
            }
            Status::Unknown => (
                End::Unknown,
                "nothing was done of it so far; a copy that is still on its way may be\n".to_owned(),
                serde_json::json!({ "done": null }),
            ),
            Status::Forgotten => (
                End::Unknown,
                "it cannot be told any more: the session is closed or forgotten, or has gone on\n".to_owned(),
                serde_json::json!({ "done": null, "forgotten": true }),
            ),
        };
        self.whom.say(&text, &json);
        Ok(end as u8)
    }
}
