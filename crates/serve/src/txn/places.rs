//! The replicas of a chain that a client knows, with a channel to each that it talks to; and waiting for all of them.

use super::error::TxnError;
use super::place::{Opened, Place, open};
use base::{Clock, Nanos};
use fabric::channel::{Channel, Options};
use fabric::link::Address;
use protocol::chain::{Epoch, Message, ReplicaId};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// The replicas.
pub(super) struct Places {
    places: Vec<Place>,
    options: Options,
    /// Sleeps while threads connect.
    sleeper: Sleeper,
    waker: Waker,
    /// Somebody called since the last wait.
    called: Arc<AtomicBool>,
}

/// Ends waits of a client from another thread.
#[derive(Clone)]
pub struct Caller {
    called: Arc<AtomicBool>,
    waker: Waker,
}

impl Caller {
    /// Ends the wait that is under way, or the next one.
    pub fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Places {
    /// Finds the replicas at these addresses, and those that they know of.
    pub(super) fn find(addresses: &[Address], options: Options) -> Result<(Places, u32), TxnError> {
        let nobody = |why: &str| TxnError::Nobody(vec![(addresses[0].clone(), why.to_owned())]);
        if addresses.is_empty() {
            return Err(TxnError::Nobody(Vec::new()));
        }
        let (sleeper, waker) = waiting_on_eventfd().map_err(|error| nobody(&error.to_string()))?;
        let (said, answers) = channel();
        for (at, address) in addresses.iter().enumerate() {
            let (said, address, options) = (said.clone(), address.clone(), options.clone());
            let connect = move || drop(said.send((at, open(&address, &options))));
            let thread = std::thread::Builder::new().name("txn-connect".to_owned()).spawn(connect);
            thread.map_err(|error| nobody(&error.to_string()))?;
        }
        drop(said);
        let mut finding = Finding::default();
        let until = Instant::now() + options.timeout;
        // The channel is closed when everybody has answered.
        while !finding.knows_all(addresses)
            && let Ok((at, opened)) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            finding.heard(addresses[at].clone(), opened)?;
        }
        let Some(chain) = finding.chain else { return Err(TxnError::Nobody(finding.failed)) };
        let called = Arc::default();
        Ok((Places { places: finding.in_order(), options, sleeper, waker, called }, chain))
    }

    pub(super) fn caller(&self) -> Caller {
        Caller { called: Arc::clone(&self.called), waker: self.waker.clone() }
    }

    pub(super) fn replicas(&self) -> Vec<ReplicaId> {
        self.places.iter().map(|place| place.replica).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.places.iter_mut()
    }

    /// How channels are made.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Asks a replica; one that is not known hears nothing.
    pub(super) fn ask(&mut self, now: Nanos, replica: ReplicaId, message: Message) {
        if let Some(place) = self.places.iter_mut().find(|place| place.replica == replica) {
            place.ask(now, message, &self.options, &self.waker);
        }
    }

    /// Takes what came from all of them; how much that is.
    pub(super) fn poll(&mut self, now: Nanos, mut hear: impl FnMut(ReplicaId, Message)) -> usize {
        let poll = |place: &mut Place| {
            let replica = place.replica;
            place.poll(now, |message| hear(replica, message))
        };
        self.places.iter_mut().map(poll).sum()
    }

    /// Sends what was asked, without waiting for anything.
    pub(super) fn flush(&mut self) {
        self.places.iter_mut().filter_map(Place::channel).for_each(|(channel, _)| channel.flush());
    }

    /// Why there is no answer, as far as is known.
    pub(super) fn trouble(&self) -> String {
        let told = |place: &Place| {
            Some(format!("replica {} at {}: {}", place.replica.0, place.address, place.trouble()?))
        };
        let all: Vec<String> = self.places.iter().filter_map(told).collect();
        if all.is_empty() { "no replica answered in time".to_owned() } else { all.join("; ") }
    }

