//! Memory as a service meets it: latency of one miss by working set, how many misses overlap, and how fast bytes move.
//!
//! Bounds: at most `largest` bytes at a time, which is the user's number or 1 GiB (256 MiB in a quick run), and never more than a quarter of
//! what is available.

pub mod chase;
pub mod copy;
pub mod stream;

use super::session::{Session, Unit};
use super::timing::gigabytes_per_sec;
use base::pages::{PageKind, Region};
use base::{Bytes, Clock, Nanos};
use chase::Chain;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 7;

const KINDS: [PageKind; 2] = [PageKind::Base, PageKind::Transparent];

fn name(kind: PageKind) -> &'static str {
    if kind == PageKind::Base { "4 KiB pages" } else { "huge pages" }
}

fn kind_key(kind: PageKind) -> &'static str {
    match kind {
        PageKind::Base => "4k",
        _ => "thp",
    }
}

/// The largest working set: a power of two, at most `asked`, at most a quarter of `available`, at least 16 MiB.
fn largest(asked: Bytes, available: Bytes) -> usize {
    let bytes = asked.0.min(available.0 / 4).max(16 << 20);
    1 << bytes.ilog2()
}

/// Everything about memory; `asked` bounds the working set, `available` is what the machine has free.
pub fn measure(session: &mut Session, asked: Bytes, available: Bytes) {
    let asked = session.either(asked, asked.min(Bytes::from_mib(256)));
    let largest = largest(asked, available);
    for kind in KINDS {
        session.step(format!("touching {} on {}", Bytes(largest as u64), name(kind)));
        let mut region = match Region::map(largest, kind) {
            Ok(region) => region,
            Err(e) => {
                session.skip(format!("memory on {}", name(kind)), e);
                continue;
            }
        };
        first_touch(session, &mut region);
        session.step(format!("latency on {}", name(kind)));
        latencies(session, &mut region, largest);
        session.step(format!("parallel misses on {}", name(kind)));
        parallel(session, &mut region, largest);
        if kind == PageKind::Transparent {
            stream::measure(session, &region);
        }
    }
    session.step("copies");
    copy::measure(session);
}

/// Writes each page once; one sample per sixteenth.
fn first_touch(session: &mut Session, region: &mut Region) {
    let clock = Clock::shared();
    let part = region.len() / 16;
    let samples: Vec<f64> = (0..16)
        .map(|i| {
            let from = clock.now();
            region.populate(i * part..(i + 1) * part);
            gigabytes_per_sec(part, clock.now().since(from).0 as f64)
        })
        .collect();
    let (key, label) = (kind_key(region.kind()), format!("first touch, {}", name(region.kind())));
    let reading = "how fast a fresh cache fills its memory: touch it before serving";
    session.record(
        format!("first_touch_{key}"),
        label,
        &samples,
        Unit::GigabytesPerSec,
        "one write per 4 KiB",
        reading,
    );
    let granted = base::pages::huge_bytes_in_use().unwrap_or(0) as usize;
    if region.kind() == PageKind::Transparent && granted < region.len() / 2 {
        let why = format!("only {} of {} were granted", Bytes(granted as u64), Bytes(region.len() as u64));
        session.skip("true huge pages (the figures that name them are mixed)", why);
    }
}

/// Working sets whose latency is measured.
pub fn sets_up_to(largest: usize) -> impl Iterator<Item = usize> {
    let sets = [16 << 10, 256 << 10, 2 << 20, 16 << 20, 128 << 20];
    sets.into_iter().filter(move |&bytes| bytes < largest).chain([largest])
}

fn latencies(session: &mut Session, region: &mut Region, largest: usize) {
    let (kind, span) = (region.kind(), session.span(Nanos::from_millis(80)));
    for bytes in sets_up_to(largest) {
        let chain = Chain::lay(region, bytes);
        let samples = chain.latencies(span);
        let label = format!("random read, {}, {}", Bytes(bytes as u64), name(kind));
        let reading = match bytes {
            b if b == largest => "one cache miss to memory: what an index lookup waits for",
            b if b <= 16 << 10 => "first-level cache",
            _ => "",
        };
        session.record(
            format!("latency_{}k_{}", bytes >> 10, kind_key(kind)),
            label,
            &samples,
            Unit::Nanos,
            "pointer chase",
            reading,
        );
        let key = format!("lines_{}k_{}", bytes >> 10, kind_key(kind));
        session.record_unlisted(key, &chain.pace(session.span(Nanos::from_millis(40))), Unit::Nanos, PACE);
    }
}

/// How a set's time per line is measured.
const PACE: &str = "the best number of independent chases, per line";

fn parallel(session: &mut Session, region: &mut Region, largest: usize) {
    let (page, span) = (region.kind(), session.span(Nanos::from_millis(120)));
    let kind = kind_key(page);
    let chain = Chain::lay(region, largest);
    for (k, samples) in chain.parallel(span) {
        let label = format!("{k} misses at once, {}", name(page));
        let reading = if k == 16 { "time per random line with 16 requests in flight" } else { "" };
        session.record(
            format!("chains_{k}_{kind}"),
            label,
            &samples,
            Unit::Nanos,
            "k independent chases, per line",
            reading,
        );
    }
    let samples = chain.prefetched(span);
    session.record(
        format!("prefetch_{kind}"),
        format!("prefetch 16 ahead, {}", name(page)),
        &samples,
        Unit::Nanos,
        "known random lines, per line",
        "batches that know their keys get this",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_set_is_bounded_by_request_and_by_memory() {
        assert_eq!(largest(Bytes::from_gib(1), Bytes::from_gib(100)), 1 << 30);
        assert_eq!(largest(Bytes::from_gib(3), Bytes::from_gib(100)), 2 << 30);
        assert_eq!(largest(Bytes::from_gib(1), Bytes::from_mib(300)), 64 << 20);
        assert_eq!(largest(Bytes(0), Bytes(0)), 16 << 20);
    }
}
