//! What requests hold until they are answered (`rec.held`), and who makes room when that is full.
//!
//! A body that is on its way has promised nothing: when there is no room for the bytes of another request, the one of those that has the most is given
//! up. So bodies that never end keep out nobody who sends less than they have.
//!
//! Large bodies take turns (`oip::routes`), so that a crowd of them does not come and go at the speed of the network.

use super::refusal::Refusal;
use base::budget::{Budget, Share};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a request holds until it is answered.
pub type Hold = Share<Arc<Budget>>;

const FULL: Refusal = Refusal::Busy("rec.held bytes of requests");
const MADE_ROOM: Refusal =
    Refusal::Busy("rec.held bytes of requests; of those that had not come whole yet this one had the most");

/// The bytes of all requests.
pub struct Held {
    budget: Arc<Budget>,
    coming: Mutex<Bodies>,
}

#[derive(Default)]
struct Bodies {
    next: u64,
    parts: HashMap<u64, Part>,
}

/// What has come of a body.
struct Part {
    bytes: BytesMut,
    hold: Hold,
}

impl Held {
    /// For so many bytes.
    pub fn new(limit: usize) -> Held {
        Held { budget: Arc::new(Budget::new(limit)), coming: Mutex::default() }
    }

    /// Nothing yet, for a request of a server that may hold `limit` bytes now.
    pub fn hold(&self, limit: usize) -> Hold {
        self.budget.set_limit(limit);
        Share::new(Arc::clone(&self.budget))
    }

    /// Makes `hold` one of `bytes`.
    ///
    /// # Errors
    /// There is no room, though nothing is held by bodies that still come.
    pub fn take(&self, hold: &mut Hold, bytes: usize) -> Result<(), Refusal> {
        if hold.resize(bytes) {
            return Ok(());
        }
        let mut coming = self.coming();
        while !hold.resize(bytes) {
            coming.give_up_the_largest().ok_or(FULL)?;
        }
        Ok(())
    }

    /// A body of which this has come, and more will.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn begin(&self, first: &[u8], hold: Hold) -> Result<Coming<'_>, Refusal> {
        let mut coming = self.coming();
        let id = coming.next;
        coming.next += 1;
        coming.parts.insert(id, Part { bytes: BytesMut::new(), hold });
        drop(coming);
        let mut body = Coming { held: self, id, len: 0 };
        body.append(first)?;
        Ok(body)
    }

    fn coming(&self) -> MutexGuard<'_, Bodies> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bodies {
    /// Which it was.
    fn give_up_the_largest(&mut self) -> Option<u64> {
        // Of several the one that has been coming for longest.
        let most = |(id, part): &(&u64, &Part)| (part.bytes.len(), std::cmp::Reverse(**id));
        let id = *self.parts.iter().max_by_key(most)?.0;
        self.parts.remove(&id);
        Some(id)
    }
}

/// A body that comes. It holds nothing any more when it is dropped.
pub struct Coming<'a> {
    held: &'a Held,
    id: u64,
    len: usize,
}

impl Coming<'_> {
    /// Bytes that have come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// More of it has come.
    ///
    /// # Errors
    /// It made room for somebody, or has the most itself.
    pub fn append(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let mut coming = self.held.coming();
        loop {
            let part = coming.parts.get_mut(&self.id).ok_or(MADE_ROOM)?;
            if part.hold.resize(part.bytes.len() + data.len()) {
                part.bytes.extend_from_slice(data);
                self.len += data.len();
                return Ok(());
            }
            coming.give_up_the_largest();
        }
    }

    /// It will have so many bytes: they are not copied as it grows.
    ///
    /// # Errors
    /// It made room for somebody.
    pub fn expect(&mut self, total: usize) -> Result<(), Refusal> {
        let mut coming = self.held.coming();
        let part = coming.parts.get_mut(&self.id).ok_or(MADE_ROOM)?;
        part.bytes.reserve(total.saturating_sub(part.bytes.len()));
        Ok(())
    }

    /// It is whole.
    ///
    /// # Errors
    /// It made room for somebody.
    pub fn end(self) -> Result<(Bytes, Hold), Refusal> {
        let part = self.held.coming().parts.remove(&self.id).ok_or(MADE_ROOM)?;
        Ok((part.bytes.freeze(), part.hold))
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.held.coming().parts.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(held: &Held, bytes: usize) -> Result<Hold, Refusal> {
        let mut hold = held.hold(1000);
        held.take(&mut hold, bytes).map(|()| hold)
    }

    #[test]
    fn the_largest_unfinished_body_makes_room() {
        let held = Held::new(1000);
        let begin = |bytes| held.begin(&vec![7; bytes], held.hold(1000)).expect("there is room");
        let (mut small, mut large, mut also) = (begin(100), begin(400), begin(400));
        let request = whole(&held, 300).expect("the first of the two largest makes room");
        assert_eq!(large.append(b"x"), Err(MADE_ROOM));
        small.append(&[8; 100]).expect("there is room");
        also.append(&[8; 101]).expect_err("it has the most itself");
        let (bytes, hold) = small.end().expect("it is whole");
        assert_eq!(bytes, [[7; 100], [8; 100]].concat());
        // What is whole stays.
        assert_eq!(whole(&held, 501).err(), Some(FULL));
        drop((hold, request));
        assert_eq!(held.budget.taken(), 0);
    }

    #[test]
    fn a_body_that_is_dropped_holds_nothing() {
        let held = Held::new(1000);
        drop(held.begin(b"some", held.hold(1000)).expect("there is room"));
        assert_eq!((held.budget.taken(), held.coming().parts.len()), (0, 0));
        assert!(held.begin(&[0; 1001], held.hold(1000)).is_err());
        assert_eq!((held.budget.taken(), held.coming().parts.len()), (0, 0));
    }
}
