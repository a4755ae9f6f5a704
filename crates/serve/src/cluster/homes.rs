//! `millrace cluster move` of a home: its next life is at another address, and nobody is restarted.
//!
//! ```text
//!  all is looked at ──▶ the old life ends, and is seen to ──▶ order to the controllers ──▶ one makes a table of it ──▶ the file ──▶ start it there
//! ```
//! Two lives of a home at once are a wrong answer, not a wait; and a home that cannot be reached may live. So nothing is ordered before the old life's end
//! was seen: its process is told to stop at its admin port, and that port is gone in the end; or the operator says that it is dead, who has seen it himself.
//!
//! Bounds: [`END_PATIENCE`] for the end; [`PATIENCE`] until a controller goes by the order.

use super::ClusterError;
use super::ask::{Answer, ask_all};
use super::change::{check, replace};
use super::file::{File, Means, Member, text};
use super::rack::{PACE, PATIENCE, active, controllers, put, tell};
use crate::admin::token_for;
use crate::inc::Topology;
use crate::metrics::read::{label, samples};
use crate::process::stop::Woken;
use crate::process::table::Source;
use crate::process::{Stop, say};
use protocol::coherence::NodeId;
use protocol::wire::HomeId;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A home that was told to stop has answered what had come within this, and written what it keeps.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How long a port may take to be open or closed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a home goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    pub(super) address: SocketAddr,
    /// Where operators find it there, if not where they did.
    pub(super) admin: Option<SocketAddr>,
    /// Its life where it is has ended: the operator has seen it.
    pub(super) is_dead: bool,
}

/// Has a rack look for a home elsewhere, when its life where it was has ended; then writes that into the file.
///
/// # Errors
/// It is not seen to end, or no controller obeys, and why; the file cannot be written; Ctrl-C.
pub(super) fn move_home(path: &Path, id: HomeId, to: To) -> Result<(), ClusterError> {
    let refused = ClusterError::Refused;
    let source = Source::read(path).map_err(ClusterError::File)?;
    let topology = Topology::parse(source.text(), path).map_err(ClusterError::Rack)?;
    topology.check_move(id, to.address).map_err(ClusterError::Rack)?;
    if !topology.streams().is_empty() {
        return Err(refused(
            "homes that have a `stream` in the file do not move: clients that have connections there would not hear of it. End all nodes, change the file, and \
             start them"
                .to_owned(),
        ));
    }
    let is_there = topology.book().address_of(NodeId::Home(id)) == Some(to.address);
    if is_there && topology.layout().moved().of(id).is_none() {
        return Err(refused(format!(
            "home:{id} is at {} by the file: nothing moves. Start it there again",
            to.address
        )));
    }
    // What cannot be written, or ordered, is known before anything ends.
    let written = |epoch| text::moved(&source, id.0, (to.address, to.admin), epoch).map_err(refused);
    check(path, &written(1)?)?;
    let file = File::read(path)?;
    let controllers = controllers(&file, "nobody tells boxes and clients where a home is")?;
    let members: Vec<Member> = controllers.iter().map(|member| (*member).clone()).collect();
    can_be_told(&members)?;
    let stop = Stop::on_signals().map_err(ClusterError::Signals)?;
    if !to.is_dead {
        end(&file, id, &stop)?;
    }
    tell(&controllers, (&format!("/homes/{id}/address"), &to.address.to_string()), "")?;
    let epoch = wait(&members, id, to.address, &stop)?;
    replace(path, &written(epoch)?)?;
    let (file, at) = (path.display(), to.address);
    say(&format!(
        "home:{id} is at {at} since epoch {epoch}: boxes and clients look for it there. Start it there, if it does not run; it serves when a lease has \
         passed:\n  millrace up --cluster {file} --home {id} …, or millrace home {id} --cluster {file}\nwith this file as it is now (with an older one: \
         --home-listen {at}, or --listen {at}). Copy it to the other machines"
    ));
    Ok(())
}

