//! Two ends, their users and a network; and the checker, which knows every message.
//!
//! The checker holds at every step: a message handed out was sent, by the one peer of that session, was not handed out
//! before, and is unchanged; memory is below its bound; a deadline that was served lies behind. And at the end, when
//! the network is well again: the messages of sessions that live have all arrived; a session that ended has ended at
//! the other end too.

use super::super::{Config, Heard, Listener, Lost, SendError, Session, answer_stray, session_of};
use super::network::{Faults, Network, Side};
use base::{Nanos, Prng};
use std::collections::{BTreeMap, HashMap};

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) opener: Config,
    pub(super) accepter: Config,
    pub(super) faults: Faults,
    pub(super) delay: Nanos,
    pub(super) jitter: Nanos,
    /// Messages from the opener, from the accepter.
    pub(super) messages: [u32; 2],
    /// Length of the longest; most are short.
    pub(super) longest: usize,
    /// A user takes messages with this probability at each of its turns.
    pub(super) eager: f64,
    pub(super) restarts: Vec<(Side, Nanos)>,
    /// A restarted opener uses its old number again.
    pub(super) same_number: bool,
    /// Faults end at this time.
    pub(super) well_at: Nanos,
}

/// How it went.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) delivered: u32,
    pub(super) lost: Vec<(Side, Lost)>,
    pub(super) corrupt: u64,
    pub(super) duplicates: u64,
    pub(super) lost_packets: u64,
    pub(super) timeouts: u64,
}

/// A session with its user.
struct User {
    side: Side,
    instance: u32,
    session: Session,
    sent: u32,
    /// The instance whose messages arrive here.
    peer: Option<u32>,
    ended_at: Option<Nanos>,
}

struct Message {
    len: usize,
    delivered: bool,
}

pub(super) struct World {
    scenario: Scenario,
    now: Nanos,
    prng: Prng,
    network: Network,
    listener: Listener,
    opener_epoch: u64,
    users: Vec<User>,
    /// By instance and number.
    messages: BTreeMap<(u32, u32), Message>,
    /// How many messages of a side were sent, by whatever instance.
    sent: [u32; 2],
    /// Epoch of an opener → its instance.
    openers: HashMap<u64, u32>,
    summary: Summary,
    /// When a message was handed out, or a session ended.
    progress_at: Nanos,
    out: Vec<u8>,
}

/// Between two turns of a user.
const TURN: Nanos = Nanos::from_micros(100);
/// Bytes of the longest message that says who it is.
const NAME: usize = 12;

impl World {
    pub(super) fn new(scenario: Scenario) -> World {
        let s = &scenario;
        let mut prng = Prng::for_entity(s.seed, 0, 0x776f);
        World {
            now: Nanos::ZERO,
            network: Network::new(s.seed, s.faults.clone(), s.delay, s.jitter),
            listener: Listener::new(&s.accepter, [prng.next_u64(), prng.next_u64()]),
            opener_epoch: prng.next_u64(),
            users: Vec::new(),
            messages: BTreeMap::new(),
            sent: [0; 2],
            openers: HashMap::new(),
            summary: Summary::default(),
            progress_at: Nanos::ZERO,
            out: Vec::new(),
            prng,
            scenario,
        }
    }

    /// Plays the scenario to its end.
    pub(super) fn run(mut self) -> Result<Summary, String> {
        self.open(7);
        let mut turn_at = Nanos::ZERO;
        // Whoever neither goes on nor ends for so long after the network is well never does.
        let patience = Nanos(3 * self.scenario.opener.lost_after.max(self.scenario.accepter.lost_after).0);
        loop {
            self.now = turn_at.min(self.network.next_at()).min(self.deadline()).max(self.now);
            if self.now >= self.scenario.well_at {
                self.network.faults = Faults::default();
            }
            self.restart_who_is_due();
            while let Some((to, datagram)) = self.network.arrive(self.now) {
                self.deliver(to, &datagram)?;
            }
            if self.now >= turn_at {
                turn_at = self.now.plus(TURN);
                self.users_turn()?;
                let end = self.progress_at.max(self.scenario.well_at).plus(patience);
                if self.is_done() || self.now >= end {
                    return self.finish();
                }
            }
            self.transmit()?;
        }
    }

    fn deadline(&self) -> Nanos {
        let living = self.users.iter().filter(|u| u.ended_at.is_none());
        living.map(|u| u.session.next_deadline()).min().unwrap_or(Nanos::MAX)
    }

    fn open(&mut self, number: u64) {
        let instance = self.users.len() as u32;
        self.openers.insert(self.opener_epoch, instance);
        let session = Session::open(&self.scenario.opener, self.now, self.opener_epoch, number);
        self.add(Side::Opener, session);
    }

