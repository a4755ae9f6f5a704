//! `millrace cluster drain`, `remove` and `add`.
//!
//! Of a box they are orders to the rack's controllers (`rack`). Of a chain they are orders to its controllers (`order`), which all members learn of
//! while they run; the file is changed when the chain has obeyed. For other members it is said how far the protocols go: *drain* says whether one may
//! be stopped.

use super::ClusterError;
use super::ask::{Answer, ask_all};
use super::file::{File, Who, text};
use super::order::carry_out;
use super::rack;
use super::report::{Report, State, Verdict};
use crate::chain::members::{ChainPlan, ReplicaPlace};
use crate::process::say;
use crate::process::table::Source;
use crate::txn::info::Info;
use protocol::chain::operator::Goal;
use protocol::chain::{Configuration, ReplicaId};
use protocol::coherence::NodeId;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Say whether a member may be stopped, so that everything goes on being served and nothing that was acknowledged is lost.
///
/// A replica may if another serves that has everything; when it is stopped, its controller leaves it out within a lease (register chain.lease),
/// and writes wait until then. With --live it is left out first, and nothing waits: it goes on running and serves nobody, until `millrace cluster add FILE
/// MEMBER` lets it in again. A controller may if another stands by.
///
/// A box is taken out of the table by its controller: clients and other boxes go round it, it is granted no more copies, and the keys that it owns go
/// home. The command waits, about a lease, until nobody would wait for the box; then it may be stopped. `millrace cluster add FILE box:1` has it
/// serve again. The order goes to the controllers' admin ports with their token: that of this machine is found by itself, another is named by
/// MILLRACE_ADMIN_TOKEN (a file).
///
/// A home cannot be drained: its keys are nowhere else.
///
/// Exit status: 0 it may be stopped, 1 it may not, and why.
#[derive(clap::Args, Debug)]
pub struct Drain {
    #[command(flatten)]
    of: Of,

    /// Have the chain leave the replica out now
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    rest: Rest,

    /// Print a JSON object instead of words, also where it may not be stopped
    #[arg(long)]
    json: bool,
}

/// Take a replica out of its chain while that serves, and out of the file.
///
/// Its controller leaves it out if others serve that have everything; all members learn of it by themselves. What was taken out serves nobody, and may be
/// stopped. The file is changed when that is so; copy it to the other machines.
#[derive(clap::Args, Debug)]
pub struct Remove {
    #[command(flatten)]
    of: Of,

    #[command(flatten)]
    rest: Rest,

    #[command(flatten)]
    offline: Offline,
}

/// How many replicas must be left.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Rest {
    /// So many other replicas must go on serving that have everything, or it is refused
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    least: u16,
}

/// Whether the chain is told.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Offline {
    /// Change the file alone, of a chain that does not run. A chain that was ever given an order goes by its orders, and not by the file
    #[arg(long)]
    offline: bool,
}

/// Let a replica into its chain while that serves, and put it into the file; or have a box serve again that was drained.
///
/// All members learn of it by themselves. It is given everything, and serves as the last when it has it; start it before or after. A member that is in the
/// file needs no addresses: it is let in again after `drain --live`. The file is changed when the chain has obeyed; copy it to the other machines.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Example:
  millrace cluster add cluster.toml chain:7/replica:4 --address tcp:10.0.0.4:7401 --peers tcp:10.0.0.4:7411 --data /var/lib/millrace/replica")]
pub struct Add {
    #[command(flatten)]
    of: Of,

    #[command(flatten)]
    at: At,

    /// Wait until it serves, and show how far it is
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    offline: Offline,
}

/// Where a new replica is.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct At {
    /// Where clients find it
    #[arg(long, value_name = "ADDRESS", requires = "peers")]
    address: Option<fabric::link::Address>,

    /// Where the other members find it
    #[arg(long, value_name = "ADDRESS", requires = "address")]
    peers: Option<fabric::link::Address>,

    /// Where operators find it
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = crate::admin::parse_address)]
    pub(super) admin: Option<std::net::SocketAddr>,

    /// Its directory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl At {
    /// The place of replica `id` of a chain: as it is said here, or else in the file.
    pub(super) fn place(&self, chain: &ChainPlan, id: u16) -> Result<ReplicaPlace, ClusterError> {
        let known = chain.replica(id);
        match (&self.address, &self.peers, known) {
            (Some(address), Some(peers), known) => {
                let (address, peers) = (address.clone(), peers.clone());
                let place = ReplicaPlace { id, address, peers, admin: self.admin, data: self.data.clone() };
                match known {
                    Ok(known) if (&known.address, &known.peers) != (&place.address, &place.peers) => {
                        Err(ClusterError::Refused(format!(
                            "chain {} has a replica {id} already, at {}: give the new one another number",
                            chain.number, known.address
                        )))
                    }
                    Ok(known) => Ok(known.clone()),
                    Err(_) => Ok(place),
                }
            }
            (.., Ok(known)) => Ok(known.clone()),
            (.., Err(why)) => Err(ClusterError::Refused(format!(
                "{why}: say where the new one is, with --address and --peers"
            ))),
        }
    }
}

