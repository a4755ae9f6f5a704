//! What is too long for a packet goes to its home by a stream: the home is a memcached node, and the topology says where it listens (`stream`).
//!
//! ```text
//!  ask ─▶ queue of its home ─▶ a link that is free, or a new one: at most LINKS ══ TCP ══▶ memcached listener of the home
//!              ▲ │ deadline             │ reply ─▶ poll
//!              └─┼── BUSY, or lost before it can have been done: again, after a pause
//!                ▼
//!              failed: NotDone, or Unknown where a write was sent
//! ```
//!
//! Why it stays coherent: the home admits what comes by its memcached side as it does packets, boxes drop their copies first; so each request takes
//! effect there, between its beginning and its end. Boxes keep nothing that does not fit a packet.
//!
//! A link has one request at a time, so that none waits behind another's value, and a link that is given up takes nobody with it.
//!
//! Bounds: [`LINKS`] for each home; requests by who asks; a reply by `coherence.value_max`, and a request ends within `coherence.patience`.
//! Errors: a home that cannot be reached is tried again after `coherence.retransmit`, then twice that, up to `coherence.retransmit_max`; it is said once.

mod call;
mod link;
mod request;
#[cfg(test)]
mod tests;

pub use call::{answer, of_call};
pub use request::{Request, Said, exptime, key_word, number};

use super::topology::Topology;
use base::Nanos;
use link::{Link, Turn};
use protocol::coherence::client::Failed;
use protocol::coherence::table::Layout;
use protocol::wire::{HomeId, Status, key_hash};
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Connections to a home, at most.
pub const LINKS: usize = 4;

/// Names a request, in the order of their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A request that is not answered.
#[derive(Debug)]
struct Job {
    id: StreamId,
    request: Request,
    deadline: Nanos,
    /// Not before.
    at: Nanos,
    pause: Nanos,
}

/// A home.
#[derive(Debug)]
struct Way {
    address: SocketAddr,
    queue: VecDeque<Job>,
    links: [Option<Link>; LINKS],
    /// No connection is tried before.
    retry_at: Nanos,
    pause: Nanos,
    /// Nobody answered lately, and that was said.
    is_silent: bool,
}

/// Times and bounds.
#[derive(Clone, Copy, Debug)]
struct Limits {
    patience: Nanos,
    pause: Nanos,
    pause_max: Nanos,
    value: usize,
}

/// See the head of the file.
#[derive(Debug)]
pub struct Streams {
    layout: Arc<Layout>,
    limits: Limits,
    ways: BTreeMap<HomeId, Way>,
    epoll: OwnedFd,
    ended: VecDeque<(StreamId, Result<Said, Failed>)>,
    next: u64,
    connected: u64,
    broken: u64,
    now: Nanos,
}

impl Streams {
    /// To the homes of `topology`, if they have streams. Nothing is connected before it is wanted.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn of(topology: &Topology) -> io::Result<Option<Streams>> {
        if topology.streams().is_empty() {
            return Ok(None);
        }
        let config = topology.config();
        let limits = Limits {
            patience: config.patience,
            pause: config.retransmit,
            pause_max: config.retransmit_max,
            value: topology.value_max(),
        };
        let way = |address| Way {
            address,
            queue: VecDeque::new(),
            links: Default::default(),
            retry_at: Nanos::ZERO,
            pause: limits.pause,
            is_silent: false,
        };
        Ok(Some(Streams {
            layout: topology.layout().clone(),
            limits,
            ways: topology.streams().iter().map(|(home, address)| (*home, way(*address))).collect(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ended: VecDeque::new(),
            next: 0,
            connected: 0,
            broken: 0,
            now: Nanos::ZERO,
        }))
    }

    /// Bytes of the longest value.
    pub fn value_max(&self) -> usize {
        self.limits.value
    }

    /// Begins a request.
    pub fn ask(&mut self, now: Nanos, request: Request) -> StreamId {
        self.next += 1;
        let id = StreamId(self.next);
        let home = self.layout.home_of(key_hash(&request.key));
        let deadline = now.plus(self.limits.patience);
        let way = self.ways.get_mut(&home).expect("all homes have streams, or none");
        way.queue.push_back(Job { id, request, deadline, at: now, pause: self.limits.pause });
        self.now = now;
        self.dispatch(home);
        id
    }

    /// A request that ended, and how.
    pub fn poll(&mut self) -> Option<(StreamId, Result<Said, Failed>)> {
        self.ended.pop_front()
    }

    /// Takes what arrived and does what is due, without waiting.
    pub fn serve(&mut self, now: Nanos) {
        self.now = now;
        if self.ways.values().any(|way| way.links.iter().any(Option::is_some)) {
            self.serve_links();
        }
        let homes: Vec<HomeId> = self.ways.keys().copied().collect();
        for home in homes {
            self.end_overdue(home);
            self.dispatch(home);
        }
    }

