//! Arbitrary records of works to regions, and arbitrary results: nothing panics, nothing outside what is lent is done or brought, and what parses says itself
//! again. `cargo +nightly fuzz run remote_wire`
//!
//! The input's first byte says how many of its works name a region that is there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use remote::calls::Served;
use remote::wire::{PIECE_MAX, next_result, next_work};
use remote::{Access, Key, Region, Regions};
use std::sync::{Arc, LazyLock};

const LEN: usize = 5000;

static LENT: LazyLock<(Served, [Key; 2])> = LazyLock::new(|| {
    let regions = Arc::<Regions>::default();
    let lend = |name, access: Access| {
        let region = Region::create(LEN, access.changes()).expect("memory");
        regions.lend(name, region, access).expect("a new name")
    };
    let keys = [lend("all", Access::ALL), lend("read", Access::READ)];
    (Served { regions, lender: None }, keys)
});

fuzz_target!(|data: &[u8]| {
    let Some((&first, records)) = data.split_first() else { return };
    let (served, keys) = &*LENT;
    let mut works = Vec::new();
    let mut rest = records;
    while let Ok(Some(mut piece)) = next_work(&mut rest) {
        if works.len() % 256 < usize::from(first) {
            piece.remote.key = keys[piece.remote.key.0 as usize % 2];
            piece.remote.offset %= 2 * LEN as u64;
        }
        piece.emit(&mut works);
    }
    let (mut buffer, mut results) = (vec![0; PIECE_MAX], Vec::new());
    let _ = served.perform(&works, &mut buffer, &mut results);
    let (mut works, mut said) = (&works[..], &results[..]);
    while let Some((_, brings)) = next_result(&mut said).expect("its own results") {
        let piece = next_work(&mut works).expect("a work").expect("of each");
        assert!(brings.len() <= piece.len);
    }
    let mut strange = records;
    while let Ok(Some(_)) = next_result(&mut strange) {}
});