#[derive(clap::Args, Debug)]
struct Of {
    /// The file of the cluster
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// As `cluster status` names it: chain:7/replica:2
    #[arg(value_name = "MEMBER")]
    member: String,
}

/// A cluster at one moment.
struct Seen {
    file: File,
    answers: Vec<Answer>,
    report: Report,
}

impl Seen {
    fn now(path: &Path) -> Result<Seen, ClusterError> {
        let file = File::read(path)?;
        let answers = ask_all(&file.members);
        let report = Report::of(&file, &answers);
        Ok(Seen { file, answers, report })
    }

    /// The newest view of a chain.
    fn newest(&self, chain: u32) -> Option<&Info> {
        let infos = self.answers.iter().filter_map(|answer| match answer {
            Answer::Info(info) if info.chain == chain => Some(&**info),
            _ => None,
        });
        infos.max_by_key(|info| info.epoch)
    }

    /// Members of its kind, besides this one, that do their part.
    fn others(&self, who: Who) -> usize {
        let is_peer = |other: Who| match (who, other) {
            (Who::Node(NodeId::Controller(_)), Who::Node(NodeId::Controller(_))) => true,
            (Who::Replica(chain, _), Who::Replica(of, _))
            | (Who::Controller(chain, _), Who::Controller(of, _)) => chain == of,
            _ => false,
        };
        let rows = self.report.rows.iter().filter(|row| row.who != who && is_peer(row.who));
        rows.filter(|row| row.state == State::Alive).count()
    }

    /// Whether a member may be stopped, in words.
    fn may_stop(&self, who: Who) -> Result<String, String> {
        match who {
            Who::Node(NodeId::Box(_)) => unreachable!("boxes are drained by orders to controllers"),
            Who::Node(NodeId::Home(_)) => {
                Err("a home cannot be drained: its keys are nowhere else. `millrace cluster move` has its next life elsewhere"
                    .to_owned())
            }
            Who::Node(_) | Who::Controller(..) if self.others(who) > 0 => {
                Ok("another controller stands by".to_owned())
            }
            Who::Node(_) | Who::Controller(..) => {
                Err("no other controller can be seen: nobody would take its place".to_owned())
            }
            Who::Replica(chain, id) => {
                let about = [format!("chain:{chain}"), format!("chain:{chain}/")];
                let is_down = self.report.problems.iter().find(|problem| {
                    problem.verdict == Verdict::Down
                        && (problem.about == about[0] || problem.about.starts_with(&about[1]))
                });
                let newest = self.newest(chain).ok_or("no replica of the chain answers")?;
                if newest.members.iter().all(|member| member.replica.0 != id) {
                    return Ok("it is not in the chain's configuration".to_owned());
                }
                if let Some(problem) = is_down {
                    return Err(format!("its chain is not well: {} {}", problem.about, problem.what));
                }
                let controllers = self
                    .report
                    .rows
                    .iter()
                    .filter(|row| matches!(row.who, Who::Controller(of, _) if of == chain));
                if !controllers.clone().any(|row| row.role.ends_with("leads")) {
                    return Err("no controller of its chain is seen to lead: nobody would leave it out, and writes would wait".to_owned());
                }
                match self.others(who) {
                    0 => Err("it is the only replica that serves: nobody else has everything".to_owned()),
                    others => Ok(format!(
                        "{others} other replicas serve and have everything; stop it, and it is left out within a lease"
                    )),
                }
            }
        }
    }
}

impl Drain {
    /// Says it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let drained = self.drain();
        if self.json {
            let (may_be_stopped, what) = match &drained {
                Ok(said) => (true, said.clone()),
                Err(error) => (false, error.to_string()),
            };
            let member = &self.of.member;
            let said =
                serde_json::json!({ "member": member, "may_be_stopped": may_be_stopped, "what": what });
            say(&said.to_string());
            return drained.map(drop);
        }
        drained.map(|said| say(&said))
    }

    /// What may be done now.
    fn drain(&self) -> Result<String, ClusterError> {
        let seen = Seen::now(&self.of.file)?;
        let member = seen.file.member(&self.of.member)?;
        if let (Who::Replica(number, id), true) = (member.who, self.live) {
            leave_out(seen.file.chain(number)?, id, self.rest.least)?;
            return Ok(format!(
                "{} serves nobody any more, and may be stopped; `millrace cluster add {} {}` lets it in again",
                member.who,
                self.of.file.display(),
                member.who
            ));
        }
        if let Who::Node(NodeId::Box(id)) = member.who {
            return rack::order(&self.of.file, id, true);
        }
        match seen.may_stop(member.who) {
            Ok(why) => Ok(format!("{} may be stopped: {why}", member.who)),
            Err(why) => Err(ClusterError::Refused(format!("{} may not be stopped: {why}", member.who))),
        }
    }
}

