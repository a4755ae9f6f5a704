//! What clients that `watch` are told of commands, in memcached's words, from what was there of a key before a command and is there after it.
//!
//! As in memcached a command that stores has looked its key up before, so it tells of both.

use super::Commands;
use super::listing::uri_encode;
use protocol::memcache::watch::Streams;
use protocol::memcache::{Command, Exptime, KEY_MAX, Meta, SetMode, StoreVerb};
use std::fmt::Write as _;
use store::Key;

/// The class of all items, as listings have it.
const CLASS: u8 = 1;

/// What there was before a command.
pub(super) struct ItemBefore {
    /// Bytes of the key's value.
    size: Option<usize>,
    /// Stores that found no memory, another version, nothing to compare with.
    refused: [u64; 3],
}

/// What a command does to a key.
enum Effect {
    /// It looks it up.
    Get,
    /// The same, and makes it where it is not there, which memcached looks for once more.
    GetOrMake,
    /// It stores it, by this word, as so many bytes until then.
    Store { word: &'static str, size: usize, exptime: Option<Exptime>, condition: Condition },
    /// It would, had it not been too large; the old value is looked up and goes if it is the word `set`.
    TooLarge { is_set: bool },
}

/// What must be there for something to be stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    Absent,
    Present,
}

fn effect<'a>(command: &'a Command<'_>, scratch: &'a mut [u8; KEY_MAX]) -> Option<(&'a [u8], Effect)> {
    let mut of = |meta: &Meta<'_>| -> usize { meta.write_key(scratch) };
    let (len, effect) = match command {
        Command::Get(get) => return Some((get.key, Effect::Get)),
        Command::Delete { key, .. } | Command::Arith { key, .. } | Command::Touch { key, .. } => {
            return Some((key, Effect::Get));
        }
        Command::Store(store) => {
            let (word, condition) = match store.verb {
                StoreVerb::Set => ("set", Condition::None),
                StoreVerb::Add => ("add", Condition::Absent),
                StoreVerb::Replace => ("replace", Condition::Present),
                StoreVerb::Append => ("append", Condition::Present),
                StoreVerb::Prepend => ("prepend", Condition::Present),
                StoreVerb::Cas => ("cas", Condition::None),
            };
            let exptime = Some(store.exptime);
            return Some((store.key, Effect::Store { word, size: store.value.len(), exptime, condition }));
        }
        Command::MetaGet(get) => (of(&get.meta), Effect::Get),
        Command::MetaDelete(delete) => (of(&delete.meta), Effect::Get),
        Command::MetaDebug(meta) => (of(meta), Effect::Get),
        Command::MetaArith(arith) if arith.birth().is_some() => (of(&arith.meta), Effect::GetOrMake),
        Command::MetaArith(arith) => (of(&arith.meta), Effect::Get),
        Command::MetaSet(set) => {
            let (word, condition) = match set.mode {
                SetMode::Set if set.compare().is_some() => ("cas", Condition::None),
                SetMode::Set => ("set", Condition::None),
                SetMode::Add => ("add", Condition::Absent),
                SetMode::Replace => ("replace", Condition::Present),
                SetMode::Append if set.vivify().is_some() => ("append", Condition::None),
                SetMode::Prepend if set.vivify().is_some() => ("prepend", Condition::None),
                SetMode::Append => ("append", Condition::Present),
                SetMode::Prepend => ("prepend", Condition::Present),
            };
            let (size, exptime) = (set.value.len(), set.ttl());
            (of(&set.meta), Effect::Store { word, size, exptime, condition })
        }
        Command::TooLarge(large) => (of(&large.meta), Effect::TooLarge { is_set: large.drop_old }),
        _ => return None,
    };
    Some((&scratch[..len], effect))
}

impl Commands {
    fn refused(&self) -> [u64; 3] {
        let counters = &self.counters;
        [counters.store_no_memory, counters.cas_badval, counters.cas_misses]
    }

    /// What there is before a command, if somebody wants to know.
    pub(super) fn look_before(&mut self, command: &Command<'_>, hash: u64) -> Option<ItemBefore> {
        let streams = self.config.watchers.streams();
        self.store.note_evictions(streams.has_any(Streams::EVICTIONS));
        if !streams.has_any(Streams::OF_ITEMS) {
            return None;
        }
        let mut scratch = [0; KEY_MAX];
        let found =
            effect(command, &mut scratch).and_then(|(key, _)| self.store.peek(self.now, self.key(key, hash)));
        Some(ItemBefore { size: found.map(|item| item.value.len()), refused: self.refused() })
    }

