//! What an owner lends: regions by name and by key, each with what peers may do to it.
//!
//! Bounds: [`MOST`] regions. Taking one back ([`Regions::revoke`]) ends all access: works that name it are denied from then on, and a peer that has it mapped
//! finds zeros.

use crate::work::{Key, Outcome, Verb};
use ring::shm::region::Region;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::BitOr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Regions at most.
pub const MOST: usize = 65_536;
/// Bytes of a name at most.
pub const NAME_MAX: usize = 255;

/// What peers may do to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Read.
    pub const READ: Access = Access(1);
    /// Write.
    pub const WRITE: Access = Access(2);
    /// Compare and swap, fetch and add.
    pub const ATOMIC: Access = Access(4);
    /// All of it.
    pub const ALL: Access = Access(7);

    /// Whether it has all of these.
    pub fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether memory may change by it.
    pub fn changes(self) -> bool {
        self.0 & (Access::WRITE.0 | Access::ATOMIC.0) != 0
    }

    /// As messages have it.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Of a message; none for bits that mean nothing.
    pub fn of_bits(bits: u32) -> Option<Access> {
        u8::try_from(bits).ok().filter(|bits| (1..=Access::ALL.0).contains(bits)).map(Access)
    }

    /// What this needs.
    pub fn of_verb(verb: Verb) -> Access {
        match verb {
            Verb::Read => Access::READ,
            Verb::Write => Access::WRITE,
            Verb::CompareSwap { .. } | Verb::FetchAdd { .. } => Access::ATOMIC,
        }
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// What a peer is told of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// What works name it by.
    pub key: Key,
    /// Bytes.
    pub len: u64,
    /// It outlasts its owner's process.
    pub is_persistent: bool,
}

/// How a network card reaches a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// What works name it by, at the card.
    pub key: u32,
    /// Where it begins.
    pub base: u64,
}

/// A region that is lent.
pub struct Lent {
    name: String,
    /// What there is for as long as it is lent, such as its registration with a card; none once it was taken back. Before the region, which that is of.
    held: Mutex<Option<Vec<Arc<dyn Any + Send + Sync>>>>,
    /// The memory.
    pub region: Region,
    /// What peers may do to it.
    pub access: Access,
    info: Info,
}

impl Lent {
    /// What a peer is told.
    pub fn info(&self) -> Info {
        self.info
    }

    /// What is made of it once, and goes when it is taken back; nothing when it was.
    ///
    /// # Errors
    /// That of `make`.
    pub fn holding<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce(&Region) -> Result<T, E>,
    ) -> Result<Option<Arc<T>>, E> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = &mut *held else { return Ok(None) };
        if let Some(there) = held.iter().find_map(|one| Arc::clone(one).downcast::<T>().ok()) {
            return Ok(Some(there));
        }
        let made = Arc::new(make(&self.region)?);
        held.push(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        Ok(Some(made))
    }

    /// Whether so many bytes from here are in it.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.info.len)
    }

    /// Does a work. Reads go to `buffer`, writes come from it; atomics leave what was there in it. One that is denied leaves all as it was.
    #[inline]
    pub fn perform(&self, verb: Verb, offset: u64, buffer: &mut [u8]) -> Outcome {
        if !self.access.has(Access::of_verb(verb)) {
            return Outcome::Denied;
        }
        perform(&self.region, verb, offset, buffer)
    }
}

/// Does a work that may be done, if it is within the region.
#[inline]
pub(crate) fn perform(region: &Region, verb: Verb, offset: u64, buffer: &mut [u8]) -> Outcome {
    let mut old = |was: u64| -> Outcome {
        buffer.copy_from_slice(&was.to_ne_bytes());
        Outcome::Done
    };
    let done = match verb {
        Verb::CompareSwap { expected, new } => region.compare_swap(offset, expected, new).map(&mut old),
        Verb::FetchAdd { add } => region.fetch_add(offset, add).map(&mut old),
        Verb::Read => region.read(offset, buffer).map(|()| Outcome::Done),
        Verb::Write => region.write(offset, buffer).map(|()| Outcome::Done),
    };
    done.unwrap_or(Outcome::Denied)
}

/// Why a region is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendError {
    /// Another has the name.
    Taken,
    /// No name, or one that is too long.
    Name,
    /// Peers are to change it, and it was made so that they cannot.
    ReadOnly,
    /// There are [`MOST`].
    Full,
}

impl fmt::Display for LendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LendError::Taken => f.write_str("a region of this name is lent already"),
            LendError::Name => write!(f, "a region's name has 1 to {NAME_MAX} bytes"),
            LendError::ReadOnly => f.write_str("the region was made for peers that only read"),
            LendError::Full => write!(f, "{MOST} regions are lent, which is all there may be"),
        }
    }
}

impl std::error::Error for LendError {}

#[derive(Default)]
struct All {
    by_key: HashMap<u64, Arc<Lent>>,
    by_name: HashMap<String, Key>,
}

/// See the head of the file. Shared by whoever serves them.
#[derive(Default)]
pub struct Regions(RwLock<All>);

impl Regions {
    /// Lends a region.
    ///
    /// # Errors
    /// [`LendError`]; it is dropped then.
    pub fn lend(&self, name: &str, region: Region, access: Access) -> Result<Key, LendError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(LendError::Name);
        }
        let is_persistent = region.is_file();
        if access.changes() && !region.peers_write() {
            return Err(LendError::ReadOnly);
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.by_name.contains_key(name) {
            return Err(LendError::Taken);
        }
        if all.by_key.len() >= MOST {
            return Err(LendError::Full);
        }
        let key = loop {
            let key = Key(u64::from_ne_bytes(base::key::random()));
            if !all.by_key.contains_key(&key.0) {
                break key;
            }
        };
        let info = Info { key, len: region.len() as u64, is_persistent };
        let held = Mutex::new(Some(Vec::new()));
        let lent = Lent { name: name.to_owned(), held, region, access, info };
        all.by_name.insert(name.to_owned(), key);
        all.by_key.insert(key.0, Arc::new(lent));
        Ok(key)
    }

    /// Takes a region back; false if there is none. What is done meanwhile is done to what nobody sees any more.
    pub fn revoke(&self, key: Key) -> bool {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(lent) = all.by_key.remove(&key.0) else { return false };
        all.by_name.remove(&lent.name);
        drop(lent.held.lock().unwrap_or_else(PoisonError::into_inner).take());
        // It says that it is revoked whatever the system says of its pages.
        let _ = lent.region.revoke();
        true
    }

    /// The region of a key.
    pub fn get(&self, key: Key) -> Option<Arc<Lent>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).by_key.get(&key.0).cloned()
    }

    /// The region of a name.
    pub fn find(&self, name: &str) -> Option<Arc<Lent>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.by_name.get(name).and_then(|key| all.by_key.get(&key.0)).cloned()
    }
}
