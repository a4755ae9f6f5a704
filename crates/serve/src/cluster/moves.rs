//! `millrace cluster move`: a replica's part of a chain goes to another place while the chain serves.
//!
//! ```text
//!  order: the new one belongs to the chain ──▶ it is given everything, and serves ──▶ order: the old one does not ──▶ the file
//! ```
//! At every moment the chain serves with as many replicas as before, or one more. Whoever is interrupted runs the same command again.
//!
//! Of a home: `homes`.

use super::ClusterError;
use super::change::{At, check, joining, replace, replica_named, with_place};
use super::file::{File, Who, text};
use super::homes::{self, To};
use super::order::{carry_out, known};
use crate::process::say;
use crate::process::table::Source;
use protocol::chain::ReplicaId;
use protocol::chain::operator::Goal;
use protocol::coherence::NodeId;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Move a replica of a chain to another place while the chain serves, or a home of a rack while boxes, clients and controllers go on.
///
/// Of a replica: a new one is let in and given everything, then the old one is taken out. The new one has a number of its own. Start it where it is to run,
/// before or after: the command says how, and waits, with a line that says how far it is. No member is restarted, and clients are told where to go. When the
/// new one serves, the old one is left out, serves nobody any more, and may be stopped; the file is changed last. Copy it to the other machines.
///
/// Ctrl-C leaves the chain as it is by then, with the new replica or without it; `millrace cluster status` says so, and the same command goes on from there.
///
/// Of a home: its next life is at ADDR. Its process is told to stop at its admin port, and is seen to end; then the controllers are given the order, and
/// boxes and clients look for it there; the file is changed last. Start it there, before or after: it serves a lease after the order. Its items are what it
/// finds there: none, its chain's, or what is in its --data-dir or --memory-file if that is to be had there. Without an admin port, or where it does not
/// answer, stop it yourself and say --it-is-dead.
///
/// Exit status: 0 moved, 1 not, and why; 2 wrong usage.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  millrace cluster move cluster.toml home:1 10.0.0.9:7104
  millrace cluster move cluster.toml home:1 10.0.0.9:7104 --admin 10.0.0.9:9104 --it-is-dead
  millrace cluster move cluster.toml chain:7/replica:1 --to 4 --address tcp:10.0.0.4:7401 --peers tcp:10.0.0.4:7411 --data /var/lib/millrace/replica")]
pub struct Move {
    /// The file of the cluster
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Who goes, as `cluster status` names it: chain:7/replica:1, home:1
    #[arg(value_name = "MEMBER")]
    member: String,

    /// Where a home goes: by which boxes, clients and controllers are to reach it
    #[arg(value_name = "ADDR:PORT", conflicts_with = "to", required_unless_present = "to")]
    place: Option<SocketAddr>,

    /// The number of the replica that comes
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    to: Option<u16>,

    /// Of a home: you have seen the process end, and nothing starts it there again. Wrong if it only cannot be reached: two homes answer for one key then
    #[arg(long, requires = "place")]
    it_is_dead: bool,

    #[command(flatten)]
    at: At,
}

impl Move {
    /// Does it.
    pub fn run(&self) -> Result<(), ClusterError> {
        let who = File::read(&self.file)?.member(&self.member)?.who;
        match (who, self.place, self.to) {
            (Who::Node(NodeId::Home(id)), Some(address), None) => {
                let to = To { address, admin: self.at.admin, is_dead: self.it_is_dead };
                homes::move_home(&self.file, id, to)
            }
            (Who::Node(NodeId::Home(id)), ..) => Err(ClusterError::Refused(format!(
                "home:{id} keeps its number: write where it goes, as 10.0.0.9:7104, without --to"
            ))),
            (Who::Replica(..), _, Some(to)) => self.move_replica(to),
            (Who::Replica(..), ..) => Err(ClusterError::Refused(
                "a replica that comes has a number of its own (--to), and two addresses (--address, --peers)"
                    .to_owned(),
            )),
            _ => Err(ClusterError::Refused(format!("{who} does not move: replicas of chains and homes do"))),
        }
    }

    fn move_replica(&self, to: u16) -> Result<(), ClusterError> {
        let (number, from) = replica_named(&self.member)?;
        let file = File::read(&self.file)?;
        let chain = file.chain(number)?;
        if from == to {
            return Err(ClusterError::Refused(format!(
                "replica {from} cannot be moved to itself: give the new one a number of its own with --to"
            )));
        }
        let place = self.at.place(chain, to)?;
        // What cannot be written is known before anything is ordered.
        let text = self.text(with_place(&self.file, chain, &place)?, number, from)?;
        let now = known(chain)?;
        let others = now.serving().filter(|member| member.replica.0 != to).count() as u16;
        let goal =
            Goal { add: Some(place.at()), serves: true, remove: Some((ReplicaId(from), others.max(1))) };
        let done = carry_out(chain, goal, Some((&place, &joining(&self.file, number, &place))))?;
        replace(&self.file, &text)?;
        say(&format!(
            "replica {} of chain {number} serves in place of replica {from} since epoch {}; stop {from}, and copy {} to the other machines",
            to,
            done.epoch.0,
            self.file.display()
        ));
        Ok(())
    }

    /// The file's text when it is done.
    fn text(&self, with: Option<String>, chain: u32, from: u16) -> Result<String, ClusterError> {
        let source = match with {
            Some(with) => Source::of(&self.file, &with),
            None => Source::read(&self.file).map_err(ClusterError::File)?,
        };
        let text = text::without(&source, chain, from).map_err(ClusterError::Refused)?;
        check(&self.file, &text)?;
        Ok(text)
    }
}
