//! Orders to the controllers of a rack that runs: a box is to be stopped, or to serve again. Those to move a home: `homes`.
//!
//! ```text
//!  all controllers are told ──▶ one makes the tables, and goes by it ──▶ it says that nobody would wait for the box ──▶ the file
//! ```
//! Controllers are told at their admin ports, with the token that each has there. Those that stand by hear of it from the one that makes the tables,
//! and are told because any of them may be that by now. Whoever is interrupted leaves the order in force; the same command once more goes on from
//! there.
//!
//! Bounds: [`PATIENCE`] until a controller that makes the tables goes by it; then for as long as the rack makes of it.

use super::ClusterError;
use super::ask::{Answer, ask_all};
use super::change::replace;
use super::file::{File, Means, Member, Who, text};
use crate::metrics::read::sum;
use crate::process::Stop;
use crate::process::stop::Woken;
use crate::process::table::Source;
use crate::trace::Port;
use indicatif::ProgressBar;
use protocol::coherence::NodeId;
use protocol::wire::BoxId;
use std::path::Path;
use std::time::{Duration, Instant};

/// A controller that makes the tables goes by it within this: longer than it takes another to take over from a dead one.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
pub(super) const PACE: Duration = Duration::from_millis(100);
/// How long an order may take.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);

/// How far a box is, by the controller that makes the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nobody says that he makes them.
    Nobody,
    Serves,
    Drains,
    Drained,
}

/// Has a rack drain a box, or serve with it again; then writes that into the file. What may be done now.
///
/// # Errors
/// No controller obeys, and why; the file cannot be written; Ctrl-C.
pub(super) fn order(path: &Path, id: BoxId, is_draining: bool) -> Result<String, ClusterError> {
    // What cannot be written is known before anything is ordered.
    let source = Source::read(path).map_err(ClusterError::File)?;
    let text = text::draining(&source, id.0, is_draining).map_err(ClusterError::Refused)?;
    super::change::check(path, &text)?;
    let file = File::read(path)?;
    let controllers = controllers(
        &file,
        "nobody tells homes and boxes about a box. Without it, stopping a box makes writes of keys that it has copies of wait for its lease",
    )?;
    let order = (&*format!("/boxes/{id}/draining"), &*is_draining.to_string());
    let or = format!(
        "; or write `draining = {is_draining}` into the [[box]] of every controller's file, and `kill -HUP` them"
    );
    tell(&controllers, order, &or)?;
    wait(&controllers, id, is_draining)?;
    replace(path, &text)?;
    let file = path.display();
    Ok(match is_draining {
        true => format!(
            "box:{id} may be stopped: nobody waits for it. `millrace cluster add {file} box:{id}` has it serve again. Copy {file} to the other machines"
        ),
        false => format!("box:{id} serves, if it runs. Copy {file} to the other machines"),
    })
}

/// The rack's controllers.
///
/// # Errors
/// There are none; `without` is what follows.
pub(super) fn controllers<'a>(file: &'a File, without: &str) -> Result<Vec<&'a Member>, ClusterError> {
    let is = |member: &&Member| matches!(member.who, Who::Node(NodeId::Controller(_)));
    let all: Vec<&Member> = file.members.iter().filter(is).collect();
    if all.is_empty() {
        return Err(ClusterError::Refused(format!("the file has no [[controller]]: {without}")));
    }
    Ok(all)
}

/// Tells all controllers that can be told: a request of their admin ports, with this text.
///
/// # Errors
/// None of them takes it, and why each does not; `or` is what else could be done.
pub(super) fn tell(
    controllers: &[&Member],
    (path, text): (&str, &str),
    or: &str,
) -> Result<(), ClusterError> {
    let told: Vec<Result<(), String>> = controllers.iter().map(|one| put(one, path, text)).collect();
    if told.iter().any(Result::is_ok) {
        return Ok(());
    }
    let whys = controllers.iter().zip(told).filter_map(|(one, told)| Some((one.who, told.err()?)));
    let whys: Vec<String> = whys.map(|(who, why)| format!("{who}: {why}")).collect();
    Err(ClusterError::Refused(format!(
        "no controller takes the order ({}). Run this where a controller runs, or name its token's file with MILLRACE_ADMIN_TOKEN{or}",
        whys.join("; ")
    )))
}

/// Asks a member something at its admin port, with the token that it has there.
///
/// # Errors
/// It does not do it, and why.
pub(super) fn put(member: &Member, path: &str, text: &str) -> Result<(), String> {
    let Means::Admin(address) = member.means else {
        return Err("the file says no admin port of it".to_owned());
    };
    Port::from(address).put(path, text, ORDER_TIMEOUT)
}

