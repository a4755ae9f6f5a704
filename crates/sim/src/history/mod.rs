//! A history: what clients asked and what they were answered, in the order in which it happened.
//!
//! Simulated and real runs write the same; `docs/history.md` describes it as JSON Lines, which [`History::write`] and
//! [`History::read`] are. What is asked and answered is up to the types (for keys: [`crate::kv`]).
//!
//! Invariants (a recorder's misuse panics, a file's is an error)
//! 1. Time does not go back from one event to the next.
//! 2. Each number names one operation, which is called once and returns at most once, later.
//!
//! An operation that never returns may have taken effect, or may yet, or never will.

mod lines;

pub use lines::{ReadError, bytes_of_json, json_of_bytes};

use base::Picos;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;

/// What can be asked.
pub trait Call: Sized {
    /// Its name, as `"op"`.
    fn name(&self) -> &'static str;
    /// Its arguments, as `"a"`.
    fn args(&self) -> Map<String, Json>;
    /// The operation of this name and these arguments.
    ///
    /// # Errors
    /// In words, when there is none.
    fn read(name: &str, args: &Map<String, Json>) -> Result<Self, String>;
}

/// What can be answered.
pub trait Answer: Sized {
    /// Its fields, as `"r"`.
    fn fields(&self) -> Map<String, Json>;
    /// The answer of these fields.
    ///
    /// # Errors
    /// In words, when there is none.
    fn read(fields: &Map<String, Json>) -> Result<Self, String>;
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<O, R> {
    /// When.
    pub at: Picos,
    /// To which client.
    pub client: u32,
    /// The operation's number, which no other in the history has.
    pub id: u64,
    /// What.
    pub what: What<O, R>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What<O, R> {
    /// The client asked.
    Call {
        /// For which key.
        key: Arc<[u8]>,
        /// What.
        op: O,
    },
    /// The client was answered.
    Return {
        /// The place of the call among the events.
        call: usize,
        /// What.
        ret: R,
    },
}

/// An operation: its call, and its return if there was one.
#[derive(Clone, Debug)]
pub struct Operation<'a, O, R> {
    /// The client.
    pub client: u32,
    /// Its number.
    pub id: u64,
    /// The key.
    pub key: &'a Arc<[u8]>,
    /// What was asked.
    pub op: &'a O,
    /// When, and the place among the events.
    pub called: (Picos, usize),
    /// When it returned, the place among the events, and what was answered.
    pub returned: Option<(Picos, usize, &'a R)>,
}

/// What happened, in order.
#[derive(Clone, Debug)]
pub struct History<O, R> {
    events: Vec<Event<O, R>>,
    /// Where each operation was called, and where it returned.
    places: HashMap<u64, (usize, Option<usize>)>,
}

impl<O, R> Default for History<O, R> {
    fn default() -> Self {
        History { events: Vec::new(), places: HashMap::new() }
    }
}

impl<O: PartialEq, R: PartialEq> PartialEq for History<O, R> {
    fn eq(&self, other: &Self) -> bool {
        self.events == other.events
    }
}

impl<O, R> History<O, R> {
    /// Nothing has happened.
    pub fn new() -> Self {
        History::default()
    }

    /// Client `client` asks; `id` is the operation's number.
    pub fn call(&mut self, at: Picos, client: u32, id: u64, key: &[u8], op: O) {
        self.try_call(at, client, id, key, op).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The operation with number `id` is answered.
    pub fn returns(&mut self, at: Picos, id: u64, ret: R) {
        self.try_return(at, id, ret).unwrap_or_else(|error| panic!("{error}"));
    }

    /// What happened, in order.
    pub fn events(&self) -> &[Event<O, R>] {
        &self.events
    }

    /// Operations, in the order of their calls.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_, O, R>> {
        self.events.iter().enumerate().filter_map(|(place, event)| {
            let What::Call { key, op } = &event.what else { return None };
            let returned = self.places[&event.id].1.map(|place| match &self.events[place] {
                Event { at, what: What::Return { ret, .. }, .. } => (*at, place, ret),
                _ => unreachable!("a return is at the place that was noted for it"),
            });
            let called = (event.at, place);
            Some(Operation { client: event.client, id: event.id, key, op, called, returned })
        })
    }

    fn check_time(&self, at: Picos) -> Result<(), String> {
        match self.events.last() {
            Some(last) if last.at > at => Err(format!("time goes back from {} ps to {} ps", last.at.0, at.0)),
            _ => Ok(()),
        }
    }

    fn try_call(&mut self, at: Picos, client: u32, id: u64, key: &[u8], op: O) -> Result<(), String> {
        self.check_time(at)?;
        if self.places.contains_key(&id) {
            return Err(format!("operation {id} is called twice"));
        }
        self.places.insert(id, (self.events.len(), None));
        self.events.push(Event { at, client, id, what: What::Call { key: key.into(), op } });
        Ok(())
    }

    /// Returns the place of the call.
    fn try_return(&mut self, at: Picos, id: u64, ret: R) -> Result<usize, String> {
        self.check_time(at)?;
        let place = self.events.len();
        match self.places.get_mut(&id) {
            Some((call, returned @ None)) => {
                *returned = Some(place);
                let (call, client) = (*call, self.events[*call].client);
                self.events.push(Event { at, client, id, what: What::Return { call, ret } });
                Ok(call)
            }
            Some(_) => Err(format!("operation {id} returns twice")),
            None => Err(format!("operation {id} returns without having been called")),
        }
    }
}

#[cfg(test)]
mod tests;
