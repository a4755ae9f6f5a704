//! One suite for every medium, and what each has besides.

use super::{ID, append, reads_well};
use crate::redo::media::{Class, Crashing, Emulated, File, How, Mapped, Media, Memory, Traits, Uring};
use crate::redo::{Judge, Log};
use base::{Clock, Nanos};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LEN: u64 = 64 << 10;

/// A folder of this test's own, that goes when it ends.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("log")
    }
}

/// What every medium must do.
fn conforms(medium: &mut impl Media) {
    assert_eq!((medium.len(), medium.is_empty()), (LEN, false));
    let mut bytes = [1; 300];
    medium.read_at(LEN - 300, &mut bytes).expect("inside");
    assert_eq!(bytes, [0; 300], "zeros at first");
    for (offset, byte) in [(100, 1), (4000, 2), (4050, 3), (LEN - 200, 4)] {
        medium.write_at(offset, &[byte; 200]).expect("inside");
    }
    medium.start(&[100..300, 4000..4250]).expect("it works");
    medium.read_at(4000, &mut bytes).expect("inside");
    assert_eq!((&bytes[..50], &bytes[50..250], &bytes[250..]), (&[2; 50][..], &[3; 200][..], &[0; 50][..]));
    while !medium.is_done() {
        std::hint::spin_loop();
    }
    medium.persist(&[100..300, 4000..4250]).expect("it works");
    medium.write_at(110, &[5; 20]).expect("inside");
    medium.persist(&[110..130]).expect("it works");
    medium.persist(&[]).expect("it works");
    medium.read_at(100, &mut bytes).expect("inside");
    assert_eq!((&bytes[..10], &bytes[10..30], &bytes[200..]), (&[1; 10][..], &[5; 20][..], &[0; 100][..]));
    assert!(medium.write_at(LEN - 10, &[9; 11]).is_err() && medium.read_at(LEN - 10, &mut [0; 11]).is_err());
    assert!(medium.write_at(u64::MAX, &[9]).is_err());
    medium.read_at(LEN - 200, &mut bytes[..200]).expect("inside");
    assert_eq!(bytes[..200], [4; 200], "nothing was written of what goes beyond the end");
}

/// A log on it, synced in both ways.
fn carries_a_log<M: Media>(medium: M, reopen: impl FnOnce(M) -> M) {
    let mut log = Log::create(medium, ID).expect("large enough");
    for number in 0..200 {
        append(&mut log, 100);
        if number % 3 == 0 {
            log.begin_sync().expect("it works");
        }
        if number % 7 == 0 {
            log.sync().expect("it works");
        }
    }
    log.sync().expect("it works");
    let (log, recovery) = Log::open(reopen(log.into_media()), ID, Judge::Proof).expect("a log");
    assert_eq!((recovery.last, recovery.damaged.len()), (200, 0));
    assert!((1..=200).all(|lsn| reads_well(&log, lsn, 100)));
}

#[test]
fn memory_is_a_medium_and_says_that_it_is_volatile() {
    conforms(&mut Memory::new(LEN as usize));
    conforms(&mut Crashing::new(LEN as usize));
    carries_a_log(Memory::new(LEN as usize), |medium| medium);
    assert_eq!(Memory::new(1).class(), Class::Volatile);
    assert!(Class::Volatile < Class::ProcessCrash && Class::ProcessCrash < Class::PowerLoss);
}

#[test]
fn files_are_media_and_locked() {
    for how in [How::Fdatasync, How::Dsync] {
        let folder = Folder::new();
        conforms(&mut File::create(&folder.file(), LEN, how).expect("room"));
        assert_eq!(kind(File::create(&folder.file(), LEN, how)), Some(io::ErrorKind::AlreadyExists));
        let file = File::open(&folder.file(), how).expect("just made");
        assert_eq!(file.class(), Class::PowerLoss);
        assert_eq!(kind(File::open(&folder.file(), how)), Some(io::ErrorKind::WouldBlock));
        assert_eq!(kind(File::open(Path::new("/nowhere/log"), how)), Some(io::ErrorKind::NotFound));
        carries_a_log(file, |file| {
            drop(file);
            File::open(&folder.file(), how).expect("just made")
        });
    }
}

#[test]
fn a_mapped_file_is_a_medium_that_survives_the_process() {
    let folder = Folder::new();
    conforms(&mut Mapped::create(&folder.file(), LEN).expect("room"));
    let mapped = Mapped::open(&folder.file()).expect("just made");
    assert_ne!(mapped.class(), Class::Volatile);
    assert!(!mapped.instruction().is_empty());
    carries_a_log(mapped, |mapped| {
        drop(mapped);
        Mapped::open(&folder.file()).expect("just made")
    });
}

#[test]
fn a_mapped_file_that_is_synced_survives_loss_of_power() {
    let folder = Folder::new();
    conforms(&mut Mapped::create(&folder.file(), LEN).expect("room").by_sync());
    let open = || Mapped::open(&folder.file()).expect("just made").by_sync();
    assert_eq!(open().class(), Class::PowerLoss);
    carries_a_log(open(), |mapped| {
        drop(mapped);
        open()
    });
}

#[test]
fn a_file_behind_io_uring_is_a_medium() {
    let folder = Folder::new();
    let open = |file: io::Result<File>| Uring::new(file.expect("room"));
    let mut medium = match open(File::create(&folder.file(), LEN, How::Fdatasync)) {
        Ok(medium) => medium,
        Err(e) => return eprintln!("skipped: io_uring cannot be used here: {e}"),
    };
    conforms(&mut medium);
    (0..40).for_each(|n| medium.write_at(n * 8, &[n as u8; 8]).expect("more than one chain takes"));
    medium.persist(&[]).expect("it works");
    drop(medium);
    let mut medium = open(File::open(&folder.file(), How::Fdatasync)).expect("as before");
    let mut bytes = [0; 320];
    medium.read_at(0, &mut bytes).expect("inside");
    assert!(bytes.iter().zip(0..).all(|(byte, at)| *byte == at as u8 / 8 || at >= 256));
    // Dropped with a chain under way: its buffers outlive it.
    medium.write_at(0, &[0; 4096]).expect("inside");
    medium.start(&[]).expect("it works");
    drop(medium);
    carries_a_log(open(File::open(&folder.file(), How::Fdatasync)).expect("as before"), |medium| {
        drop(medium);
        open(File::open(&folder.file(), How::Fdatasync)).expect("as before")
    });
}

#[test]
fn an_emulated_medium_takes_the_time_it_says_and_is_no_more_durable() {
    let traits = Traits { latency: Nanos::from_micros(50), bandwidth: 256_000_000, block: 256 };
    let mut medium = Emulated::new(Memory::new(LEN as usize), traits);
    assert_eq!(medium.class(), Class::Volatile);
    let clock = Clock::shared();
    let from = clock.now();
    // Two blocks of 256 bytes are touched, at 1 µs each.
    medium.write_at(200, &[1; 100]).expect("inside");
    medium.persist(&[200..300]).expect("it works");
    assert!(clock.now().since(from) >= Nanos::from_micros(52));
    assert_eq!(medium.bytes_in_and_out(), (100, 512));
    conforms(&mut Emulated::new(Memory::new(LEN as usize), Traits::OPTANE));
    carries_a_log(Emulated::new(Memory::new(LEN as usize), Traits::OPTANE), |medium| medium);
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|e| e.kind())
}