/// Has a chain go on without a replica.
fn leave_out(chain: &ChainPlan, id: u16, least: u16) -> Result<Configuration, ClusterError> {
    carry_out(chain, Goal { remove: Some((ReplicaId(id), least)), ..Goal::default() }, None)
}

impl Remove {
    /// Does it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let file = File::read(&self.of.file)?;
        let member = file.member(&self.of.member)?;
        let Who::Replica(number, id) = member.who else {
            return Err(ClusterError::Refused(by_hand(member.who)));
        };
        // What cannot be written is known before anything is ordered.
        let source = Source::read(&self.of.file).map_err(ClusterError::File)?;
        let text = text::without(&source, number, id).map_err(ClusterError::Refused)?;
        check(&self.of.file, &text)?;
        if !self.offline.offline {
            leave_out(file.chain(number)?, id, self.rest.least)?;
        }
        replace(&self.of.file, &text)?;
        say(&format!(
            "{} is not in its chain and not in {} any more: stop it, and copy the file to the other machines",
            member.who,
            self.of.file.display()
        ));
        Ok(())
    }
}

impl Add {
    /// Does it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let file = File::read(&self.of.file)?;
        if let Some(Who::Node(NodeId::Box(id))) = file.member(&self.of.member).ok().map(|member| member.who) {
            say(&rack::order(&self.of.file, id, false)?);
            return Ok(());
        }
        let (number, id) = replica_named(&self.of.member)?;
        let chain = file.chain(number)?;
        let place = self.at.place(chain, id)?;
        let text = with_place(&self.of.file, chain, &place)?;
        let start = joining(&self.of.file, number, &place);
        if !self.offline.offline {
            let goal = Goal { add: Some(place.at()), serves: self.wait, remove: None };
            carry_out(chain, goal, self.wait.then_some((&place, &start)))?;
        }
        if let Some(text) = text {
            replace(&self.of.file, &text)?;
        }
        let file = File::read(&self.of.file)?;
        say(&format!(
            "{} belongs to its chain, and is in {}; it serves when it has everything. Start it if it does not run:\n  {}",
            self.of.member,
            self.of.file.display(),
            file.member(&self.of.member)?.start
        ));
        Ok(())
    }
}

/// The chain and the number in `chain:7/replica:4`.
pub(super) fn replica_named(member: &str) -> Result<(u32, u16), ClusterError> {
    let parts = member.strip_prefix("chain:").and_then(|rest| rest.split_once("/replica:"));
    let numbers =
        parts.and_then(|(chain, id)| Some((chain.parse().ok()?, id.parse().ok().filter(|id| *id > 0)?)));
    numbers.ok_or_else(|| {
        ClusterError::Refused(format!(
            "{member:?} is no box of the file and no replica of a chain: write box:1 or chain:7/replica:4"
        ))
    })
}

/// The file's text with a replica in it, checked; nothing if it is in it.
pub(super) fn with_place(
    path: &Path,
    chain: &ChainPlan,
    place: &ReplicaPlace,
) -> Result<Option<String>, ClusterError> {
    if chain.replica(place.id).is_ok() {
        return Ok(None);
    }
    let source = Source::read(path).map_err(ClusterError::File)?;
    let text = text::with(&source, chain.number, place).map_err(ClusterError::Refused)?;
    check(path, &text)?;
    Ok(Some(text))
}

/// How a replica is started that is not in the file yet.
pub(super) fn joining(file: &Path, chain: u32, place: &ReplicaPlace) -> String {
    let data = place.data.as_ref().map_or(String::new(), |data| format!(" --data {}", data.display()));
    format!(
        "millrace chain replica --cluster {} --chain {chain} --id {} --join {} --listen {}{data}",
        file.display(),
        place.id,
        place.peers,
        place.address
    )
}

fn by_hand(who: Who) -> String {
    format!(
        "{who} is not taken out by this command: members of a rack and controllers are known to all others from their start. End all nodes, change the \
         file, and start them again"
    )
}

/// Whether a text is one of a cluster.
pub(super) fn check(path: &Path, text: &str) -> Result<(), ClusterError> {
    File::of(&Source::of(path, text), path).map(drop)
}

/// The file with another text, if that is one of a cluster: whole, or as it was.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), ClusterError> {
    check(path, text)?;
    let failed = |error| ClusterError::Write(path.to_owned(), error);
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = std::fs::File::create(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.set_permissions(std::fs::metadata(path).map_err(failed)?.permissions()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)
}