    /// As another process.
    fn open_again(&mut self) {
        self.opener_epoch = self.prng.next_u64();
        let number = if self.scenario.same_number { 7 } else { self.prng.next_u64() };
        self.open(number);
    }

    fn add(&mut self, side: Side, session: Session) {
        let instance = self.users.len() as u32;
        self.users.push(User { side, instance, session, sent: 0, peer: None, ended_at: None });
    }

    /// The living session of a side with this number; a dead process's sessions have no more datagrams.
    fn find(&self, side: Side, number: u64) -> Option<usize> {
        self.users.iter().rposition(|u| u.side == side && u.session.id() == number && u.ended_at.is_none())
    }

    fn deliver(&mut self, to: Side, datagram: &[u8]) -> Result<(), String> {
        let Some(number) = session_of(datagram) else { return Ok(()) };
        if let Some(index) = self.find(to, number) {
            self.users[index].session.handle_datagram(self.now, datagram);
            return Ok(());
        }
        let mut out = Vec::new();
        match to {
            Side::Opener => {
                answer_stray(self.opener_epoch, datagram, &mut out);
            }
            Side::Accepter => {
                match self.listener.handle_datagram(self.now, &"opener", true, datagram, &mut out) {
                    Heard::Session(session) => self.accepted(*session),
                    Heard::Nothing | Heard::Reply(_) => {}
                }
            }
        }
        if out.len() > datagram.len() {
            return Err(format!("{} bytes for {}", out.len(), datagram.len()));
        }
        if !out.is_empty() {
            self.network.send(self.now, to.other(), &out);
        }
        Ok(())
    }

    fn accepted(&mut self, session: Session) {
        let opener = self.openers.get(&session.peer_epoch).copied();
        self.add(Side::Accepter, session);
        self.users.last_mut().expect("just added").peer = opener;
    }

    fn transmit(&mut self) -> Result<(), String> {
        for index in 0..self.users.len() {
            let user = &mut self.users[index];
            if user.ended_at.is_some() {
                continue;
            }
            for count in 0.. {
                self.out.clear();
                let Some(len) = user.session.poll_transmit(self.now, &mut self.out) else { break };
                if len != self.out.len() || len > user.session.datagram_bytes || count > 1_000_000 {
                    return Err(format!("datagram {count} has {len} bytes"));
                }
                self.network.send(self.now, user.side.other(), &self.out);
            }
            if user.session.next_deadline() <= self.now {
                return Err("a deadline that was served does not move".to_string());
            }
            if user.session.memory() > user.session.memory_bound() {
                return Err(format!("{} bytes of memory", user.session.memory()));
            }
            self.note_end(index)?;
        }
        Ok(())
    }

    /// A session that is over and has said so leaves its process.
    fn note_end(&mut self, index: usize) -> Result<(), String> {
        let Some(lost) = self.users[index].session.lost() else { return Ok(()) };
        self.take_messages(index, usize::MAX)?;
        let user = &mut self.users[index];
        user.ended_at = Some(self.now);
        self.progress_at = self.now;
        self.summary.lost.push((user.side, lost));
        let stats = user.session.stats();
        self.summary.corrupt += stats.corrupt;
        self.summary.duplicates += stats.duplicate_packets + stats.duplicate_pieces;
        self.summary.lost_packets += stats.lost_packets;
        self.summary.timeouts += stats.timeouts;
        let failed = user.side == Side::Opener && lost != Lost::Closed;
        if failed && self.now < self.scenario.well_at {
            self.open_again();
        }
        Ok(())
    }

    fn restart_who_is_due(&mut self) {
        while let Some(i) = self.scenario.restarts.iter().position(|r| r.1 <= self.now) {
            let (side, _) = self.scenario.restarts.swap_remove(i);
            let now = self.now;
            let living = self.users.iter_mut().filter(|u| u.side == side && u.ended_at.is_none());
            living.for_each(|u| u.ended_at = Some(now));
            match side {
                Side::Accepter => {
                    let secret = [self.prng.next_u64(), self.prng.next_u64()];
                    self.listener = Listener::new(&self.scenario.accepter, secret);
                }
                Side::Opener => self.open_again(),
            }
        }
    }

    fn users_turn(&mut self) -> Result<(), String> {
        for index in 0..self.users.len() {
            if self.users[index].ended_at.is_some() {
                continue;
            }
            self.send_messages(index)?;
            if self.prng.chance(self.scenario.eager) {
                let most = 1 + self.prng.below(64) as usize;
                self.take_messages(index, most)?;
            }
            if self.all_delivered() && self.users[index].side == Side::Opener {
                self.users[index].session.close(self.now);
            }
        }
        Ok(())
    }

