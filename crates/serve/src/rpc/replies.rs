//! A service whose replies the in-network cache keeps, as its methods say (options `cacheable` and `key`).
//!
//! ```text
//!  cacheable method ──▶ kept ──▶ the reply                                       client::replies asks before, so a hit seldom comes here
//!                   └─▶ claim ──▶ handler ──▶ store
//!  a method of `invalidated_by` ──▶ mark every reply of its key ──▶ handler ──▶ take the marks away
//! ```
//! The protocol is [`protocol::replies`]; this file asks the cache for it and waits, on the thread that runs the handler: give such methods
//! `places` = HOST, so that others go on. Each thread that waits has a client of the cache of its own, used again.
//!
//! Handlers that answer later: of a cacheable method the reply is not kept; of one that writes the marks stay until they end by themselves, by which time
//! the handler must be done.
//!
//! Errors: a cacheable method is answered whatever the cache does. One that writes is refused, UNAVAILABLE, before its handler runs, if the cache cannot be
//! told; if that happens afterwards, it ends as lost: it was done, and what is kept may be older.
//!
//! Bounds: as many clients of the cache as threads run handlers at once.

use crate::metrics::Page;
use base::Nanos;
use client::cache::{Client, Topology};
use client::replies::{ask, item, token};
use fabric::service::{BoxFuture, Incoming, Service, ServiceDescriptor, StreamCall};
use fabric::status::{Code, Status};
use protocol::replies::{Lives, Read, ReadNext, Write, WriteNext};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a method is to the cache.
enum Role {
    Plain,
    /// Its replies are kept for so long.
    Reads(Nanos),
    /// It makes replies of these methods outdated.
    Writes(Vec<usize>),
}

crate::families! { "millrace_rpc_replies_";
    HITS counter "hits" count [] "Calls of cacheable methods that the server answered with a kept reply; what clients find in the cache themselves it does not hear of.";
    FILLS counter "fills" count [] "Replies stored in the cache.";
    NOT_FILLED counter "not_filled" count [] "Replies not stored: somebody wrote meanwhile, or computed the same, or they did not fit, or the cache did not answer.";
    WRITES counter "writes" count [] "Calls of methods that make kept replies outdated.";
    REFUSED counter "writes_refused" count [] "Of these refused before their handlers ran: the cache could not be told.";
    MARKS_LOST counter "marks_lost" count [] "Of these whose mark was gone before their handler was done: it took too long, or the home lost it.";
}

/// What was done, over all services that have it.
#[derive(Debug, Default)]
pub struct Figures {
    /// Calls answered with a kept reply, here; those that clients find themselves are not heard of.
    pub hits: AtomicU64,
    /// Replies stored.
    pub fills: AtomicU64,
    /// Replies not stored: somebody wrote meanwhile, or they did not fit, or the cache did not answer.
    pub not_filled: AtomicU64,
    /// Calls of methods that write.
    pub writes: AtomicU64,
    /// Of these refused: the cache could not be told.
    pub refused: AtomicU64,
    /// Of these whose mark was gone at the end: the handler took too long, or the item was lost.
    pub marks_lost: AtomicU64,
}

impl Figures {
    /// Adds what is counted.
    pub fn collect(&self, page: &mut Page) {
        for (family, counter) in [
            (HITS, &self.hits),
            (FILLS, &self.fills),
            (NOT_FILLED, &self.not_filled),
            (WRITES, &self.writes),
            (REFUSED, &self.refused),
            (MARKS_LOST, &self.marks_lost),
        ] {
            page.add(family, &[], counter.load(Ordering::Relaxed));
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// See the head of the file.
pub struct Kept<S> {
    service: S,
    roles: Vec<Role>,
    lives: Lives,
    topology: Arc<Topology>,
    idle: Mutex<Vec<Client>>,
    figures: Arc<Figures>,
}

impl<S: Service> Kept<S> {
    /// Keeps replies of `service` in the cache of `topology`. No handler may take longer than `longest`.
    pub fn new(service: S, topology: Arc<Topology>, longest: Duration, figures: Arc<Figures>) -> Kept<S> {
        let methods = service.descriptor().methods;
        let role = |at: usize| {
            if methods[at].options.key.is_none() {
                return Role::Plain;
            }
            if let Some(cacheable) = methods[at].options.cacheable {
                return Role::Reads(Nanos::from(Duration::from_secs(cacheable.ttl_seconds.into())));
            }
            let is_of = |other: &usize| {
                let cacheable = methods[*other].options.cacheable;
                cacheable.is_some_and(|cacheable| cacheable.invalidated_by.contains(&at))
            };
            let of: Vec<usize> = (0..methods.len()).filter(is_of).collect();
            if of.is_empty() { Role::Plain } else { Role::Writes(of) }
        };
        let roles = (0..methods.len()).map(role).collect();
        // What is placed counts from then on, and is heard of within the patience of an operation.
        let patience = topology.config().patience;
        let life = Nanos::from(longest).plus(patience).plus(patience);
        let lives = Lives { claim: life, mark: life };
        Kept { service, roles, lives, topology, idle: Mutex::default(), figures }
    }

    /// A client that nobody uses, if one can be had.
    fn client(&self) -> Option<Client> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| Client::init(&self.topology, None).ok())
    }

    fn give_back(&self, client: Client) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }

