//! PyTorch's `EmbeddingBag` in a process of its own on the same core, given the same ids and the same numbers in its table.
//!
//! `compare/rec/embedding_bag.py` says what is spoken: a line for each order, a line of text back.

use crate::bars::{Bar, Sample};
use crate::loads::Load;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// The other process. It ends when this is dropped.
pub struct Peer {
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    folder: TempDir,
    pub version: String,
}

impl Peer {
    /// Starts `python` with the script and waits until it has its tables.
    pub fn start(python: &str, rows: u32, dim: usize, core: usize) -> io::Result<Peer> {
        let folder = TempDir::with_prefix("millrace-")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compare/rec/embedding_bag.py");
        let mut child = Command::new(python)
            .arg(script)
            .args([
                "--rows",
                &rows.to_string(),
                "--dim",
                &dim.to_string(),
                "--core",
                &core.to_string(),
                "--serve",
            ])
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take().expect("piped"), BufReader::new(child.stdout.take().expect("piped")));
        let mut peer = Peer { child, pipes: Mutex::new(pipes), folder, version: String::new() };
        peer.version = peer.answer()?;
        Ok(peer)
    }

    fn answer(&self) -> io::Result<String> {
        let mut line = String::new();
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        if pipes.1.read_line(&mut line)? == 0 {
            return Err(io::Error::other("PyTorch's process ended; what it said stands above"));
        }
        Ok(line.trim().to_string())
    }

    fn ask(&self, order: &str) -> io::Result<String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(pipes.0, "{order}")?;
        pipes.0.flush()?;
        drop(pipes);
        self.answer()
    }

    /// Gives it `loads`, and lets it choose the faster of its two types of index by trying.
    pub fn load(&self, loads: &[Load]) -> io::Result<String> {
        let path = self.folder.path().join("loads.u32");
        let mut file = BufWriter::new(File::create(&path)?);
        let mut number = |x: usize| file.write_all(&(x as u32).to_le_bytes());
        number(loads.len())?;
        for load in loads {
            number(load.len())?;
            for batch in load {
                number(batch.values.len())?;
                number(batch.offsets.len())?;
                batch.values.iter().try_for_each(|&id| number(id as usize))?;
                batch.offsets.iter().try_for_each(|&offset| number(offset as usize))?;
            }
        }
        file.flush()?;
        self.ask(&format!("load {}", path.display()))
    }

    /// Its sums for the first batch of the first slice.
    pub fn sums(&self, mode: &str) -> io::Result<Vec<f32>> {
        let path = self.folder.path().join("sums.f32");
        self.ask(&format!("sums {mode} {}", path.display()))?;
        let bytes = std::fs::read(path)?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// `mode` is `f32` or `int8`.
    pub fn bar<'a>(&'a self, mode: &'static str, row_bytes: usize, loads: &'a [Load]) -> Bar<'a> {
        let run = move |at: usize| {
            let answer = self.ask(&format!("run {mode} {at}")).expect("PyTorch answers");
            let rows = loads[at].iter().map(|batch| batch.values.len()).sum();
            Sample { seconds: answer.parse().expect("seconds"), rows }
        };
        Bar { name: format!("{mode} PyTorch"), row_bytes, run: Box::new(run) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.ask("end");
        let _ = self.child.wait();
    }
}
