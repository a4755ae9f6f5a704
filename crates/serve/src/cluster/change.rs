//! `millrace cluster drain`, `remove` and `add`: as far as the protocols of today go, and where they end it is said.
//!
//! A controller leaves a replica out when it is silent, and lets one in that comes; nobody can tell it to. So *drain* says whether a member may be
//! stopped, which is then what takes it out; *remove* and *add* change the file, which members read when they start.

use super::ClusterError;
use super::ask::{Answer, ask_all};
use super::file::{File, Who, text};
use super::report::{Report, State, Verdict};
use crate::chain::members::ReplicaPlace;
use crate::process::say;
use crate::process::table::Source;
use crate::txn::info::Info;
use protocol::coherence::NodeId;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Say whether a member may be stopped, so that everything goes on being served and nothing that was acknowledged is lost.
///
/// A replica may if another serves that has everything; when it is stopped, its controller leaves it out within a lease (register chain.lease). A
/// controller may if another stands by. Boxes and homes cannot be drained yet, and it is said what their end costs.
///
/// Exit status: 0 it may be stopped, 1 it may not, and why.
#[derive(clap::Args, Debug)]
pub struct Drain {
    #[command(flatten)]
    of: Of,
}

/// Take a replica out of the file, once it was stopped and its chain goes on without it.
///
/// The other members of the chain read the file when they start: restart them one after the other, and wait between two until `millrace cluster
/// status` says whole.
#[derive(clap::Args, Debug)]
pub struct Remove {
    #[command(flatten)]
    of: Of,
}

/// Put a replica into the file, and say how it joins its chain: it is given everything, and serves when it has it.
///
/// The other members of the chain read the file when they start: restart them one after the other, and wait between two until `millrace cluster
/// status` says that only the new one is missing. Then start it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Example:
  millrace cluster add cluster.toml chain:7/replica:4 --address tcp:10.0.0.4:7401 --peers tcp:10.0.0.4:7411 --data /var/lib/millrace/replica")]
pub struct Add {
    #[command(flatten)]
    of: Of,

    /// Where clients find it
    #[arg(long, value_name = "ADDRESS")]
    address: fabric::link::Address,

    /// Where the other members find it
    #[arg(long, value_name = "ADDRESS")]
    peers: fabric::link::Address,

    /// Where operators find it
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = crate::admin::parse_address)]
    admin: Option<std::net::SocketAddr>,

    /// Its directory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
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
            Who::Node(NodeId::Box(_)) => Err("a box cannot be drained yet: no message tells its controller to leave a living box out, and none tells a \
                 box to take no more keys and to give back those that it owns. Stopping it is safe for what homes acknowledged: writes of keys \
                 that it has copies of wait for its lease (coherence.lease), and clients go round it. With coherence.compute = own_lossy it takes \
                 the keys that it owns with it, increments included"
                .to_owned()),
            Who::Node(NodeId::Home(_)) => Err("a home cannot be drained: its keys are nowhere else, and homes do not move yet".to_owned()),
            Who::Node(_) | Who::Controller(..) if self.others(who) > 0 => Ok("another controller stands by".to_owned()),
            Who::Node(_) | Who::Controller(..) => Err("no other controller can be seen: nobody would take its place".to_owned()),
            Who::Replica(chain, id) => {
                let about = [format!("chain:{chain}"), format!("chain:{chain}/")];
                let is_down = self.report.problems.iter().find(|problem| {
                    problem.verdict == Verdict::Down && (problem.about == about[0] || problem.about.starts_with(&about[1]))
                });
                let newest = self.newest(chain).ok_or("no replica of the chain answers")?;
                if newest.members.iter().all(|member| member.replica.0 != id) {
                    return Ok("it is not in the chain's configuration".to_owned());
                }
                if let Some(problem) = is_down {
                    return Err(format!("its chain is not well: {} {}", problem.about, problem.what));
                }
                let controllers = self.report.rows.iter().filter(|row| matches!(row.who, Who::Controller(of, _) if of == chain));
                if !controllers.clone().any(|row| row.role.ends_with("leads")) {
                    return Err("no controller of its chain is seen to lead: nobody would leave it out, and writes would wait".to_owned());
                }
                match self.others(who) {
                    0 => Err("it is the only replica that serves: nobody else has everything".to_owned()),
                    others => Ok(format!("{others} other replicas serve and have everything; stop it, and it is left out within a lease")),
                }
            }
        }
    }
}

