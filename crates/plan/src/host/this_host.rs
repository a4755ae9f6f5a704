//! `millrace model this-host`: probes this machine and writes it down as a platform of the model.

use super::code;
use super::figures::Figures;
use base::spread::Spread;
use base::{Bytes, Nanos};
use bench::probe;
use bench::probe::facts::Machine;
use bench::probe::memory::sets_up_to;
use bench::probe::session::Session;
use bench::probe::{Section, cores};
use model::system::host::Host;
use std::error::Error;
use std::path::PathBuf;

/// Measure this machine and write it as platform `this-host`
///
/// Runs the parts of `millrace probe` that the model needs and times the program's own code in the first-level cache. Each number has its
/// unit, how it was measured, and the spread of its samples as range.
#[derive(clap::Args, Clone, Debug)]
pub struct ThisHost {
    /// Take fewer samples
    #[arg(long)]
    quick: bool,

    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Largest working set in memory, never more than a quarter of what is available
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    largest: Bytes,
}

/// Sections of the probe whose figures the model reads.
const SECTIONS: [Section; 5] =
    [Section::Syscalls, Section::Cores, Section::Wakeups, Section::Memory, Section::Sockets];

/// What figures of the probe are called in the platform: section, its key, name, unit.
const NAMES: [(Section, &str, &str, &str); 17] = [
    (Section::Memory, "read_one_core", "memory.stream", "GB/s"),
    (Section::Cores, "ping_pong", "cores.ping_pong", "ns"),
    (Section::Cores, "line_single", "cores.line_single", "ns"),
    (Section::Cores, "line_batch", "cores.line_batch", "ns"),
    (Section::Syscalls, "epoll_wait", "kernel.epoll", "ns"),
    (Section::Sockets, "udp_send", "kernel.udp_send", "ns"),
    (Section::Sockets, "udp_receive", "kernel.udp_receive", "ns"),
    (Section::Sockets, "tcp_send", "kernel.tcp_send", "ns"),
    (Section::Sockets, "tcp_receive", "kernel.tcp_receive", "ns"),
    (Section::Sockets, "tcp_copy", "kernel.tcp_copy", "GB/s"),
    (Section::Wakeups, "eventfd", "kernel.wake", "us"),
    (Section::Sockets, "bell_send", "kernel.bell_send", "ns"),
    (Section::Sockets, "bell_receive", "kernel.bell_receive", "ns"),
    (Section::Wakeups, "eventfd_soon", "kernel.wake_soon", "us"),
    (Section::Wakeups, "long_sleep", "kernel.long_sleep", "us"),
    (Section::Wakeups, "futex_same_core", "kernel.switch", "us"),
    (Section::Wakeups, "eventfd_call", "kernel.wake_call", "us"),
];

impl ThisHost {
    /// Does it.
    ///
    /// # Errors
    /// Something that the model needs could not be measured here, or the file not be written.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let machine = Machine::read();
        let figures = measure(&machine, self.quick, self.largest)?;
        let text = figures.to_toml(&machine);
        match &self.out {
            None => print!("{text}"),
            Some(file) => {
                std::fs::write(file, &text).map_err(|cause| format!("{}: {cause}", file.display()))?;
                serve::complain!("wrote {}", file.display());
            }
        }
        Ok(())
    }
}

/// All figures of this machine, complete for the model.
///
/// # Errors
/// One could not be measured: which, and why.
pub fn measure(machine: &Machine, quick: bool, largest: Bytes) -> Result<Figures, Box<dyn Error>> {
    let args = probe::Args { quick, json: false, output: None, only: SECTIONS.to_vec(), largest };
    let session = probe::measure(&args, machine, true)?;
    let mut figures = of_probe(&session);
    let span = Nanos::from_millis(if quick { 10 } else { 100 });
    let timed = cores::on(machine.cores_allowed[0], || {
        code::measure(&mut figures, span).map_err(|error| error.to_string())
    })?;
    timed?;
    let processors = machine.cores_allowed.len() as u64;
    figures.note_count("cores.processors", processors, "count", "those that this process may use");
    if let Err(error) = figures.platform(machine).and_then(|platform| Host::of(&platform)) {
        let skips: String =
            session.skips.iter().map(|skip| format!("\n  skipped: {}: {}", skip.what, skip.why)).collect();
        return Err(format!("this machine cannot be modelled: {error}{skips}").into());
    }
    Ok(figures)
}

/// The model's figures among those of a probe.
fn of_probe(session: &Session) -> Figures {
    let mut figures = Figures::default();
    let find = |section, key: &str| session.rows.iter().find(|row| row.section == section && row.key == key);
    for (section, key, name, unit) in NAMES {
        if let Some(row) = find(section, key) {
            figures.note_summary(name, row.summary, unit, row.method);
        }
    }
    let mut sets = 0;
    for bytes in sets_up_to(1 << 40) {
        sets += note_set(&mut figures, &find_pair(session, bytes), sets, bytes);
    }
    // The largest is whatever there was memory for.
    let largest =
        session.rows.iter().filter_map(|row| row.key.strip_prefix("latency_")?.strip_suffix("k_thp"));
    let largest = largest.filter_map(|kib| kib.parse::<usize>().ok()).max().unwrap_or(0) << 10;
    if !sets_up_to(1 << 40).any(|bytes| bytes == largest) {
        sets += note_set(&mut figures, &find_pair(session, largest), sets, largest);
    }
    figures.note_count("memory.sets", sets, "count", "working sets of the probe, on huge pages");
    figures
}

type Pair = Option<[(Spread, &'static str); 2]>;

fn find_pair(session: &Session, bytes: usize) -> Pair {
    let find = |key: &str| {
        let key = format!("{key}_{}k_thp", bytes >> 10);
        session.rows.iter().find(|row| row.key == key).map(|row| (row.summary, row.method))
    };
    Some([find("latency")?, find("lines")?])
}

/// Notes a working set as the next one; how many that are.
fn note_set(figures: &mut Figures, pair: &Pair, sets: u64, bytes: usize) -> u64 {
    let Some([latency, line]) = pair else { return 0 };
    let name = |what| format!("memory.set_{}.{what}", sets + 1);
    figures.note_count(&name("size"), bytes as u64 >> 10, "KiB", "chosen");
    figures.note_summary(&name("latency"), latency.0, "ns", latency.1);
    figures.note_summary(&name("line"), line.0, "ns", line.1);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_probe_makes_a_whole_platform() {
        let machine = Machine::read();
        let figures = match measure(&machine, true, Bytes::from_mib(32)) {
            Ok(figures) => figures,
            // One core, or another program on the second one all the time: then it says what could not be measured.
            Err(error) => return assert!(error.to_string().contains("skipped: "), "{error}"),
        };
        let platform = figures.platform(&machine).expect("it is sound");
        let host = Host::of(&platform).expect("it is complete");
        assert!(host.sets.len() >= 4 && host.sets.is_sorted_by(|a, b| a.bytes < b.bytes));
        assert!(platform.numbers().all(|(name, number)| {
            name.starts_with("link.") || number.class == model::platform::Class::Measured
        }));
    }
}
