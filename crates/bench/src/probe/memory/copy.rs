//! Copies by size, and the alignment trap: on some processors the C library's copy of more than about 2 KiB falls to a
//! twentieth of its speed when source and destination differ by an unlucky few bytes modulo 4096.
//!
//! Why it matters: a value copied between a page-aligned receive buffer and a heap block meets exactly such offsets.

use crate::probe::session::{Session, Unit};
use crate::probe::timing::{gigabytes_per_sec, samples_of};
use base::pages::{PageKind, Region};
use base::{Bytes, Nanos};
use std::hint::black_box;

const SIZES: [usize; 7] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 256 << 10, 16 << 20];
const OFFSETS: [usize; 8] = [0, 16, 32, 48, 64, 128, 512, 2048];
const METHOD: &str = "copy_from_slice, repeated";
const TRAP_SIZES: [usize; 2] = [4 << 10, 16 << 10];
/// Between source and destination: the largest copy and room for an offset.
const HALF: usize = (16 << 20) + 8192;

/// Copies of every size with aligned ends, then the offsets at the sizes that are prone.
pub fn measure(session: &mut Session) {
    let mut memory = match Region::map(2 * HALF, PageKind::Transparent) {
        Ok(memory) => memory,
        Err(e) => return session.skip("copies", e),
    };
    memory.populate(0..2 * HALF);
    let span = session.span(Nanos::from_millis(40));
    for bytes in SIZES {
        let rates = rates(&mut memory, bytes, 0, span);
        let label = format!("copy of {}, aligned", Bytes(bytes as u64));
        session.record(format!("copy_{bytes}"), label, &rates, Unit::GigabytesPerSec, METHOD, "");
    }
    for bytes in TRAP_SIZES {
        let mut worst: Option<(f64, usize, Vec<f64>)> = None;
        let mut best = 0.0f64;
        for offset in OFFSETS {
            let rates = rates(&mut memory, bytes, offset, span);
            let median = base::spread::Spread::of_all(&rates).map_or(0.0, |s| s.median);
            best = best.max(median);
            session.record_unlisted(
                format!("copy_{bytes}_offset_{offset}"),
                &rates,
                Unit::GigabytesPerSec,
                METHOD,
            );
            if worst.as_ref().is_none_or(|w| median < w.0) {
                worst = Some((median, offset, rates));
            }
        }
        let (median, offset, rates) = worst.expect("there is an offset");
        let label = format!("copy of {}, worst offset", Bytes(bytes as u64));
        session.record(
            format!("copy_{bytes}_worst"),
            label,
            &rates,
            Unit::GigabytesPerSec,
            METHOD,
            verdict(median, best, offset),
        );
    }
}

fn verdict(worst: f64, best: f64, offset: usize) -> String {
    if worst * 3.0 < best {
        format!(
            "{:.0}× slower at offset {offset} mod 4096: keep buffers 64-byte aligned",
            best / worst.max(1e-9)
        )
    } else {
        "no alignment trap: offsets cost less than 3×".to_string()
    }
}

fn rates(memory: &mut Region, bytes: usize, offset: usize, span: Nanos) -> Vec<f64> {
    assert!(bytes + offset <= HALF, "{bytes} bytes at {offset}");
    assert!(HALF.is_multiple_of(4096), "both halves start on a page");
    // SAFETY: the two slices are the two halves of a region that is ours alone, and its bytes are initialised.
    let (from, to) = unsafe {
        let start = memory.start();
        (
            std::slice::from_raw_parts(start, bytes),
            std::slice::from_raw_parts_mut(start.add(HALF + offset), bytes),
        )
    };
    let nanos = samples_of(span, || black_box(&mut *to).copy_from_slice(black_box(from)));
    nanos.into_iter().map(|ns| gigabytes_per_sec(bytes, ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_the_offset_only_where_there_is_a_trap() {
        assert!(verdict(2.0, 60.0, 16).contains("30× slower at offset 16"));
        assert!(verdict(40.0, 60.0, 16).contains("no alignment trap"));
    }
}
