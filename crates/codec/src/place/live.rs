//! The table in use, replaced as a whole while messages are in flight.
//!
//! A lane takes the table when a message begins and keeps it to the message's end, so no message sees half of a change. The
//! check whether there is a new one costs one load for each message.
//!
//! Ordering: `epoch` is stored with Release after the new table stands in the lock, and loaded with Acquire before it is
//! taken from there; a reader that sees the number sees the table, or a later one.

use super::votes::Votes;
use crate::memory::Place;
use crate::table::{Flags, Table};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A dereference field: class id and entry index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId {
    /// The message that has it.
    pub class: u32,
    /// Index among the message's entries.
    pub entry: u32,
}

/// The table that lanes use now.
#[derive(Debug)]
pub struct Live {
    epoch: AtomicU64,
    state: Mutex<State>,
    /// Messages decoded, by class.
    messages: Box<[AtomicU64]>,
    follow: AtomicBool,
}

#[derive(Debug)]
struct State {
    table: Arc<Table>,
    votes: HashMap<FieldId, Votes>,
}

impl Live {
    /// Begins with `table`; target bits follow moves (automatic field updating is on).
    pub fn new(table: Table) -> Live {
        let messages = (0..table.classes()).map(|_| AtomicU64::new(0)).collect();
        let state = State { table: Arc::new(table), votes: HashMap::new() };
        Live { epoch: AtomicU64::new(0), state: Mutex::new(state), messages, follow: AtomicBool::new(true) }
    }

    /// The table now.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.lock().table)
    }

    /// How often the table was replaced.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Switches automatic field updating on or off; off, target bits stay as they are.
    pub fn follow_moves(&self, follow: bool) {
        self.follow.store(follow, Ordering::Relaxed);
    }

    /// A reader for one lane.
    pub fn reader(&self) -> Reader {
        let state = self.lock();
        // Within the lock, so that number and table belong together.
        Reader { epoch: self.epoch.load(Ordering::Acquire), table: Arc::clone(&state.table) }
    }

    /// Where the next message of its class will put the field.
    pub fn target(&self, field: FieldId) -> Place {
        target(&self.lock().table, field)
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
        let mut state = self.lock();
        if target(&state.table, field) == place {
            // The message was decoded before the last turn: there is nothing left to object to.
            return false;
        }
        let turned = state.votes.entry(field).or_default().object(messages);
        if turned {
            self.replace(&mut state, field, place);
        }
        turned
    }

    /// Sets the target bit, whatever the votes.
    ///
    /// # Panics
    /// As [`Live::moved`].
    pub fn set_target(&self, field: FieldId, place: Place) {
        let mut state = self.lock();
        if target(&state.table, field) != place {
            self.replace(&mut state, field, place);
        }
    }

    fn replace(&self, state: &mut State, field: FieldId, place: Place) {
        let table = state.table.with_target(field.class, field.entry as usize, place == Place::Acc);
        state.table = Arc::new(table);
        // Release: see the head of the file.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while the table is locked")
    }
}

fn target(table: &Table, field: FieldId) -> Place {
    let entry = table.entries(table.message(field.class))[field.entry as usize];
    assert!(entry.is_dereference(), "only a dereference field has a place of its own");
    if entry.flags.has(Flags::ACC) { Place::Acc } else { Place::Host }
}

/// A lane's hold on the table.
#[derive(Debug)]
pub struct Reader {
    epoch: u64,
    table: Arc<Table>,
}

impl Reader {
    /// The table for a message of `class` that begins now; `live` is where this reader comes from.
    pub fn begin(&mut self, live: &Live, class: u32) -> &Arc<Table> {
        // Acquire: see the head of the file.
        if live.epoch.load(Ordering::Acquire) != self.epoch {
            *self = live.reader();
        }
        if let Some(count) = live.messages.get(class as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        &self.table
    }
}
