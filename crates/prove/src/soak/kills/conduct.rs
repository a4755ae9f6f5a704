//! Who dies next: when all is whole and every client has gone on.

use crate::cluster::Members;
use crate::lab::run::record::now;
use base::{Nanos, Prng};
use protocol::coherence::NodeId;
use serve::cluster::file::Who;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Operations that each client does between two deaths, at least.
const BETWEEN: u64 = 8;
/// Within this every client has gone on; nothing that works takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at the clients.
const LOOK: Duration = Duration::from_millis(2);
/// Milliseconds at most until who was killed is started again.
const LONGEST_GONE_MS: u64 = 400;

/// Operations of a client that were answered.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// By what clients are seen to go on.
#[derive(Debug)]
pub struct Watched<'a> {
    /// Of each of memcached's clients, and of those of the chain.
    pub gauges: &'a [Gauge],
    /// What in-network clients have left to do, together.
    pub left: &'a AtomicU64,
    /// How many these are.
    pub users: u32,
}

impl Watched<'_> {
    fn reading(&self) -> (Vec<u64>, u64) {
        (self.gauges.iter().map(Gauge::get).collect(), self.left.load(Ordering::Relaxed))
    }

    /// Whether every client has done some operations since then.
    fn has_gone_on(&self, (gauges, left): &(Vec<u64>, u64)) -> bool {
        let users = left - self.left.load(Ordering::Relaxed) >= BETWEEN * u64::from(self.users);
        users && self.gauges.iter().zip(gauges).all(|(gauge, before)| gauge.get() >= before + BETWEEN)
    }
}

/// A death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Who.
    pub who: Who,
    /// Since the beginning.
    pub at: Nanos,
    /// When all was whole again.
    pub back: Nanos,
}

/// Until so many have died, as `seed` says, or somebody interrupts.
///
/// # Errors
/// In words: a member ended by itself, or something did not become whole, or a client did not go on.
pub fn conduct(
    (kills, seed): (u64, u64),
    members: &mut Members,
    watched: &Watched<'_>,
    begun: Nanos,
    interrupted: &AtomicBool,
    tell: &dyn Fn(f64, &str),
) -> Result<Vec<Death>, String> {
    let mut random = Prng::for_entity(seed, 0, 0x6b69);
    let all = members.all();
    let mut deaths = Vec::new();
    let is_over = || interrupted.load(Ordering::Relaxed);
    await_all(watched, &is_over)?;
    for number in 0..kills {
        let who = draw(&all, &mut random);
        let gone = Duration::from_millis(random.below(LONGEST_GONE_MS));
        tell(number as f64 / kills as f64, &format!("kill {} of {kills}: {who}", number + 1));
        let at = now().since(begun);
        members.kill(who)?;
        std::thread::sleep(gone);
        members.start(who, false)?;
        members.await_whole(&mut || is_over())?;
        deaths.push(Death { who, at, back: now().since(begun) });
        await_all(watched, &is_over)?;
        if is_over() {
            break;
        }
    }
    Ok(deaths)
}

/// One of a role: all roles are as likely, and all members of one.
fn draw(all: &[Who], random: &mut Prng) -> Who {
    let of_role =
        |role: &dyn Fn(&Who) -> bool| all.iter().copied().filter(|who| role(who)).collect::<Vec<_>>();
    let roles = [
        of_role(&|who| matches!(who, Who::Node(NodeId::Home(_)))),
        of_role(&|who| matches!(who, Who::Node(NodeId::Box(_)))),
        of_role(&|who| matches!(who, Who::Node(NodeId::Controller(_)))),
        of_role(&|who| matches!(who, Who::Replica(..))),
        of_role(&|who| matches!(who, Who::Controller(..))),
    ];
    let role = &roles[random.below(roles.len() as u64) as usize];
    role[random.below(role.len() as u64) as usize]
}

fn await_all(watched: &Watched<'_>, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let (begun, before) = (Instant::now(), watched.reading());
    while !watched.has_gone_on(&before) && !is_over() {
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "some client has not done {BETWEEN} operations in {} s, though all is whole: {before:?}, now {:?}",
                PATIENCE.as_secs(),
                watched.reading()
            ));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
