//! The classic commands and the small ones: everything whose reply is one line, and retrieval of one key.

use super::{Commands, INLINE_VALUE, Reply, VALUE_BOUND, inline, share, verb_of, with_value};
use crate::memcached::PROTOCOL_VERSION;
use protocol::memcache::emit::{self, SMALL_BOUND};
use protocol::memcache::{Asks, Binary, Command, Exptime, Get, KEY_MAX, Line, StoreVerb, TooLarge};
use ring::arena::Producer;
use store::{ArithHow, ArithOutcome, DeleteHow, DeleteOutcome, GetHow, Mode, SetError, SetHow, SetOutcome};

impl Commands {
    /// `get`, `gets`, `gat`, `gats`: one key.
    #[inline]
    pub(super) fn get(&mut self, get: &Get<'_>, hash: u64, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(VALUE_BOUND as u32)?;
        let key = self.key(get.key, hash);
        // A value too large for the arena must wait until others are written: look before the access is counted.
        if self.detached_now() > 0
            && let Some(item) = self.store.peek(self.now, key)
            && item.value.len() > INLINE_VALUE
            && !self.may_detach(item.value.len())
        {
            return None;
        }
        let touch = get.touch.map(|t| t.expiry(self.now));
        let hit = self.store.get(self.now, key, &GetHow { touch, ..GetHow::PLAIN });
        self.counters.cmd_get += 1;
        self.counters.count_touch(touch.is_some(), hit.is_some());
        let mut reply = emit::Reply::new(&mut room);
        let mut detached = None;
        match hit {
            None => self.counters.get_misses += 1,
            Some(hit) => {
                self.counters.get_hits += 1;
                self.values.sent += hit.value().len() as u64;
                let version = get.with_cas.then(|| hit.version());
                let value = hit.value();
                if value.len() <= INLINE_VALUE {
                    reply.value(get.key, hit.flags(), version, value);
                } else {
                    reply.value_head(get.key, hit.flags(), version, value.len());
                    detached = Some((reply.len(), share(&hit)));
                    reply.bytes(b"\r\n");
                }
            }
        }
        if get.last {
            reply.line(Line::End);
        }
        let len = reply.len();
        let detached = detached.map(|(at, body)| self.detach(at, body));
        Some(with_value(room, len, detached))
    }

    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    #[inline]
    pub(super) fn classic_store(
        &mut self,
        store: &protocol::memcache::Store<'_>,
        hash: u64,
        out: &mut Producer,
    ) -> Option<Reply> {
        let mut room = out.reserve(SMALL_BOUND as u32)?;
        let is_cas = store.verb == StoreVerb::Cas;
        let how = SetHow {
            verb: verb_of(store.verb),
            flags: store.flags,
            expiry: store.exptime.expiry(self.now),
            compare: is_cas.then_some(store.cas),
            ..SetHow::default()
        };
        let outcome = self.store.set(self.now, self.key(store.key, hash), store.value, &how);
        self.counters.cmd_set += 1;
        self.values.received += store.value.len() as u64;
        self.counters.count_set(&outcome, is_cas);
        let mut reply = emit::Reply::new(&mut room);
        if !store.noreply {
            reply.line(stored_line(&outcome));
        }
        let len = reply.len();
        Some(inline(room, len))
    }

    /// Every other command whose reply fits a few hundred bytes.
    pub(super) fn small(&mut self, command: &Command<'_>, hash: u64, out: &mut Producer) -> Option<Reply> {
        let mut room = out.reserve(SMALL_BOUND as u32)?;
        let mut reply = emit::Reply::to(&mut room, command.asked());
        match command {
            Command::MetaDelete(delete) => self.meta_delete(delete, hash, &mut reply),
            Command::MetaArith(arith) => self.meta_arith(arith, hash, &mut reply),
            Command::MetaDebug(meta) => self.meta_debug(meta, hash, &mut reply),
            Command::MetaNoop => reply.line(Line::MetaNoop),
            Command::GetEnd => reply.line(Line::End),
            Command::Version | Command::Binary(Binary { asks: Asks::Version, .. }) => {
                reply.version(PROTOCOL_VERSION);
            }
            Command::TooLarge(large) => self.too_large(large, hash, &mut reply),
            Command::Binary(Binary { asks: Asks::Sasl(answer), .. }) => reply.sasl(*answer),
            // What remains answers one line, or a number, and says nothing where no reply is wanted.
            _ => {
                let answer = self.one_line(command, hash);
                match answer {
                    _ if command.noreply() => {}
                    Answer::Line(line) => reply.line(line),
                    Answer::Number(number) => reply.number(number),
                }
            }
        }
        let len = reply.len();
        Some(inline(room, len))
    }