    fn length(&mut self) -> usize {
        let longest = self.scenario.longest as u64;
        let below = [64, 64, 300, 300, 5000, longest][self.prng.below(6) as usize];
        (NAME as u64 + self.prng.below(below.min(longest))).min(longest) as usize
    }

    fn send_messages(&mut self, index: usize) -> Result<(), String> {
        let side = self.users[index].side;
        for _ in 0..self.prng.below(40) {
            if self.sent[side as usize] == self.scenario.messages[side as usize] {
                break;
            }
            let len = self.length();
            let user = &mut self.users[index];
            let message = content(user.instance, user.sent, len);
            let (head, tail) = message.split_at(len / 3);
            match user.session.send(&[head, &[], tail]) {
                Ok(()) => {}
                Err(SendError::Full | SendError::Gone) => break,
                Err(SendError::TooLarge) => return Err(format!("{len} bytes are too many")),
            }
            self.messages.insert((user.instance, user.sent), Message { len, delivered: false });
            user.sent += 1;
            self.sent[side as usize] += 1;
        }
        Ok(())
    }

    fn take_messages(&mut self, index: usize, most: usize) -> Result<(), String> {
        let User { session, peer, side, .. } = &mut self.users[index];
        for _ in 0..most {
            let Some(bytes) = session.poll_message() else { break };
            let (name, _) = bytes.split_first_chunk::<NAME>().ok_or("a message too short for a name")?;
            let instance = u32::from_le_bytes([name[0], name[1], name[2], name[3]]);
            let number = u32::from_le_bytes([name[4], name[5], name[6], name[7]]);
            let message = self.messages.get_mut(&(instance, number)).ok_or("a message nobody sent")?;
            if *peer.get_or_insert(instance) != instance {
                return Err(format!("{side:?} got a message of an earlier session"));
            }
            if bytes != content(instance, number, message.len) {
                return Err(format!("message {number} of {instance} was changed"));
            }
            if std::mem::replace(&mut message.delivered, true) {
                return Err(format!("message {number} of {instance} was handed out twice"));
            }
            self.summary.delivered += 1;
            self.progress_at = self.now;
        }
        Ok(())
    }

    /// Whether everybody who lives has sent all there was, and all of it has arrived.
    fn all_delivered(&self) -> bool {
        let living = |instance: u32| self.users[instance as usize].ended_at.is_none();
        self.sent == self.scenario.messages
            && self.messages.iter().all(|(&(instance, _), m)| m.delivered || !living(instance))
    }

    fn is_done(&self) -> bool {
        self.now >= self.scenario.well_at && self.users.iter().all(|u| u.ended_at.is_some())
    }

    fn finish(self) -> Result<Summary, String> {
        if let Some(user) = self.users.iter().find(|u| u.ended_at.is_none()) {
            let of_user = self.messages.range((user.instance, 0)..(user.instance + 1, 0));
            let missing = of_user.filter(|(_, m)| !m.delivered).count();
            let (side, instance, stats) = (user.side, user.instance, user.session.stats());
            return Err(format!(
                "{side:?} {instance} does not end; {missing} messages are missing: {stats:?}"
            ));
        }
        for (&(instance, number), message) in &self.messages {
            // An opener closes when all has arrived; whatever else is missing was lost with its session.
            let user = &self.users[instance as usize];
            if !message.delivered && user.session.lost() == Some(Lost::Closed) {
                return Err(format!("message {number} of {instance} is missing"));
            }
        }
        self.ends_together()?;
        Ok(self.summary)
    }

    /// Whether no end outlived its peer by more than its patience, and what was still on the way.
    fn ends_together(&self) -> Result<(), String> {
        let end = |user: &User| user.ended_at.expect("all have ended");
        for user in self.users.iter().filter(|u| u.side == Side::Accepter) {
            // An Open that came again may have begun a session that nobody used: `open_timeout` ends that.
            let was_used = user.session.heard_at > user.session.began;
            let Some(peer) = user.peer.filter(|_| was_used) else { continue };
            let peer = &self.users[peer as usize];
            let (a, b) = (end(user).min(end(peer)), end(user).max(end(peer)));
            let slack = self.scenario.faults.late_by.plus(Nanos::from_millis(10));
            if b > a.plus(user.session.config.lost_after).plus(slack) {
                return Err(format!("{} ended at {a}, its peer at {b}", user.instance));
            }
        }
        Ok(())
    }
}

/// The bytes of a message, which say whose it is.
fn content(instance: u32, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Prng::for_entity(u64::from(instance), u64::from(number), len as u64).fill(&mut bytes);
    bytes[0..4].copy_from_slice(&instance.to_le_bytes());
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
    bytes
}