/// Whether a controller makes tables, and one can be told.
fn can_be_told(controllers: &[Member]) -> Result<(), ClusterError> {
    if active(controllers.iter().zip(&ask_all(controllers))).is_none() {
        return Err(ClusterError::Refused(
            "no controller is seen to make tables: nobody would tell boxes and clients. `millrace cluster status` says which is active"
                .to_owned(),
        ));
    }
    let token = |member: &Member| match member.means {
        Means::Admin(address) => token_for(address).map(drop),
        _ => Err("the file says no admin port of it".to_owned()),
    };
    let whys: Vec<String> = controllers
        .iter()
        .map_while(|member| Some(format!("{}: {}", member.who, token(member).err()?)))
        .collect();
    if whys.len() < controllers.len() {
        return Ok(());
    }
    Err(ClusterError::Refused(format!(
        "no controller can be given an order ({}). Run this where a controller runs, or name its token's file with MILLRACE_ADMIN_TOKEN",
        whys.join("; ")
    )))
}

/// Has a home's process end, and sees it.
fn end(file: &File, id: HomeId, stop: &Stop) -> Result<(), ClusterError> {
    let name = format!("home:{id}");
    let home = file.member(&name)?;
    let or = format!(
        "Stop {name} where it is, see that its process is gone and that nothing starts it there again, and say so with --it-is-dead. One that only cannot be reached \
         may live: then there would be two"
    );
    let refused = |why: String| ClusterError::Refused(format!("{name} is not seen to end: {why}. {or}"));
    let Means::Admin(address) = home.means else {
        return Err(refused("the file says no admin port of it".to_owned()));
    };
    if let Some(other) = file.members.iter().find(|other| other.who != home.who && other.means == home.means)
    {
        return Err(refused(format!("it is in one process with {}, which would end, too", other.who)));
    }
    match ask_all(std::slice::from_ref(home)).pop() {
        Some(Answer::Page(..)) => {}
        Some(Answer::Silent(why)) => return Err(refused(format!("it does not answer at {address} ({why})"))),
        _ => return Err(refused(format!("it does not answer at {address}"))),
    }
    put(home, "/stop", "").map_err(|why| refused(format!("it does not stop when it is told to ({why})")))?;
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
            _ if begun.elapsed() > END_PATIENCE => {
                return Err(refused(format!("it was told to stop {} s ago", END_PATIENCE.as_secs())));
            }
            _ => {}
        }
        if stop.wait(PACE) == Woken::Stop {
            return Err(refused("interrupted after it was told to stop".to_owned()));
        }
    }
}

/// Waits until the controller that makes the tables says that the home is there; the epoch of the order.
fn wait(controllers: &[Member], id: HomeId, address: SocketAddr, stop: &Stop) -> Result<u32, ClusterError> {
    let begun = Instant::now();
    loop {
        let answers = ask_all(controllers);
        if let Some((found, epoch)) = place_of(controllers.iter().zip(&answers), &format!("home:{id}"))
            && found == address.to_string()
        {
            return Ok(epoch);
        }
        let is_late = begun.elapsed() > PATIENCE;
        if is_late || stop.wait(PACE) == Woken::Stop {
            let why = if is_late { "no controller makes tables by this order" } else { "interrupted" };
            return Err(ClusterError::Refused(format!(
                "{why}: home:{id} has ended where it was. The same command again, with --it-is-dead, goes on from there"
            )));
        }
    }
}

/// Where a home is and since which epoch, by the controller that makes the tables, if it has moved.
pub(super) fn place_of<'a>(
    asked: impl IntoIterator<Item = (&'a Member, &'a Answer)>,
    home: &str,
) -> Option<(String, u32)> {
    let (node, page) = active(asked)?;
    samples(page, "millrace_inc_moved").find_map(|(labels, epoch)| {
        let is = label(labels, "node") == Some(&*node) && label(labels, "of") == Some(home);
        let address = label(labels, "address").filter(|_| is)?;
        Some((address.to_owned(), epoch as u32))
    })
}
