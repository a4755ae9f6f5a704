//! `millrace probe`: measures the machine it runs on, says what the figures mean, and writes them down for the model.
//!
//! Why: every choice of this system (how long to spin, how many misses to overlap, which pages, which way into the
//! kernel) depends on figures that differ tenfold between machines.
//!
//! Shape: one file per section; each puts [`session::Row`]s into the [`session::Session`]; [`table`] shows them and
//! [`measurements`] stores them. What cannot be measured here is a skip with a reason, never an error and never silence.
//!
//! Cost: about 25 s, `--quick` about 3 s; `--only io` about 80 s, because there it compares more loads for longer.
//! Memory: the largest working set (see [`memory`]), one at a time.

pub mod clocks;
pub mod cores;
pub mod date;
pub mod echo;
pub mod facts;
pub mod lines;
pub mod measurements;
pub mod memory;
pub mod placement;
pub mod session;
pub mod storage;
pub mod syscalls;
pub mod table;
pub mod timing;
pub mod wakeups;

use base::Bytes;
use facts::Machine;
use measurements::Measurements;
use serde::{Deserialize, Serialize};
use session::Session;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A group of figures that is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Clocks, pause, atomics.
    Clocks,
    /// Calls into the kernel.
    Syscalls,
    /// Ping-pong between cores, and time taken away.
    Cores,
    /// Waking a sleeping thread.
    Wakeups,
    /// Latency, parallelism and bandwidth of memory.
    Memory,
    /// Round trips over sockets.
    Sockets,
    /// Epoll against io_uring.
    Io,
    /// Durable writes.
    Storage,
}

impl Section {
    /// All, in the order in which they run and are shown.
    pub const ALL: [Section; 8] = [
        Section::Clocks,
        Section::Syscalls,
        Section::Cores,
        Section::Wakeups,
        Section::Memory,
        Section::Sockets,
        Section::Io,
        Section::Storage,
    ];

    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Section::Clocks => "Clocks and single instructions",
            Section::Syscalls => "Calls into the kernel",
            Section::Cores => "Between cores, and time taken away",
            Section::Wakeups => "Waking up",
            Section::Memory => "Memory",
            Section::Sockets => "Sockets, one request at a time",
            Section::Io => "Epoll against io_uring: an echo server of each, 64 B requests, one server thread",
            Section::Storage => "Durable writes in the current directory",
        }
    }

    fn steps(self, quick: bool, alone: bool) -> u64 {
        match self {
            Section::Clocks => clocks::STEPS,
            Section::Syscalls => syscalls::STEPS,
            Section::Cores => placement::STEPS,
            Section::Wakeups => wakeups::STEPS,
            Section::Memory => memory::STEPS,
            Section::Sockets => echo::round_trip::STEPS + echo::one_way::STEPS + echo::datagrams::STEPS,
            Section::Io => echo::compare::steps(quick, alone),
            Section::Storage => storage::STEPS,
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Section::Clocks => "clocks",
            Section::Syscalls => "syscalls",
            Section::Cores => "cores",
            Section::Wakeups => "wakeups",
            Section::Memory => "memory",
            Section::Sockets => "sockets",
            Section::Io => "io",
            Section::Storage => "storage",
        })
    }
}

/// Measure this machine: clocks, cores, memory, wake-ups, sockets, storage.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Take about 3 seconds instead of about 25: fewer samples, wider spread
    #[arg(long)]
    pub quick: bool,
    /// Print the measurements as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the measurements file, which the hardware model reads as platform `this-host`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "this-host.toml")]
    pub output: Option<PathBuf>,
    /// Measure only these sections; `io` alone compares more loads for longer
    #[arg(long, value_enum, value_name = "SECTION", value_delimiter = ',')]
    pub only: Vec<Section>,
    /// Largest working set in memory, never more than a quarter of what is available
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    pub largest: Bytes,
}

