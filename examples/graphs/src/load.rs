//! Requests to a graph, by the loop that drives all loads: kinds are drawn, replies checked, and where a request's time went is kept.
//!
//! In an open loop a request's time begins when it was meant to start, so what it waits for a place in the client is in it, as way.

use super::book::{Sample, Samples};
use super::parts::Stay;
use base::{Clock, Nanos, Prng};
use bench::drive::Caller;
use bench::tally::Merge;
use fabric::channel::{CallId, CallOptions, Channel, Event, StartError};
use fabric::status::Status;
use std::collections::HashMap;
use std::time::Duration;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be asked of a graph.
pub trait Requests: Send {
    /// Kinds of requests, and how many of a hundred are of which.
    fn kinds(&self) -> [(&'static str, u64); KINDS];

    /// Starts a request of a kind.
    ///
    /// # Errors
    /// It was not started.
    fn start(
        &mut self,
        kind: usize,
        channel: &mut Channel,
        options: &CallOptions<'_>,
        user: u64,
        random: &mut Prng,
    ) -> Result<CallId, StartError>;

    /// Looks at a reply.
    ///
    /// # Errors
    /// It is wrong, or the request failed.
    fn check(&self, kind: usize, event: &mut Event<'_>) -> Result<(), Status>;
}

/// Kinds of requests that a graph has at most; those it has not have no share.
pub const KINDS: usize = 3;

/// Where requests' time went, by kind and of all.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub all: Samples,
    pub kinds: [Samples; KINDS],
}

impl Merge for Seen {
    fn merge(&mut self, other: &Seen) {
        self.all.merge(&other.all);
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(ours, theirs)| ours.merge(theirs));
    }
}

/// See the file's head.
pub struct Asker<'a> {
    requests: &'a mut dyn Requests,
    /// Of which kind a request of a number below 100 is.
    drawn: [usize; 100],
    under_way: HashMap<u32, usize>,
    random: Prng,
}

impl<'a> Asker<'a> {
    pub fn new(requests: &'a mut dyn Requests, seed: u64) -> Asker<'a> {
        let shares = requests.kinds().into_iter().enumerate();
        let kinds: Vec<usize> =
            shares.flat_map(|(kind, (_, of))| std::iter::repeat_n(kind, of as usize)).collect();
        let drawn = kinds.try_into().expect("shares are of a hundred");
        Asker { requests, drawn, under_way: HashMap::new(), random: Prng::new(seed) }
    }
}

impl Caller for Asker<'_> {
    type Counts = Seen;

    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError> {
        // Drawn from a copy: one that finds no room is drawn again as it was.
        let mut random = self.random.clone();
        let kind = self.drawn[random.below(100) as usize];
        let options = CallOptions::within(PATIENCE);
        let call = self.requests.start(kind, channel, &options, user, &mut random)?;
        self.random = random;
        self.under_way.insert(call.number(), kind);
        Ok(())
    }

    fn check(&mut self, event: &mut Event<'_>, seen: &mut Seen) -> Result<(), Status> {
        let took = Clock::shared().now().since(Nanos(event.user));
        let kind = self.under_way.remove(&event.call.number()).expect("a request ends once");
        self.requests.check(kind, event)?;
        let stay = Stay::told(event);
        let app = stay.app.min(took);
        let sample = Sample { took, app, codec: stay.codec.min(took.since(app)) };
        seen.all.note(sample);
        seen.kinds[kind].note(sample);
        Ok(())
    }
}
