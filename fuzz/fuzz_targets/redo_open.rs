//! Arbitrary superblocks and records, with checksums that are right, and arbitrary bytes over them: opening the log on them neither panics nor
//! loops; what it opens can be read, repaired, cut and gone on with, and is found again.
//!
//! `cargo +nightly fuzz run redo_open`; `crates/store/src/redo/tests` does the same to logs that were real in `cargo test`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::redo::media::{Media, Memory};
use store::redo::{HEADER, Judge, Log, MIN_MEDIUM};

const IDENTITY: u64 = 1;
const START: u64 = 8192;
const RING: u64 = MIN_MEDIUM - START;

/// The input, a number at a time; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Small most of the time.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            254 => u64::from(self.byte()) << 8 | u64::from(self.byte()),
            small => u64::from(small),
        }
    }
}

fn put(medium: &mut Memory, offset: u64, bytes: &[u8]) {
    medium.write_at(offset, bytes).expect("inside");
}

/// Says its generation.
fn superblock(medium: &mut Memory, input: &mut Input) -> u64 {
    let number = input.number();
    let mut words = vec![u64::from_le_bytes(*b"MRREDO01"), number, IDENTITY, RING];
    words.extend((0..8).map(|_| input.number()));
    // One that has counted to its end opens no more, or only once.
    for end in [1 << 31, 1 << 62] {
        words[1..].iter_mut().filter(|word| (end - (1 << 16)..end).contains(*word)).for_each(|word| *word -= 1 << 16);
    }
    let number = words[1];
    // Positions are multiples of 8.
    [8, 11].into_iter().for_each(|position| words[position] &= !7);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(124, 0);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    put(medium, number % 2 * 4096, &bytes);
    words[4]
}

/// A record at a position; its generation, and the position behind it.
fn record(medium: &mut Memory, input: &mut Input, position: u64) -> (u64, u64) {
    let seed = base::prng::mix64(IDENTITY) as u32;
    let (lsn, epoch) = (input.number(), input.number());
    let (generation, behind, len) = (input.number() as u32, input.number() as u32, input.byte());
    let payload = vec![input.byte(); usize::from(len)];
    let mut behind_crc = Vec::new();
    for word in [lsn, epoch, position] {
        behind_crc.extend(word.to_le_bytes());
    }
    for word in [generation, behind, u32::from(len), crc32c::crc32c_append(seed, &payload)] {
        behind_crc.extend(word.to_le_bytes());
    }
    let mut bytes = 0x4F44_4552u32.to_le_bytes().to_vec();
    bytes.extend(crc32c::crc32c_append(seed, &behind_crc).to_le_bytes());
    bytes.extend(behind_crc);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    for (byte, at) in bytes.iter().zip(position..) {
        put(medium, START + at % RING, &[*byte]);
    }
    (generation.into(), position + bytes.len() as u64)
}

/// And whether it can be of our making: no record has a generation that was not begun. One that has is void now, and would not be in a later life.
fn medium(input: &mut Input) -> (Memory, bool) {
    let mut medium = Memory::new(MIN_MEDIUM as usize);
    let begun = superblock(&mut medium, input).min(superblock(&mut medium, input));
    let mut is_ours = true;
    let mut position = input.number() & !7 & ((1 << 60) - 1);
    for _ in 0..input.byte() % 32 {
        let (generation, behind) = record(&mut medium, input, position);
        is_ours &= generation <= begun;
        position = behind;
        position += u64::from(input.byte() % 8) * 8;
    }
    for _ in 0..input.byte() % 8 {
        let at = input.number() % (MIN_MEDIUM - 1);
        put(&mut medium, at, &[input.byte()]);
    }
    (medium, is_ours)
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (medium, is_ours) = medium(&mut input);
    drop(Log::open(medium.clone(), IDENTITY, Judge::FirstBad));
    let Ok((mut log, recovery)) = Log::open(medium, IDENTITY, Judge::Proof) else { return };
    assert!(recovery.last - (recovery.first - 1) <= RING / HEADER as u64);
    assert_eq!(log.damaged(), recovery.damaged);
    for lsn in log.first()..=log.last() {
        let is_damaged = recovery.damaged.binary_search(&lsn).is_ok();
        assert_eq!(log.read(lsn).is_none(), is_damaged, "{lsn}");
    }
    if !is_ours {
        return;
    }
    for lsn in &recovery.damaged {
        drop(log.replace(*lsn, input.number(), &vec![7; usize::from(input.byte())]));
    }
    if input.byte() % 2 == 0 {
        let lsn = log.last() - input.number() % (log.last() + 2 - log.first());
        log.cut(lsn).expect("memory does not fail");
    }
    log.release(log.first() + input.number() % 4);
    drop(log.append(log.last() + 1, 1, &[b"on it goes"]));
    (0..3).for_each(|_| assert!(log.sync().is_ok()));
    let (first, last, damaged) = (log.first(), log.last(), log.damaged());
    let (log, recovery) = Log::open(log.into_media(), IDENTITY, Judge::Proof).expect("it was one before");
    // What is released may be found again, if it is one of damaged neighbours of which others stay.
    assert!(
        log.last() == last && log.first() <= first,
        "{}..={} of {first}..={last}",
        log.first(),
        log.last()
    );
    // What was damaged still is, and never cut; or there is a record of that number which only the superblock before knew to be elsewhere.
    for lsn in damaged {
        assert_ne!(log.read(lsn).is_some(), recovery.damaged.contains(&lsn), "{lsn}");
    }
});
