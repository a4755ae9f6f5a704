//! `millrace chain status` and `millrace chain checksum`: what the replicas say of themselves, side by side. They need one address and no file;
//! `millrace cluster status` asks replicas by the same [`ask`], and all other members of a file besides.

use super::error::ChainError;
use crate::txn::info::Info;
use crate::txn::proto::millrace::TxnClient;
use clap::Args;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use protocol::chain::{Claim, Lsn, ReplicaId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod of_file;

/// How long a replica may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a checksum may take.
const DIGEST_PATIENCE: Duration = Duration::from_secs(30);
/// How long until the transaction is there as of which it is wanted.
const AHEAD_PATIENCE: Duration = Duration::from_secs(3);
/// A write of a log that takes longer is worth a word.
const SLOW_SECONDS: f64 = 0.1;
/// Attempts to find all replicas at one transaction.
const TRIES: u32 = 12;

/// Which chain is asked.
#[derive(Args, Clone, Debug)]
pub struct Whom {
    /// Where one or more of the replicas serve clients; they name the others
    #[arg(
        short,
        long = "connect",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "tcp:127.0.0.1:7401"
    )]
    connect: Vec<Address>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Show a chain: who is head and tail, the epoch, how far each replica is, leases, contended keys, recovery, write amplification.
///
/// `millrace cluster status` shows all members of a file, controllers too.
///
/// Asks the replicas at --connect, and those that they name. One that does not answer is shown as away.
///
/// Exit status: 0 if a replica answered, of each chain of a file, 5 if none did.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  millrace chain status --connect tcp:127.0.0.1:7401\n  millrace chain status --cluster cluster.toml"
)]
pub struct StatusCommand {
    #[command(flatten)]
    whom: Whom,

    /// The file of the cluster, or http://HOST:PORT[,…]: admin ports of its rack's controllers. All of its chains are shown, each with the hash slots
    /// of its keys
    #[arg(long, value_name = "FILE", conflicts_with = "connect")]
    cluster: Option<PathBuf>,

    /// All counters and figures of each replica, too
    #[arg(long)]
    figures: bool,
}

/// Compare the whole store of all replicas: a checksum of each, as of the same transaction.
///
/// Where transactions go on meanwhile, all replicas are asked for the checksum as of one that is still to come.
///
/// Exit status: 0 if all are the same, 3 if they differ, 5 if none answered, 1 if they could not be compared.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "Example:\n  millrace chain checksum --connect tcp:127.0.0.1:7401")]
pub struct Checksum {
    #[command(flatten)]
    whom: Whom,

    /// Fail unless so many replicas were compared
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
}

/// What the replicas of a chain said.
#[derive(Debug, Default)]
struct Answers {
    here: BTreeMap<ReplicaId, (Address, Info)>,
    /// Those that others named and that did not answer.
    away: BTreeMap<ReplicaId, String>,
    /// Why nobody answered.
    why: String,
}

/// Asks the replica at an address how it is.
///
/// # Errors
/// Why there is no answer.
pub fn ask(address: &Address, digest: Option<Lsn>) -> Result<Info, String> {
    let patience = match digest {
        None => PATIENCE,
        Some(Lsn::ZERO) => DIGEST_PATIENCE,
        Some(_) => AHEAD_PATIENCE,
    };
    let mut options = Options { timeout: PATIENCE, ..Options::default() };
    options.link.timeout = PATIENCE;
    let mut channel = Channel::connect(address, &options).map_err(|error| error.to_string())?;
    let client = TxnClient::new(&channel).map_err(|error| error.to_string())?;
    let reply = client
        .info(&mut channel, &CallOptions::within(patience), |request| {
            request.set_digest(digest.is_some());
            request.set_digest_at(digest.unwrap_or_default().0);
            Ok(())
        })
        .map_err(|status| status.to_string())?;
    Info::take(reply.view()).map_err(|status| status.to_string())
}

