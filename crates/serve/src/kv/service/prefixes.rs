//! `stats detail`: what clients ask and do, by the prefix of their keys up to a delimiter (memcached's `-D`, a colon unless said). Keys without one are not
//! counted.
//!
//! Cost: nothing while it is off. While it is on, edges mark requests as `Work::Counted`, which they look for where they look for those that leave spans.
//!
//! Bounds: 4096 prefixes; keys with others are not counted.

use super::planted::Mistakes;
use super::{Counted, Kv, Reply, Request, Work};
use protocol::memcache::{Command, KEY_MAX, Line};
use ring::arena::Producer;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most prefixes that are counted.
const PREFIXES_MAX: usize = 4096;

/// Whether it is on, and where prefixes end; of a server, whoever asks. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Detail {
    is_on: Arc<AtomicBool>,
    delimiter: u8,
}

impl Default for Detail {
    fn default() -> Detail {
        Detail { is_on: Arc::default(), delimiter: b':' }
    }
}

impl Detail {
    /// On from the start, with this delimiter.
    pub fn by(delimiter: u8) -> Detail {
        Detail { is_on: Arc::new(AtomicBool::new(true)), delimiter }
    }

    /// Switches it on or off.
    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Where prefixes end.
    pub fn delimiter(&self) -> char {
        self.delimiter.into()
    }

    /// A switch of its own that stands as this one does.
    #[must_use]
    pub fn apart(&self) -> Detail {
        Detail { is_on: Arc::new(AtomicBool::new(self.is_on())), delimiter: self.delimiter }
    }
}

/// What was asked and done with keys of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    get: u64,
    hit: u64,
    set: u64,
    del: u64,
}

/// The counts of all prefixes, in the order in which they came up.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    counts: Vec<(Box<[u8]>, Counts)>,
    places: HashMap<Box<[u8]>, usize>,
}

impl Prefixes {
    fn of(&mut self, key: &[u8], delimiter: u8) -> Option<&mut Counts> {
        let prefix = &key[..key.iter().position(|&byte| byte == delimiter)?];
        let place = match self.places.get(prefix) {
            Some(&place) => place,
            None if self.counts.len() == PREFIXES_MAX => return None,
            None => {
                self.counts.push((prefix.into(), Counts::default()));
                self.places.insert(prefix.into(), self.counts.len() - 1);
                self.counts.len() - 1
            }
        };
        Some(&mut self.counts[place].1)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Prefixes::default();
    }

    /// Adds lines from number `from` on, until there are so many bytes; where the next begins, if there is one.
    pub(super) fn list(&self, from: usize, bytes: usize, text: &mut String) -> Option<usize> {
        for (at, (prefix, Counts { get, hit, set, del })) in self.counts.iter().enumerate().skip(from) {
            if text.len() >= bytes {
                return Some(at);
            }
            let prefix = String::from_utf8_lossy(prefix);
            // Writing to a string does not fail.
            let _ = write!(text, "PREFIX {prefix} get {get} hit {hit} set {set} del {del}\r\n");
        }
        None
    }
}

/// What is counted of a command, and its key. memcached counts neither `incr`, `decr`, `touch` nor meta commands.
enum Kind {
    Get,
    Set,
    Delete,
}

fn kind<'a>(command: &'a Command<'_>, scratch: &'a mut [u8; KEY_MAX]) -> Option<(Kind, &'a [u8])> {
    Some(match command {
        Command::Get(get) => (Kind::Get, get.key),
        Command::Store(store) => (Kind::Set, store.key),
        Command::Delete { key, .. } => (Kind::Delete, key),
        // Meta commands are counted where they stand for a binary request.
        _ if command.asked().is_none() => return None,
        Command::MetaGet(get) => (Kind::Get, get.meta.key(scratch)),
        Command::MetaSet(set) => (Kind::Set, set.meta.key(scratch)),
        Command::MetaDelete(delete) => (Kind::Delete, delete.meta.key(scratch)),
        _ => return None,
    })
}

impl<B: Mistakes + Send + 'static> Kv<B> {
    /// Does what `command` says; counts it, and shows it to who watches.
    #[cold]
    pub(super) fn execute_counted(
        &mut self,
        Counted { command, number }: &Counted,
        request: &Request,
        out: &mut Producer,
    ) -> Option<Reply> {
        use engine::Service as _;
        let before = self.commands_mut().look_before(command, request.hash);
        let hits = self.commands().counters.get_hits;
        let plain = Request { hash: request.hash, origin: request.origin, work: Work::Command(*command) };
        let reply = self.execute(&plain, out)?;
        let commands = self.commands_mut();
        if let Some(before) = before {
            commands.tell_of(command, request.hash, *number, &before);
        }
        if !commands.config.detail.is_on() {
            return Some(reply);
        }
        let is_hit = commands.counters.get_hits > hits;
        let delimiter = commands.config.detail.delimiter;
        let mut scratch = [0; KEY_MAX];
        if let Some((kind, key)) = kind(command, &mut scratch)
            && let Some(counts) = commands.prefixes.of(key, delimiter)
        {
            match kind {
                Kind::Get => (counts.get, counts.hit) = (counts.get + 1, counts.hit + u64::from(is_hit)),
                Kind::Set => counts.set += 1,
                Kind::Delete => counts.del += 1,
            }
        }
        Some(reply)
    }
}

impl super::Commands {
    /// `stats detail on` and `off`.
    pub(super) fn switch_detail(&mut self, is_on: bool) -> Line {
        let is_alone = self.config.home.boxes.is_none() && self.config.durable.chain.is_empty();
        if is_on && !is_alone {
            return Line::DetailRefused;
        }
        self.config.detail.set(is_on);
        Line::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_bounded_and_listed_in_slices() {
        let mut prefixes = Prefixes::default();
        assert!(prefixes.of(b"none", b':').is_none());
        prefixes.of(b":empty", b':').expect("a prefix of no bytes").get = 1;
        for n in 0..PREFIXES_MAX + 10 {
            if let Some(counts) = prefixes.of(format!("p{n}:x:y").as_bytes(), b':') {
                counts.set = n as u64;
            }
        }
        assert_eq!(prefixes.counts.len(), PREFIXES_MAX);
        let (mut text, mut from, mut slices) = (String::new(), Some(0), 0);
        while let Some(at) = from {
            let mut slice = String::new();
            from = prefixes.list(at, 1000, &mut slice);
            assert!(slice.len() < 1100);
            text += &slice;
            slices += 1;
        }
        assert_eq!((text.lines().count(), slices > 100), (PREFIXES_MAX, true));
        assert!(
            text.starts_with("PREFIX  get 1 hit 0 set 0 del 0\r\nPREFIX p0 get 0 hit 0 set 0 del 0\r\n"),
            "{text}"
        );
        prefixes.clear();
        assert_eq!(prefixes.list(0, 1000, &mut text), None);
    }
}
