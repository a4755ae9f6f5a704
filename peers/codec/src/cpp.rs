//! The C++ side: a program of its own, compiled by `cpp/build` if there is a compiler, that works when it is told to.
//!
//! It is a process, so that this crate builds without C++. It has the processor mask of the thread that starts it and times itself by its
//! thread's processor time, as `measure.rs` does; while it works, this side waits for its line. What it is told: `cpp/large.cpp`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Compiles the program; where it is.
///
/// # Errors
/// It cannot be compiled here: why, and what to install.
pub fn compile() -> Result<PathBuf, String> {
    let folder = Path::new(env!("OUT_DIR")).join("cpp");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cpp/build");
    let done = Command::new("sh").arg(&script).arg(&folder).output();
    let why = match done {
        Ok(done) if done.status.success() => return Ok(folder.join("large")),
        Ok(done) => String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!(
        "C++ cannot be compiled ({why}): install g++, protoc and protobuf's headers \
         (Debian: g++, protobuf-compiler, libprotobuf-dev)"
    ))
}

/// The program at work on a corpus.
pub struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it over `corpus`.
    ///
    /// # Errors
    /// The corpus cannot be written, or the program not be started.
    pub fn start(program: &Path, corpus: &[Vec<u8>]) -> Result<Program, String> {
        let mut bytes = Vec::new();
        for message in corpus {
            let len = u32::try_from(message.len()).map_err(|_| "a message is at most 4 GiB")?;
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(message);
        }
        let file = program.with_file_name("messages");
        std::fs::write(&file, bytes)
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        let child = Command::new(program).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        let orders = child.stdin.take().ok_or("the program has no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("the program has no output")?);
        Ok(Program { child, orders, answers })
    }

    /// Nanoseconds of its thread for `times` messages.
    ///
    /// # Errors
    /// It has ended, or does not know the work.
    pub fn time(&mut self, work: &str, times: u32) -> Result<u64, String> {
        self.ask(work, &times.to_string())
    }

    /// The hash of all that the work encoded, or the sum of all that it read.
    ///
    /// # Errors
    /// As [`Program::time`].
    pub fn check(&mut self, work: &str) -> Result<u64, String> {
        self.ask(work, "check")
    }

    fn ask(&mut self, work: &str, what: &str) -> Result<u64, String> {
        let asked = writeln!(self.orders, "{work} {what}").and_then(|()| self.orders.flush());
        let mut line = String::new();
        let answered = asked.and_then(|()| self.answers.read_line(&mut line));
        answered.map_err(|error| format!("the C++ program does not answer: {error}"))?;
        line.trim()
            .parse()
            .map_err(|_| format!("the C++ program answers `{}` to `{work} {what}`", line.trim()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nobody to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
