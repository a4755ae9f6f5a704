//! What the answers say: a row for each member, what is wrong with the whole, and what to do about it.
//!
//! | verdict | what it means |
//! |---|---|
//! | whole | every member that can be asked answers and does its part |
//! | degraded | everything is served; somebody is missing, so one more death may be one too many |
//! | down | a part serves nothing: the keys of a home, or a chain |

mod text;

use super::ask::Answer;
use super::file::{File, Member, Who};
use super::homes;
use crate::chain::status::part;
use crate::metrics::read::{label, samples, sum};
use crate::txn::info::Info;
use base::Nanos;
use protocol::coherence::NodeId;

/// How a member is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It answers.
    Alive,
    /// It answers, and does not do its part yet.
    NotYet(String),
    /// It is to be stopped by an order; whether it may be: nobody waits for it. It may be stopped already.
    Leaving(bool),
    /// It does not answer, for this reason, and has not for so long, if somebody knows.
    Silent(String, Option<Nanos>),
    /// It was not asked, and its controller hears it.
    Heard,
    /// It was not asked, and nobody knows.
    Unknown,
}

/// A member's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who.
    pub who: Who,
    /// What it does.
    pub role: &'static str,
    /// Where.
    pub address: String,
    /// How it is.
    pub state: State,
    /// The number of the table or configuration that it goes by.
    pub epoch: Option<u64>,
    /// What it may do until when.
    pub lease: String,
    /// What it counted, and how far it is.
    pub figures: Vec<(&'static str, u64)>,
}

/// How bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing is wrong.
    Whole,
    /// All is served.
    Degraded,
    /// A part serves nothing.
    Down,
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Problem {
    /// How bad.
    pub verdict: Verdict,
    /// What it is about.
    pub about: String,
    /// What it is, and what follows.
    pub what: String,
    /// What to do.
    pub todo: String,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// The worst first.
    pub problems: Vec<Problem>,
}

impl Report {
    /// What these answers, one for each member of the file, say.
    pub fn of(file: &File, answers: &[Answer]) -> Report {
        let all: Vec<_> = file.members.iter().zip(answers).collect();
        let rows: Vec<Row> = all.iter().map(|(member, answer)| row(file, member, answer, &all)).collect();
        let mut problems: Vec<Problem> = rows.iter().zip(&file.members).filter_map(of_member).collect();
        problems.extend(rows.iter().zip(&file.members).filter_map(elsewhere));
        problems.extend(file.chains.iter().flat_map(|chain| of_chain(chain.number, &rows, &all)));
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.verdict));
        Report { rows, problems }
    }

    /// The worst of all.
    pub fn verdict(&self) -> Verdict {
        self.problems.iter().map(|problem| problem.verdict).max().unwrap_or(Verdict::Whole)
    }
}

/// Why a replica serves nobody that is in the file.
const REMOVED: &str = "an order took it out of the chain";

type Asked<'a> = (&'a Member, &'a Answer);

/// The newest view of a chain.
fn newest<'a>(chain: u32, all: &[Asked<'a>]) -> Option<&'a Info> {
    let infos = all.iter().filter_map(|(_, answer)| match answer {
        Answer::Info(info) if info.chain == chain => Some(&**info),
        _ => None,
    });
    infos.max_by_key(|info| info.epoch)
}

