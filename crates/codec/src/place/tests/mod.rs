//! The accelerator stepped in one thread: what it decodes and sends, what crosses, what comes back; and bugs planted in it.

mod agreement;
mod counts;
mod life;
mod swap;
mod threads;
mod turns;
mod units;

use super::{Accelerator, FieldId, Live, Options, Placed};
use crate::crossing::{Counts, Crossing, Shared};
use crate::encode::tests::shapes::{Form, Shape, World, field};
use crate::memory::{CHUNK, Memory};
use crate::schema::Types;
use crate::table::{Kind, Table};
use std::sync::Arc;

/// Bugs that the tests must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// The temp buffer is not flushed when the chunk changes.
    FlushForgotten,
    /// A message says at its end that it was decoded with the table of that time.
    TableTurnsMidway,
    /// The memory of a moved field goes back while the message lives.
    MovedArenaDropped,
    /// A request goes to the first thread, whatever the others have to do.
    FirstThreadOnly,
}

/// An accelerator without a thread, and the memories.
struct Rig {
    accelerator: Accelerator,
    host: Arc<Memory>,
}

impl Rig {
    fn new(table: Table) -> Rig {
        Rig::with(table, |_| {})
    }

    fn with(table: Table, set: impl FnOnce(&mut Options)) -> Rig {
        let chunks = if cfg!(miri) { 256 } else { 16 << 10 };
        let host = Memory::host(chunks * CHUNK).expect("memory");
        let mut options =
            Options { host: Arc::clone(&host), acc_bytes: chunks * CHUNK, ..Options::default() };
        set(&mut options);
        let live = Arc::new(Live::new(table));
        let accelerator =
            Accelerator::in_this_thread(vec![live], options, Arc::new(Shared::default())).expect("memory");
        Rig { accelerator, host }
    }

    fn counts(&self) -> Counts {
        self.accelerator.crossing().counts()
    }

    /// No message holds memory any more.
    fn is_empty(&self) -> bool {
        self.host.occupancy().held == 0 && self.accelerator.memory().occupancy().held == 0
    }

    fn receive(&mut self, class: u32, wire: &[u8]) -> Placed {
        self.accelerator.receive(class, wire.to_vec()).expect("a good message")
    }
}

/// Fields of class M0, by number.
const NAME: u32 = 1;
const BLOB: u32 = 2;
const NUMBER: u32 = 3;
const TEXTS: u32 = 4;
const INNER: u32 = 5;
const PLAIN: u32 = 6;
const THIS: u32 = 7;
const THAT: u32 = 8;

/// What the known messages are made of. Without the compiler, which is slow under Miri.
fn types() -> &'static Types {
    static TYPES: std::sync::OnceLock<Types> = std::sync::OnceLock::new();
    TYPES.get_or_init(|| {
        let world = World(vec![vec![
            field(NAME, Kind::String, Form::Implicit),
            Shape { acc: true, ..field(BLOB, Kind::Bytes, Form::Implicit) },
            field(NUMBER, Kind::Int32, Form::Implicit),
            field(TEXTS, Kind::String, Form::Repeated),
            field(INNER, Kind::Message, Form::Explicit),
            field(PLAIN, Kind::Bytes, Form::Implicit),
            field(THIS, Kind::Bytes, Form::Oneof(0)),
            field(THAT, Kind::Bytes, Form::Oneof(0)),
        ]]);
        Types::new(world.schema())
    })
}

fn class() -> u32 {
    types().schema().class("M0").expect("it is there")
}

fn id(number: u32) -> FieldId {
    FieldId::named(types().schema(), "M0", &format!("f{number}")).expect("it is there")
}
