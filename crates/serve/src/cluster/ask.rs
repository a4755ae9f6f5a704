//! All members at once: how each of them is.
//!
//! Bounds: [`AT_ONCE`] threads; [`PATIENCE`] for each of the two pages of an admin port, and for a replica; [`PAGE_BYTES`] of a page.

use super::file::{Means, Member, Who};
use crate::chain::status;
use crate::metrics::read::sum;
use crate::txn::info::Info;
use ::client::web::{Web, url};
use protocol::coherence::NodeId;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Members that are asked at once.
const AT_ONCE: usize = 32;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest page that is read.
const PAGE_BYTES: u64 = 8 << 20;

/// What a member said.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Its metrics; and why it does not serve clients, if it says so.
    Page(String, Option<String>),
    /// A replica's view.
    Info(Box<Info>),
    /// Nothing that makes sense, and why.
    Silent(String),
    /// It was not asked: the file does not say where.
    Unasked,
}

/// Asks all, and has their answers in the same order.
pub fn ask_all(members: &[Member]) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let answers: Mutex<Vec<Answer>> = Mutex::new(vec![Answer::Unasked; members.len()]);
    let work = || {
        loop {
            // Each place is taken once; nothing else is read after it.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(member) = members.get(at) else { return };
            let answer = ask(member);
            answers.lock().unwrap_or_else(PoisonError::into_inner)[at] = answer;
        }
    };
    std::thread::scope(|scope| (0..members.len().min(AT_ONCE)).for_each(|_| drop(scope.spawn(work))));
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn ask(member: &Member) -> Answer {
    let answer = match &member.means {
        Means::None => return Answer::Unasked,
        Means::Info(address) => status::ask(address, None).map(|info| Answer::Info(Box::new(info))),
        Means::Admin(address) => pages(*address),
    };
    answer.map_or_else(Answer::Silent, |answer| checked(member.who, answer))
}

/// An answer of another process, which has the address now, is none.
fn checked(who: Who, answer: Answer) -> Answer {
    let is_its_own = match (who, &answer) {
        (Who::Replica(chain, id), Answer::Info(info)) => (info.chain, info.replica.0) == (chain, id),
        (Who::Controller(chain, number), Answer::Page(page, _)) => {
            let labels = [("chain", &*chain.to_string()), ("controller", &*number.to_string())];
            sum(page, "millrace_chain_controller_leads", &labels).is_some()
        }
        (Who::Node(node), Answer::Page(page, _)) => {
            let is_node = sum(page, "millrace_inc_events_total", &[("node", &who.to_string())]).is_some();
            // A key-value node is one home at most.
            is_node
                || matches!(node, NodeId::Home(_))
                    && sum(page, "millrace_kv_home_events_total", &[]).is_some()
        }
        _ => true,
    };
    if is_its_own {
        answer
    } else {
        Answer::Silent("another process answers there, or it does not turn".to_owned())
    }
}

fn pages(address: SocketAddr) -> Result<Answer, String> {
    let web = Web::new(PATIENCE, PAGE_BYTES);
    let get =
        |path: &str| web.get(&format!("{}/{path}", url(address))).map(|page| (page.is_there, page.text));
    let (is_there, metrics) = get("metrics")?;
    if !is_there {
        return Err(format!("{}/metrics is not there", url(address)));
    }
    let (is_ready, why) = get("readyz")?;
    Ok(Answer::Page(metrics, (!is_ready).then(|| why.trim().to_owned())))
}
