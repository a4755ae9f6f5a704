//! Where a result was measured: figures without this say nothing.

use serde::Serialize;
use std::fs;

/// One fact about the machine or the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// The facts of this machine and this command.
pub fn facts() -> Vec<Fact> {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_string()).ok();
    let cores = base::cpu::allowed_cores();
    let load = read("/proc/loadavg").and_then(|text| text.split_whitespace().next().map(str::to_string));
    let facts = [
        ("processor", Some(base::cpu::model_name())),
        ("cores for this process", Some(cores.len().to_string())),
        ("memory", base::memory::total().map(|bytes| base::Bytes(bytes).to_string())),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("idle polling of the guest (ns)", read("/sys/module/haltpoll/parameters/guest_halt_poll_ns")),
        ("load before the report", load),
        ("millrace", Some(env!("CARGO_PKG_VERSION").to_string())),
        (
            "build",
            Some(
                if cfg!(debug_assertions) { "debug: figures are not meaningful" } else { "release" }
                    .to_string(),
            ),
        ),
        ("time", Some(now())),
        ("command", Some(command_line())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some(Fact { name, value: value? })).collect()
}

fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_string();
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

/// The time of day, UTC.
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

/// Seconds since 1970 as a date: the days are counted from 0000-03-01, so that leap days come last (Hinnant,
/// "chrono-compatible low-level date algorithms").
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = facts();
        assert!(facts.iter().any(|f| f.name == "kernel" && !f.value.is_empty()));
    }
}