impl Whom {
    /// The replicas that are named.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.connect
    }

    /// Asks those that are named here, and whom they name.
    fn ask(&self) -> Result<Answers, ChainError> {
        let mut answers = Answers::default();
        for address in &self.connect {
            match ask(address, None) {
                Ok(info) => drop(answers.here.insert(info.replica, (address.clone(), info))),
                Err(why) => answers.why = why,
            }
        }
        let newest = answers.here.values().map(|(_, info)| info).max_by_key(|info| info.epoch).cloned();
        let Some(newest) = newest else {
            return Err(ChainError::Nobody(self.connect.clone(), answers.why));
        };
        for member in newest.members {
            if answers.here.contains_key(&member.replica) {
                continue;
            }
            let known = answers.here.values().flat_map(|(_, info)| &info.members);
            let named =
                known.filter(|named| named.replica == member.replica).find_map(|named| named.address.clone());
            let answer = named.ok_or_else(|| "its address is not known here".to_owned());
            match answer.and_then(|address| ask(&address, None).map(|info| (address, info))) {
                Ok(answer) => drop(answers.here.insert(member.replica, answer)),
                Err(why) => drop(answers.away.insert(member.replica, why)),
            }
        }
        Ok(answers)
    }
}

impl StatusCommand {
    /// Prints it.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn run(&self) -> Result<(), ChainError> {
        if let Some(file) = &self.cluster {
            return self.run_all(file);
        }
        let answers = self.whom.ask()?;
        if self.whom.json {
            println!("{:#}", answers.json());
            return Ok(());
        }
        print!("{}", answers.text(self.figures));
        Ok(())
    }
}

impl Answers {
    fn text(&self, figures: bool) -> String {
        let mut out = String::new();
        let infos = || self.here.values().map(|(_, info)| info);
        let Some(newest) = infos().max_by_key(|info| info.epoch) else { return out };
        let head =
            newest.members.first().map_or("nobody".to_owned(), |head| format!("replica {}", head.replica.0));
        out += &format!("chain {}, epoch {}, head {head}\n", newest.chain, newest.epoch.0);
        out += &format!(
            "{:<8}{:<9}{:<6}{:>10}{:>10}{:>10}{:>10}{:>6}  {:<14}{:<7}{}\n",
            "replica",
            "part",
            "reads",
            "last",
            "durable",
            "committed",
            "applied",
            "lag",
            "survives",
            "media",
            "address"
        );
        let last = infos().map(|info| info.last).max().unwrap_or_default();
        for (address, info) in self.here.values() {
            out += &format!(
                "{:<8}{:<9}{:<6}{:>10}{:>10}{:>10}{:>10}{:>6}  {:<14}{:<7}{address}\n",
                info.replica.0,
                part(newest, info),
                if info.serves_reads { "yes" } else { "no" },
                info.last.0,
                info.durable.0,
                info.committed.0,
                info.applied.0,
                last.0 - info.applied.0.min(last.0),
                survives(info),
                info.media,
            );
        }
        if let Some(claim) = &newest.claim {
            out += &format!("claimed: {claim}, which alone writes; `millrace chain unclaim` ends that\n");
        }
        for (replica, why) in &self.away {
            out += &format!("{:<8}away: {why}\n", replica.0);
        }
        self.waits(newest).for_each(|wait| out += &wait);
        for info in infos().filter(|info| !info.hottest.is_empty()) {
            let keys =
                info.hottest.iter().map(|(key, waiting)| format!("{} ({waiting})", key.escape_ascii()));
            out += &format!("keys waited for: {}\n", keys.collect::<Vec<_>>().join(", "));
        }
        for info in infos() {
            out += &summary(info);
            if figures {
                info.figures.iter().for_each(|(name, value)| out += &format!("  {name} {value}\n"));
            }
        }
        out
    }

    /// Who serves, and has not agreed with its predecessor: nothing is committed until it has.
    fn waits<'a>(&'a self, newest: &'a Info) -> impl Iterator<Item = String> + 'a {
        let serving: Vec<ReplicaId> =
            newest.members.iter().filter(|member| !member.syncing).map(|member| member.replica).collect();
        let here = |id: ReplicaId| {
            self.here.get(&id).map(|(_, info)| info).filter(|info| info.epoch == newest.epoch)
        };
        let pairs: Vec<_> =
            serving.windows(2).filter_map(|pair| Some((here(pair[0])?, here(pair[1])?))).collect();
        pairs.into_iter().filter(|(_, after)| figure(after, "connected") == 0.0).map(|(before, after)| {
            let (one, other) = (before.replica.0, after.replica.0);
            let mut text = format!("replica {other} waits until it has agreed with replica {one} on where its log goes on");
            if after.last > before.last {
                text += &format!(
                    ": it has transactions to {}, and replica {one} to {} only, so the end of that log was lost\n  if this lasts, end all \
                     replicas and start {other} alone: the chain goes on with everything that it has, and the others are made its copies",
                    after.last.0, before.last.0
                );
            }
            text + "\n"
        })
    }

