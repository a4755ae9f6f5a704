//! The file of a shard: whole runs, appended one after the other.
//!
//! Invariants
//! 1. Up to `length` the file is its first line and whole runs, and is on the disk: [`Journal::append`] returns after `fdatasync`.
//! 2. What is beyond was torn by a kill, a full disk or a power cut: [`Journal::open`] cuts it off, and those runs are done again.
//! 3. One process has the file: it is locked (`flock`) for as long as it is open.
//!
//! Errors say what to do; a full disk leaves a file that can be resumed.

use super::Failure;
use model::sweep::block::Line;
use model::sweep::{Block, Sweep};
use rustix::fs::{FlockOperation, flock};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// A line longer than this is no row.
const LONGEST: u64 = 1 << 16;

/// Where a run's lines are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which run.
    pub run: u64,
    /// Its key.
    pub key: u64,
    /// Its lines.
    pub rows: u64,
    /// Of their payloads.
    pub digest: u64,
    /// Its first byte.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

/// Reads a file's whole runs in turn; `hear` takes each. How many bytes at its head are good: the first line and all whole runs.
///
/// # Errors
/// The system's; a first line of another sweep.
pub fn scan(file: &File, header: &str, mut hear: impl FnMut(Extent)) -> std::io::Result<Option<u64>> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    if next(&mut reader, &mut line)? == 0 {
        return Ok(Some(0));
    }
    if line != header.as_bytes() {
        // A first line that is only begun is none.
        return Ok(if header.as_bytes().starts_with(&line) { Some(0) } else { None });
    }
    let mut good = line.len() as u64;
    let (mut at, mut open): (u64, Option<(Extent, sim::Fingerprint)>) = (good, None);
    loop {
        let bytes = next(&mut reader, &mut line)?;
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        let Some(row) = text.and_then(Line::parse) else { return Ok(Some(good)) };
        let (mut extent, mut digest) = open.take().unwrap_or((
            Extent { run: row.run, key: row.key, rows: 0, digest: 0, from: at, bytes: 0 },
            sim::Fingerprint::new(),
        ));
        if (row.run, row.key, row.row) != (extent.run, extent.key, extent.rows) {
            return Ok(Some(good));
        }
        digest.bytes(row.payload.as_bytes());
        at += bytes;
        (extent.rows, extent.bytes) = (extent.rows + 1, extent.bytes + bytes);
        if extent.rows == row.rows {
            good = at;
            hear(Extent { digest: digest.value(), ..extent });
        } else {
            open = Some((extent, digest));
        }
    }
}

/// The next line with its end, or what there is of it; how many bytes.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<u64> {
    line.clear();
    Ok(reader.by_ref().take(LONGEST).read_until(b'\n', line)? as u64)
}

/// A shard's file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    runs: HashSet<u64>,
}

impl Journal {
    /// Opens the file, or makes it; with `resume` it may have runs.
    ///
    /// # Errors
    /// A sentence: it has runs and is not to be resumed, is another sweep's or another model's, or another process has it.
    pub fn open(path: &Path, sweep: &Sweep, resume: bool) -> Result<Journal, Failure> {
        let name = path.display();
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|cause| format!("{name}: {cause}"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|cause| format!("{name}: {cause}; does another process run this shard?"))?;
        let (header, mut runs, mut strangers) = (sweep.header(), HashSet::new(), 0);
        let good = scan(&file, &header, |extent| {
            let ours = extent.run < sweep.runs() && extent.key == sweep.key(extent.run);
            strangers += u64::from(!ours);
            runs.insert(extent.run);
        })?;
        let length = good.ok_or_else(|| format!("{name} is another sweep's; choose another --out"))?;
        if strangers > 0 {
            return Err(format!(
                "{name} has {strangers} runs of another version of the model; choose another --out"
            )
            .into());
        }
        if !runs.is_empty() && !resume {
            return Err(
                format!("{name} has {} runs; --resume keeps them and does the others", runs.len()).into()
            );
        }
        let mut journal = Journal { file, path: path.into(), length, runs };
        journal.cut().map_err(|cause| format!("{name}: {cause}"))?;
        if journal.length == 0 {
            journal.put(&header)?;
        }
        Ok(journal)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many runs it has.
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// Whether it has this one.
    pub fn has(&self, run: u64) -> bool {
        self.runs.contains(&run)
    }

    /// Adds a run, which then is on the disk.
    ///
    /// # Errors
    /// A sentence; the runs before stay.
    pub fn append(&mut self, block: &Block) -> Result<(), String> {
        self.put(&block.text)?;
        self.runs.insert(block.run);
        Ok(())
    }

    fn put(&mut self, text: &str) -> Result<(), String> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(cause) => {
                // If that fails too, the next open does it.
                let _ = self.cut();
                Err(format!(
                    "{}: {cause}; all runs before are kept, --resume does the others",
                    self.path.display()
                ))
            }
        }
    }

    /// Writes there from now on; the file from before.
    #[cfg(test)]
    pub fn replace_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }

    /// Cuts off what is beyond whole runs.
    fn cut(&self) -> std::io::Result<()> {
        if self.file.metadata()?.len() > self.length { self.file.set_len(self.length) } else { Ok(()) }
    }
}
