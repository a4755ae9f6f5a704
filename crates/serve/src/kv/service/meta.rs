//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.

use super::{Commands, INLINE_VALUE, Reply, VALUE_BOUND, inline, share, with_value};
use protocol::memcache::emit::{self, MetaCounted, MetaDebug, MetaDeleted, MetaHit, MetaStored, SMALL_BOUND};
use protocol::memcache::{KEY_MAX, Line, Meta, MetaArith, MetaDelete, MetaGet, MetaSet, SetMode};
use ring::arena::Producer;
use store::{
    ArithHow, ArithOutcome, DeleteHow, DeleteOutcome, GetHow, Hit, SetError, SetHow, SetOutcome, Verb,
};

impl Commands {
    pub(super) fn meta_get(&mut self, get: &MetaGet<'_>, hash: u64, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(VALUE_BOUND as u32)?;
        let mut scratch = [0; KEY_MAX];
        let key = self.key(get.meta.key(&mut scratch), hash);
        let wants_value = get.meta.flags.has(b'v');
        if wants_value
            && self.detached_now() > 0
            && let Some(item) = self.store.peek(self.now, key)
            && item.value.len() > INLINE_VALUE
            && !self.may_detach(item.value.len())
        {
            return None;
        }
        let now = self.now;
        let how = GetHow {
            touch: get.ttl().map(|t| t.expiry(now)),
            vivify: get.birth().map(|t| t.expiry(now)),
            recache_below: get.recache().map(|t| t.expiry(now).saturating_sub(now)),
            touch_first: get.meta.flag_stands_before(b'T', b'R'),
            bump: !get.meta.flags.has(b'u'),
            version: get.version(),
            // Binary requests have no words for it.
            lease: !get.meta.is_binary(),
        };
        let hit = self.store.get(now, key, &how);
        // Of `touch` in binary only that counts.
        let gets = u64::from(wants_value || !get.meta.is_binary());
        self.counters.cmd_get += gets;
        self.counters.count_touch(how.touch.is_some(), hit.is_some());
        let mut reply = emit::Reply::to(&mut room, get.meta.asked());
        let mut detached = None;
        match hit {
            None => {
                self.counters.get_misses += gets;
                reply.meta_miss(&get.meta);
            }
            Some(hit) => {
                self.counters.get_hits += gets;
                let shown = shown(&hit, now);
                let value = hit.value();
                self.values.sent += if wants_value { value.len() as u64 } else { 0 };
                if wants_value && value.len() > INLINE_VALUE {
                    reply.meta_hit_head(&get.meta, &shown, value.len());
                    detached = Some((reply.len(), share(&hit)));
                    reply.value_end();
                } else if wants_value {
                    reply.meta_hit(&get.meta, &shown, value);
                } else {
                    reply.meta_hit_head(&get.meta, &shown, value.len());
                }
            }
        }
        let len = reply.len();
        let detached = detached.map(|(at, body)| self.detach(at, body));
        Some(with_value(room, len, detached))
    }

    pub(super) fn meta_set(&mut self, set: &MetaSet<'_>, hash: u64, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(SMALL_BOUND as u32)?;
        let mut scratch = [0; KEY_MAX];
        let key = self.key(set.meta.key(&mut scratch), hash);
        let how = SetHow {
            verb: match set.mode {
                SetMode::Set => Verb::Set,
                SetMode::Add => Verb::Add,
                SetMode::Replace => Verb::Replace,
                SetMode::Append => Verb::Append,
                SetMode::Prepend => Verb::Prepend,
            },
            flags: set.client_flags,
            expiry: set.ttl().map_or(0, |t| t.expiry(self.now)),
            compare: set.compare(),
            invalidate: set.meta.flags.has(b'I'),
            version: set.version(),
            vivify: set.vivify().map(|t| t.expiry(self.now)),
        };
        let outcome = self.store.set(self.now, key, set.value, &how);
        self.counters.cmd_set += 1;
        self.values.received += set.value.len() as u64;
        self.counters.count_set(&outcome, how.compare.is_some());
        let mut reply = emit::Reply::to(&mut room, set.meta.asked());
        let (stored, size) = match outcome {
            Ok(SetOutcome::Stored { version, size }) => (Ok(MetaStored::Stored { version }), size),
            Ok(SetOutcome::NotStored) => (Ok(MetaStored::NotStored), set.value.len()),
            Ok(SetOutcome::Exists) => (Ok(MetaStored::Exists), set.value.len()),
            Ok(SetOutcome::NotFound) => (Ok(MetaStored::NotFound), set.value.len()),
            Err(SetError::TooLarge) => (Err(Line::TooLarge), 0),
            Err(SetError::OutOfMemory) => (Err(Line::OutOfMemory), 0),
        };
        match stored {
            Ok(stored) => reply.meta_stored(&set.meta, stored, size),
            Err(line) => reply.line(line),
        }
        let len = reply.len();
        Some(inline(room, len))
    }