    fn one_line(&mut self, command: &Command<'_>, hash: u64) -> Answer {
        Answer::Line(match *command {
            Command::Delete { key, .. } => self.delete(key, hash),
            Command::Arith { key, delta, decrement, .. } => return self.arith(key, delta, decrement, hash),
            Command::Touch { key, exptime, .. } => self.touch_key(key, exptime, hash),
            Command::FlushAll { delay, .. } => self.flush_all(delay),
            Command::CacheMemlimit { mib, .. } => self.memory_limit(mib),
            Command::Shutdown(how) => self.shutdown(how),
            Command::Answered { line, .. }
            | Command::Malformed { line, .. }
            | Command::Binary(Binary { asks: Asks::Refused(line), .. }) => line,
            // Where it may be done, the edge makes slices of it.
            Command::Dump(dump) if dump.as_meta_get => Line::Error,
            Command::Dump(_) => Line::MetadumpRefused,
            // Where it may be, the edge has begun it.
            Command::Watch(_) => Line::WatchRefused,
            // Verbosity is accepted, as memcached does, and changes nothing while the node runs.
            _ => Line::Ok,
        })
    }

    fn delete(&mut self, key: &[u8], hash: u64) -> Line {
        let key = self.key(key, hash);
        let outcome = self.store.delete(self.now, key, &DeleteHow::default());
        self.counters.count_delete(&outcome);
        match outcome {
            Ok(DeleteOutcome::Deleted) => Line::Deleted,
            Ok(_) => Line::NotFound,
            Err(_) => Line::OutOfMemory,
        }
    }

    fn arith(&mut self, key: &[u8], delta: u64, decrement: bool, hash: u64) -> Answer {
        let key = self.key(key, hash);
        let outcome = self.store.arith(self.now, key, &ArithHow { delta, decrement, ..ArithHow::default() });
        self.counters.count_arith(&outcome, decrement);
        Answer::Line(match outcome {
            Ok(ArithOutcome::Done { value, .. }) => return Answer::Number(value),
            Ok(ArithOutcome::NotNumeric) => Line::NonNumeric,
            Ok(ArithOutcome::NotFound | ArithOutcome::Exists) => Line::NotFound,
            Err(_) => Line::OutOfMemoryArith,
        })
    }

    fn touch_key(&mut self, key: &[u8], exptime: Exptime, hash: u64) -> Line {
        let key = self.key(key, hash);
        let touched = self.store.touch(self.now, key, exptime.expiry(self.now));
        self.counters.count_touch(true, touched);
        if touched { Line::Touched } else { Line::NotFound }
    }

    fn flush_all(&mut self, delay: Exptime) -> Line {
        if !self.registers.is_on(crate::kv::registers::Id::StoreFlushAll) {
            return Line::FlushRefused;
        }
        self.counters.cmd_flush += 1;
        self.flush(delay);
        Line::Ok
    }

    fn memory_limit(&mut self, mib: u32) -> Line {
        let bytes = u64::from(mib) << 20;
        let followed = self.apply_memory_limit(bytes as usize).is_ok()
            && self.registers.write(crate::kv::registers::Id::StoreMemory, bytes).is_ok();
        if followed { Line::Ok } else { Line::MemlimitFailed }
    }

    fn shutdown(&mut self, how: protocol::memcache::Shutdown) -> Line {
        use protocol::memcache::Shutdown;
        match how {
            _ if !self.config.allow_shutdown => Line::ShutdownRefused,
            Shutdown::Unknown => Line::ShutdownMode,
            Shutdown::Now | Shutdown::Graceful => {
                // The same way as an operator's: the signal's handler drains and stops the node.
                let own = rustix::process::getpid();
                match rustix::process::kill_process(own, rustix::process::Signal::TERM) {
                    Ok(()) => Line::Ok,
                    Err(_) => Line::ShutdownRefused,
                }
            }
        }
    }

    /// A value beyond the limit: in a cache, like memcached, the old value goes too, since it is no longer what the client
    /// thinks. A store keeps what it has acknowledged: the error says that nothing happened.
    fn too_large(&mut self, large: &TooLarge<'_>, hash: u64, reply: &mut emit::Reply<'_>) {
        self.counters.store_too_large += 1;
        if large.drop_old && self.store.config().mode == Mode::Cache {
            let mut scratch = [0; KEY_MAX];
            let key = self.key(large.meta.key(&mut scratch), hash);
            // Whether there was one does not change the answer.
            let _ = self.store.delete(self.now, key, &DeleteHow::default());
        }
        if !large.noreply {
            reply.line(Line::TooLarge);
        }
    }
}

enum Answer {
    Line(Line),
    Number(u64),
}

fn stored_line(outcome: &Result<SetOutcome, SetError>) -> Line {
    match outcome {
        Ok(SetOutcome::Stored { .. }) => Line::Stored,
        Ok(SetOutcome::NotStored) => Line::NotStored,
        Ok(SetOutcome::Exists) => Line::Exists,
        Ok(SetOutcome::NotFound) => Line::NotFound,
        Err(SetError::TooLarge) => Line::TooLarge,
        Err(SetError::OutOfMemory) => Line::OutOfMemory,
    }
}
