//! The table in use, replaced as a whole while messages are in flight.
//!
//! A lane takes the table when a message begins and keeps it to the message's end, so no message sees half of a change. The
//! check whether there is a new one costs one load for each message.
//!
//! Ordering: `swap.rs`. Counters guard no data.

use super::swap::{self, Swap};
use super::votes::Votes;
use crate::memory::Place;
use crate::schema::Schema;
use crate::table::{Flags, Table};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A dereference field: class id and entry index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId {
    /// The message that has it.
    pub class: u32,
    /// Index among the message's entries.
    pub entry: u32,
}

impl FieldId {
    /// The field of that name of the message of that name.
    pub fn named(schema: &Schema, message: &str, field: &str) -> Option<FieldId> {
        let class = schema.class(message)?;
        let entry = schema.message(message)?.index(field)? as u32;
        Some(FieldId { class, entry })
    }
}

/// The table that lanes use now.
#[derive(Debug)]
pub struct Live {
    table: Swap<Table>,
    /// Locked by whoever changes the table.
    votes: Mutex<HashMap<FieldId, Votes>>,
    /// Messages decoded, by class.
    messages: Box<[AtomicU64]>,
    follow: AtomicBool,
    /// Of all tables that there will be.
    layout_hash: u64,
}

impl Live {
    /// Begins with `table`; target bits follow moves (automatic field updating is on).
    pub fn new(table: Table) -> Live {
        let messages = (0..table.classes()).map(|_| AtomicU64::new(0)).collect();
        let votes = Mutex::new(HashMap::new());
        let layout_hash = table.layout_hash();
        Live { layout_hash, table: Swap::new(table), votes, messages, follow: AtomicBool::new(true) }
    }

    /// The table now.
    pub fn table(&self) -> Arc<Table> {
        self.table.value()
    }

    /// Of the layout that all its tables have.
    pub fn layout_hash(&self) -> u64 {
        self.layout_hash
    }

    /// How many classes all its tables have.
    pub fn classes(&self) -> u32 {
        self.messages.len() as u32
    }

    /// How often the table was replaced.
    pub fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    /// Switches automatic field updating on or off; off, target bits stay as they are.
    pub fn follow_moves(&self, follow: bool) {
        self.follow.store(follow, Ordering::Relaxed);
    }

    /// A reader for one lane.
    pub fn reader(&self) -> Reader {
        Reader(self.table.reader())
    }

    /// Where the next message of its class will put the field.
    pub fn target(&self, field: FieldId) -> Place {
        target(&self.table.value(), field)
    }

    /// The program moved a field of a message of class `root` to `place`: true if the target bit turned.
    ///
    /// # Panics
    /// If the table has no such class or field, or it is not a dereference field.
    pub fn moved(&self, root: u32, field: FieldId, place: Place) -> bool {
        if !self.follow.load(Ordering::Relaxed) {
            return false;
        }
        let messages = self.messages[root as usize].load(Ordering::Relaxed);
        let mut votes = self.lock();
        let table = self.table.value();
        // If it is there already, the message was decoded before the last turn: there is nothing left to object to.
        let turned = target(&table, field) != place && votes.entry(field).or_default().object(messages);
        if turned {
            self.replace(&table, field, place);
        }
        turned
    }

    /// Sets the target bit, whatever the votes.
    ///
    /// # Panics
    /// As [`Live::moved`].
    pub fn set_target(&self, field: FieldId, place: Place) {
        let _votes = self.lock();
        let table = self.table.value();
        if target(&table, field) != place {
            self.replace(&table, field, place);
        }
    }

    fn replace(&self, table: &Table, field: FieldId, place: Place) {
        self.table.replace(table.with_target(field.class, field.entry as usize, place == Place::Acc));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FieldId, Votes>> {
        // What a panic left (a field that there is not) is as good as before: votes are changed by one call each.
        self.votes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn target(table: &Table, field: FieldId) -> Place {
    let entry = table.entries(table.message(field.class))[field.entry as usize];
    assert!(entry.is_dereference(), "only a dereference field has a place of its own");
    if entry.flags.has(Flags::ACC) { Place::Acc } else { Place::Host }
}

/// A lane's hold on the table.
#[derive(Debug)]
pub struct Reader(swap::Reader<Table>);

impl Reader {
    /// The table for a message of `class` that begins now; `live` is where this reader comes from.
    pub fn begin(&mut self, live: &Live, class: u32) -> &Arc<Table> {
        if let Some(count) = live.messages.get(class as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.0.latest(&live.table)
    }
}
