//! What every process shows, with the names that Prometheus' own clients have; besides the version and the registers.
//!
//! Read when somebody asks. What the system does not say is not shown: a process without a descriptor left can show no count of them.

use super::Page;
use crate::process::logger;
use base::registers::Shown;
use base::trace::Counts;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::fs;

/// Names of threads that have a sample of their own; those of more are together.
const THREAD_NAMES_MAX: usize = 256;

crate::families! { "process_";
    CPU counter "cpu" seconds [] "User and system processor time of the process.";
    RESIDENT gauge "resident_memory" bytes [] "Memory of the process that is in RAM.";
    VIRTUAL gauge "virtual_memory" bytes [] "Address space of the process.";
    THREADS gauge "threads" count [] "Threads of the process.";
    OPEN_FDS gauge "open_fds" count [] "Descriptors that are open.";
    MAX_FDS gauge "max_fds" count [] "Descriptors that may be open.";
    START gauge "start_time" seconds [] "When the process began, since 1970.";
    THREAD_CPU counter "thread_cpu" seconds ["thread"] "Processor time of the threads that have this name now; that of a thread goes with it.";
}

/// What millrace says of itself at every port.
pub mod own {
    crate::families! { "millrace_";
        BUILD gauge "build_info" count ["version"] "Always 1; the label is this program's version.";
        REGISTER gauge "register" count ["name", "unit"] "Registers as numbers: a switch as 0 or 1, a choice as the position of its word.";
        LOGGED counter "log_messages" count ["level"] "Messages logged.";
        LOST counter "log_messages_lost" count [] "Messages that could not be written: standard error is full or closed.";
        SPANS counter "trace_spans" count [] "Spans of sampled requests recorded, of all services (register trace.sample).";
        SPANS_DROPPED counter "trace_spans_dropped" count [] "Spans that have made room for later ones.";
    }
}

/// Adds them, and how many spans there were.
pub fn collect(page: &mut Page, spans: Counts) {
    page.add(own::BUILD, &[env!("CARGO_PKG_VERSION")], true);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    if let Some(seen) = Stat::read(&stat) {
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        page.add(CPU, &[], seen.cpu_ticks as f64 / ticks);
        page.add(RESIDENT, &[], seen.resident_pages * rustix::param::page_size() as u64);
        page.add(VIRTUAL, &[], seen.virtual_bytes);
        page.add(THREADS, &[], seen.threads);
        let booted = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        if let Some(booted) = booted {
            page.add(START, &[], booted as f64 + seen.start_ticks as f64 / ticks);
        }
    }
    for (name, ticks) in threads() {
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        page.add(THREAD_CPU, &[&name], ticks as f64 / ticks_per_second);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder's own.
        page.add(OPEN_FDS, &[], open.count().saturating_sub(1));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        page.add(MAX_FDS, &[], most);
    }
    for (level, count) in logger::counts() {
        page.add(own::LOGGED, &[level], count);
    }
    page.add(own::LOST, &[], logger::lost());
    page.add(own::SPANS, &[], spans.recorded);
    page.add(own::SPANS_DROPPED, &[], spans.dropped);
}

/// Adds registers.
pub fn collect_registers(page: &mut Page, registers: &[Shown]) {
    for register in registers {
        page.add(own::REGISTER, &[register.name, register.unit], register.number);
    }
}

/// Processor time of this process' threads, in ticks, by name.
fn threads() -> BTreeMap<String, u64> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // One that ends meanwhile cannot be read, and is left out.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    by_name(stats.filter_map(|stat| Some((name(&stat)?.to_owned(), Stat::read(&stat)?.cpu_ticks))))
}

/// Sums by name, of the first [`THREAD_NAMES_MAX`]; what others have is under `others`.
fn by_name(threads: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, ticks) in threads {
        let is_new = !sums.contains_key(&name);
        let name = if is_new && sums.len() >= THREAD_NAMES_MAX { "others".to_owned() } else { name };
        *sums.entry(name).or_insert(0) += ticks;
    }
    sums
}

/// The command's name in a `stat`.
fn name(stat: &str) -> Option<&str> {
    Some(stat.split_once('(')?.1.rsplit_once(')')?.0)
}

/// Of `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Stat> {
        // Behind the command's name, which may hold spaces and parentheses, the state is field 3.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn a_process_says_how_it_is() {
        let registers = base::registers::Registers::<Id>::default().show();
        let mut page = Page::default();
        collect(&mut page, Counts { recorded: 5, dropped: 2 });
        collect_registers(&mut page, &registers);
        let text = page.text();
        lint::hold(&text);
        for family in FAMILIES.iter().chain(own::FAMILIES) {
            assert!(text.contains(&format!("# TYPE {} ", family.name)), "{} in\n{text}", family.name);
        }
        assert!(text.contains("millrace_trace_spans_total 5\n"), "{text}");
        assert!(text.contains("millrace_register{name=\"pump.rate\",unit=\"count\"} 16"), "{text}");
    }

    base::registers! {
        listed by "the manual lists them";
        PumpRate "pump.rate" base::registers::Kind::Count, 1, 64, 16, live, "Litres a minute.";
    }

    #[test]
    fn threads_of_one_name_are_one_sample_and_their_number_is_bounded() {
        let some = [("edge-0", 3), ("worker-0", 1), ("edge-0", 4)].map(|(name, n)| (name.to_owned(), n));
        let found = by_name(some.into_iter());
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("edge-0".to_owned(), 7), ("worker-0".to_owned(), 1)]
        );
        let many = by_name((0..THREAD_NAMES_MAX as u64 + 9).map(|n| (format!("t{n}"), 1)));
        assert_eq!((many.len(), many["others"]), (THREAD_NAMES_MAX + 1, 9));
        assert_eq!((name("7 (a) b ) S 1"), name("7 a")), (Some("a) b "), None));
    }

    #[test]
    fn a_command_may_have_any_name() {
        let text = "7 (a) b ) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21";
        let seen =
            Stat { cpu_ticks: 11 + 12, threads: 17, start_ticks: 19, virtual_bytes: 20, resident_pages: 21 };
        assert_eq!(Stat::read(text), Some(seen));
        assert_eq!(Stat::read("7 (a) S 1"), None);
    }
}
