//! The log that is the rings in which requests come: a request lies where its client wrote it, in memory that survives, and the server stamps it with
//! what it did. Nothing is copied.
//!
//! ```text
//!  lane 0, the server's     │ stamp 17 · key value │ stamp 20 · key │                         what no request has the bytes of
//!  lane 1, of a client      │ stamp 18 · set a 0 0 5␍␊hello │ (a get) │ stamp 21 · set b … │
//!  lane 2, of another       │ stamp 19 · set a 0 0 3␍␊bye │
//!                                 └─ number, the effect's head, where key and value are, their checksum
//! ```
//! A client leaves [`STAMP`] bytes of room before each request ([`Writer`]). When its command was executed the server writes the number of the effect there,
//! [`RingLog::append_at`]; an effect that is not some request's bytes (an INCR's, a deletion) is copied into the server's own lane,
//! [`Records::append`]. One sync makes all lanes durable up to the last number ([`Records::begin_sync`]): group commit, as with the log of its own.
//!
//! Why the effect's head and not the command: see `docs/design/014-ring-log.md`; in short, a snapshot may then be fuzzy, and nothing is decided anew.
//!
//! Invariants, each with a planted bug that the tests find: (1) nothing is durable ([`Records::durable`]) before every stamp and request up to there, in all
//! lanes, is; (2) a request's place is free only when a durable snapshot has its effect ([`RingLog::freed`], after [`Records::release`]); (3) recovery goes by
//! number over all lanes, whatever the order inside them; (4) the first number that is missing is the end, unless a stamp proves that it was durable, which
//! is damage; (5) stamps behind the end are unmade, durably, before their numbers are given again.
//!
//! Trust: a client can write to its lane after it was answered, also to stamps. What it spoils is found (two checksums), but its effect is lost, and those
//! behind it with it; so a lane is for clients that are as trusted as the server's own files are.
//!
//! Bounds: 16 bytes for each entry that is kept, 16 for each range that is not durable; both bounded by the lanes. Cost: `docs/measurements/ring-log.md`.

mod entry;
mod lane;
mod open;
#[cfg(test)]
mod tests;

pub use entry::STAMP;
pub use lane::Writer;
pub use open::probe;

use super::effect::Effect;
use super::journal::{Before, Journal, What};
use super::records::Records;
use super::walk::Shelf;
use crate::key::Key;
use crate::redo::media::Media;
use crate::redo::{Broken, Counters, Doing, Refused};
use crate::store::Store;
use entry::{Stamp, behind, sum};
use lane::Lane;

/// Where the request that brought an effect lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which lane; not 0.
    pub lane: usize,
    /// Its entry's position there, as [`Writer::place`] gave it.
    pub position: u64,
    /// Where its key begins, counted from the request's first byte.
    pub key_at: u32,
    /// Where its value begins.
    pub value_at: u32,
}

/// Bugs that tests plant, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// Places are free when they are durable, whether or not a snapshot has them.
    FreesBeforeSnapshot,
    /// Recovery goes lane by lane.
    OrdersByLane,
    /// Only the lane of the last effect is made durable.
    SyncsOneLane,
    /// Stamps behind the end stay.
    LeavesWhatIsTorn,
}

/// See the head of the file.
#[derive(Debug)]
pub struct RingLog<M> {
    lanes: Vec<Lane<M>>,
    seed: u32,
    first: u64,
    last: u64,
    durable: u64,
    /// The sync that was begun makes everything durable up to here.
    under_way: Option<u64>,
    /// Where what was found at the start is: lane and index, from the number `found_from` on. Emptied when that is released.
    found: Vec<(usize, u64)>,
    found_from: u64,
    scratch: Vec<u8>,
    broken: Option<Broken>,
    counters: Counters,
    #[cfg(test)]
    planted: Option<Planted>,
}

