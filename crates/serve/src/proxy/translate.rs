//! From what a memcached client wrote to what is to be done: a [`Task`] and the [`Form`] of its reply, or a reply at once.
//!
//! Times become lives here: a client's expiration time is counted from when its command was read.
//!
//! `E` is refused, as memcached refuses a flag that it does not know: homes number versions themselves. So is `me`. What `h` and `l` of `mg` ask
//! for no home knows: they are left out of the reply, for clients ask for them by habit. `docs/memcached-differences.md` lists it all.

use super::command::{Count, Delete, Read, Store, Task, What};
use super::reply::{Form, MetaForm};
use crate::memcached::PROTOCOL_VERSION;
use base::Nanos;
use protocol::memcache::command::StoreVerb;
use protocol::memcache::emit::Reply;
use protocol::memcache::{Asks, Binary, Get, Sasl, TooLarge, command};
use protocol::memcache::{
    Command, Exptime, KEY_MAX, Line, Meta, MetaArith, MetaDelete, MetaGet, MetaSet, SetMode, Stats,
};
use protocol::wire::HomeId;

/// What a command turned out to be.
pub enum Meaning<'a> {
    /// Something to be done, and how to answer.
    Task(Task, Form),
    /// This line, and nothing where no reply is wanted.
    Line(Line),
    /// `version`.
    Version,
    /// `stats`.
    Stats(Stats<'a>),
    /// A step of SASL.
    Sasl(Sasl),
    /// Nothing at all.
    Silence,
}

/// What `command` means, read at Unix second `now` by a proxy before these homes.
pub fn meaning<'a>(command: &Command<'a>, now: u32, homes: &[HomeId]) -> Meaning<'a> {
    let plain = |key: &[u8], what, form| Meaning::Task(Task::new(key.to_vec(), what), form);
    let noreply = command.noreply();
    let asked = command.asked();
    let classic = Form::Classic { noreply, asked };
    let life = |exptime: Exptime| life(exptime, now);
    match command {
        Command::Get(Get { key, touch, with_cas, last }) => {
            let read = Read { touch: touch.map(life), ..Read::default() };
            plain(key, What::Read(read), Form::Get { with_cas: *with_cas, last: *last })
        }
        Command::Store(command) => plain(command.key, What::Store(stored(command, now)), classic),
        Command::Delete { key, .. } => plain(key, What::Delete(Delete::default()), classic),
        Command::Arith { key, delta, decrement, .. } => {
            let count = Count { delta: *delta, decrement: *decrement, ..Count::default() };
            plain(key, What::Count(count), classic)
        }
        Command::Touch { key, exptime, .. } => plain(key, What::Touch(life(*exptime)), classic),
        Command::MetaGet(get) => meta_get(get, now),
        Command::MetaSet(set) => meta_set(set, now),
        Command::MetaDelete(delete) => meta_delete(delete, now),
        Command::MetaArith(arith) => meta_arith(arith, now),
        Command::FlushAll { delay, .. } if delay.moment(now) <= now => {
            plain(&[], What::Flush(homes.to_vec()), classic)
        }
        Command::TooLarge(TooLarge { meta, drop_old: true, .. }) => Meaning::Task(
            Task::new(key_of(meta), What::Delete(Delete::default())),
            Form::TooLarge { noreply, asked },
        ),
        Command::Version | Command::Binary(Binary { asks: Asks::Version, .. }) => Meaning::Version,
        Command::Stats(which) | Command::Binary(Binary { asks: Asks::Stats(which), .. }) => {
            Meaning::Stats(*which)
        }
        Command::Binary(Binary { asks: Asks::Sasl(answer), .. }) => Meaning::Sasl(*answer),
        command if command.noreply() => Meaning::Silence,
        command => Meaning::Line(line(command)),
    }
}

/// The answer to a command for which there is nothing to be done.
fn line(command: &Command<'_>) -> Line {
    match command {
        Command::GetEnd => Line::End,
        Command::MetaNoop => Line::MetaNoop,
        Command::TooLarge(_) => Line::TooLarge,
        Command::FlushAll { .. } => Line::FlushDelayRefused,
        Command::Shutdown(_) => Line::ShutdownRefused,
        Command::Dump(_) => Line::MetadumpRefused,
        Command::Answered { line, .. }
        | Command::Malformed { line, .. }
        | Command::Binary(Binary { asks: Asks::Refused(line), .. }) => *line,
        Command::MetaDebug(_) => Line::Error,
        // What boxes and homes do is not seen here.
        Command::Watch(_) => Line::WatchRefused,
        // `verbosity` and `cache_memlimit`: accepted, and change nothing, as the knobs of slabs.
        _ => Line::Ok,
    }
}

