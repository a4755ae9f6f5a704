//! Directories that replicas leave behind.

use super::*;
use crate::chain::media::Media;
use protocol::chain::{Entry, Epoch, Image, Key, Log, SessionId, Space};
use std::path::PathBuf;
use tempfile::TempDir;

/// A directory that is gone in the end.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("replica")
    }

    fn storage(&self) -> Storage {
        Storage {
            data: Some(self.path()),
            media: Media::File,
            log_size: Bytes(8 << 20),
            data_size: Bytes(1 << 20),
        }
    }

    fn open(&self) -> (Disk, Found) {
        self.open_as(ReplicaId(1)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn open_as(&self, id: ReplicaId) -> Result<(Disk, Found), ChainError> {
        open(&self.storage(), &Config::default(), id, Arc::new(|| {}))
    }
}

fn key(number: u64) -> Key {
    Key { space: Space::User, bytes: format!("key {number}").into_bytes() }
}

/// Places and logs a write; nothing of it is applied or durable.
fn log_write(disk: &mut Disk, lsn: u64) -> Entry {
    let mut tuples = Vec::new();
    disk.image.place(Lsn(lsn), &[(&key(lsn), Some(&[lsn as u8; 100]))], &mut tuples).expect("room");
    let (epoch, session) = (Epoch(1), SessionId(1));
    let entry = Entry { lsn: Lsn(lsn), epoch, committed: Lsn(lsn - 1), session, sequence: lsn, tuples };
    disk.log.append(&entry).expect("room");
    entry
}

fn write(disk: &mut Disk, lsns: std::ops::RangeInclusive<u64>) {
    for lsn in lsns {
        let entry = log_write(disk, lsn);
        disk.log.sync();
        disk.image.apply(entry.lsn, &entry.tuples).expect("its own");
    }
    disk.log.check().expect("the disk works");
}

fn checkpoint(disk: &mut Disk) -> Lsn {
    assert!(disk.image.begin_checkpoint());
    loop {
        match disk.image.step_checkpoint(64 << 10) {
            Progress::More | Progress::Waiting => {}
            Progress::Done(lsn) => return lsn,
            Progress::Abandoned => panic!("{:?}", disk.image.check()),
        }
    }
}

#[test]
fn what_was_synced_is_there_again_and_every_life_is_later() {
    let folder = Folder::new();
    let (mut disk, _) = folder.open();
    let first = disk.incarnation;
    assert_eq!(disk.recovered.born, first, "a new directory may be in place of one that was lost");
    write(&mut disk, 1..=7);
    assert_eq!(checkpoint(&mut disk), Lsn(7));
    disk.log.release(Lsn(5));
    write(&mut disk, 8..=9);
    log_write(&mut disk, 10);
    drop(disk);

    let (disk, found) = folder.open();
    assert!(disk.recovered.born == first && disk.incarnation > first);
    assert_eq!((disk.image.applied(), disk.recovered.floor), (Lsn(7), Lsn(7)));
    // The tenth was never made durable, the sixth and seventh are in the checkpoint.
    assert_eq!((disk.log.first(), disk.log.last().0), (Lsn(8), Lsn(9)));
    assert_eq!(disk.image.read(&key(7)).map(|item| item.version), Some(Lsn(7)));
    let entry = disk.log.read(Lsn(9)).expect("it is whole");
    assert_eq!((entry.committed, entry.sequence), (Lsn(8), 9));
    assert!(found.to_string().starts_with("recovered "), "{found}");
}

#[test]
fn a_directory_is_one_replicas_and_one_process_at_a_time_has_it() {
    let folder = Folder::new();
    let (disk, _) = folder.open();
    let busy = folder.open_as(ReplicaId(1)).err().expect("it is locked").to_string();
    assert!(busy.contains("is in use by a replica that runs"), "{busy}");
    drop(disk);
    let other = folder.open_as(ReplicaId(2)).err().expect("it is another's").to_string();
    assert!(other.contains("is the log of replica 1 of chain 1"), "{other}");
}

#[test]
fn an_image_that_was_cleared_does_not_come_back() {
    let folder = Folder::new();
    let (mut disk, _) = folder.open();
    write(&mut disk, 1..=5);
    checkpoint(&mut disk);
    disk.image.clear();
    disk.log.restart(Lsn(3), Epoch(2));
    while disk.image.is_forgetting() {
        disk.image.step_checkpoint(0);
    }
    disk.log.sync();
    disk.log.check().expect("the disk works");
    drop(disk);
    let (disk, _) = folder.open();
    assert_eq!(
        (disk.image.applied(), disk.log.first()),
        (Lsn(0), Lsn(4)),
        "the machine sees that they do not fit"
    );
}

/// A file of which not even the head can be read is kept under another name, and the replica has nothing: others give it everything.
#[test]
fn a_log_that_is_none_is_put_aside_and_the_replica_starts_empty() {
    let folder = Folder::new();
    let (mut disk, _) = folder.open();
    write(&mut disk, 1..=5);
    drop(disk);
    let path = folder.path().join("log");
    let whole = std::fs::read(&path).expect("the log");
    let mut headless = whole.clone();
    headless[..8192].fill(7);
    for (number, bad) in [(1, &headless[..]), (2, &whole[..100_000]), (3, &[])] {
        std::fs::write(&path, bad).expect("the log");
        let (disk, found) = folder.open();
        assert_eq!((disk.log.last().0, disk.log.first()), (Lsn(0), Lsn(1)));
        assert_eq!(disk.recovered.born, disk.incarnation, "what it had acknowledged is not there any more");
        let aside = folder.path().join(format!("log.damaged-{number}"));
        assert!(found.to_string().contains(&format!("is kept as {}", aside.display())), "{found}");
        assert_eq!(std::fs::read(aside).expect("it is kept"), bad);
    }
    let (disk, found) = folder.open();
    assert!(disk.recovered.born < disk.incarnation && !found.to_string().contains("kept"), "{found}");
}

/// The log alone has everything, as long as it has forgotten nothing.
#[test]
fn a_checkpoint_that_is_none_is_put_aside_and_the_log_is_replayed() {
    let folder = Folder::new();
    let (mut disk, _) = folder.open();
    write(&mut disk, 1..=5);
    checkpoint(&mut disk);
    drop(disk);
    let path = folder.path().join("data");
    let mut bytes = std::fs::read(&path).expect("the checkpoint");
    bytes[..8192].fill(7);
    std::fs::write(&path, &bytes).expect("the checkpoint");
    let (disk, found) = folder.open();
    assert!(found.to_string().contains("data.damaged-1"), "{found}");
    assert_eq!((disk.image.applied(), disk.log.first(), disk.log.last().0), (Lsn(0), Lsn(1), Lsn(5)));
    assert!(disk.recovered.born < disk.incarnation, "its log is what it was");
}

/// The clock took its place before, which may have been set back: the controller heard nothing of a replica that lived earlier than itself.
#[test]
fn a_life_that_cannot_be_read_is_not_the_first() {
    let folder = Folder::new();
    drop(folder.open());
    let life = folder.path().join("life");
    let known = std::fs::read(&life).expect("it is there");
    for text in [&b""[..], b"0.5\n", b"\xff\xfe"] {
        std::fs::write(&life, text).expect("the folder is ours");
        assert!(folder.open_as(ReplicaId(1)).is_err(), "{text:?}");
    }
    std::fs::remove_file(&life).and_then(|()| std::fs::create_dir(&life)).expect("the folder is ours");
    assert!(folder.open_as(ReplicaId(1)).is_err(), "an error of the system");
    std::fs::remove_dir(&life).and_then(|()| std::fs::write(&life, known)).expect("the folder is ours");
    drop(folder.open());
}

/// Any local user could read what a chain keeps.
#[test]
fn what_is_kept_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    drop(folder.open());
    let mode = |path: PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(folder.path()), 0o700);
    for name in ["log", "data", "life"] {
        assert_eq!(mode(folder.path().join(name)), 0o600, "{name}");
    }
}

#[test]
fn damage_is_said() {
    let folder = Folder::new();
    let (mut disk, _) = folder.open();
    write(&mut disk, 1..=5);
    drop(disk);
    let path = folder.path().join("log");
    let mut bytes = std::fs::read(&path).expect("the log");
    let at = bytes.windows(100).position(|window| window == [3; 100]).expect("it is logged as it is");
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("the log");
    let (disk, found) = folder.open();
    assert_eq!(disk.recovered.missing, [Lsn(3)]);
    assert!(disk.log.read(Lsn(3)).is_none() && disk.log.read(Lsn(4)).is_some());
    assert!(found.to_string().contains("1 records damaged"), "{found}");
}
