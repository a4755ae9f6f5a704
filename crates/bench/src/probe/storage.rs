//! What it costs to make a write durable on the file system of the current directory.
//!
//! Bounds: one file of [`FILE_BYTES`], unlinked right after it is opened, so nothing stays behind even after a kill; it
//! is written over until the time is up.

use super::session::{Session, Unit};
use base::{Clock, Nanos};
use rustix::fs::fdatasync;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Steps that [`measure`] announces.
pub const STEPS: u64 = 2;

/// Bytes in the file that is written over.
pub const FILE_BYTES: u64 = 16 << 20;

/// Writes followed by `fdatasync`, 4 KiB and 64 KiB.
pub fn measure(session: &mut Session) {
    measure_in(session, Path::new("."));
}

fn measure_in(session: &mut Session, directory: &Path) {
    session.step("preparing a file");
    let file = match prepare(directory) {
        Ok(file) => file,
        Err(e) => {
            let why = format!(
                "cannot write to {}: {e}; run it in a directory that you may write to",
                directory.display()
            );
            return session.skip("durable writes", why);
        }
    };
    session.step("durable writes");
    for (bytes, key, reading) in [
        (4 << 10, "sync_4k", "one durable small write: the floor of an acknowledged commit"),
        (64 << 10, "sync_64k", "a group of commits written at once"),
    ] {
        let samples = durable_writes(&file, bytes, session.span(Nanos::from_millis(500)));
        let label = format!("{} + fdatasync", base::Bytes(bytes as u64));
        match samples {
            Ok(samples) => session.record(key, label, &samples, Unit::Micros, "prewritten file", reading),
            Err(e) => session.skip(label, e),
        }
    }
}

/// A file of [`FILE_BYTES`] whose blocks exist and are on disk.
fn prepare(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".millrace-probe-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let block = vec![0x5A; 1 << 20];
    for at in (0..FILE_BYTES).step_by(block.len()) {
        file.write_all_at(&block, at)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Microseconds per write of `bytes` made durable, for `span`, at least three.
fn durable_writes(file: &File, bytes: usize, span: Nanos) -> io::Result<Vec<f64>> {
    let clock = Clock::shared();
    let block = vec![0xA5; bytes];
    let (start, mut samples, mut at) = (clock.now(), Vec::new(), 0);
    while samples.len() < 3 || clock.now().since(start) < span {
        let from = clock.now();
        file.write_all_at(&block, at)?;
        fdatasync(file)?;
        samples.push(clock.now().since(from).0 as f64 / 1e3);
        at = (at + bytes as u64) % FILE_BYTES;
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn it_leaves_no_file_and_an_unwritable_directory_is_a_visible_skip() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let directory = folder.path();
        let file = prepare(directory).expect("writable");
        assert_eq!(std::fs::read_dir(directory).expect("ours").count(), 0);
        assert_eq!(durable_writes(&file, 4096, Nanos::ZERO).expect("durable").len(), 3);
        std::fs::remove_dir(directory).expect("empty");

        let mut session = Session::new(true, vec![0], STEPS, false);
        measure_in(&mut session, directory);
        assert!(session.rows.is_empty());
        assert!(session.skips[0].why.contains("cannot write to"), "{:?}", session.skips);
    }
}