impl Drain {
    /// Says it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let seen = Seen::now(&self.of.file)?;
        let member = seen.file.member(&self.of.member)?;
        match seen.may_stop(member.who) {
            Ok(why) => {
                say(&format!("{} may be stopped: {why}", member.who));
                Ok(())
            }
            Err(why) => Err(ClusterError::Refused(format!("{} may not be stopped: {why}", member.who))),
        }
    }
}

impl Remove {
    /// Does it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let seen = Seen::now(&self.of.file)?;
        let member = seen.file.member(&self.of.member)?;
        let Who::Replica(chain, id) = member.who else {
            return Err(ClusterError::Refused(by_hand(member.who)));
        };
        let newest = seen
            .newest(chain)
            .ok_or_else(|| ClusterError::Refused(format!("no replica of chain {chain} answers")))?;
        if newest.members.iter().any(|other| other.replica.0 == id) {
            return Err(ClusterError::Refused(format!(
                "{} is in the configuration of its chain (epoch {}): `millrace cluster drain` says when it may be stopped, and it is left out after that",
                member.who, newest.epoch.0
            )));
        }
        if seen.others(member.who) == 0 {
            return Err(ClusterError::Refused("no other replica of its chain serves".to_owned()));
        }
        let source = Source::read(&self.of.file).map_err(ClusterError::File)?;
        let text = text::without(&source, chain, id).map_err(ClusterError::Refused)?;
        replace(&self.of.file, &text)?;
        say(&format!(
            "{} is not in {} any more; restart the other members of chain {chain} one after the other",
            member.who,
            self.of.file.display()
        ));
        Ok(())
    }
}

impl Add {
    /// Does it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let wrong =
            || ClusterError::Refused(format!("{:?} is no replica: write chain:7/replica:4", self.of.member));
        let (chain, id) = self
            .of
            .member
            .strip_prefix("chain:")
            .and_then(|rest| rest.split_once("/replica:"))
            .ok_or_else(wrong)?;
        let (chain, id) = (chain.parse().map_err(|_| wrong())?, id.parse().map_err(|_| wrong())?);
        let place = ReplicaPlace {
            id,
            address: self.address.clone(),
            peers: self.peers.clone(),
            admin: self.admin,
            data: self.data.clone(),
        };
        let source = Source::read(&self.of.file).map_err(ClusterError::File)?;
        File::of(&source, &self.of.file)?;
        let text = text::with(&source, chain, &place).map_err(ClusterError::Refused)?;
        replace(&self.of.file, &text)?;
        let file = File::read(&self.of.file)?;
        say(&format!(
            "{} is in {}; restart the other members of chain {chain} one after the other, controllers first, then start it:\n  {}",
            self.of.member,
            self.of.file.display(),
            file.member(&self.of.member)?.start
        ));
        Ok(())
    }
}

fn by_hand(who: Who) -> String {
    format!(
        "{who} is not taken out by this command: members of a rack and controllers are known to all others from their start. End all nodes, change the \
         file, and start them again"
    )
}

/// The file with another text, if that is one of a cluster: whole, or as it was.
fn replace(path: &Path, text: &str) -> Result<(), ClusterError> {
    File::of(&Source::of(path, text), path)?;
    let failed = |error| ClusterError::Write(path.to_owned(), error);
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = std::fs::File::create(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.set_permissions(std::fs::metadata(path).map_err(failed)?.permissions()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)
}
