//! Interleaved rounds: each window of each system for a few ten milliseconds, with a probe of the cores' distance between.
//!
//! Why: a virtual machine's cores move every tenth of a second (`ring::probe`). A sample counts when the probes before and after
//! it see the same distance, and client and server had their cores to themselves; a ratio counts when both of its samples do, and the
//! distance is the same for the two. The rest is counted as dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::Nanos;
use ring::probe::{Distance, PingPong, ping_pong};

use crate::Contest;
use crate::sample::{Client, Sample};
use crate::server::{Served, Server};
use crate::systems::{Folder, System};

const PROBE: Duration = Duration::from_millis(3);
/// A thread may wait for its core for a tenth of a sample.
const MOST_STARVED: u64 = 10;

/// How to measure.
pub struct Plan {
    /// The client's core and the server's.
    pub cores: [usize; 2],
    /// Time of a sample.
    pub sample: Nanos,
    /// Time of all rounds together.
    pub total: Duration,
    /// Calls in flight.
    pub windows: Vec<usize>,
    /// Samples count too in which other programs had the cores.
    pub busy: bool,
}

/// One sample of one system.
pub struct Reading {
    /// Whose.
    pub system: System,
    /// Calls in flight.
    pub window: usize,
    /// How far apart the cores were, or why it does not count.
    pub distance: Result<Distance, Dropped>,
    /// What the client saw.
    pub sample: Sample,
    /// What the server did, warm-up included.
    pub served: Served,
}

/// Why a sample does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// The probes before and after it see different distances, or one sees none.
    Moved,
    /// Another program had one of the cores for a while.
    Busy,
}

/// The run.
pub struct Outcome {
    /// Who took part, in order.
    pub systems: Vec<System>,
    /// Every round's readings.
    pub rounds: Vec<Vec<Reading>>,
    /// Round trips of a cache line in ns, as the probes saw them.
    pub probes: Vec<f64>,
}

/// One system, with its server at rest.
struct Player {
    system: System,
    client: Box<dyn Client>,
    server: Server,
}

/// Takes rounds until the time is over or `stop` is set.
pub fn run(plan: &Plan, systems: &[System], contest: &Contest, stop: &AtomicBool) -> Result<Outcome, String> {
    let folder = Folder::create()?;
    let [client_core, server_core] = plan.cores;
    base::cpu::pin_to(client_core)
        .map_err(|error| format!("no core {client_core} for the client: {error}"))?;
    let mut players = systems
        .iter()
        .map(|&system| Player::start(system, server_core, &folder, contest))
        .collect::<Result<Vec<Player>, String>>()?;

    let mut outcome = Outcome { systems: systems.to_vec(), rounds: Vec::new(), probes: Vec::new() };
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) && begin.elapsed() < plan.total {
        let round = round(plan, &mut players, &mut outcome.probes, stop)?;
        outcome.rounds.push(round);
        // Who comes first, and after whom, changes from round to round.
        players.rotate_left(1);
    }
    Ok(outcome)
}

/// All windows of all players once; what there is of it when `stop` is set.
fn round(
    plan: &Plan,
    players: &mut [Player],
    probes: &mut Vec<f64>,
    stop: &AtomicBool,
) -> Result<Vec<Reading>, String> {
    let mut readings = Vec::new();
    let mut before = probe(plan, probes);
    for &window in &plan.windows {
        for player in players.iter_mut().filter(|player| player.system.takes(window)) {
            if stop.load(Ordering::Relaxed) {
                return Ok(readings);
            }
            let (sample, served) = player.sample(window, plan.sample)?;
            let after = probe(plan, probes);
            let apart = before.filter(|_| before == after).ok_or(Dropped::Moved);
            let starved = sample.client.starved.max(served.usage.starved);
            let busy = !plan.busy && starved.0 > sample.wall.0 / MOST_STARVED;
            let distance = if busy { Err(Dropped::Busy) } else { apart };
            before = after;
            readings.push(Reading { system: player.system, window, distance, sample, served });
        }
    }
    Ok(readings)
}

fn probe(plan: &Plan, probes: &mut Vec<f64>) -> Option<Distance> {
    let seen = ping_pong(plan.cores, PROBE)?;
    probes.push(seen.round_trip.0 as f64);
    Some(PingPong::distance(seen))
}

impl Player {
    /// Starts the server's process, connects to it and makes the first calls.
    fn start(system: System, core: usize, folder: &Folder, contest: &Contest) -> Result<Player, String> {
        let mut server = Server::start(system, core, folder.path(), contest)?;
        let address = server.address().to_string();
        let (client, _) = server.while_serving(|| {
            let mut client = system.client(&address, folder, contest)?;
            client.run(1, Nanos::from_millis(10))?;
            Ok(client)
        })?;
        Ok(Player { system, client, server })
    }

    /// A sample, after a tenth of its time to warm up.
    fn sample(&mut self, window: usize, time: Nanos) -> Result<(Sample, Served), String> {
        let Player { client, server, .. } = self;
        server.while_serving(|| {
            client.run(window, Nanos(time.0 / 10))?;
            client.run(window, time)
        })
    }
}