/// Why a probe ended without a result.
#[derive(Debug)]
pub enum Error {
    /// The first allowed core could not be had.
    Pin(std::io::Error),
    /// The result could not be written.
    Write {
        /// Where to.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pin(e) => write!(f, "cannot pin to a core that this process is allowed: {e}"),
            Error::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

/// Measures, prints, and writes the file where asked to.
///
/// # Errors
/// See [`Error`]. What cannot be measured is not an error: it is shown as skipped.
pub fn run(args: Args) -> Result<(), Error> {
    let machine = Machine::read();
    let session = measure(&args, &machine, true)?;
    let shown = if args.json { String::new() } else { table::render(&machine, &session) };
    let command = std::env::args().collect::<Vec<_>>();
    let command = format!("millrace {}", command.get(1..).unwrap_or_default().join(" "));
    let file = Measurements::new(date::now(), command, machine, &session.rows, session.skips);
    file.check().expect("the probe writes what its loader accepts");
    let text = if args.json {
        serde_json::to_string_pretty(&file).expect("finite numbers, strings and maps are JSON") + "\n"
    } else {
        shown
    };
    print(&text)?;
    if let Some(path) = args.output {
        write(&path, &file.to_toml())?;
        serve::complain!("wrote {}", path.display());
    }
    Ok(())
}

/// Runs the sections asked for on the first allowed core.
///
/// # Errors
/// A section cannot be measured.
pub fn measure(args: &Args, machine: &Machine, visible: bool) -> Result<Session, Error> {
    let sections: Vec<Section> =
        Section::ALL.into_iter().filter(|s| args.only.is_empty() || args.only.contains(s)).collect();
    let alone = args.only == [Section::Io];
    let steps = sections.iter().map(|s| s.steps(args.quick, alone)).sum();
    let mut session = Session::new(args.quick, machine.cores_allowed.clone(), steps, visible);
    let available = Bytes(machine.memory_available_bytes);
    cores::on(session.cores[0], || {
        for section in sections {
            session.enter(section);
            match section {
                Section::Clocks => clocks::measure(&mut session),
                Section::Syscalls => syscalls::measure(&mut session),
                Section::Cores => placement::measure(&mut session),
                Section::Wakeups => wakeups::measure(&mut session),
                Section::Memory => memory::measure(&mut session, args.largest, available),
                Section::Sockets => {
                    echo::round_trip::measure(&mut session);
                    echo::one_way::measure(&mut session);
                    echo::datagrams::measure(&mut session);
                }
                Section::Io => echo::compare::measure(&mut session, alone),
                Section::Storage => storage::measure(&mut session),
            }
        }
        session.finish();
    })
    .map_err(Error::Pin)?;
    Ok(session)
}

fn print(text: &str) -> Result<(), Error> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough (`| head`) is no failure of ours.
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "standard output".into(), source: e })
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(only: Section) -> Args {
        Args { quick: true, json: false, output: None, only: vec![only], largest: Bytes::from_mib(16) }
    }

    #[test]
    fn every_section_runs_in_its_quick_form_and_its_file_is_accepted() {
        let machine = Machine::read();
        for section in Section::ALL {
            let session = measure(&quick(section), &machine, false).expect("the first core is allowed");
            assert!(!session.rows.is_empty() || !session.skips.is_empty(), "{section} is silent");
            assert!(table::render(&machine, &session).contains(section.title()));
            let file = Measurements::new(
                "today".into(),
                "test".into(),
                machine.clone(),
                &session.rows,
                session.skips,
            );
            assert_eq!(Measurements::parse(&file.to_toml()).expect("our own file"), file);
            let json = serde_json::to_string(&file).expect("JSON");
            assert_eq!(serde_json::from_str::<Measurements>(&json).expect("JSON").machine, machine);
        }
    }

    #[test]
    fn one_core_is_enough_for_a_visible_answer() {
        let mut machine = Machine::read();
        machine.cores_allowed.truncate(1);
        for section in [Section::Cores, Section::Wakeups, Section::Sockets, Section::Io] {
            let session = measure(&quick(section), &machine, false).expect("the first core is allowed");
            assert!(!session.skips.is_empty(), "{section} hides that it needs a second core");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_says_so() {
        let error = write(Path::new("/nonexistent/this-host.toml"), "").expect_err("no such directory");
        assert!(error.to_string().contains("/nonexistent/this-host.toml"));
    }
}
