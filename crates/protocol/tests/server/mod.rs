//! A server in one file, so that whole conversations can be compared with memcached's: a parser, a map, replies.
//!
//! It is as simple as it can be and forgets nothing; the real store lives in another crate.

use protocol::memcache::command::Stats;
use protocol::memcache::emit::{
    MetaCounted, MetaDebug, MetaDeleted, MetaHit, MetaStored, meta_bound, value_bound,
};
use protocol::memcache::{
    Asks, Binary, Command, KEY_MAX, Line, Meta, MetaArith, MetaDelete, MetaGet, MetaSet, Parser, Reply,
    SetMode, Step, Store, StoreVerb, decimal,
};
use std::collections::HashMap;

#[derive(Clone, Default)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    expiry: u32,
    version: u64,
    last_access: u32,
    fetched: bool,
    stale: bool,
    win_sent: bool,
}

impl Item {
    fn ttl(&self, now: u32) -> Option<u32> {
        (self.expiry != 0).then(|| self.expiry.saturating_sub(now))
    }

    /// The item as a number: digits with spaces around them, as `strtoull` and memcached's padding make it.
    fn number(&self) -> Option<u64> {
        let text = self.value.trim_ascii();
        if self.value.len() > 20 { None } else { decimal(text) }
    }
}

/// A whole server.
pub struct Server {
    now: u32,
    items: HashMap<Vec<u8>, Item>,
    versions: u64,
}

/// What became of one connection.
pub struct Answer {
    pub bytes: Vec<u8>,
    pub closed: bool,
}

impl Server {
    pub fn new(now: u32) -> Server {
        // Conversations compare with version 1, which must not be in use.
        Server { now, items: HashMap::new(), versions: 100 }
    }

    /// Everything a connection that sends `requests` and nothing more is answered.
    pub fn converse(&mut self, requests: &[u8]) -> Answer {
        let mut parser = Parser::new((1 << 20) - 512);
        let mut answer = Answer { bytes: Vec::new(), closed: false };
        let mut at = 0;
        loop {
            match parser.next(&requests[at..]) {
                Step::Incomplete { .. } => return answer,
                Step::Skip { consumed } => at += consumed,
                Step::Login { .. } => unreachable!("nobody logs in here"),
                Step::Close { reason } => {
                    answer.bytes.extend_from_slice(reason.line().map_or(b"", Line::bytes));
                    answer.closed = true;
                    return answer;
                }
                Step::Command { command: Command::Quit, .. } => {
                    answer.closed = true;
                    return answer;
                }
                Step::Command { command, consumed } => {
                    let mut room = vec![0; 4096 + value_bound(KEY_MAX, 1 << 20)];
                    let mut reply = Reply::to(&mut room, command.asked());
                    self.execute(&command, &mut reply);
                    if !command.noreply() {
                        answer.bytes.extend_from_slice(reply.written());
                    }
                    at += consumed;
                }
            }
        }
    }

