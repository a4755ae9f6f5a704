//! The replicas of a chain that a client knows, with a channel to each that it talks to; and waiting for all of them.
//!
//! The chain moves while a client knows it: replicas join, leave, and come back at other addresses. A client hears of that when a replica that it
//! connects to tells who is in the chain; and when nobody can be reached, or a replica is named that it does not know, it looks for them anew, where it
//! found them first and at all addresses that it knows. A thread does that, since it may take long.
//!
//! Besides, the home of boxes that has claimed the chain, while there is one and somebody asks for it.
//!
//! Bounds: [`MAX_REPLICAS`]; one search at a time, [`SEARCH_PAUSE`] apart.

use super::directory::MAX_REPLICAS;
use super::error::TxnError;
use super::find::Finder;
use super::info::Info;
use super::place::{HELD, Place};
use super::search::Finding;
use base::{Clock, Nanos};
use fabric::channel::{Channel, Options};
use fabric::link::Address;
use protocol::chain::message::Refusal;
use protocol::chain::transaction::Abort;
use protocol::chain::{Epoch, Message, NodeId, ReplicaId};
use ring::wait::{Sleeper, WaitPolicy, Waker, waiting_on_eventfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Between the beginnings of two searches.
const SEARCH_PAUSE: Nanos = Nanos::from_millis(500);

/// A search on a thread, and what it found, once that was looked at.
struct Search {
    answer: Receiver<Result<Finding, TxnError>>,
    came: Option<Result<Finding, TxnError>>,
}

/// The replicas.
pub(super) struct Places {
    places: Vec<Place>,
    home: Home,
    chain: u32,
    /// The newest configuration that a replica told of.
    order: (Epoch, Vec<ReplicaId>),
    /// Others came to be known, or were forgotten, since [`Places::changed`] was asked.
    is_changed: bool,
    finder: Finder,
    search: Option<Search>,
    /// None is begun before.
    search_at: Nanos,
    /// Why the last one found nobody.
    search_trouble: Option<String>,
    options: Options,
    /// Sleeps while threads connect.
    sleeper: Sleeper,
    waker: Waker,
    /// Somebody called since the last wait.
    called: Arc<AtomicBool>,
}

/// The home of boxes that has claimed the chain, as far as it is known.
#[derive(Default)]
struct Home {
    place: Option<Place>,
    /// Messages that wait until it is known where it is.
    held: Vec<Message>,
    /// Somebody wants to know where it is.
    is_wanted: bool,
    /// It could not be reached, or its connection ended.
    is_lost: bool,
    trouble: Option<String>,
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
    /// Finds the replicas of a chain, and those that they know of.
    pub(super) fn find(finder: Finder, options: Options) -> Result<(Places, u32), TxnError> {
        let addresses = finder.addresses().map_err(TxnError::NotFound)?;
        let nobody = |why: &str| TxnError::Nobody(vec![(addresses[0].clone(), why.to_owned())]);
        let (sleeper, waker) = waiting_on_eventfd().map_err(|error| nobody(&error.to_string()))?;
        let finding = Finding::search(&addresses, finder.chain, &options)?;
        let chain = finding.chain.expect("somebody answered");
        let places = Places {
            chain,
            home: Home::default(),
            order: finding.order.clone(),
            is_changed: false,
            places: finding.in_order(),
            finder: Finder { chain: Some(chain), ..finder },
            search: None,
            search_at: Nanos::ZERO,
            search_trouble: None,
            options,
            sleeper,
            waker,
            called: Arc::default(),
        };
        Ok((places, chain))
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

    /// Whether others are known than when it was asked last.
    pub(super) fn changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Asks a replica; one that is not known is looked for.
    pub(super) fn ask(&mut self, now: Nanos, replica: ReplicaId, message: Message) {
        match self.places.iter_mut().find(|place| place.replica == replica) {
            Some(place) => place.ask(now, message, &self.options, &self.waker),
            None => self.begin_search(now),
        }
    }

    /// Asks the home of boxes. Where it is not known where that is, [`Places::wants_home`] says so.
    pub(super) fn ask_home(&mut self, now: Nanos, message: Message) {
        match &mut self.home.place {
            Some(place) => place.ask(now, message, &self.options, &self.waker),
            None => {
                self.home.is_wanted = true;
                if self.home.held.len() < HELD {
                    self.home.held.push(message);
                }
            }
        }
    }

    /// Whether somebody asked for a home that is not known, since this was asked.
    pub(super) fn wants_home(&mut self) -> bool {
        std::mem::take(&mut self.home.is_wanted)
    }

    /// The home is there, or there is none, and why not.
    pub(super) fn set_home(&mut self, now: Nanos, found: Result<Address, String>) {
        let held = std::mem::take(&mut self.home.held);
        match found {
            Ok(address) => {
                self.home.place = Some(Place::home(address));
                held.into_iter().for_each(|message| self.ask_home(now, message));
            }
            Err(why) => (self.home.trouble, self.home.is_lost) = (Some(why), true),
        }
    }

    /// Whether the home was lost since this was asked.
    pub(super) fn lost_home(&mut self) -> bool {
        std::mem::take(&mut self.home.is_lost)
    }

    /// Why the home was not reached the last time, if so.
    pub(super) fn trouble_of_home(&self) -> Option<&str> {
        self.home.trouble.as_deref()
    }

    /// Takes what came from the home. One that is lost is looked for anew when somebody asks for it.
    fn poll_home(&mut self, now: Nanos, hear: &mut impl FnMut(NodeId, Message)) -> usize {
        let Some(place) = &mut self.home.place else { return 0 };
        let was_open = place.is_open();
        let mut is_replaced = false;
        let count = place.poll(now, |message| {
            is_replaced |=
                matches!(&message, Message::Reply { outcome, .. } if outcome.abort == Some(Abort::Claimed));
            hear(NodeId::Home, message);
        });
        if is_replaced {
            // Whoever is not answered asks again, where the claim says then.
            self.home.place = None;
        } else if (was_open && !place.is_open()) || place.is_out_of_reach() {
            let why = place.trouble().unwrap_or("the connection ended");
            self.home.trouble = Some(format!("the home at {}: {why}", place.address));
            (self.home.place, self.home.is_lost) = (None, true);
        } else if count > 0 {
            self.home.trouble = None;
        }
        count
    }

    /// Replicas, and the home.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.places.iter_mut().chain(&mut self.home.place)
    }

    /// Takes what came from all of them; how much that is.
    pub(super) fn poll(&mut self, now: Nanos, mut hear: impl FnMut(NodeId, Message)) -> usize {
        let (mut count, mut is_lost) = (self.poll_home(now, &mut hear), false);
        let mut news = Vec::new();
        for place in &mut self.places {
            let (replica, was_open) = (place.replica, place.is_open());
            count += place.poll(now, |message| {
                is_lost |= matches!(&message, Message::Refused { why: Refusal::Elsewhere(None), .. });
                hear(NodeId::Replica(replica), message);
            });
            news.extend(place.take_news());
            is_lost |= was_open && !place.is_open();
        }
        for info in news {
            self.learn(&info);
        }
        count += usize::from(self.end_search());
        if is_lost || self.places.iter().all(Place::is_out_of_reach) {
            self.begin_search(now);
        }
        count
    }

    /// Looks for replicas where they were found first, and at all addresses that are known, on a thread.
    fn begin_search(&mut self, now: Nanos) {
        if self.search.is_some() || now < self.search_at {
            return;
        }
        self.search_at = now.plus(SEARCH_PAUSE);
        let (said, answer) = channel();
        let (finder, options, waker) = (self.finder.clone(), self.options.clone(), self.waker.clone());
        let known: Vec<Address> = self.places.iter().map(|place| place.address.clone()).collect();
        let search = move || {
            // Nobody listens when the client is gone.
            let _ = said.send(search(&finder, &known, &options));
            waker.wake();
        };
        let thread = std::thread::Builder::new().name("txn-search".to_owned()).spawn(search);
        self.search = thread.is_ok().then_some(Search { answer, came: None });
    }

    /// Looks for replicas now, and waits until they are found or not.
    pub(super) fn search_now(&mut self) {
        let known: Vec<Address> = self.places.iter().map(|place| place.address.clone()).collect();
        let found = search(&self.finder, &known, &self.options);
        self.take(found);
    }

    /// Takes what a search found; whether one ended.
    fn end_search(&mut self) -> bool {
        if !self.look_at_search() {
            return false;
        }
        if let Some(found) = self.search.take().and_then(|search| search.came) {
            self.take(found);
        }
        true
    }

    fn look_at_search(&mut self) -> bool {
        let Some(search) = &mut self.search else { return false };
        if search.came.is_none() {
            search.came = match search.answer.try_recv() {
                Ok(found) => Some(found),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    Some(Err(TxnError::NotFound("looking for replicas panicked".to_owned())))
                }
            };
        }
        search.came.is_some()
    }

    fn take(&mut self, found: Result<Finding, TxnError>) {
        let finding = match found {
            Ok(finding) => finding,
            Err(error) => {
                self.search_trouble = Some(error.to_string());
                return;
            }
        };
        self.search_trouble = None;
        let is_newer = finding.order.0 > self.order.0;
        if is_newer {
            self.order = finding.order.clone();
        }
        for place in finding.in_order() {
            self.meet(place);
        }
        if is_newer {
            self.forget();
        }
    }

    /// Hears of who is in the chain.
    fn learn(&mut self, info: &Info) {
        if info.chain != self.chain || info.epoch < self.order.0 {
            return;
        }
        self.order = (info.epoch, info.members.iter().map(|member| member.replica).collect());
        for member in &info.members {
            if let Some(address) = &member.address {
                self.meet(Place::new(member.replica, address.clone()));
            }
        }
        self.forget();
    }

    /// Who is not in the chain any more is not asked again; one with a connection may still have what was asked there. The others are in the chain's order.
    fn forget(&mut self) {
        let order = &self.order.1;
        let position = |replica: ReplicaId| order.iter().position(|member| *member == replica);
        if order.is_empty() {
            return;
        }
        let before = self.replicas();
        self.places.retain(|place| position(place.replica).is_some() || place.is_open());
        self.places.sort_by_key(|place| position(place.replica).unwrap_or(usize::MAX));
        self.is_changed |= before != self.replicas();
    }

    /// Takes a place that somebody told of, or answers at, unless what is known of the replica is better.
    fn meet(&mut self, place: Place) {
        match self.places.iter_mut().find(|known| known.replica == place.replica) {
            Some(known) => known.become_other(place),
            None => {
                if self.places.len() >= MAX_REPLICAS {
                    // Who is not in the chain any more makes room.
                    let order = &self.order.1;
                    let gone = self.places.iter().position(|known| !order.contains(&known.replica));
                    let Some(gone) = gone else { return };
                    self.places.remove(gone);
                }
                self.places.push(place);
                self.is_changed = true;
            }
        }
    }

    /// Sends what was asked, without waiting for anything.
    pub(super) fn flush(&mut self) {
        self.all_mut().filter_map(Place::channel).for_each(|(channel, _)| channel.flush());
    }

    /// Why there is no answer, as far as is known.
    pub(super) fn trouble(&self) -> String {
        let told = |place: &Place| {
            Some(format!("replica {} at {}: {}", place.replica.0, place.address, place.trouble()?))
        };
        let all: Vec<String> = self
            .home
            .trouble
            .clone()
            .into_iter()
            .chain(self.places.iter().filter_map(told))
            .chain(self.search_trouble.clone())
            .collect();
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
        let ready = self.all_mut().filter_map(|place| place.look().then_some(())).count() > 0;
        self.look_at_search() || ready || self.was_called()
    }

    fn was_called(&self) -> bool {
        self.called.load(Ordering::Acquire) && self.called.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until something may be there.
    fn sleep(&mut self, now: Nanos, until: Nanos) {
        self.sleeper.arm();
        // All of them: one that is not armed would not wake us.
        let channels = self.all_mut().filter_map(|place| place.channel().map(|(channel, _)| channel));
        let busy = channels.filter_map(|channel| (!channel.arm()).then_some(())).count();
        // Who connects, or calls, rings after it has told; so this look comes after arming.
        let told = self.all_mut().filter(|place| place.is_opening()).any(Place::look)
            || self.called.load(Ordering::Acquire);
        if busy == 0 && !told && !self.look_at_search() {
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
        for place in self.all_mut() {
            if let Some((channel, _)) = place.channel() {
                channel.disarm();
            }
        }
    }

    fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.places.iter().chain(&self.home.place).filter_map(Place::channel_ref)
    }
}

/// Looks for replicas where the finder says, and at the addresses that are known.
fn search(finder: &Finder, known: &[Address], options: &Options) -> Result<Finding, TxnError> {
    let (mut addresses, trouble) = match finder.addresses() {
        Ok(addresses) => (addresses, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    addresses
        .extend(known.iter().filter(|address| !addresses.contains(address)).cloned().collect::<Vec<_>>());
    let found = Finding::search(&addresses, finder.chain, options);
    match (found, trouble) {
        (Err(TxnError::Nobody(_)), Some(why)) => Err(TxnError::NotFound(why)),
        (found, _) => found,
    }
}
