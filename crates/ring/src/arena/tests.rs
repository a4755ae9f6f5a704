//! Tests of arenas: what is taken and released, what a peer may claim, one thread at each end, and any order of both.

use super::*;
use crate::mapping::tests::anonymous;
use crate::spsc::{Consume, Hybrid, Kind, Produce};
use proptest::prelude::*;
use std::collections::VecDeque;

#[test]
fn a_reservation_takes_what_it_commits() {
    let (mut p, mut c) = heap(256);
    assert!(p.reserve(257).is_none());
    let mut space = p.reserve(256).expect("all of it");
    space[..3].copy_from_slice(b"abc");
    let abc = space.commit(3);
    let rest = p.push(&[7; 253]).expect("what it left");
    assert!(p.push(b"x").is_none());
    assert_eq!((c.bytes(abc), c.bytes(rest)), (Some(&b"abc"[..]), Some(&[7u8; 253][..])));
    let both = abc.join(rest).expect("neighbours");
    assert_eq!(c.bytes(both).map(<[u8]>::len), Some(256));
    assert_eq!(rest.join(abc), None);
    c.release(abc);
    assert_eq!(c.bytes(abc), None);
    c.publish();
    assert!(p.push(&[1; 4]).is_none());
    assert!(p.push(&[1; 3]).is_some());
}

#[test]
fn a_span_never_wraps_and_empty_ones_are_fine() {
    let (mut p, mut c) = heap(256);
    let first = p.push(&[1; 130]).expect("room");
    c.release(first);
    c.publish();
    // One line is left at the end: skipped.
    let second = p.push(&[2; 100]).expect("room at the start");
    assert_eq!(c.bytes(second), Some(&[2u8; 100][..]));
    let empty = p.push(&[]).expect("nothing needs no room");
    assert_eq!(c.bytes(empty), Some(&[][..]));
    c.release(second);
    c.release(empty);
}

#[test]
fn a_foreign_or_stale_span_reads_nothing() {
    let ((mut p, mut c), (mut other, _c)) = (heap(128), heap(128));
    let foreign = other.push(b"other").expect("room");
    let mine = p.push(b"mine").expect("room");
    assert_eq!(c.bytes(foreign), None);
    c.release(foreign);
    assert_eq!(c.bytes(mine), Some(&b"mine"[..]));
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn claims_that_cannot_be_true_are_refused() {
    let memory = anonymous(mapped_bytes(256));
    let mut p = MappedProducer::new(&memory, 0, 256);
    let mut c = MappedConsumer::new(&memory, 0, 256);
    let good = p.push(b"good").expect("room");
    let mut out = b"x".to_vec();
    for (position, len) in
        [(0, 257), (64, 193), (1, 4), (256, 4), (u64::MAX - 63, 4), (0, u32::MAX), (1 << 63, 0)]
    {
        assert!(!c.take(Claim { position, len }, &mut out), "{position} {len}");
    }
    assert!(c.take(good, &mut out));
    assert_eq!(out, b"xgood");
    assert!(!c.take(good, &mut out), "released already");
    // A consumer that lies about what it released gets nothing overwritten by us beyond the circle.
    for lie in [65, 1 << 40, u64::MAX] {
        // SAFETY: the first word of the mapping.
        unsafe { memory.at::<u64>(0, 1).write_volatile(lie) };
        assert!(p.push(&[0; 256]).is_none());
    }
}

#[test]
fn two_threads_pass_bytes_of_every_length() {
    let steps = if cfg!(miri) { 60 } else { 20_000u32 };
    let (mut p, mut c) = heap(4096);
    let (mut to, mut from) = Hybrid::heap::<Span>(16);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..steps {
                let bytes = vec![i as u8; (i * 37 % 1500) as usize];
                let span = loop {
                    match p.push(&bytes) {
                        Some(span) => break span,
                        None => std::thread::yield_now(),
                    }
                };
                while to.try_push(span).is_err() {
                    std::thread::yield_now();
                }
                to.publish();
            }
        });
        let mut i = 0;
        while i < steps {
            let Some(span) = from.try_pop() else {
                c.publish();
                std::thread::yield_now();
                continue;
            };
            let bytes = c.bytes(span).expect("a live span");
            assert_eq!(bytes.len(), (i * 37 % 1500) as usize);
            assert!(bytes.iter().all(|&b| b == i as u8));
            c.release(span);
            i += 1;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is live reads as it was written, and a released arena takes anything up to its capacity again.
    #[test]
    fn live_spans_keep_their_bytes(steps in proptest::collection::vec((any::<bool>(), 0usize..400), 0..200)) {
        let (mut p, mut c) = heap(1024);
        let mut live = VecDeque::new();
        for (n, (push, len)) in steps.into_iter().enumerate() {
            if push {
                let bytes = vec![n as u8; len];
                match p.push(&bytes) {
                    Some(span) => live.push_back((span, bytes)),
                    None => prop_assert!(!live.is_empty()),
                }
            } else if let Some((span, bytes)) = live.pop_front() {
                prop_assert_eq!(c.bytes(span), Some(&bytes[..]));
                c.release(span);
                c.publish();
            }
            for (span, bytes) in &live {
                prop_assert_eq!(c.bytes(*span), Some(&bytes[..]));
            }
        }
    }
}