    fn execute(&mut self, command: &Command<'_>, reply: &mut Reply<'_>) {
        match *command {
            Command::Get(get) => {
                let now = self.now;
                if let Some(item) = self.live(get.key) {
                    item.fetched = true;
                    item.last_access = now;
                    if let Some(touch) = get.touch {
                        item.expiry = touch.expiry(now);
                    }
                    reply.value(get.key, item.flags, get.with_cas.then_some(item.version), &item.value);
                }
                if get.last {
                    reply.line(Line::End);
                }
            }
            Command::GetEnd => reply.line(Line::End),
            Command::Store(store) => reply.line(self.store(store)),
            Command::Delete { key, .. } => {
                let found = self.live(key).is_some();
                self.items.remove(key);
                reply.line(if found { Line::Deleted } else { Line::NotFound });
            }
            Command::Arith { key, delta, decrement, .. } => match self.count(key, delta, decrement) {
                None => reply.line(Line::NotFound),
                Some(None) => reply.line(Line::NonNumeric),
                Some(Some(number)) => reply.number(number),
            },
            Command::Touch { key, exptime, .. } => {
                let expiry = exptime.expiry(self.now);
                let item = self.live(key).map(|item| item.expiry = expiry);
                reply.line(if item.is_some() { Line::Touched } else { Line::NotFound });
            }
            Command::MetaGet(get) => self.meta_get(&get, reply),
            Command::MetaSet(set) => self.meta_set(&set, reply),
            Command::MetaDelete(delete) => self.meta_delete(&delete, reply),
            Command::MetaArith(arith) => self.meta_arith(&arith, reply),
            Command::MetaDebug(meta) => self.meta_debug(&meta, reply),
            Command::MetaNoop => reply.line(Line::MetaNoop),
            Command::FlushAll { .. } => {
                self.items.clear();
                reply.line(Line::Ok);
            }
            Command::Version | Command::Binary(Binary { asks: Asks::Version, .. }) => {
                reply.version("1.6.18");
            }
            Command::Binary(Binary { asks: Asks::Noop | Asks::Quit, .. }) => reply.line(Line::Ok),
            Command::Binary(Binary { asks: Asks::Stats(stats), .. }) => reply_to_stats(stats, reply),
            Command::Binary(Binary { asks: Asks::Sasl(answer), .. }) => reply.sasl(answer),
            Command::Binary(Binary { asks: Asks::Refused(line), .. }) => reply.line(line),
            Command::Verbosity { .. } | Command::CacheMemlimit { .. } => reply.line(Line::Ok),
            Command::Stats(stats) => reply_to_stats(stats, reply),
            Command::Dump(_) => reply.line(Line::End),
            Command::Watch(_) => reply.line(Line::WatchRefused),
            Command::Shutdown(_) => reply.line(Line::ShutdownRefused),
            Command::Quit => unreachable!("handled where the connection is"),
            Command::Answered { line, .. } | Command::Malformed { line, .. } => reply.line(line),
            Command::TooLarge(refused) => {
                if refused.drop_old {
                    self.items.remove(&key_of(&refused.meta));
                }
                reply.line(Line::TooLarge);
            }
        }
    }