    fn json(&self) -> serde_json::Value {
        let here = self.here.values().map(|(address, info)| {
            let members = info.members.iter().map(|member| {
                serde_json::json!({
                    "replica": member.replica.0, "incarnation": member.incarnation.0, "syncing": member.syncing,
                    "address": member.address.as_ref().map(Address::to_string),
                })
            });
            let figures: serde_json::Map<_, _> =
                info.figures.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
            let hottest = info.hottest.iter().map(|(key, waiting)| {
                serde_json::json!({ "key": key.escape_ascii().to_string(), "waiting": waiting })
            });
            serde_json::json!({
                "chain": info.chain, "replica": info.replica.0, "incarnation": info.incarnation.0,
                "address": address.to_string(), "epoch": info.epoch.0, "members": members.collect::<Vec<_>>(),
                "head": info.is_head, "tail": info.is_tail, "serves_reads": info.serves_reads,
                "last": info.last.0, "durable": info.durable.0, "committed": info.committed.0, "applied": info.applied.0,
                "survives": survives(info), "media": info.media, "waiting": info.waiting, "under_way": info.under_way,
                "hottest": hottest.collect::<Vec<_>>(), "figures": figures, "claim": info.claim.as_ref().map(claim_json),
            })
        });
        let away = self.away.iter().map(|(id, why)| serde_json::json!({ "replica": id.0, "why": why }));
        serde_json::json!({ "replicas": here.collect::<Vec<_>>(), "away": away.collect::<Vec<_>>() })
    }
}

fn claim_json(claim: &Claim) -> serde_json::Value {
    serde_json::json!({ "number": format!("{:016x}", claim.number), "address": claim.address })
}

/// What a replica is in the newest configuration.
pub(crate) fn part(newest: &Info, info: &Info) -> &'static str {
    let place = newest.members.iter().find(|member| member.replica == info.replica);
    match place {
        None => "outside",
        Some(member) if member.syncing => "syncing",
        Some(_) if info.is_head && info.is_tail => "alone",
        Some(_) if info.is_head => "head",
        Some(_) if info.is_tail => "tail",
        Some(_) => "middle",
    }
}

fn survives(info: &Info) -> &'static str {
    match info.durability {
        protocol::chain::Durability::Volatile => "nothing",
        protocol::chain::Durability::ProcessCrash => "process crash",
        protocol::chain::Durability::PowerLoss => "power loss",
    }
}

fn figure(info: &Info, name: &str) -> f64 {
    info.figures.iter().find(|(known, _)| known == name).map_or(0.0, |(_, value)| *value)
}

/// Recovery and write amplification in a line.
fn summary(info: &Info) -> String {
    let figure = |name: &str| figure(info, name);
    let payload = figure("log_payload_bytes_total");
    let amplification = if payload > 0.0 {
        let written = figure("log_written_bytes_total") + figure("image_written_bytes_total");
        format!("{:.2} bytes written for each of {payload} logged", written / payload)
    } else {
        "nothing logged since its start".to_owned()
    };
    let outstanding = figure("log_write_outstanding_seconds");
    let slow = if outstanding > SLOW_SECONDS {
        format!("; its log has been at one write for {outstanding:.1} s: its disk is slow")
    } else {
        String::new()
    };
    format!(
        "replica {}: recovered {} records in {:.3} s ({} torn bytes, {} damaged); log {:.0} % full; {amplification}{slow}\n",
        info.replica.0,
        figure("recovered_records"),
        figure("recovery_seconds"),
        figure("recovered_torn_bytes"),
        figure("recovered_damaged"),
        figure("log_percent_used"),
    )
}

