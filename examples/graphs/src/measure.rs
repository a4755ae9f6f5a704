//! Load points: what a graph can do in a closed loop, and then shares of that in an open one, where a request that starts late was waiting (no
//! coordinated omission; see `bench::drive`).

use super::Failure;
use super::book::Pages;
use super::load::{Asker, KINDS, Requests, Seen};
use super::tier::{Graph, Rig};
use super::{media, social};
use base::{Clock, Nanos, Prng};
use bench::drive::{Calls, Pace, Plan, drive};
use bench::tally::Tally;
use fabric::channel::Channel;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Load {
    /// Per cent of what the graph can do.
    pub loads: Vec<u32>,
    /// Of each point.
    pub length: Duration,
    /// Of each point at most.
    pub requests: u64,
    /// Requests under way at most.
    pub window: usize,
    /// Composed before.
    pub composed: u64,
    pub seed: u64,
}

/// A load point.
#[derive(Debug)]
pub struct Point {
    /// Per cent of what the graph can do; nothing for the closed loop that found that out.
    pub load: Option<u32>,
    /// Requests per second that were meant; of the closed loop those that were answered.
    pub meant: f64,
    /// Requests per second that were answered.
    pub done: f64,
    /// Requests that failed or never started, and a word on the first.
    pub failed: u64,
    pub unsent: u64,
    pub example: Option<String>,
    pub seen: Seen,
    pub methods: Pages,
}

/// A graph's points.
#[derive(Debug)]
pub struct Measured {
    pub graph: &'static str,
    pub tiers: usize,
    pub kinds: [(&'static str, u64); KINDS],
    pub points: Vec<Point>,
}

/// The social network.
///
/// # Errors
/// It cannot be started.
pub fn social(rig: &Rig, load: &Load, shares: [u64; KINDS], stop: &AtomicBool) -> Result<Measured, Failure> {
    let graph = social::start(rig)?;
    let mut channel = rig.client(graph.address("site"))?;
    let before = social::load::Users::new(&channel, [100, 0, 0])?;
    let users = social::load::Users::new(&channel, shares)?;
    Ok(points("social network", &graph, &mut channel, (Box::new(before), Box::new(users)), load, stop))
}

/// The site of movie reviews.
///
/// # Errors
/// It cannot be started.
pub fn media(rig: &Rig, load: &Load, shares: [u64; KINDS], stop: &AtomicBool) -> Result<Measured, Failure> {
    let graph = media::start(rig)?;
    let mut channel = rig.client(graph.address("site"))?;
    let before = media::load::Readers::new(&channel, [100, 0, 0], 0)?;
    // Numbers of requests are reviews' names while they are put together.
    let readers = media::load::Readers::new(&channel, shares, load.composed as i64)?;
    Ok(points("movie reviews", &graph, &mut channel, (Box::new(before), Box::new(readers)), load, stop))
}

type Users = (Box<dyn Requests>, Box<dyn Requests>);

fn points(
    name: &'static str,
    graph: &Graph<'_>,
    channel: &mut Channel,
    (mut before, mut users): Users,
    load: &Load,
    stop: &AtomicBool,
) -> Measured {
    let kinds = users.kinds();
    let mut measured = Measured { graph: name, tiers: graph.tiers(), kinds, points: Vec::new() };
    let mut run = |requests: &mut dyn Requests, plan: &Plan, left: u64, seed: u64| {
        let mut calls = Calls::new(channel, Asker::new(requests, seed), load.window, 1);
        calls.left = left;
        graph.take();
        let tally = drive(&mut calls, plan, Clock::shared().now(), stop, &AtomicU64::new(0));
        (tally, graph.take())
    };
    let length: Nanos = load.length.into();
    if load.composed > 0 {
        let (tally, methods) = run(&mut *before, &Plan::full(Nanos::from_secs(60)), load.composed, load.seed);
        if tally.all_failed() > 0 {
            measured.points.push(point(None, 0.0, tally, methods));
            return measured;
        }
    }
    let (tally, methods) = run(&mut *users, &Plan::full(length), load.requests, load.seed + 1);
    let most = tally.throughput();
    measured.points.push(point(None, most, tally, methods));
    for &share in &load.loads {
        let rate = most * f64::from(share) / 100.0;
        if rate <= 0.0 || stop.load(Ordering::Relaxed) {
            break;
        }
        let seed = load.seed + 2 + u64::from(share);
        let pace = Pace::Open { rate, poisson: true };
        let plan = Plan { pace, random: Prng::new(seed), ..Plan::full(length) };
        let (tally, methods) = run(&mut *users, &plan, load.requests, seed);
        measured.points.push(point(Some(share), rate, tally, methods));
    }
    measured
}

fn point(load: Option<u32>, meant: f64, tally: Tally<Seen>, methods: Pages) -> Point {
    Point {
        load,
        meant,
        done: tally.throughput(),
        failed: tally.all_failed(),
        unsent: tally.unsent,
        example: tally.examples.first().cloned(),
        seen: tally.counts,
        methods,
    }
}
