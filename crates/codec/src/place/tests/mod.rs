//! The accelerator stepped in one thread: what it decodes and sends, what crosses, what comes back; and bugs planted in it.

mod agreement;
mod counts;
mod life;
mod swap;
mod turns;
mod units;

use super::{Accelerator, FieldId, Live, Options, Placed};
use crate::compile::Compiler;
use crate::crossing::{Counts, Crossing, Shared};
use crate::memory::{CHUNK, Memory};
use crate::schema::Types;
use crate::table::Table;
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
            Accelerator::in_this_thread(live, options, Arc::new(Shared::default())).expect("memory");
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

/// What the known messages are made of.
fn types() -> &'static Types {
    static TYPES: std::sync::OnceLock<Types> = std::sync::OnceLock::new();
    TYPES.get_or_init(|| {
        let text = r#"
            syntax = "proto3";
            import "millrace/options.proto";
            message M {
              string name = 1;
              bytes blob = 2 [(millrace.acc) = true];
              int32 number = 3;
              repeated string texts = 4;
              M inner = 5;
              bytes plain = 6;
              oneof one { bytes this = 7; bytes that = 8; }
              repeated sint32 numbers = 9;
              map<string, bytes> named = 10;
            }
        "#;
        let compiler = Compiler::new().source("known.proto", text);
        Types::new(compiler.compile(&["known.proto"]).expect("a right file"))
    })
}

fn class() -> u32 {
    types().schema().class("M").expect("it is there")
}

fn named(field: &str) -> FieldId {
    FieldId::named(types().schema(), "M", field).expect("it is there")
}