    fn live(&mut self, key: &[u8]) -> Option<&mut Item> {
        let now = self.now;
        self.items.get_mut(key).filter(|item| item.expiry == 0 || item.expiry > now)
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn put(&mut self, key: &[u8], item: Item) -> u64 {
        let version = self.next_version();
        self.items.insert(key.to_vec(), Item { version, last_access: self.now, ..item });
        version
    }

    fn store(&mut self, store: Store<'_>) -> Line {
        let old = self.live(store.key).cloned();
        let item = Item {
            value: store.value.to_vec(),
            flags: store.flags,
            expiry: store.exptime.expiry(self.now),
            ..Item::default()
        };
        let item = match (store.verb, old) {
            (StoreVerb::Set, _) | (StoreVerb::Add, None) | (StoreVerb::Replace, Some(_)) => item,
            (StoreVerb::Append, Some(old)) => Item { value: [&old.value, store.value].concat(), ..old },
            (StoreVerb::Prepend, Some(old)) => Item { value: [store.value, &old.value].concat(), ..old },
            (StoreVerb::Cas, Some(old)) if old.version == store.cas => item,
            (StoreVerb::Cas, Some(_)) => return Line::Exists,
            (StoreVerb::Cas, None) => return Line::NotFound,
            _ => return Line::NotStored,
        };
        self.put(store.key, item);
        Line::Stored
    }

    /// `None` where the key is absent, `Some(None)` where it holds no number.
    fn count(&mut self, key: &[u8], delta: u64, decrement: bool) -> Option<Option<u64>> {
        let version = self.next_version();
        let item = self.live(key)?;
        let Some(old) = item.number() else { return Some(None) };
        let number = if decrement { old.saturating_sub(delta) } else { old.wrapping_add(delta) };
        // A shorter number is padded with spaces to the old length.
        let width = item.value.len();
        item.value = format!("{number:<width$}").into_bytes();
        item.version = version;
        Some(Some(number))
    }

    fn meta_get(&mut self, get: &MetaGet<'_>, reply: &mut Reply<'_>) {
        let (now, key, meta) = (self.now, key_of(&get.meta), &get.meta);
        let created = self.live(&key).is_none() && get.vivify().is_some();
        if created {
            self.put(&key, Item::default());
        }
        let Some(item) = self.live(&key) else { return reply.meta_miss(meta) };
        let ttl_before = item.ttl(now);
        if let Some(vivify) = get.vivify().filter(|_| created) {
            item.expiry = vivify.expiry(now);
        }
        if let Some(ttl) = get.ttl() {
            item.expiry = ttl.expiry(now);
        }
        let soon = get.recache().is_some_and(|at| item.expiry != 0 && item.expiry < at.expiry(now));
        let won = created || (!item.win_sent && (soon || item.stale));
        let hit = MetaHit {
            client_flags: item.flags,
            version: item.version,
            ttl: item.ttl(now),
            ttl_before,
            idle_s: now - item.last_access,
            fetched: item.fetched,
            won,
            stale: item.stale,
            win_sent: item.win_sent,
        };
        let before = reply.len();
        reply.meta_hit(meta, &hit, &item.value);
        assert!(reply.len() - before <= meta_bound(meta.key_text.len(), item.value.len()));
        item.win_sent |= won;
        if !meta.flags.has(b'u') {
            item.fetched = true;
            item.last_access = now;
        }
    }

    fn meta_set(&mut self, set: &MetaSet<'_>, reply: &mut Reply<'_>) {
        let key = key_of(&set.meta);
        let old = self.live(&key).cloned();
        let mut item = Item {
            value: set.value.to_vec(),
            flags: set.client_flags,
            expiry: set.ttl().map_or(0, |ttl| ttl.expiry(self.now)),
            ..Item::default()
        };
        let mismatch = old.as_ref().zip(set.compare()).filter(|(old, compare)| old.version != *compare);
        let item = match (set.mode, old.clone()) {
            (SetMode::Set | SetMode::Replace, None) if set.compare().is_some() => Err(MetaStored::NotFound),
            (SetMode::Set | SetMode::Replace, Some(old)) if mismatch.is_some() => {
                // A late value replaces the present one but keeps its time and its winner.
                (item.stale, item.expiry, item.win_sent) = (true, old.expiry, old.win_sent);
                let older = set.compare().is_some_and(|compare| compare < old.version);
                if set.meta.flags.has(b'I') && older { Ok(item) } else { Err(MetaStored::Exists) }
            }
            (SetMode::Append | SetMode::Prepend, Some(_)) if mismatch.is_some() => Err(MetaStored::Exists),
            (SetMode::Set, _) | (SetMode::Add, None) | (SetMode::Replace, Some(_)) => Ok(item),
            (SetMode::Append, Some(old)) => Ok(Item { value: [&old.value, set.value].concat(), ..old }),
            (SetMode::Prepend, Some(old)) => Ok(Item { value: [set.value, &old.value].concat(), ..old }),
            (SetMode::Append | SetMode::Prepend, None) if set.vivify().is_some() => {
                Ok(Item { expiry: set.vivify().expect("just seen").expiry(self.now), ..item })
            }
            _ => Err(MetaStored::NotStored),
        };
        match item {
            Ok(item) => {
                let size = item.value.len();
                let mut version = self.put(&key, item);
                if let Some(wanted) = set.version() {
                    version = wanted;
                    self.live(&key).expect("just put").version = wanted;
                }
                reply.meta_stored(&set.meta, MetaStored::Stored { version }, size);
            }
            Err(outcome) => reply.meta_stored(&set.meta, outcome, set.value.len()),
        }
    }

    fn meta_delete(&mut self, delete: &MetaDelete<'_>, reply: &mut Reply<'_>) {
        let (now, key, version) = (self.now, key_of(&delete.meta), self.next_version());
        let Some(item) = self.live(&key) else {
            return reply.meta_deleted(&delete.meta, MetaDeleted::NotFound);
        };
        if delete.compare().is_some_and(|compare| compare != item.version) {
            return reply.meta_deleted(&delete.meta, MetaDeleted::Exists);
        }
        let (stale, empty) = (delete.meta.flags.has(b'I'), delete.meta.flags.has(b'x'));
        if empty {
            (item.value, item.flags) = (Vec::new(), 0);
        }
        if stale {
            item.expiry = delete.ttl().map_or(item.expiry, |ttl| ttl.expiry(now));
            (item.stale, item.win_sent) = (true, false);
        }
        item.version = delete.version().unwrap_or(version);
        if !stale && !empty {
            self.items.remove(&key);
        }
        reply.meta_deleted(&delete.meta, MetaDeleted::Deleted);
    }

    fn meta_arith(&mut self, arith: &MetaArith<'_>, reply: &mut Reply<'_>) {
        let (now, key) = (self.now, key_of(&arith.meta));
        let outcome = match self.live(&key).map(|item| (item.version, item.ttl(now))) {
            Some((version, _)) if arith.compare().is_some_and(|compare| compare != version) => {
                MetaCounted::Exists
            }
            Some((_, ttl_before)) => match self.count(&key, arith.delta, arith.decrement).flatten() {
                None => return reply.line(Line::NonNumeric),
                Some(number) => self.counted(arith, &key, number, ttl_before, false),
            },
            None if arith.vivify().is_some() => {
                let value = arith.initial.to_string().into_bytes();
                let expiry = arith.vivify().expect("just seen").expiry(now);
                self.put(&key, Item { value, expiry, ..Item::default() });
                self.counted(arith, &key, arith.initial, None, true)
            }
            None => MetaCounted::NotFound,
        };
        reply.meta_counted(&arith.meta, outcome);
    }

    fn counted(
        &mut self,
        arith: &MetaArith<'_>,
        key: &[u8],
        number: u64,
        ttl_before: Option<u32>,
        created: bool,
    ) -> MetaCounted {
        let now = self.now;
        let item = self.live(key).expect("just counted");
        item.expiry = arith.ttl().map_or(item.expiry, |ttl| ttl.expiry(now));
        item.version = arith.version().unwrap_or(item.version);
        MetaCounted::Counted { number, version: item.version, ttl: item.ttl(now), ttl_before, created }
    }

    fn meta_debug(&mut self, meta: &Meta<'_>, reply: &mut Reply<'_>) {
        let now = self.now;
        let Some(item) = self.live(&key_of(meta)) else { return reply.line(Line::MetaMiss) };
        let debug = MetaDebug {
            ttl: item.ttl(now),
            idle_s: now - item.last_access,
            version: item.version,
            fetched: item.fetched,
            class: 1,
            size: 0,
        };
        reply.meta_debug(meta, &debug);
    }
}

fn key_of(meta: &Meta<'_>) -> Vec<u8> {
    let mut scratch = [0; KEY_MAX];
    let key = meta.key(&mut scratch).to_vec();
    assert_eq!(key.len(), meta.key_len());
    key
}

fn reply_to_stats(stats: Stats<'_>, reply: &mut Reply<'_>) {
    match stats {
        Stats::Reset => reply.line(Line::Reset),
        Stats::DetailOn | Stats::DetailOff => reply.line(Line::Ok),
        Stats::Other(_) => reply.line(Line::Error),
        Stats::SizesEnable => reply.stat("sizes_status", "enabled"),
        Stats::SizesDisable => reply.stat("sizes_status", "disabled"),
        Stats::Sizes => {
            reply.stat("sizes_status", "disabled");
            reply.line(Line::End);
        }
        _ => reply.line(Line::End),
    }
}