    /// When [`Streams::serve`] is wanted although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        let mut earliest = Nanos::MAX;
        for way in self.ways.values() {
            for job in &way.queue {
                let begins = job.at.max(way.retry_at);
                earliest = earliest.min(job.deadline);
                if begins > self.now {
                    earliest = earliest.min(begins);
                }
            }
            for link in way.links.iter().flatten() {
                earliest = earliest.min(link.job().map_or(Nanos::MAX, |job| job.deadline));
            }
        }
        earliest
    }

    /// What it counted.
    pub fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("asked by stream", self.next),
            ("streams connected", self.connected),
            ("streams broken", self.broken),
        ]
    }

    fn serve_links(&mut self) {
        let mut events = Vec::with_capacity(LINKS * self.ways.len());
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Fails only where it is interrupted; what is ready is ready next time.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
        for event in events {
            let (home, at) = (HomeId((event.data.u64() >> 32) as u16), event.data.u64() as u32 as usize);
            let (now, limits) = (self.now, self.limits);
            let way = self.ways.get_mut(&home).expect("it was watched");
            let Some(link) = &mut way.links[at] else { continue };
            let turn = link.turn(&self.epoll, event.data);
            if link.is_torn() {
                way.links[at] = None;
            }
            match turn {
                Turn::Waits => {}
                Turn::Connected => {
                    (way.pause, way.is_silent) = (limits.pause, false);
                    self.connected += 1;
                }
                Turn::Said(job, Said::Refused(Status::Busy)) => {
                    let pause = Nanos(job.pause.0.saturating_mul(2)).min(limits.pause_max);
                    way.queue.push_back(Job { at: now.plus(job.pause), pause, ..job });
                }
                Turn::Said(job, said) => self.ended.push_back((job.id, Ok(said))),
                Turn::Broken(why) => {
                    if let Some(link) = way.links[at].take() {
                        self.broke(home, link, &why);
                    }
                }
            }
        }
    }

    /// A link is lost, with what it had.
    fn broke(&mut self, home: HomeId, link: Link, why: &str) {
        let way = self.ways.get_mut(&home).expect("it had a link");
        let was_of_use = link.was_connected();
        if !was_of_use {
            way.retry_at = self.now.plus(way.pause);
            way.pause = Nanos(way.pause.0.saturating_mul(2)).min(self.limits.pause_max);
        }
        let Some(job) = link.into_job() else { return };
        self.broken += 1;
        if !std::mem::replace(&mut way.is_silent, true) {
            log::warn!("home:{home} does not serve its stream at {}: {why}", way.address);
        }
        match job {
            // It may have been done.
            (job, true) if job.request.changes => self.ended.push_back((job.id, Err(Failed::Unknown))),
            (job, _) => {
                let pause = Nanos(job.pause.0.saturating_mul(2)).min(self.limits.pause_max);
                way.queue.push_front(Job { at: self.now.plus(job.pause), pause, ..job });
            }
        }
    }

    /// What nobody answered in time.
    fn end_overdue(&mut self, home: HomeId) {
        let now = self.now;
        let way = self.ways.get_mut(&home).expect("it is one of them");
        way.queue.retain(|job| {
            let is_due = job.deadline <= now;
            if is_due {
                self.ended.push_back((job.id, Err(Failed::NotDone)));
            }
            !is_due
        });
        for link in &mut way.links {
            // What it is answered later nobody could tell from other answers: the link goes.
            let Some(link) = link.take_if(|link| link.job().is_some_and(|job| job.deadline <= now)) else {
                continue;
            };
            let (job, is_sent) = link.into_job().expect("it has one");
            let unknown = is_sent && job.request.changes;
            self.broken += 1;
            self.ended.push_back((job.id, Err(if unknown { Failed::Unknown } else { Failed::NotDone })));
        }
    }

    /// Gives what waits to links that are free, and makes some.
    fn dispatch(&mut self, home: HomeId) {
        let (now, limits, epoll) = (self.now, self.limits, &self.epoll);
        let way = self.ways.get_mut(&home).expect("it is one of them");
        let mut lost = None;
        while let Some(next) = way.queue.iter().position(|job| job.at <= now) {
            let free = way.links.iter().position(|link| link.as_ref().is_some_and(Link::is_free));
            let vacant = way.links.iter().position(Option::is_none).filter(|_| way.retry_at <= now);
            let Some(at) = free.or(vacant) else { break };
            let job = way.queue.remove(next).expect("it was found there");
            let token = epoll::EventData::new_u64(u64::from(home.0) << 32 | at as u64);
            let (link, begun) = match way.links[at].take() {
                Some(mut link) => {
                    let begun = link.begin(job, epoll, token);
                    (link, begun)
                }
                None => Link::connect(way.address, limits.value, job, epoll, token),
            };
            match begun {
                Ok(()) => way.links[at] = Some(link),
                Err(why) => {
                    lost = Some((link, why));
                    break;
                }
            }
        }
        if let Some((link, why)) = lost {
            self.broke(home, link, &why.to_string());
        }
    }
}

impl AsFd for Streams {
    /// Readable when [`Streams::serve`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