    /// Tells of a command of connection `number` that was done.
    pub(super) fn tell_of(&mut self, command: &Command<'_>, hash: u64, number: i32, before: &ItemBefore) {
        let mut scratch = [0; KEY_MAX];
        if let Some((key, effect)) = effect(command, &mut scratch) {
            let mut name = String::new();
            uri_encode(key, &mut name);
            match effect {
                Effect::TooLarge { is_set } => {
                    let word = if is_set { "set" } else { "null" };
                    let what =
                        format!("key={name} status=too_large cmd={word} ttl=0 clsid=0 cfd={number} size=0");
                    self.tell_of_store(&what);
                    if is_set {
                        self.tell_of_get(&name, number, before);
                    }
                }
                effect => {
                    self.tell_of_get(&name, number, before);
                    let is_made = before.size.is_none();
                    match effect {
                        Effect::GetOrMake if is_made => {
                            self.tell_of_get(&name, number, before);
                            self.tell_of_stored(
                                &name,
                                self.key(key, hash),
                                number,
                                ("stored", "add", 0, None),
                            );
                        }
                        Effect::Store { word, size, exptime, condition } => {
                            let status = self.status(before, condition);
                            self.tell_of_stored(
                                &name,
                                self.key(key, hash),
                                number,
                                (status, word, size, exptime),
                            );
                        }
                        _ => {}
                    }
                }
            }
        }
        self.tell_of_evictions();
    }

    /// What became of something that was to be stored.
    fn status(&self, before: &ItemBefore, condition: Condition) -> &'static str {
        let [no_memory, exists, not_found] =
            [0, 1, 2].map(|which| self.refused()[which] > before.refused[which]);
        match condition {
            _ if no_memory => "no_memory",
            _ if exists => "exists",
            _ if not_found => "not_found",
            Condition::Absent if before.size.is_some() => "not_stored",
            Condition::Present if before.size.is_none() => "not_stored",
            _ => "stored",
        }
    }

    fn tell_of_get(&self, name: &str, number: i32, before: &ItemBefore) {
        self.config.watchers.say(Streams::FETCHERS, |line| {
            let (status, class) = if before.size.is_some() { ("found", CLASS) } else { ("not_found", 0) };
            let size = before.size.unwrap_or(0);
            let _ = write!(
                line,
                "type=item_get key={name} status={status} clsid={class} cfd={number} size={size}"
            );
        });
    }

    /// Tells of something that was to be stored by this word, as so many bytes until then, with its status.
    fn tell_of_stored(
        &self,
        name: &str,
        key: Key<'_>,
        number: i32,
        (status, word, size, exptime): (&str, &str, usize, Option<Exptime>),
    ) {
        let found = self.store.peek(self.now, key).filter(|_| status == "stored");
        let (size, expiry) = match found {
            Some(item) => (item.value.len(), item.expiry),
            None => (size, exptime.map_or(0, |exptime| exptime.expiry(self.now))),
        };
        let ttl = expiry.saturating_sub(self.now);
        self.tell_of_store(&format!(
            "key={name} status={status} cmd={word} ttl={ttl} clsid={CLASS} cfd={number} size={size}"
        ));
    }

    fn tell_of_store(&self, what: &str) {
        self.config.watchers.say(Streams::MUTATIONS, |line| {
            let _ = write!(line, "type=item_store {what}");
        });
    }

    /// Tells which items have made room for others.
    fn tell_of_evictions(&mut self) {
        let (now, watchers) = (self.now, &self.config.watchers);
        let left_out = self.store.take_evictions(|evicted| {
            watchers.say(Streams::EVICTIONS, |line| {
                line.push_str("type=eviction key=");
                uri_encode(&evicted.key, line);
                let fetch = if evicted.fetched { "yes" } else { "no" };
                let ttl = match evicted.expiry {
                    0 => -1,
                    expiry => i64::from(expiry.saturating_sub(now)),
                };
                let (idle, size) = (now.saturating_sub(evicted.access), evicted.size);
                let _ = write!(line, " fetch={fetch} ttl={ttl} la={idle} clsid={CLASS} size={size}");
            });
        });
        if left_out > 0 {
            watchers.leave_out(Streams::EVICTIONS, left_out);
        }
    }

    /// Tells of evictions between commands; forgets of them where nobody watches any more.
    pub(super) fn tell_while_idle(&mut self) {
        if !self.store.notes_evictions() {
            return;
        }
        self.store.note_evictions(self.config.watchers.streams().has_any(Streams::EVICTIONS));
        self.tell_of_evictions();
    }
}
