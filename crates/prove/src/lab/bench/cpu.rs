//! How busy a core was, and with what: the kernel's own count, in ticks of 10 ms.
//!
//! What interrupts and forwarding take within a system call counts as that call's here, since the kernel is built without `IRQ_TIME_ACCOUNTING` on
//! most machines; softirq is what is
//! left of it outside of calls.

use std::fs;

/// Ticks of a core so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In which it did something.
    pub busy: u64,
    /// Of these, those in softirqs outside of system calls.
    pub softirq: u64,
}

/// Nanoseconds of a tick: USER_HZ is 100 everywhere.
const TICK_NS: f64 = 1e7;

impl Ticks {
    /// Of a core; none where the kernel does not tell.
    pub fn of(core: usize) -> Option<Ticks> {
        parse(&fs::read_to_string("/proc/stat").ok()?, core)
    }

    /// What came since.
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(earlier.busy),
            softirq: self.softirq.saturating_sub(earlier.softirq),
        }
    }

    /// Both together.
    pub fn plus(self, other: Ticks) -> Ticks {
        Ticks { busy: self.busy + other.busy, softirq: self.softirq + other.softirq }
    }

    /// Microseconds of `ticks` for each of `ops`.
    pub fn per_op(ticks: u64, ops: u64) -> f64 {
        ticks as f64 * TICK_NS / 1e3 / ops.max(1) as f64
    }
}

fn parse(text: &str, core: usize) -> Option<Ticks> {
    let name = format!("cpu{core}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = fields[..] else { return None };
    Some(Ticks { busy: user + nice + system + irq + softirq, softirq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_found_by_its_whole_name() {
        let text =
            "cpu  1 1 1 1 1 1 1 1 0 0\ncpu1 10 2 30 900 5 1 4 7 0 0\ncpu10 9 9 9 9 9 9 9 9 0 0\nintr 1\n";
        assert_eq!(parse(text, 1), Some(Ticks { busy: 47, softirq: 4 }));
        assert_eq!(parse(text, 2), None);
        let (now, before) = (Ticks { busy: 47, softirq: 4 }, Ticks { busy: 40, softirq: 4 });
        assert_eq!(now.since(before), Ticks { busy: 7, softirq: 0 });
        assert_eq!(Ticks::per_op(7, 1000), 70.0);
    }
}