    fn read(&self, method: usize, ttl: Nanos, call: &mut Incoming<'_>) -> Result<(), Status> {
        let descriptor = self.descriptor();
        let MethodNamed { name, key } = named(descriptor, method);
        let found = item(descriptor.name, name, key, call.body()).zip(self.client());
        let Some((item, mut client)) = found else { return self.service.unary(method, call) };
        let (mut read, mut next) = Read::begin(item, call.body(), token(), ttl, self.lives);
        loop {
            let answer = ask(&mut client, next);
            match read.answered(answer.as_ref().map_err(|failed| *failed)) {
                ReadNext::Ask(call) => next = call,
                ReadNext::Hit(reply) => {
                    count(&self.figures.hits);
                    call.reply_bytes(&reply);
                    self.give_back(client);
                    return Ok(());
                }
                ReadNext::Handle => break,
            }
        }
        let result = self.service.unary(method, call);
        let reply = if result.is_ok() { call.answer() } else { None };
        let is_stored = match read.handled(reply) {
            Some(store) => read.stored(ask(&mut client, store).as_ref().map_err(|failed| *failed)),
            None => false,
        };
        count(if is_stored { &self.figures.fills } else { &self.figures.not_filled });
        self.give_back(client);
        result
    }

    fn write(&self, method: usize, of: &[usize], call: &mut Incoming<'_>) -> Result<(), Status> {
        let descriptor = self.descriptor();
        let key = named(descriptor, method).key;
        let items = of.iter().map(|&at| item(descriptor.name, descriptor.methods[at].name, key, call.body()));
        // What is no message is not handled: its handler says what is wrong with it.
        let Some(items) = items.collect::<Option<Vec<_>>>() else { return self.service.unary(method, call) };
        count(&self.figures.writes);
        let refused = || {
            count(&self.figures.refused);
            let text =
                "nothing was done: the cache, which keeps replies that this makes outdated, cannot be told";
            Status::new(Code::Unavailable, text)
        };
        let mut client = self.client().ok_or_else(refused)?;
        let mut marks = Vec::with_capacity(items.len());
        for item in items {
            let (mut write, get) = Write::begin(item, token(), self.lives);
            if drive(&mut client, &mut write, WriteNext::Ask(get)) != WriteNext::Handle {
                // Those that were placed end by themselves if these cannot be told now.
                for mark in marks {
                    let _ = end(&mut client, mark);
                }
                self.give_back(client);
                return Err(refused());
            }
            marks.push(write);
        }
        let result = self.service.unary(method, call);
        if call.is_deferred() {
            self.give_back(client);
            return result;
        }
        let mut is_sure = true;
        for mark in marks {
            let (was_sure, was_lost) = end(&mut client, mark);
            is_sure &= was_sure;
            if was_lost {
                count(&self.figures.marks_lost);
            }
        }
        self.give_back(client);
        match result {
            Ok(()) if !is_sure => {
                // Not UNAVAILABLE, which whoever calls may take for not done, and ask again.
                let text = "it was done, but the cache could not be told: what it keeps may be older";
                Err(Status::new(Code::Unknown, text))
            }
            result => result,
        }
    }
}

/// Asks until the machine wants something else.
fn drive(client: &mut Client, write: &mut Write, next: WriteNext) -> WriteNext {
    let mut next = next;
    while let WriteNext::Ask(call) = next {
        next = write.answered(ask(client, call).as_ref().map_err(|failed| *failed));
    }
    next
}

/// Takes a mark away: whether nothing older is kept, and whether it was gone already.
fn end(client: &mut Client, mut mark: Write) -> (bool, bool) {
    let next = mark.handled();
    let over = drive(client, &mut mark, next);
    (over == WriteNext::Over { is_sure: true }, mark.has_lost_mark())
}

struct MethodNamed {
    name: &'static str,
    key: fabric::service::Key,
}

fn named(service: &'static ServiceDescriptor, method: usize) -> MethodNamed {
    let method = &service.methods[method];
    MethodNamed { name: method.name, key: method.options.key.expect("without one it has another role") }
}

impl<S: Service> Service for Kept<S> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.service.descriptor()
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match self.roles.get(method) {
            Some(Role::Reads(ttl)) => self.read(method, *ttl, call),
            Some(Role::Writes(of)) => self.write(method, of, call),
            Some(Role::Plain) | None => self.service.unary(method, call),
        }
    }

    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        self.service.stream(method, call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn all_families_are_shown() {
        let mut page = Page::default();
        Figures::default().collect(&mut page);
        let text = page.text();
        lint::hold(&text);
        assert!(FAMILIES.iter().all(|family| text.contains(&format!("# TYPE {} ", family.name))), "{text}");
    }
}