/// How long whoever watches it has heard nothing of a member.
fn silence(who: Who, all: &[Asked<'_>]) -> Option<Nanos> {
    let pages = all.iter().filter_map(|(member, answer)| match answer {
        Answer::Page(page, _) => Some((member.who, page)),
        _ => None,
    });
    let seconds = pages.filter_map(|(by, page)| match (who, by) {
        (Who::Node(_), Who::Node(NodeId::Controller(_))) => {
            let mut found = samples(page, "millrace_inc_silent_seconds");
            found
                .find(|(labels, _)| label(labels, "of") == Some(&who.to_string()))
                .map(|(_, seconds)| seconds)
        }
        (Who::Replica(chain, id), Who::Controller(of, _)) if of == chain => {
            sum(page, "millrace_chain_controller_leads", &[]).filter(|leads| *leads > 0.0)?;
            sum(page, "millrace_chain_controller_silent_seconds", &[("replica", &id.to_string())])
        }
        _ => None,
    });
    seconds.min_by(f64::total_cmp).map(|seconds| Nanos((seconds * 1e9) as u64))
}

/// Of a box that is to be stopped, whether it may be, by the controller that makes the tables.
fn drained(who: Who, all: &[Asked<'_>]) -> Option<bool> {
    let pages = all.iter().filter_map(|(_, answer)| match answer {
        Answer::Page(page, _) => Some(page),
        _ => None,
    });
    let of = who.to_string();
    let said = pages.filter_map(|page| sum(page, "millrace_inc_drained", &[("of", &of)]));
    said.map(|is| is > 0.0).reduce(|one, other| one && other)
}

/// Where a member is: a home that has moved is where the controller that makes the tables says, whatever the file does.
fn place(member: &Member, all: &[Asked<'_>]) -> String {
    let Who::Node(NodeId::Home(_)) = member.who else { return member.address.clone() };
    let placed = homes::place_of(all.iter().copied(), &member.who.to_string());
    placed.map_or_else(|| member.address.clone(), |(address, _)| address)
}

/// A home that is elsewhere than the file says.
fn elsewhere((row, member): (&Row, &Member)) -> Option<Problem> {
    (row.address != member.address).then(|| Problem {
        verdict: Verdict::Degraded,
        about: row.who.to_string(),
        what: format!("is at {} by an order, and the file says {}", row.address, member.address),
        todo: "take the newest copy of the file; if a move was interrupted, run the same `millrace cluster move` again with --it-is-dead"
            .to_owned(),
    })
}

/// After this somebody who is asked for signs of life is not merely late.
const LATE: Nanos = Nanos::from_secs(2);

fn row(file: &File, member: &Member, answer: &Answer, all: &[Asked<'_>]) -> Row {
    let state = match answer {
        _ if drained(member.who, all).is_some() => State::Leaving(drained(member.who, all) == Some(true)),
        Answer::Page(_, None) | Answer::Info(_) => State::Alive,
        Answer::Page(_, Some(why)) => State::NotYet(why.clone()),
        Answer::Silent(why) => State::Silent(why.clone(), silence(member.who, all)),
        Answer::Unasked => match silence(member.who, all) {
            Some(silent) if silent > LATE => {
                State::Silent("its controller does not hear it".to_owned(), Some(silent))
            }
            Some(_) => State::Heard,
            None => State::Unknown,
        },
    };
    let row = Row {
        who: member.who,
        role: "",
        address: place(member, all),
        state,
        epoch: None,
        lease: String::new(),
        figures: Vec::new(),
    };
    match member.who {
        Who::Node(node) => of_rack(node, file.lease, answer, row),
        Who::Replica(chain, _) => of_replica(newest(chain, all), all, answer, row),
        Who::Controller(..) => of_controller(answer, row),
    }
}

fn of_rack(node: NodeId, lease: Option<Nanos>, answer: &Answer, row: Row) -> Row {
    let name = row.who.to_string();
    let page = if let Answer::Page(page, _) = answer { page } else { "" };
    let state = |family: &str| sum(page, family, &[("node", &name)]).map(|value| value as u64);
    let epoch = state("millrace_inc_epoch");
    let lease = if matches!(answer, Answer::Page(..)) {
        lease.map_or(String::new(), |lease| lease.to_string())
    } else {
        String::new()
    };
    let event = |event: &'static str| {
        let own = sum(page, "millrace_inc_events_total", &[("node", &name), ("event", event)]);
        let node = || sum(page, "millrace_kv_home_events_total", &[("event", event)]);
        own.or_else(node).map(|count| (event, count as u64))
    };
    let slots = [("slots cluster", "cluster"), ("slots some", "some"), ("slots nowhere", "nowhere")];
    let slots = slots.into_iter().filter_map(|(shown, cache)| {
        let of = sum(page, "millrace_inc_slots", &[("node", &name), ("cache", cache)])?;
        (of > 0.0).then_some((shown, of as u64))
    });
    match node {
        NodeId::Box(_) => {
            let figures = ["hits", "misses", "fills", "invalidations"].into_iter().filter_map(event);
            let left = state("millrace_inc_left").filter(|left| *left > 0).map(|left| ("left", left));
            Row { role: "box", epoch, lease, figures: figures.chain(slots).chain(left).collect(), ..row }
        }
        NodeId::Home(_) => {
            let items =
                state("millrace_inc_items").or(sum(page, "millrace_kv_items", &[]).map(|items| items as u64));
            let items = items.map(|items| ("items", items));
            let figures = items
                .into_iter()
                .chain(["hits", "misses", "applied", "waited"].into_iter().filter_map(event));
            Row { role: "home", epoch, lease, figures: figures.collect(), ..row }
        }
        _ => {
            let is_active = state("millrace_inc_active") == Some(1);
            let live =
                state("millrace_inc_live_boxes").filter(|_| is_active).map(|live| ("live boxes", live));
            Row {
                role: if is_active { "controller, active" } else { "controller" },
                epoch,
                figures: live.into_iter().chain(slots).collect(),
                ..row
            }
        }
    }
}

fn of_replica(newest: Option<&Info>, all: &[Asked<'_>], answer: &Answer, row: Row) -> Row {
    let (Some(newest), Answer::Info(info)) = (newest, answer) else { return Row { role: "replica", ..row } };
    let last = all.iter().filter_map(|(_, answer)| match answer {
        Answer::Info(other) if other.chain == info.chain => Some(other.last.0),
        _ => None,
    });
    let last = last.max().unwrap_or_default();
    let role = part(newest, info);
    let state = match role {
        "syncing" => State::NotYet("it is given what it lacks".to_owned()),
        "outside" if figure(info, "removed") > 0.0 => State::NotYet(REMOVED.to_owned()),
        "outside" => State::NotYet("it is not in the chain".to_owned()),
        _ => row.state,
    };
    let lease = if info.serves_reads { "reads" } else { "none" }.to_owned();
    let figures = vec![("applied", info.applied.0), ("lag", last - info.applied.0.min(last))];
    Row { role, state, epoch: Some(info.epoch.0), lease, figures, ..row }
}

fn figure(info: &Info, name: &str) -> f64 {
    info.figures.iter().find(|(known, _)| known == name).map_or(0.0, |(_, value)| *value)
}

fn of_controller(answer: &Answer, row: Row) -> Row {
    let page = if let Answer::Page(page, _) = answer { page } else { "" };
    let figure =
        |name: &str| sum(page, &format!("millrace_chain_controller_{name}"), &[]).map(|value| value as u64);
    let leads = figure("leads") == Some(1);
    let heard = figure("replicas_heard").filter(|_| leads).map(|heard| ("replicas heard", heard));
    let role = if leads { "controller, leads" } else { "controller" };
    Row { role, epoch: figure("epoch").filter(|_| leads), figures: heard.into_iter().collect(), ..row }
}

/// What is wrong with a member, taken alone.
fn of_member((row, member): (&Row, &Member)) -> Option<Problem> {
    let problem = |verdict, what, todo| Some(Problem { verdict, about: row.who.to_string(), what, todo });
    let (why, silent) = match &row.state {
        State::Silent(why, silent) => (why, silent),
        State::NotYet(why) => {
            let todo = match &**why {
                REMOVED => "stop it; or let it in again with `millrace cluster add`",
                _ => "wait; if it stays, read what it says",
            };
            return problem(Verdict::Degraded, format!("is not ready: {why}"), todo.to_owned());
        }
        State::Leaving(is_drained) => {
            let (what, todo) = match is_drained {
                true => (
                    "is drained: nobody waits for it",
                    "stop it; or have it serve again with `millrace cluster add`",
                ),
                false => ("is being drained", "wait: about a lease"),
            };
            return problem(Verdict::Degraded, what.to_owned(), todo.to_owned());
        }
        State::Alive | State::Heard | State::Unknown => return None,
    };
    let since = silent.map_or(String::new(), |silent| format!(" for {}", text::span(silent)));
    let (verdict, follows) = match row.who {
        Who::Node(NodeId::Home(_)) => (Verdict::Down, "nobody serves its part of the keys"),
        Who::Node(NodeId::Box(_)) => (Verdict::Degraded, "clients and homes go round it"),
        Who::Node(_) => {
            (Verdict::Degraded, "another must stand by, or requests go round dead boxes more slowly")
        }
        Who::Replica(..) => (Verdict::Degraded, "there is a copy less of what its chain has"),
        Who::Controller(..) => (Verdict::Degraded, "another must lead, or no replica is replaced"),
    };
    problem(verdict, format!("is silent{since} ({why}): {follows}"), format!("start it: {}", member.start))
}

/// A replica that the chain has by an order, and the file has not; and what to do.
fn unnamed(chain: u32, newest: &Info, all: &[Asked<'_>]) -> Option<(String, &'static str)> {
    let is_named = |id: u16| all.iter().any(|(member, _)| member.who == Who::Replica(chain, id));
    let other = newest.members.iter().map(|member| member.replica.0).find(|id| !is_named(*id))?;
    let what = format!(
        "has a replica {other} by an order (epoch {}), and the file does not name it: a move was interrupted, or this file is older than another copy",
        newest.epoch.0
    );
    let todo = "run the same `millrace cluster move` or `add` again, which ends with the file; or take the newest copy of it";
    Some((what, todo))
}

/// What is wrong with a chain as a whole.
fn of_chain(chain: u32, rows: &[Row], all: &[Asked<'_>]) -> Option<Problem> {
    let about = format!("chain:{chain}");
    let problem = |verdict, what: String, todo: &str| {
        Some(Problem { verdict, about: about.clone(), what, todo: todo.to_owned() })
    };
    let controllers: Vec<_> =
        rows.iter().filter(|row| matches!(row.who, Who::Controller(of, _) if of == chain)).collect();
    let leads = controllers.iter().any(|row| row.role.ends_with("leads"));
    let is_known = controllers.iter().all(|row| row.state != State::Unknown);
    let Some(newest) = newest(chain, all) else {
        return problem(
            Verdict::Down,
            "serves nothing: no replica answers".to_owned(),
            "start its replicas with their data, and a controller",
        );
    };
    let here = |id: u16| {
        all.iter().any(|(member, answer)| {
            member.who == Who::Replica(chain, id) && matches!(answer, Answer::Info(_))
        })
    };
    let serving: Vec<u16> =
        newest.members.iter().filter(|member| !member.syncing).map(|member| member.replica.0).collect();
    if serving.is_empty() {
        return problem(
            Verdict::Down,
            "serves nothing: it has no configuration yet".to_owned(),
            "see what its controller says",
        );
    }
    if let Some((what, todo)) = unnamed(chain, newest, all) {
        return problem(Verdict::Degraded, what, todo);
    }
    if let Some(gone) = serving.iter().find(|id| !here(**id)) {
        let what = format!(
            "serves no writes: replica {gone} is in its configuration (epoch {}) and silent",
            newest.epoch.0
        );
        let todo = if leads {
            "wait: it is left out when its lease is over"
        } else {
            "start a controller, which leaves it out; or the replica"
        };
        return problem(Verdict::Down, what, todo);
    }
    let reads = all
        .iter()
        .any(|(_, answer)| matches!(answer, Answer::Info(info) if info.chain == chain && info.serves_reads));
    if !reads {
        let (why, todo) = if leads {
            (
                "its tail has not agreed with the others yet",
                "wait; if it stays, `millrace chain status` says who waits for whom",
            )
        } else {
            (
                "leases are over, and no controller is seen to lead",
                "start a controller; if one runs, look at its registry",
            )
        };
        return problem(Verdict::Down, format!("serves no reads: {why}"), todo);
    }
    if !leads && is_known {
        let what =
            "no controller leads: writes go on, reads end with their leases, and no replica is replaced"
                .to_owned();
        return problem(Verdict::Degraded, what, "start a controller; if one runs, look at its registry");
    }
    None
}

#[cfg(test)]
mod tests;
