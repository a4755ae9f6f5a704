//! A run in this process: a thread and a socket per node, a thread per client.

use super::conduct::{Stage, conduct};
use super::kill::{Role, schedule};
use super::load::Pace;
use super::record::{Part, now};
use super::stall;
use super::user::{Mix, User};
use super::{Outcome, Run, Scene};
use crate::lab::LabError;
use base::Nanos;
use protocol::coherence::{Life, Planted};
use protocol::planted::Bugs;
use protocol::wire::BoxId;
use serve::inc::rack::Rack;
use serve::process::progress;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Threads<'a, B> {
    rack: &'a mut Rack<B>,
    is_done: &'a dyn Fn() -> bool,
}

impl<B: Bugs<Planted> + Send + 'static> Stage for Threads<'_, B> {
    fn kill(&mut self, role: Role) -> Result<(), LabError> {
        match role {
            Role::Node(node) => Ok(self.rack.kill(node)?),
            Role::Link(_) => unreachable!("over loopback there are no links"),
        }
    }

    fn revive(&mut self, role: Role) -> Result<(), LabError> {
        match role {
            Role::Node(node) => Ok(self.rack.revive(node, Life::Again)?),
            Role::Link(_) => unreachable!("over loopback there are no links"),
        }
    }

    fn is_ready(&mut self, _: Role) -> Result<bool, LabError> {
        Ok(true)
    }

    fn is_done(&mut self) -> Result<bool, LabError> {
        Ok((self.is_done)())
    }
}

/// Runs and judges on these nodes, ending early at `stop`.
pub fn measure<B: Bugs<Planted> + Send + 'static>(
    run: &Run,
    mut rack: Rack<B>,
    stop: &AtomicBool,
) -> Result<Outcome, LabError> {
    let mix = Mix::new(run.load.writes, run.load.compute).map_err(LabError::Mix)?;
    let roles: Vec<Role> = rack.topology().nodes().into_iter().map(Role::Node).collect();
    let (kills, seconds) = run.kills(&roles, BoxId(1), rack.topology().config().lease);
    let steps = schedule(&kills, run.back, &roles)?;
    let begun = now();
    let left = AtomicU64::new(run.load.operations);
    let over = AtomicBool::new(false);
    let tor = |number: u32| 1 + (number % u32::from(run.plan.shape.tors)) as u16;
    let pace = Pace::of(run.rate(seconds), run.plan.clients);
    let user = |number| {
        let place = (number, Some(run.plan.clients));
        User::new(rack.topology(), place, tor(number), &mix, &run.load, (Part::new(number), pace))
    };
    let users: Vec<User> = (0..run.plan.clients).map(user).collect::<Result<_, LabError>>()?;
    let bar = progress::bar(false);
    let (parts, deaths) = std::thread::scope(|scope| {
        let work = |user: User| scope.spawn(|| user.work(&left, &over));
        let threads: Vec<_> = users.into_iter().map(work).collect();
        let is_done = || threads.iter().all(|thread| thread.is_finished());
        let mut stage = Threads { rack: &mut rack, is_done: &is_done };
        let stopped = || stop.load(Ordering::Relaxed);
        let result = conduct(&mut stage, &steps, (begun, seconds), &stopped, &bar);
        over.store(true, Ordering::Relaxed);
        let parts: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect();
        result.map(|deaths| (parts, deaths))
    })?;
    bar.finish_and_clear();
    let took = now().since(begun);
    rack.stop()?;
    let life = |number| (number, stall::Life { tor: tor(number), from: Nanos(0), to: took });
    let lives = (0..run.plan.clients).map(life).collect();
    let nodes = rack.counted().iter().map(|(node, counters)| (*node, serve::inc::run::show(*node, counters)));
    let scene = Scene { begun, took, deaths, lives, planned: kills.len(), nodes: nodes.collect() };
    run.judge(parts.into_iter().collect::<Result<_, _>>()?, scene, rack.topology())
}
