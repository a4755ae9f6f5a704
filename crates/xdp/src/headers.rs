//! The C headers that are made from Rust: `bpf/wire.h` from the packet's table of fields, `bpf/layout.h` from the shapes of the
//! maps. Both are committed, so that the program builds without Rust; a test (`tests/headers.rs`) fails where they differ from
//! what is made here, and writes them when `MILLRACE_BLESS=1` is set.

use crate::layout::{
    Bucket, Config, Counter, Entry, HOMES, Home, KEY_WORDS, OwnedKey, PROGRAM_WRITES, RECORDS, Record, Row,
    SEQ_STEP, SIGHTS, Sights, TIMES, Told, VALUE_WORDS, WAYS,
};
use protocol::coherence::ownership::MOST_SESSIONS;
use protocol::wire::{
    BASE, FIELDS, Flags, HEADER, Kind, MAGIC, MAX_KEY, Opcode, PROTOCOL, REPLY, Status, Verb,
};
use std::fmt::Write;
use std::mem::{offset_of, size_of};

const MADE: &str = "/* Made by src/headers.rs; tests/headers.rs compares it. MILLRACE_BLESS=1 writes it anew. */\n#pragma once\n\n";

/// `bpf/wire.h`.
pub fn wire() -> String {
    let mut text = String::from(MADE);
    let mut magic = [0; 8];
    magic[..MAGIC.len()].copy_from_slice(&MAGIC);
    define(&mut text, "HEADER", HEADER);
    define(&mut text, "MAGIC", format_args!("{:#x}ull", u64::from_le_bytes(magic)));
    define(&mut text, "PROTOCOL", PROTOCOL);
    define(&mut text, "MAX_KEY", MAX_KEY);
    define(&mut text, "OPCODE_GET", Opcode::Request(Verb::Get).code());
    define(&mut text, "OPCODE_INCR", Opcode::Request(Verb::Incr).code());
    define(&mut text, "OPCODE_DECR", Opcode::Request(Verb::Decr).code());
    define(&mut text, "OPCODE_COND_PUT", Opcode::Request(Verb::CondPut).code());
    define(&mut text, "OPCODE_MIN", Opcode::Request(Verb::Min).code());
    define(&mut text, "OPCODE_OR", Opcode::Request(Verb::Or).code());
    define(&mut text, "OPCODE_REPLY", REPLY);
    define(&mut text, "STATUS_NOT_STORED", Status::NotStored.code());
    define(&mut text, "FLAG_TRY", Flags::TRY.bits());
    define(&mut text, "FLAG_OWNABLE", Flags::OWNABLE.bits());
    define(&mut text, "FLAG_SEALED", Flags::SEALED.bits());
    define(&mut text, "KIND_NUMBER", Kind::Number.code());
    define(&mut text, "FLAG_FROM_BOX", Flags::FROM_BOX.bits());
    define(&mut text, "BASE", format_args!("{BASE:#x}ull"));
    text.push('\n');
    for field in FIELDS {
        define(&mut text, &format!("WIRE_{}", field.name.to_uppercase()), field.offset);
    }
    text
}

/// `bpf/layout.h`.
pub fn layout() -> String {
    let mut text = String::from(MADE);
    define(&mut text, "HEADER", HEADER);
    define(&mut text, "WAYS", WAYS);
    define(&mut text, "MAX_KEY_WORDS", KEY_WORDS);
    define(&mut text, "MAX_VALUE_WORDS", VALUE_WORDS);
    define(&mut text, "TIMES", TIMES);
    define(&mut text, "COUNTERS", Counter::PLACES);
    define(&mut text, "HOMES", HOMES);
    define(&mut text, "SIGHTS", SIGHTS);
    define(&mut text, "SESSIONS", MOST_SESSIONS);
    define(&mut text, "RECORDS", RECORDS);
    define(&mut text, "PROGRAM_WRITES", PROGRAM_WRITES);
    define(&mut text, "SEQ_STEP", SEQ_STEP);
    text.push('\n');
    for &counter in Counter::ALL {
        define(&mut text, &format!("COUNT_{}", counter.name().to_uppercase()), counter as usize);
    }
    text.push_str("\n/* Put after the structures. */\n#define LAYOUT_ASSERTIONS \\\n");
    macro_rules! offsets {
        ($shape:ident $c:literal: $($field:ident)*) => {
            $(holds(&mut text, &format!("__builtin_offsetof(struct {}, {})", $c, stringify!($field)), offset_of!($shape, $field));)*
            holds(&mut text, &format!("sizeof(struct {})", $c), size_of::<$shape>());
        };
    }
    offsets!(Entry "entry": seq version lease_end expires sum power key_sum key_power hash item_flags value_len key_len kind number is_number owned key value);
    offsets!(Bucket "bucket": tag);
    offsets!(Config "config": enabled port address epoch bucket_mask sample max_growth mtu filter window filter_mask generation owner mode netns seal_key counter number sealed);
    offsets!(Told "told": session client highest begun);
    offsets!(Record "record": session operation status version number);
    offsets!(OwnedKey "owned": next count room sessions told record);
    offsets!(Home "home": number address port);
    offsets!(Sights "sights": cell);
    offsets!(Row "row": count hit_ns pass_ns);
    text.push_str("\t_Static_assert(1, \"\")\n");
    text
}

fn define(text: &mut String, name: &str, value: impl std::fmt::Display) {
    writeln!(text, "#define {name} {value}").expect("a string takes everything");
}

fn holds(text: &mut String, what: &str, value: usize) {
    writeln!(text, "\t_Static_assert({what} == {value}, \"as in layout.rs\"); \\")
        .expect("a string takes everything");
}