/// What remains until a client's expiration time.
fn life(exptime: Exptime, now: u32) -> Nanos {
    match exptime.expiry(now) {
        0 => Nanos::MAX,
        end => Nanos::from_secs(u64::from(end.saturating_sub(now))),
    }
}

fn key_of(meta: &Meta<'_>) -> Vec<u8> {
    meta.key(&mut [0; KEY_MAX]).to_vec()
}

fn stored(command: &command::Store<'_>, now: u32) -> Store {
    Store {
        mode: match command.verb {
            StoreVerb::Set | StoreVerb::Cas => SetMode::Set,
            StoreVerb::Add => SetMode::Add,
            StoreVerb::Replace => SetMode::Replace,
            StoreVerb::Append => SetMode::Append,
            StoreVerb::Prepend => SetMode::Prepend,
        },
        value: command.value.to_vec(),
        flags: command.flags,
        life: life(command.exptime, now),
        compare: (command.verb == StoreVerb::Cas).then_some(command.cas),
        ..Store::default()
    }
}

fn task<'a>(meta: &Meta<'_>, what: What, form: fn(MetaForm) -> Form) -> Meaning<'a> {
    Meaning::Task(Task::new(key_of(meta), what), form(MetaForm::of(meta)))
}

fn meta_get<'a>(get: &MetaGet<'_>, now: u32) -> Meaning<'a> {
    let meta = &get.meta;
    if meta.flags.has(b'E') {
        return Meaning::Line(Line::InvalidFlag);
    }
    let read = Read {
        touch: get.ttl().map(|t| life(t, now)),
        vivify: get.birth().map(|t| life(t, now)),
        recache_below: get.recache().map(|t| t.expiry(now).saturating_sub(now)),
        touch_first: meta.flag_stands_before(b'T', b'R'),
        // Binary requests have no words for it.
        lease: !meta.is_binary(),
    };
    Meaning::Task(Task::new(key_of(meta), What::Read(read)), Form::MetaGet(MetaForm::of_get(meta)))
}

fn meta_set<'a>(set: &MetaSet<'_>, now: u32) -> Meaning<'a> {
    let meta = &set.meta;
    if meta.flags.has(b'E') {
        return Meaning::Line(Line::InvalidFlag);
    }
    let store = Store {
        mode: set.mode,
        value: set.value.to_vec(),
        flags: set.client_flags,
        life: set.ttl().map_or(Nanos::MAX, |t| life(t, now)),
        compare: set.compare(),
        invalidate: meta.flags.has(b'I'),
        vivify: set.vivify().map(|t| life(t, now)),
        wants_size: meta.flags.has(b's'),
    };
    let size = set.value.len();
    Meaning::Task(Task::new(key_of(meta), What::Store(store)), Form::MetaSet(MetaForm::of(meta), size))
}

fn meta_delete<'a>(delete: &MetaDelete<'_>, now: u32) -> Meaning<'a> {
    let meta = &delete.meta;
    if meta.flags.has(b'E') {
        return Meaning::Line(Line::InvalidOrDuplicateFlag);
    }
    let what = What::Delete(Delete {
        compare: delete.compare(),
        invalidate: meta.flags.has(b'I'),
        touch: delete.ttl().map(|t| life(t, now)),
        remove_value: meta.flags.has(b'x'),
    });
    task(meta, what, Form::MetaDelete)
}

fn meta_arith<'a>(arith: &MetaArith<'_>, now: u32) -> Meaning<'a> {
    let meta = &arith.meta;
    if meta.flags.has(b'E') {
        return Meaning::Line(Line::InvalidOrDuplicateFlag);
    }
    let what = What::Count(Count {
        delta: arith.delta,
        decrement: arith.decrement,
        create: arith.birth().map(|t| (arith.initial, life(t, now))),
        touch: arith.ttl().map(|t| life(t, now)),
        compare: arith.compare(),
        wants_life: meta.flags.has(b't'),
    });
    task(meta, what, Form::MetaArith)
}

/// The reply to `version`.
pub fn version(reply: &mut Reply<'_>) {
    reply.version(PROTOCOL_VERSION);
}