    /// Waits until a poll would find something, or until `until`.
    pub(super) fn wait(&mut self, clock: Clock, policy: WaitPolicy, until: Nanos) {
        let sleepy = clock.now().plus(policy.awake());
        let mut look = 0u32;
        loop {
            if self.is_ready() {
                return;
            }
            look = look.saturating_add(1);
            if look > policy.spin {
                std::hint::spin_loop();
            }
            let now = clock.now();
            if now >= until {
                return;
            }
            if now >= sleepy && policy.block {
                self.sleep(now, until);
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        // All of them: a look publishes.
        let ready = self.places.iter_mut().filter_map(|place| place.look().then_some(())).count();
        ready > 0 || self.was_called()
    }

    fn was_called(&self) -> bool {
        self.called.load(Ordering::Acquire) && self.called.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until something may be there.
    fn sleep(&mut self, now: Nanos, until: Nanos) {
        self.sleeper.arm();
        // All of them: one that is not armed would not wake us.
        let channels = self.places.iter_mut().filter_map(|place| place.channel().map(|(channel, _)| channel));
        let busy = channels.filter_map(|channel| (!channel.arm()).then_some(())).count();
        // Who connects, or calls, rings after it has told; so this look comes after arming.
        let told = self.places.iter_mut().filter(|place| place.is_opening()).any(Place::look)
            || self.called.load(Ordering::Acquire);
        if busy == 0 && !told {
            let theirs = self.channels().map(Channel::next_deadline).fold(until, Nanos::min);
            let span = theirs.since(now);
            let bell = self.sleeper.descriptor().expect("made with an eventfd");
            let all = self.channels().flat_map(Channel::descriptors).chain([bell]);
            let mut fds: Vec<PollFd<'_>> =
                all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let span = Timespec {
                tv_sec: i64::try_from(span.0 / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (span.0 % 1_000_000_000) as i64,
            };
            // Every result means the same: look again.
            let _ = poll(&mut fds, Some(&span));
        }
        self.sleeper.disarm();
        for place in &mut self.places {
            if let Some((channel, _)) = place.channel() {
                channel.disarm();
            }
        }
    }

    fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.places.iter().filter_map(Place::channel_ref)
    }
}

/// What is known so far of who is where.
#[derive(Default)]
struct Finding {
    chain: Option<u32>,
    places: BTreeMap<ReplicaId, Place>,
    /// The order of the chain, as the newest configuration has it that somebody told of.
    order: (Epoch, Vec<ReplicaId>),
    /// Who answered there.
    answered: Vec<Address>,
    failed: Vec<(Address, String)>,
}

impl Finding {
    fn heard(&mut self, address: Address, opened: Result<Opened, String>) -> Result<(), TxnError> {
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.failed.push((address, why));
                return Ok(());
            }
        };
        let info = &opened.info;
        match self.chain {
            Some(chain) if chain != info.chain => return Err(TxnError::Chains(chain, info.chain)),
            _ => self.chain = Some(info.chain),
        }
        if info.epoch > self.order.0 {
            self.order = (info.epoch, info.members.iter().map(|member| member.replica).collect());
        }
        for member in &info.members {
            if let Some(address) = &member.address {
                self.places
                    .entry(member.replica)
                    .or_insert_with(|| Place::new(member.replica, address.clone()));
            }
        }
        // Who answers there itself is believed more than what others say.
        let replica = info.replica;
        let mut place = Place::new(replica, address.clone());
        place.opened(opened);
        self.places.insert(replica, place);
        self.answered.push(address);
        Ok(())
    }

    /// The replicas, from head to tail as far as that is known.
    fn in_order(self) -> Vec<Place> {
        let (_, order) = self.order;
        let mut places: Vec<Place> = self.places.into_values().collect();
        places.sort_by_key(|place| {
            order.iter().position(|replica| *replica == place.replica).unwrap_or(usize::MAX)
        });
        places
    }

    /// Whether somebody answered, and nobody is to be waited for: each address answered, or failed, or is known from another.
    fn knows_all(&self, addresses: &[Address]) -> bool {
        let known = |address: &Address| {
            self.answered.contains(address)
                || self.failed.iter().any(|(failed, _)| failed == address)
                || self.places.values().any(|place| place.address == *address)
        };
        self.chain.is_some() && addresses.iter().all(known)
    }
}
