//! What a service remembers: items in a store of its own, as a cache of its process would have them. (In DeathStarBench that is a memcached, a
//! Redis and a MongoDB beside each service, each a hop further.)
//!
//! Bounds: the memory it is given, then what was not read for long goes; a list keeps its newest [`NEWEST`] entries.

use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::typed::{Message, MessageView, Owned};
use fabric::status::{Code, Status};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{ArithHow, ArithOutcome, Config, DeleteHow, GetHow, Key, Mode, SetHow, SetOutcome, Store, Verb};

/// Entries of a list.
pub const NEWEST: usize = 100;

/// Nothing expires here, so time stands.
const NOW: u32 = 1;

/// See the file's head.
pub struct Keep {
    store: Mutex<Store>,
}

fn refused(error: impl std::fmt::Display) -> Status {
    Status::new(Code::ResourceExhausted, error.to_string())
}

impl Keep {
    /// So many MiB.
    pub fn new(mebibytes: usize) -> Keep {
        let store = Store::new(Config::new(Mode::Cache, mebibytes << 20)).expect("the settings are good");
        Keep { store: Mutex::new(store) }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `read` makes of an item's bytes.
    pub fn get<T>(&self, key: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut store = self.store();
        let key = Key::new(key.as_bytes(), store.hasher())?;
        store.get(NOW, key, &GetHow::PLAIN).map(|hit| read(hit.value()))
    }

    /// Keeps bytes, and says whether it did: with `Verb::Add` only what was not there.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: no room; INVALID_ARGUMENT: no key.
    pub fn put(&self, key: &str, value: &[u8], verb: Verb) -> Result<bool, Status> {
        let mut store = self.store();
        let key = Key::new(key.as_bytes(), store.hasher())
            .ok_or_else(|| Status::new(Code::InvalidArgument, "a key has 1 to 250 bytes"))?;
        let outcome = store.set(NOW, key, value, &SetHow { verb, ..SetHow::default() }).map_err(refused)?;
        Ok(matches!(outcome, SetOutcome::Stored { .. }))
    }

    /// What `read` makes of an item's bytes, which are not kept any more.
    pub fn take<T>(&self, key: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let taken = self.get(key, read)?;
        let mut store = self.store();
        let key = Key::new(key.as_bytes(), store.hasher())?;
        // A cache has room to forget.
        let _ = store.delete(NOW, key, &DeleteHow::default());
        Some(taken)
    }

    /// Adds to a number, which begins at 0; what it is then.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: no room.
    pub fn count(&self, key: &str, delta: u64) -> Result<u64, Status> {
        let mut store = self.store();
        let key = Key::new(key.as_bytes(), store.hasher())
            .ok_or_else(|| Status::new(Code::InvalidArgument, "a key has 1 to 250 bytes"))?;
        let how = ArithHow { delta, create: Some((delta, 0)), ..ArithHow::default() };
        match store.arith(NOW, key, &how).map_err(refused)? {
            ArithOutcome::Done { value, .. } => Ok(value),
            other => Err(Status::new(Code::Internal, format!("a count is a number: {other:?}"))),
        }
    }

    /// A message that was kept.
    ///
    /// # Errors
    /// INTERNAL: it is another.
    pub fn message<M: Message>(&self, key: &str) -> Result<Option<Owned<M>>, Status> {
        let decoded = self.get(key, |bytes| Owned::<M>::decode(&mut Decoder::default(), bytes));
        decoded.transpose().map_err(|error| Status::new(Code::Internal, format!("{key}: {error}")))
    }

    /// Keeps a message.
    ///
    /// # Errors
    /// As [`Keep::put`].
    pub fn put_message<'a>(&self, key: &str, message: impl MessageView<'a>) -> Result<(), Status> {
        let mut encoder = Encoder::default();
        let bytes = message.encode(&mut encoder).map_err(refused)?;
        self.put(key, bytes, Verb::Set).map(drop)
    }

    /// Puts an entry before a list's others.
    ///
    /// # Errors
    /// As [`Keep::put`].
    pub fn prepend(&self, key: &str, entry: i64) -> Result<(), Status> {
        let mut list = entry.to_le_bytes().to_vec();
        self.get(key, |old| list.extend_from_slice(&old[..old.len().min((NEWEST - 1) * 8)]));
        self.put(key, &list, Verb::Set).map(drop)
    }

    /// A list's entries from `start` to before `stop`, the newest first. Both may lie beyond its ends.
    pub fn list(&self, key: &str, start: i32, stop: i32) -> Vec<i64> {
        let (start, stop) = (start.max(0) as usize, stop.max(0) as usize);
        let entries = |bytes: &[u8]| {
            let words =
                bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().expect("eight bytes")));
            words.take(stop).skip(start).collect()
        };
        self.get(key, entries).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_newest_first_and_forgets_its_oldest() {
        let keep = Keep::new(1);
        assert!(keep.list("a", 0, 10).is_empty());
        (0..NEWEST as i64 + 5).for_each(|entry| keep.prepend("a", entry).expect("there is room"));
        assert_eq!(keep.list("a", 0, 3), [104, 103, 102]);
        assert_eq!(keep.list("a", 98, 1000), [6, 5]);
        assert!(keep.list("a", 3, 3).is_empty() && keep.list("a", -5, -1).is_empty());
    }

    #[test]
    fn counts_begin_at_nothing_and_adds_are_once() {
        let keep = Keep::new(1);
        assert_eq!([1, 2, 0].map(|delta| keep.count("n", delta).expect("a number")), [1, 3, 3]);
        assert_eq!([true, false], [0, 0].map(|_| keep.put("k", b"v", Verb::Add).expect("there is room")));
        assert_eq!(keep.take("k", <[u8]>::to_vec), Some(b"v".to_vec()));
        assert_eq!(keep.get("k", <[u8]>::to_vec), None);
        assert_eq!(keep.put("", b"v", Verb::Set).map_err(|status| status.code()), Err(Code::InvalidArgument));
    }
}
