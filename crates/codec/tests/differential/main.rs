//! Random schemas and random messages, decoded and written by us and by prost-reflect: same values, same meaning of the
//! bytes, and every serialiser and mode of ours writes the same bytes. Then the same messages, damaged: never a panic,
//! bounded memory, and refused where the other side refuses.
//!
//! `MILLRACE_CASES` sets how many schemas, `MILLRACE_SEED` another seed; a failure prints the one command that replays it,
//! and the shortest list of records that still fails.

mod hostile;
mod malformed;
mod oracle;
mod ours;
mod read;
mod sample;
mod schema;
mod serialisers;
mod text;
mod tree;
mod wire;

use base::prng::Prng;
use codec::decode::{Decoder, Limits};
use codec::memory::Arena;
use codec::object::Dynamic;
use oracle::Oracle;
use ours::Ours;
use schema::Schema;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::{Payload, Piece, Side, differs, render};

/// Messages for each schema.
const MESSAGES: usize = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs `check` on messages of random schemas; `salt` keeps the streams of two tests apart.
fn for_all(salt: u64, cases: u64, check: impl Fn(&Case, &[Piece]) -> Result<(), String>) {
    let first = number("MILLRACE_SEED").unwrap_or(1);
    let cases = number("MILLRACE_CASES").unwrap_or(cases);
    for seed in first..first + cases {
        let mut prng = Prng::for_entity(seed, 0, salt);
        let schema = Schema::random(&mut prng);
        let oracle = Oracle::new(&schema);
        let case = Case { ours: Ours::new(&oracle.descriptor_set(), "t.M0"), oracle, schema };
        for _ in 0..MESSAGES {
            let pieces = sample::message(&case.schema, 0, &mut prng);
            let Err(why) = guarded(&check, &case, &pieces) else { continue };
            let required = why.contains("required");
            let (least, why) = shrink(pieces, why, |pieces| {
                // Leaving out a required field would replace the failure by another one.
                guarded(&check, &case, pieces)
                    .or_else(|why| if why.contains("required") == required { Err(why) } else { Ok(()) })
            });
            panic!(
                "{why}\n\nmessage M0: {least:?}\nbytes: {:02x?}\n\n{}\nMILLRACE_SEED={seed} MILLRACE_CASES=1 cargo test -p \
                 millrace-codec --test differential",
                render(&least, Side::Ours),
                case.schema.text()
            );
        }
    }
}

struct Case {
    schema: Schema,
    oracle: Oracle,
    ours: Ours,
}

/// A panic is a failure like others, so that it can be shrunk.
fn guarded(
    check: &impl Fn(&Case, &[Piece]) -> Result<(), String>,
    case: &Case,
    pieces: &[Piece],
) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check(case, pieces))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

/// Leaves records out, in messages within messages too, as long as the check still fails.
fn shrink(
    mut pieces: Vec<Piece>,
    mut why: String,
    check: impl Fn(&[Piece]) -> Result<(), String>,
) -> (Vec<Piece>, String) {
    let mut at = 0;
    while at < count(&pieces) {
        let mut fewer = pieces.clone();
        remove(&mut fewer, &mut at.clone());
        match check(&fewer) {
            Err(reason) => (pieces, why) = (fewer, reason),
            Ok(()) => at += 1,
        }
    }
    (pieces, why)
}

fn inner(piece: &Piece) -> &[Piece] {
    if let Payload::Message(inner) | Payload::Group(inner) = &piece.payload { inner } else { &[] }
}

fn count(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| 1 + count(inner(piece))).sum()
}

/// Removes record number `at`, counted depth first.
fn remove(pieces: &mut Vec<Piece>, at: &mut usize) -> bool {
    for index in 0..pieces.len() {
        if *at == 0 {
            pieces.remove(index);
            return true;
        }
        *at -= 1;
        if let Payload::Message(inner) | Payload::Group(inner) = &mut pieces[index].payload
            && remove(inner, at)
        {
            return true;
        }
    }
    false
}

/// Same values on both sides, also of what we write. What is unknown to us only would be known to the oracle in our bytes.
fn agree(case: &Case, pieces: &[Piece]) -> Result<(), String> {
    let class = case.oracle.class("t.M0");
    let theirs = case.oracle.decode(&class, &render(pieces, Side::Oracle))?;
    let (theirs, scalars) = (case.oracle.tree(&theirs), case.oracle.scalars(&theirs));
    let roomy = Limits { slack_bytes: 64 << 20, ..Limits::default() };
    let ours = case.ours.check(&render(pieces, Side::Ours), roomy)?.map_err(|error| error.to_string())?;
    if ours.tree != theirs {
        return Err(format!("ours:   {:?}\ntheirs: {theirs:?}", ours.tree));
    }
    if ours.scalars != scalars {
        return Err(format!("with defaults, ours: {:?}\ntheirs: {scalars:?}", ours.scalars));
    }
    if differs(pieces) {
        return Ok(());
    }
    let written = case.oracle.tree(&case.oracle.decode(&class, &ours.bytes)?);
    if written == theirs { Ok(()) } else { Err(format!("we wrote {written:?}\nthey say {theirs:?}")) }
}

/// Both texts of a message read back as the message.
fn text_reads_back(case: &Case, pieces: &[Piece]) -> Result<(), String> {
    let (types, class) = case.ours.types();
    let roomy = Limits { slack_bytes: 64 << 20, ..Limits::default() };
    let (bytes, arena) = (render(pieces, Side::Ours), Arena::default());
    let message = Dynamic::decode(types, class, &mut Decoder::new(roomy), &bytes, &arena);
    let message = message.map_err(|error| error.to_string())?;
    for format in text::Format::ALL {
        text::round_trip(format, message)?;
        let Ok(whole) = format.print(message, true) else { continue };
        let mut prng = Prng::new(whole.len() as u64);
        for _ in 0..4 {
            let mut damaged: Vec<char> = whole.chars().collect();
            damaged.truncate(1 + prng.below(damaged.len().max(1) as u64) as usize);
            let at = prng.below(damaged.len().max(1) as u64) as usize;
            let other = ['"', '{', '}', '[', ',', ':', '-', '1', 'e', '\\'][prng.below(10) as usize];
            damaged.splice(at..(at + 1).min(damaged.len()), [other]);
            text::check(format, types, class, &damaged.into_iter().collect::<String>())?;
        }
    }
    Ok(())
}

#[test]
fn texts_read_back_as_what_was_printed() {
    for_all(3, 200, text_reads_back);
}

#[test]
fn values_agree_with_prost_reflect() {
    for_all(1, 400, agree);
}

#[test]
fn damaged_messages_are_refused_by_both() {
    for_all(2, 100, malformed::check);
}