/// Of those who were asked, the controller that makes the tables, of two the one with the newer: its name, and its page.
pub(super) fn active<'a>(
    asked: impl IntoIterator<Item = (&'a Member, &'a Answer)>,
) -> Option<(String, &'a str)> {
    let pages = asked.into_iter().filter_map(|(member, answer)| match answer {
        Answer::Page(page, _) => Some((member.who.to_string(), &**page)),
        _ => None,
    });
    let figure = |(node, page): &(String, &str), family: &str| sum(page, family, &[("node", node)]);
    let active = pages.filter(|one| figure(one, "millrace_inc_active").is_some_and(|is| is > 0.0));
    let epoch = |one: &_| figure(one, "millrace_inc_epoch").unwrap_or_default();
    active.max_by(|one, other| epoch(one).total_cmp(&epoch(other)))
}

/// Waits until the controller that makes the tables says that it is so.
fn wait(controllers: &[&Member], id: BoxId, is_draining: bool) -> Result<(), ClusterError> {
    let stop = Stop::on_signals().map_err(ClusterError::Signals)?;
    let members: Vec<Member> = controllers.iter().map(|member| (*member).clone()).collect();
    let line = ProgressBar::new_spinner();
    let begun = Instant::now();
    loop {
        let seen = look(&members, &ask_all(&members), id);
        let is_so = if is_draining { seen == Seen::Drained } else { seen == Seen::Serves };
        if is_so {
            line.finish_and_clear();
            return Ok(());
        }
        let obeys = matches!((is_draining, seen), (true, Seen::Drains));
        if !obeys && begun.elapsed() > PATIENCE {
            line.finish_and_clear();
            return Err(ClusterError::Refused(
                "no controller makes tables by this order: `millrace cluster status` says which is active"
                    .to_owned(),
            ));
        }
        let seconds = begun.elapsed().as_secs();
        line.set_message(match seen {
            Seen::Drains => format!(
                "box:{id} is being drained, for {seconds} s: keys that it owns go home, leases run out"
            ),
            _ => format!("a controller is to make a table of it, for {seconds} s"),
        });
        if stop.wait(PACE) == Woken::Stop {
            line.finish_and_clear();
            return Err(ClusterError::Refused(format!(
                "interrupted: the order about box:{id} is in force; the same command again waits on"
            )));
        }
    }
}

fn look(members: &[Member], answers: &[Answer], id: BoxId) -> Seen {
    let of = format!("box:{id}");
    let Some((node, page)) = active(members.iter().zip(answers)) else { return Seen::Nobody };
    match sum(page, "millrace_inc_drained", &[("node", &node), ("of", &of)]) {
        None => Seen::Serves,
        Some(is) if is > 0.0 => Seen::Drained,
        Some(_) => Seen::Drains,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inc::book;

    #[test]
    fn the_newest_of_those_that_make_tables_says_how_far_a_box_is() {
        let member = |index| Member {
            who: Who::Node(NodeId::Controller(index)),
            address: String::new(),
            means: Means::None,
            start: String::new(),
        };
        let members = [member(0), member(1)];
        let page = |index: u8, active: u8, epoch: u64, drained: Option<u8>| {
            let node = book::name(NodeId::Controller(index));
            let drained = drained.map_or(String::new(), |is| {
                format!("millrace_inc_drained{{node=\"{node}\",of=\"box:2\"}} {is}\n")
            });
            let text = format!(
                "millrace_inc_active{{node=\"{node}\"}} {active}\nmillrace_inc_epoch{{node=\"{node}\"}} {epoch}\n{drained}"
            );
            Answer::Page(text, None)
        };
        let silent = || Answer::Silent("gone".to_owned());
        for (answers, seen) in [
            ([silent(), page(1, 0, 9, Some(1))], Seen::Nobody),
            ([silent(), page(1, 1, 9, Some(1))], Seen::Drained),
            ([page(0, 1, 8, Some(1)), page(1, 1, 9, Some(0))], Seen::Drains),
            ([page(0, 1, 8, Some(1)), page(1, 1, 9, None)], Seen::Serves),
            ([page(0, 1, 8, Some(1)), page(1, 0, 9, None)], Seen::Drained),
        ] {
            assert_eq!(look(&members, &answers, BoxId(2)), seen, "{answers:?}");
            assert!(matches!(look(&members, &answers, BoxId(3)), Seen::Serves | Seen::Nobody));
        }
    }
}