impl<M: Media> RingLog<M> {
    /// The first place in a lane for whoever writes to it from now on.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn begin(&self, lane: usize) -> u64 {
        self.lanes[lane].head
    }

    /// What the lane's writer may be told: everything before is free.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn freed(&self, lane: usize) -> u64 {
        self.lanes[lane].freed
    }

    /// Bytes of a lane.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn lane_bytes(&self, lane: usize) -> u64 {
        self.lanes[lane].capacity
    }

    /// A lane's medium, for whoever plays its client, or makes it fail.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn medium_mut(&mut self, lane: usize) -> &mut M {
        &mut self.lanes[lane].medium
    }

    /// All of them, without a word to them: whatever is not durable is not.
    pub fn into_media(self) -> Vec<M> {
        self.lanes.into_iter().map(|lane| lane.medium).collect()
    }

    /// A request of `len` bytes at this position of a client's lane is answered and did nothing that is kept. False, and nothing done, if no honest client can
    /// have written it there.
    pub fn skip(&mut self, lane: usize, position: u64, len: usize) -> bool {
        let Some(lane) = self.lanes.get_mut(lane) else { return false };
        let len = (STAMP + len) as u64;
        let admits = lane.admits(position, len);
        if admits {
            lane.hold(0, position + len);
        }
        admits
    }

    /// Appends the effect after [`Records::last`], whose key and value the request at `place` has: it is stamped. Copies it into the server's lane if no
    /// honest client can have written a request there.
    ///
    /// # Errors
    /// As [`Records::append`].
    pub fn append_at(&mut self, lsn: u64, effect: &Effect<'_>, place: Place) -> Result<(), Refused> {
        self.usable()?;
        let (key, value) = effect.key_and_value();
        let stamp = Stamp {
            lsn,
            position: place.position,
            effect: effect.head(),
            key_at: place.key_at,
            value_at: place.value_at,
            crc: sum(self.seed, key, value),
            behind: behind(lsn, self.durable)?,
        };
        let len = stamp.len();
        let admits = |lane: &Lane<M>| lane.admits(place.position, len);
        if place.lane == 0 || !self.lanes.get(place.lane).is_some_and(admits) {
            return self.append(lsn, effect);
        }
        let bytes = stamp.emit(self.seed);
        self.put(place.lane, place.position, &bytes, (lsn, len))?;
        self.appended(lsn, key.len() + value.len());
        Ok(())
    }

    /// Writes the stamp, with what belongs behind it, and keeps the entry.
    fn put(
        &mut self,
        lane: usize,
        position: u64,
        bytes: &[u8],
        (lsn, len): (u64, u64),
    ) -> Result<(), Refused> {
        let lane = &mut self.lanes[lane];
        if let Err(error) = lane.medium.write_at(position % lane.capacity, bytes) {
            return Err(Refused::Broken(self.breaks(Doing::Writing, &error)));
        }
        lane.stamp(position, len);
        lane.hold(lsn, position + len);
        self.counters.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn appended(&mut self, lsn: u64, payload: usize) {
        assert_eq!(lsn, self.last + 1, "effects are appended without gaps");
        self.last = lsn;
        self.counters.records += 1;
        self.counters.payload_bytes += payload as u64;
    }

    fn breaks(&mut self, doing: Doing, error: &std::io::Error) -> Broken {
        self.broken.insert(Broken::new(doing, error)).clone()
    }

    fn usable(&self) -> Result<(), Refused> {
        self.broken.clone().map_or(Ok(()), |broken| Err(Refused::Broken(broken)))
    }

    fn works(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// The lane with the least room, for its size.
    fn fullest(&self) -> &Lane<M> {
        let left = |lane: &&Lane<M>| u128::from(lane.room()) * (1 << 32) / u128::from(lane.capacity);
        self.lanes.iter().min_by_key(left).expect("there is the server's")
    }
}

impl<M: Media> Records for RingLog<M> {
    fn append(&mut self, position: u64, effect: &Effect<'_>) -> Result<(), Refused> {
        self.usable()?;
        let (key, value) = effect.key_and_value();
        let stamp = Stamp {
            lsn: position,
            position: 0,
            effect: effect.head(),
            key_at: 0,
            value_at: key.len() as u32,
            crc: sum(self.seed, key, value),
            behind: behind(position, self.durable)?,
        };
        let len = stamp.len();
        let at = self.lanes[0].place(len).ok_or(Refused::Full)?;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.extend_from_slice(&Stamp { position: at, ..stamp }.emit(self.seed));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let put = self.put(0, at, &bytes, (position, len));
        self.scratch = bytes;
        put?;
        self.appended(position, key.len() + value.len());
        Ok(())
    }

    fn has_room(&self, len: usize, reserve: u64, part: u64) -> bool {
        let (own, len) = (&self.lanes[0], (STAMP + len) as u64);
        let left = |at: u64| own.capacity - (at + len - own.freed);
        own.place(len).is_some_and(|at| left(at) >= reserve.min(own.capacity / part))
    }

    fn room(&self) -> u64 {
        self.fullest().room()
    }

    fn capacity(&self) -> u64 {
        self.fullest().capacity
    }

    fn first(&self) -> u64 {
        self.first
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn durable(&self) -> u64 {
        self.durable
    }

    fn payload(&self, position: u64) -> Option<Vec<u8>> {
        let at = usize::try_from(position.checked_sub(self.found_from)?).ok()?;
        let (lane, index) = *self.found.get(at)?;
        open::payload(&self.lanes[lane], self.seed, index)
    }

    fn release(&mut self, position: u64) {
        let first = position.min(self.durable + 1);
        if first > self.first {
            self.first = first;
            self.found = Vec::new();
        }
        self.lanes.iter_mut().for_each(|lane| lane.free(first));
    }

    fn needs_sync(&self) -> bool {
        self.under_way.is_some() || self.lanes.iter().any(Lane::is_stamped)
    }

    fn begin_sync(&mut self) -> Result<bool, Broken> {
        self.works()?;
        if self.under_way.is_some() || !self.needs_sync() {
            return Ok(self.under_way.is_some());
        }
        self.under_way = Some(self.last);
        for number in 0..self.lanes.len() {
            #[cfg(test)]
            if self.planted == Some(Planted::SyncsOneLane) && number == 1 {
                continue;
            }
            if let Err(error) = self.lanes[number].start() {
                return Err(self.breaks(Doing::Persisting, &error));
            }
        }
        Ok(true)
    }

    fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    fn sync_is_done(&mut self) -> bool {
        self.under_way.is_none() || self.lanes.iter_mut().all(Lane::is_done)
    }

    fn end_sync(&mut self) -> Result<u64, Broken> {
        self.works()?;
        let Some(last) = self.under_way.take() else { return Ok(self.durable) };
        for number in 0..self.lanes.len() {
            match self.lanes[number].finish() {
                Ok(any) => self.counters.persists += u64::from(any),
                Err(error) => return Err(self.breaks(Doing::Persisting, &error)),
            }
        }
        self.durable = last;
        #[cfg(test)]
        if self.planted == Some(Planted::FreesBeforeSnapshot) {
            self.lanes.iter_mut().for_each(|lane| lane.free(last + 1));
        }
        Ok(self.durable)
    }

    fn sync(&mut self) -> Result<u64, Broken> {
        self.end_sync()?;
        self.begin_sync()?;
        self.end_sync()
    }

    fn mark(&mut self) {}

    fn marked(&self) -> u64 {
        self.durable
    }

    fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<M: Media, S: Shelf> Journal<RingLog<M>, S> {
    /// As [`Journal::after`], where the request at `place` has the item's key and value, byte by byte.
    pub fn after_at(
        &mut self,
        (store, now): (&Store, u32),
        key: Key<'_>,
        (before, what): (Before, What),
        place: Place,
    ) -> u64 {
        let (effect, lsn) = (self.done(store, now, key, before, what), self.log.last() + 1);
        match effect {
            Some(effect @ Effect::Put { .. }) => {
                let appended = self.log.append_at(lsn, &effect, place);
                self.note(lsn, Some(key.hash()), appended)
            }
            _ => self.after(store, now, key, before, what),
        }
    }

    /// The rings.
    pub fn rings(&self) -> &RingLog<M> {
        &self.log
    }

    /// The rings, to play their clients.
    pub fn rings_mut(&mut self) -> &mut RingLog<M> {
        &mut self.log
    }
}