    pub(super) fn meta_delete(&mut self, delete: &MetaDelete<'_>, hash: u64, reply: &mut emit::Reply<'_>) {
        let mut scratch = [0; KEY_MAX];
        let key = self.key(delete.meta.key(&mut scratch), hash);
        let how = DeleteHow {
            compare: delete.compare(),
            invalidate: delete.meta.flags.has(b'I'),
            touch: delete.ttl().map(|t| t.expiry(self.now)),
            remove_value: delete.meta.flags.has(b'x'),
            version: delete.version(),
        };
        let outcome = self.store.delete(self.now, key, &how);
        self.counters.count_delete(&outcome);
        match outcome {
            Ok(DeleteOutcome::NotFound) => reply.meta_deleted(&delete.meta, MetaDeleted::NotFound),
            Ok(DeleteOutcome::Exists) => reply.meta_deleted(&delete.meta, MetaDeleted::Exists),
            Ok(_) => reply.meta_deleted(&delete.meta, MetaDeleted::Deleted),
            Err(_) => reply.line(Line::OutOfMemory),
        }
    }

    pub(super) fn meta_arith(&mut self, arith: &MetaArith<'_>, hash: u64, reply: &mut emit::Reply<'_>) {
        let mut scratch = [0; KEY_MAX];
        let key = self.key(arith.meta.key(&mut scratch), hash);
        let now = self.now;
        let how = ArithHow {
            delta: arith.delta,
            decrement: arith.decrement,
            create: arith.birth().map(|t| (arith.initial, t.expiry(now))),
            touch: arith.ttl().map(|t| t.expiry(now)),
            compare: arith.compare(),
            version: arith.version(),
        };
        let outcome = self.store.arith(now, key, &how);
        self.counters.count_arith(&outcome, arith.decrement);
        let counted = match outcome {
            Ok(ArithOutcome::Done { value, version, expiry_before, expiry, created }) => {
                MetaCounted::Counted {
                    number: value,
                    version,
                    ttl: remaining(expiry, now),
                    ttl_before: remaining(expiry_before, now),
                    created,
                }
            }
            Ok(ArithOutcome::NotFound) => MetaCounted::NotFound,
            Ok(ArithOutcome::Exists) => MetaCounted::Exists,
            Ok(ArithOutcome::NotNumeric) => return reply.line(Line::NonNumeric),
            Err(_) if how.create.is_some() => return reply.line(Line::OutOfMemoryVivify),
            Err(_) => return reply.line(Line::OutOfMemoryArith),
        };
        reply.meta_counted(&arith.meta, counted);
    }

    pub(super) fn meta_debug(&mut self, meta: &Meta<'_>, hash: u64, reply: &mut emit::Reply<'_>) {
        let mut scratch = [0; KEY_MAX];
        let key = self.key(meta.key(&mut scratch), hash);
        let Some(item) = self.store.peek(self.now, key) else { return reply.line(Line::MetaMiss) };
        let debug = MetaDebug {
            ttl: remaining(item.expiry, self.now),
            idle_s: self.now.saturating_sub(item.access),
            version: item.version,
            fetched: item.fetched,
            class: 1,
            size: item.footprint as u64,
        };
        reply.meta_debug(meta, &debug);
    }
}

/// Seconds to live, `None` for ever.
fn remaining(expiry: u32, now: u32) -> Option<u32> {
    (expiry != 0).then(|| expiry.saturating_sub(now))
}

fn shown(hit: &Hit<'_>, now: u32) -> MetaHit {
    MetaHit {
        client_flags: hit.flags(),
        version: hit.version(),
        ttl: remaining(hit.expiry(), now),
        ttl_before: remaining(hit.expiry_before(), now),
        idle_s: now.saturating_sub(hit.access_before()),
        fetched: hit.was_hit_before(),
        won: hit.won(),
        stale: hit.is_stale(),
        win_sent: hit.win_was_sent(),
    }
}