impl Checksum {
    /// Compares them.
    ///
    /// # Errors
    /// They differ, or could not be compared.
    pub fn run(&self) -> Result<(), ChainError> {
        let mut ahead = 0;
        for _ in 0..TRIES {
            let answers = self.whom.ask()?;
            let addresses: Vec<Address> = answers.here.values().map(|(address, _)| address.clone()).collect();
            // As of now, if nothing moves; else as of a transaction that none of them has applied yet.
            let at = if ahead == 0 {
                Lsn::ZERO
            } else {
                Lsn(answers.here.values().map(|(_, info)| info.applied.0).max().unwrap_or_default() + ahead)
            };
            let sums = digests(&addresses, at);
            if let Some(lsn) = same_lsn(&sums)
                && sums.len() >= self.replicas
            {
                return self.report(lsn, &sums);
            }
            ahead = if ahead == 0 { 64 } else { ahead * 2 };
            if at > Lsn::ZERO && sums.len() < addresses.len() {
                ahead = 0;
            }
        }
        Err(ChainError::Restless(TRIES))
    }

    fn report(&self, lsn: Lsn, sums: &[Info]) -> Result<(), ChainError> {
        let sum = |info: &Info| info.digest.unwrap_or_default();
        let same = sums.windows(2).all(|pair| sum(&pair[0]) == sum(&pair[1]));
        let lines: Vec<String> =
            sums.iter().map(|info| format!("replica {}: {:016x}", info.replica.0, sum(info))).collect();
        if self.whom.json {
            let sums = sums.iter().map(|info| {
                serde_json::json!({ "replica": info.replica.0, "digest": format!("{:016x}", sum(info)) })
            });
            println!(
                "{:#}",
                serde_json::json!({ "lsn": lsn.0, "same": same, "replicas": sums.collect::<Vec<_>>() })
            );
        } else if same {
            println!("as of transaction {}:\n{}\nall {} are the same", lsn.0, lines.join("\n"), sums.len());
        }
        if same {
            return Ok(());
        }
        Err(ChainError::Differ(format!(
            "the replicas differ as of transaction {}: {}\n  this must not happen: keep their directories, and report it",
            lsn.0,
            lines.join(", ")
        )))
    }
}

/// Asks all at once; those that answer.
fn digests(addresses: &[Address], at: Lsn) -> Vec<Info> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            addresses.iter().map(|address| scope.spawn(move || ask(address, Some(at)))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()?.ok()).collect()
    })
}

/// The transaction as of which all of them are, if it is one.
fn same_lsn(sums: &[Info]) -> Option<Lsn> {
    let first = sums.first()?.applied;
    sums.iter().all(|info| info.applied == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::info::Member;
    use protocol::chain::{Durability, Epoch, Incarnation};

    fn info(id: u16, last: u64, connected: bool) -> Info {
        let member = |id| Member {
            replica: ReplicaId(id),
            incarnation: Incarnation(1),
            syncing: false,
            address: None,
        };
        Info {
            chain: 1,
            replica: ReplicaId(id),
            incarnation: Incarnation(1),
            epoch: Epoch(4),
            members: [1, 2, 3].map(member).to_vec(),
            is_head: id == 1,
            is_tail: id == 3,
            serves_reads: false,
            last: Lsn(last),
            durable: Lsn(last),
            committed: Lsn(last),
            applied: Lsn(last),
            durability: Durability::PowerLoss,
            media: "file".to_owned(),
            waiting: 0,
            under_way: 0,
            digest: None,
            hottest: Vec::new(),
            figures: vec![("connected".to_owned(), f64::from(u8::from(connected)))],
            claim: None,
        }
    }

    /// Head and middle lost the ends of their logs, the tail did not: nothing is committed, and nobody said why.
    #[test]
    fn a_chain_that_hangs_says_who_waits_for_whom() {
        let answers = |tail_connected| {
            let infos = [info(1, 300, true), info(2, 300, true), info(3, 500, tail_connected)];
            let address: Address = "tcp:127.0.0.1:1".parse().expect("an address");
            let here = infos.map(|info| (info.replica, (address.clone(), info))).into_iter().collect();
            Answers { here, ..Answers::default() }.text(false)
        };
        let text = answers(false);
        assert!(text.contains("replica 3 waits until it has agreed with replica 2"), "{text}");
        assert!(text.contains("it has transactions to 500, and replica 2 to 300 only"), "{text}");
        assert!(text.contains("start 3 alone"), "{text}");
        assert!(!answers(true).contains("waits"));
    }
}
