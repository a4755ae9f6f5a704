//! The accelerator's deserialiser: lanes that place the fields of arriving messages.
//!
//! A lane decodes one message at a time. It pauses after each slice of input, and the lanes take turns, so a small message
//! does not wait for the end of a large one. A message that fits in a slice is done in one turn.
//!
//! A lane is a value without a thread: see `executor.rs`. Lanes of several threads share what is in [`Ground`] and nothing else.

use super::live::{Live, Reader};
use super::message::Placed;
use crate::crossing::Crossing;
use crate::decode::across::{Across, Temp};
use crate::decode::{DecodeError, Fault, Lane, Limits, Writes};
use crate::encode::Encoder;
use crate::memory::{Arena, Mark, Memory};
use crate::object::{Object, View};
use crate::table::Table;
use base::touch::yield_once;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What is common to all lanes.
pub(super) struct Ground<C> {
    pub(super) crossing: Arc<C>,
    /// The tables in use, one for each schema.
    pub(super) lives: Box<[Arc<Live>]>,
    pub(super) host: Arc<Memory>,
    pub(super) acc: Arc<Memory>,
    pub(super) limits: Limits,
    pub(super) registers: Arc<Registers>,
    pub(super) work: Workload,
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

/// What lanes do and did. Counters guard no data.
#[derive(Debug, Default)]
pub(super) struct Workload {
    /// Lanes in the middle of a message.
    pub(super) busy: AtomicUsize,
    /// Messages that were decoded, or refused.
    pub(super) messages: AtomicU64,
    /// Requests of every kind that have no response yet.
    pub(super) under_way: AtomicUsize,
    /// Fields that moved to the accelerator's memory, and to the host's.
    pub(super) moved: [AtomicU64; 2],
}

/// What may be changed while the accelerator runs.
#[derive(Debug)]
pub struct Registers {
    /// Lanes of each thread that take messages, one at least and those that there are at most.
    pub lanes: AtomicUsize,
    /// Bytes of input that a lane decodes before the next lane has its turn; 64 and more, 4096 by default.
    pub slice_bytes: AtomicUsize,
    field_by_field: AtomicU8,
}

impl Default for Registers {
    fn default() -> Registers {
        Registers {
            lanes: AtomicUsize::new(usize::MAX),
            slice_bytes: AtomicUsize::new(4096),
            field_by_field: AtomicU8::new(0),
        }
    }
}

impl Registers {
    /// Bytes of a slice now.
    pub(super) fn slice(&self) -> usize {
        self.slice_bytes.load(Ordering::Relaxed).max(64)
    }

    /// How host-bound fields cross from now on.
    pub fn set_writes(&self, writes: Writes) {
        self.field_by_field.store(u8::from(writes == Writes::FieldByField), Ordering::Relaxed);
    }

    /// How host-bound fields cross now.
    pub fn writes(&self) -> Writes {
        if self.field_by_field.load(Ordering::Relaxed) == 0 { Writes::OneShot } else { Writes::FieldByField }
    }
}

/// What one lane keeps between messages.
pub(super) struct LaneState {
    lane: Lane,
    /// Merges a sub-message that came in two pieces, in this lane's own memory.
    merge: Lane,
    encoder: Encoder,
    scratch: Arena,
    marks: Vec<Mark>,
    temp: Temp,
    /// One for each schema.
    readers: Vec<Reader>,
}

// SAFETY: its pointers are into the memory of the message that it decodes, which no other thread touches before it is done.
unsafe impl Send for LaneState {}

impl LaneState {
    pub(super) fn new<C>(ground: &Ground<C>) -> LaneState {
        let limits = ground.limits;
        #[cfg_attr(not(test), expect(unused_mut, reason = "tests plant a bug"))]
        let mut temp = Temp::default();
        #[cfg(test)]
        {
            temp.forgets = ground.planted == Some(super::tests::Planted::FlushForgotten);
        }
        LaneState {
            readers: ground.lives.iter().map(|live| live.reader()).collect(),
            lane: Lane::new(limits),
            merge: Lane::new(limits),
            encoder: Encoder::default(),
            scratch: Arena::default(),
            marks: Vec::new(),
            temp,
        }
    }

    /// Decodes one message; yields after each slice if it may take several turns.
    pub(super) async fn receive<C: Crossing>(
        &mut self,
        ground: &Ground<C>,
        (schema, class): (u16, u32),
        wire: &[u8],
        turns: bool,
    ) -> Result<Placed, DecodeError> {
        let live = &ground.lives[usize::from(schema)];
        let table = Arc::clone(self.readers[usize::from(schema)].begin(live, class));
        let allowed = ground.limits.memory_for(wire.len());
        self.scratch.limit_to(allowed);
        let message = match self.place(ground, &table, class, wire, allowed, turns).await {
            Err(DecodeError { fault: Fault::Split, at }) => match self.merged(&table, class, wire) {
                Ok(merged) => self.place(ground, &table, class, &merged, allowed, turns).await,
                Err(fault) => Err(DecodeError { fault, at }),
            },
            done => done,
        };
        self.scratch.reset();
        ground.work.messages.fetch_add(1, Ordering::Relaxed);
        #[cfg(test)]
        if ground.planted == Some(super::tests::Planted::TableTurnsMidway) {
            let table = Arc::clone(self.readers[usize::from(schema)].begin(live, class));
            return message.map(|message| Placed { table, ..message });
        }
        message
    }

    async fn place<C: Crossing>(
        &mut self,
        ground: &Ground<C>,
        table: &Arc<Table>,
        class: u32,
        wire: &[u8],
        allowed: usize,
        turns: bool,
    ) -> Result<Placed, DecodeError> {
        let (host, acc) = (Arena::new(&ground.host), Arena::new(&ground.acc));
        host.limit_to(allowed);
        acc.limit_to(allowed);
        self.scratch.reset();
        self.marks.clear();
        self.temp.clear();
        let mut sink = Across {
            crossing: &*ground.crossing,
            writes: ground.registers.writes(),
            host: &host,
            acc: &acc,
            scratch: &mut self.scratch,
            marks: &mut self.marks,
            temp: &mut self.temp,
        };
        let root = {
            let root = self.lane.root(table, class, wire, &mut sink)?;
            let mut walk = self.lane.walk::<_, false>(table, class, wire, &mut sink, root);
            let mut pause = 0_usize;
            loop {
                let slice = if turns { ground.registers.slice() } else { usize::MAX };
                pause = pause.saturating_add(slice);
                if let Some(root) = walk.go(pause)? {
                    break root;
                }
                yield_once().await;
            }
        };
        sink.finish();
        host.limit_to(usize::MAX);
        acc.limit_to(usize::MAX);
        let root = Object::at(NonNull::new(root.pointer()).expect("an object has an address"));
        Ok(Placed { root, class, table: Arc::clone(table), host, acc, moved: Vec::new() })
    }

    /// The same message with every sub-message in one piece.
    #[cold]
    fn merged(&mut self, table: &Table, class: u32, wire: &[u8]) -> Result<Vec<u8>, Fault> {
        let arena = Arena::default();
        arena.limit_to(self.merge.limits().memory_for(wire.len()));
        let root = self.merge.direct::<true>(table, class, wire, &arena).map_err(|error| error.fault)?;
        let mut bytes = Vec::new();
        // SAFETY: the lane finished it in `arena` and `wire`, which stay; it is of that class.
        let encoded = unsafe { self.encoder.encode(table, class, View::of(root), &mut bytes) };
        encoded.map_err(|_| Fault::Memory)?;
        Ok(bytes)
    }
}
