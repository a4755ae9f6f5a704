//! Random schemas and random messages, decoded and written by us and by prost-reflect: same values, same meaning of the
//! bytes, and every serialiser and mode of ours writes the same bytes. Then the same messages, damaged: never a panic,
//! bounded memory, and refused where the other side refuses.
//!
//! `MILLRACE_CASES` sets how many schemas, `MILLRACE_SEED` another seed; a failure prints the one command that replays it,
//! and the shortest list of records that still fails.

mod oracle;
mod sample;
mod schema;
mod tree;
mod wire;

use base::prng::Prng;
use oracle::Oracle;
use schema::Schema;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::{Payload, Piece};

/// Messages for each schema.
const MESSAGES: usize = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs `check` on messages of random schemas; `salt` keeps the streams of two tests apart.
fn for_all(salt: u64, cases: u64, check: impl Fn(&Case, &[Piece]) -> Result<(), String>) {
    let first = number("MILLRACE_SEED").unwrap_or(1);
    let cases = number("MILLRACE_CASES").unwrap_or(cases);
    for seed in first..first + cases {
        let mut prng = Prng::for_entity(seed, 0, salt);
        let schema = Schema::random(&mut prng);
        let case = Case { oracle: Oracle::new(&schema), schema };
        for _ in 0..MESSAGES {
            let pieces = sample::message(&case.schema, 0, &mut prng);
            let Err(why) = guarded(&check, &case, &pieces) else { continue };
            let (least, why) = shrink(pieces, why, |pieces| guarded(&check, &case, pieces));
            panic!(
                "{why}\n\nmessage M0: {least:?}\nbytes: {:02x?}\n\n{}\nMILLRACE_SEED={seed} MILLRACE_CASES=1 cargo test -p \
                 millrace-codec --test differential",
                wire::render(&least, wire::Side::Ours),
                case.schema.text()
            );
        }
    }
}

struct Case {
    schema: Schema,
    oracle: Oracle,
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

#[test]
fn dry() {
    let (mut n, mut bytes, mut differ) = (0, 0, 0);
    let c = std::cell::RefCell::new((&mut n, &mut bytes, &mut differ));
    for_all(1, 300, |case, pieces| {
        let class = case.oracle.class("t.M0");
        let b = wire::render(pieces, wire::Side::Oracle);
        let m = case.oracle.decode(&class, &b)?;
        let t = case.oracle.tree(&m);
        let again = case.oracle.decode(&class, &prost::Message::encode_to_vec(&m))?;
        let mut c = c.borrow_mut();
        *c.0 += 1; *c.1 += b.len(); *c.2 += wire::differs(pieces) as usize;
        if case.oracle.tree(&again) == t { Ok(()) } else { Err(format!("{t:?}\n{:?}", case.oracle.tree(&again))) }
    });
    eprintln!("{n} messages {bytes} bytes {differ} differ");
}
