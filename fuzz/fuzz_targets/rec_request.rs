//! Arbitrary bytes as an HTTP body, JSON and binary tensors behind it: an error, or queries that the model takes. (The fabric's messages go through the same builder;
//! their bytes are the codec's, `codec_decode`.)
//!
//! `cargo +nightly fuzz run rec_request`
#![no_main]

use libfuzzer_sys::fuzz_target;
use rec::request::{Queries, Request, Served, queries};
use rec::{Batch, Scratch, Synth, Tuning};
use std::sync::LazyLock;

/// A model so small that ids and shapes are hit by chance.
static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let shape = Synth { tables: 2, rows: 9, dim: 4, dense: 1, bottom: vec![], top: vec![1], ..Synth::default() };
    Served::new(shape.build().expect("memory"))
});

fuzz_target!(|input: (Option<u16>, &[u8])| {
    let (header, bytes) = input;
    let Ok(request) = Request::parse(bytes, header.map(usize::from)) else { return };
    if let Ok(queries) = queries(&request, &SERVED, 64) {
        infer(&queries);
    }
});

/// What was checked is computed.
fn infer(queries: &Queries) {
    assert!((1..=64).contains(&queries.len()));
    let bags = [queries.bags(0), queries.bags(1)];
    let batch = Batch { len: queries.len(), dense: queries.dense(), bags: &bags };
    let mut scores = Vec::new();
    let (tuning, mut scratch) = (Tuning::default(), Scratch::default());
    let inferred = SERVED.model().infer(&batch, tuning, &mut scratch, &mut scores);
    inferred.expect("the builder checked it");
    assert_eq!(scores.len(), queries.len());
}
