//! The replicas of a chain that a client knows, with a channel to each that it talks to; and waiting for all of them.

use super::error::TxnError;
use super::info::Info;
use super::place::{Opened, Place, open};
use base::{Clock, Nanos};
use fabric::channel::{Channel, Options};
use fabric::link::Address;
use protocol::chain::message::Refusal;
use protocol::chain::{Epoch, Message, ReplicaId};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Instant;

/// Between two looks for replicas that are not known.
const SEEK_PAUSE: Nanos = Nanos::from_millis(100);

/// The replicas.
pub(super) struct Places {
    places: Vec<Place>,
    /// A thread asks those that are known who there is by now.
    seeking: Option<Receiver<Info>>,
    /// What it said.
    came: Option<Info>,
    /// Not again before.
    seek_at: Nanos,
    /// The newest configuration that somebody told of.
    epoch: Epoch,
    /// There are others than before.
    has_news: bool,
    options: Options,
    /// Sleeps while threads connect.
    sleeper: Sleeper,
    waker: Waker,
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
        let epoch = finding.order.0;
        let (seeking, came, seek_at, has_news) = (None, None, Nanos::ZERO, false);
        let places = finding.in_order();
        Ok((Places { places, seeking, came, seek_at, epoch, has_news, options, sleeper, waker }, chain))
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

    /// Asks a replica. One that is not known hears nothing, and is looked for: the machine asks again.
    pub(super) fn ask(&mut self, now: Nanos, replica: ReplicaId, message: Message) {
        match self.places.iter_mut().find(|place| place.replica == replica) {
            Some(place) => place.ask(now, message, &self.options, &self.waker),
            None => self.seek(now),
        }
    }

    /// Takes what came from all of them; how much that is. Who is told to go elsewhere, or hears nothing more, looks who there is by now: replicas come
    /// and go while the chain serves.
    pub(super) fn poll(&mut self, now: Nanos, mut hear: impl FnMut(ReplicaId, Message)) -> usize {
        let mut has_moved = false;
        let mut count = 0;
        for place in &mut self.places {
            let (replica, was_open) = (place.replica, place.is_open());
            count += place.poll(now, |message| {
                has_moved |= matches!(message, Message::Refused { why: Refusal::Elsewhere(_), .. });
                hear(replica, message);
            });
            has_moved |= was_open && !place.is_open();
        }
        if has_moved {
            self.seek(now);
        }
        count + self.found()
    }

    /// Whether there are others than the last time: those of [`Places::replicas`].
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Has a thread ask those that are known, until one says who there is.
    fn seek(&mut self, now: Nanos) {
        if self.seeking.is_some() || now < self.seek_at {
            return;
        }
        self.seek_at = now.plus(SEEK_PAUSE);
        let (said, told) = channel();
        let addresses: Vec<Address> = self.places.iter().map(|place| place.address.clone()).collect();
        let (options, waker, epoch) = (self.options.clone(), self.waker.clone(), self.epoch);
        let ask = move || {
            let infos = addresses.iter().filter_map(|address| open(address, &options).ok());
            // One that was left out may have been told nothing more.
            let newest = infos.map(|opened| opened.info).find(|info| info.epoch > epoch);
            if let Some(info) = newest {
                // Nobody listens when the client is gone.
                let _ = said.send(info);
            }
            drop(said);
            waker.wake();
        };
        // Without a thread nothing is told, and it is tried again.
        if std::thread::Builder::new().name("txn-seek".to_owned()).spawn(ask).is_ok() {
            self.seeking = Some(told);
        }
    }

    /// Whether the search has found something.
    fn look(&mut self) -> bool {
        if let Some(told) = &self.seeking {
            match told.try_recv() {
                Ok(info) => (self.came, self.seeking) = (Some(info), None),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.seeking = None,
            }
        }
        self.came.is_some()
    }

    /// What the search found; how much that is.
    fn found(&mut self) -> usize {
        self.look();
        let Some(info) = self.came.take() else { return 0 };
        self.epoch = info.epoch;
        let is_member = |place: &Place| info.members.iter().any(|member| member.replica == place.replica);
        // One that still answers may have what was asked there.
        self.places.retain(|place| is_member(place) || place.is_open());
        for member in &info.members {
            let Some(address) = &member.address else { continue };
            match self.places.iter_mut().find(|place| place.replica == member.replica) {
                Some(place) if place.address == *address || place.is_open() => {}
                Some(place) => *place = Place::new(member.replica, address.clone()),
                None => self.places.push(Place::new(member.replica, address.clone())),
            }
        }
        let place_of = |id: ReplicaId| info.members.iter().position(|member| member.replica == id);
        self.places.sort_by_key(|place| place_of(place.replica).unwrap_or(usize::MAX));
        self.has_news = true;
        1
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
        self.places.iter_mut().filter_map(|place| place.look().then_some(())).count() > 0 || self.look()
    }

    /// Sleeps until something may be there.
    fn sleep(&mut self, now: Nanos, until: Nanos) {
        self.sleeper.arm();
        // All of them: one that is not armed would not wake us.
        let channels = self.places.iter_mut().filter_map(|place| place.channel().map(|(channel, _)| channel));
        let busy = channels.filter_map(|channel| (!channel.arm()).then_some(())).count();
        // Connecting threads ring after they have told; so this look comes after arming.
        let told = self.places.iter_mut().filter(|place| place.is_opening()).any(Place::look) || self.look();
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
