//! What is measured: each bar runs one slice and says how many rows it read.

use crate::loads::Load;
use base::spread::median;
use base::touch::{prefetch, prefetch_far};
use rec::{Kernel, Pooling, Table, Tuning, reduce_with};
use std::hint::black_box;

/// What a bar did with a slice.
pub struct Sample {
    /// Time that the thread ran; while the core was lent to others does not count.
    pub seconds: f64,
    /// Rows that were read; fewer than were asked where sums stood ready.
    pub rows: usize,
}

/// One line of the report.
pub struct Bar<'a> {
    pub name: String,
    /// Bytes of a row that it reads.
    pub row_bytes: usize,
    /// Runs slice `at` of the loads.
    pub run: Box<dyn FnMut(usize) -> Sample + 'a>,
}

/// The time that this thread has run.
pub fn seconds_run() -> f64 {
    base::cpu::thread_time().0 as f64 / 1e9
}

/// The time that `work` takes, for all rows of `load`.
fn timed(load: &Load, mut work: impl FnMut()) -> Sample {
    let start = seconds_run();
    work();
    Sample { seconds: seconds_run() - start, rows: load.iter().map(|batch| batch.values.len()).sum() }
}

/// The machine's limit for rows of `stride` bytes at random: a word of each line of each row is read, prefetched to the cache level and at the distance that
/// are best here.
pub fn limit<'a>(bytes: &'a [u8], stride: usize, loads: &'a [Load]) -> Bar<'a> {
    let run = move |at: usize, far: bool, ahead: usize| {
        timed(&loads[at], || {
            for batch in &loads[at] {
                black_box(touch_rows(bytes, stride, &batch.values, far, ahead));
            }
        })
    };
    // The median of some slices, all choices in turns.
    let choices =
        [(false, 0), (false, 16), (false, 64), (true, 16), (true, 32), (true, 64), (true, 128), (true, 256)];
    let mut tried = choices.map(|choice| (choice, Vec::new()));
    for at in 0..loads.len().min(9) {
        for ((far, ahead), seconds) in &mut tried {
            seconds.push(run(at, *far, *ahead).seconds);
        }
    }
    let ((far, ahead), _) = tried
        .into_iter()
        .min_by(|(_, a), (_, b)| median(a.iter().copied()).total_cmp(&median(b.iter().copied())))
        .expect("there are choices");
    let level = if far { "L2" } else { "L1" };
    Bar {
        name: format!("limit: {stride} B at random, {level} {ahead}"),
        row_bytes: stride,
        run: Box::new(move |at| run(at, far, ahead)),
    }
}

fn touch_rows(bytes: &[u8], stride: usize, ids: &[u32], far: bool, ahead: usize) -> u64 {
    let run = match (stride, far) {
        (256, false) => touch::<256, false>,
        (256, true) => touch::<256, true>,
        (128, false) => touch::<128, false>,
        (128, true) => touch::<128, true>,
        (72, false) => touch::<72, false>,
        (72, true) => touch::<72, true>,
        (40, false) => touch::<40, false>,
        (40, true) => touch::<40, true>,
        (_, false) => touch::<0, false>,
        (_, true) => touch::<0, true>,
    };
    run(bytes, stride, ids, ahead)
}

/// `STRIDE` is `stride`, or 0 for any.
#[inline(never)]
fn touch<const STRIDE: usize, const FAR: bool>(
    bytes: &[u8],
    stride: usize,
    ids: &[u32],
    ahead: usize,
) -> u64 {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let row = |id: u32| &bytes[id as usize * stride..][..stride];
    let prefetch = |byte: &u8| if FAR { prefetch_far(byte) } else { prefetch(byte) };
    let word = |row: &[u8], at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"));
    // The last line has a word of its own only where rows do not end with a line.
    let ends_within = !stride.is_multiple_of(64);
    let mut seen = 0;
    for (at, &id) in ids.iter().enumerate() {
        if ahead > 0
            && let Some(&id) = ids.get(at + ahead)
        {
            let row = row(id);
            (0..stride).step_by(64).for_each(|at| prefetch(&row[at]));
            if ends_within {
                prefetch(&row[stride - 1]);
            }
        }
        let row = row(id);
        seen ^= (0..stride / 64).fold(0, |seen, line| seen ^ word(row, line * 64));
        if ends_within {
            seen ^= word(row, (stride / 64 * 64).min(stride - 8)) ^ word(row, stride - 8);
        }
    }
    seen
}

/// A loop as one writes it first, compiled for this machine's vectors.
pub fn naive<'a>(table: &'a Table, loads: &'a [Load]) -> Bar<'a> {
    let mut out = Vec::new();
    let run = move |at: usize| {
        timed(&loads[at], || {
            for batch in &loads[at] {
                out.resize(batch.len() * table.dim(), 0.0);
                naive_here(table, &batch.values, &batch.offsets, &mut out);
                black_box(&out);
            }
        })
    };
    Bar { name: format!("{} naive loop", table.format()), row_bytes: table.stride(), run: Box::new(run) }
}

fn naive_here(table: &Table, values: &[u32], offsets: &[u32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    match Kernel::best() {
        // SAFETY: the kernel is available, so the instructions are there.
        Kernel::Avx512 => return unsafe { naive_avx512(table, values, offsets, out) },
        // SAFETY: as above.
        Kernel::Avx2 => return unsafe { naive_avx2(table, values, offsets, out) },
        Kernel::Portable => {}
    }
    naive_loop(table, values, offsets, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma")]
fn naive_avx512(table: &Table, values: &[u32], offsets: &[u32], out: &mut [f32]) {
    naive_loop(table, values, offsets, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn naive_avx2(table: &Table, values: &[u32], offsets: &[u32], out: &mut [f32]) {
    naive_loop(table, values, offsets, out)
}

#[inline(always)]
fn naive_loop(table: &Table, values: &[u32], offsets: &[u32], out: &mut [f32]) {
    // SAFETY: any four bytes are an f32.
    let (before, numbers, _) = unsafe { table.bytes().align_to::<f32>() };
    assert!(before.is_empty(), "tables begin on a line");
    let dim = table.dim();
    for (span, out) in offsets.windows(2).zip(out.chunks_exact_mut(dim)) {
        out.fill(0.0);
        for &id in &values[span[0] as usize..span[1] as usize] {
            let row = &numbers[id as usize * dim..][..dim];
            out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
}

/// A kernel at a prefetch distance.
pub fn kernel<'a>(kernel: Kernel, table: &'a Table, ahead: usize, loads: &'a [Load]) -> Bar<'a> {
    let mut out = Vec::new();
    let run = move |at: usize| {
        timed(&loads[at], || {
            for batch in &loads[at] {
                out.resize(batch.len() * table.dim(), 0.0);
                let tuning = Tuning { prefetch: ahead };
                reduce_with(kernel, table, &batch.bags(), Pooling::Sum, tuning, &mut out)
                    .expect("ids are rows");
                black_box(&out);
            }
        })
    };
    let name = match ahead {
        0 => format!("{} {kernel}", table.format()),
        _ => format!("{} {kernel}, prefetch {ahead}", table.format()),
    };
    Bar { name, row_bytes: table.stride(), run: Box::new(run) }
}
