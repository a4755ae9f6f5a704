//! What the processor is, where a thread runs and for how long: core count, pinning, processor time, and which monitored-wait instructions exist.

use crate::Nanos;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The cores this process may run on, lowest first.
pub fn allowed_cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect(),
    }
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// The system's, for example when the core does not exist or is not allowed to this process.
pub fn pin_to(core: usize) -> std::io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("no core {core}")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Processor time that the calling thread has used: what others take of its core does not count. A system call.
pub fn thread_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Instructions that wait on a cache line without spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitoredWait {
    /// Intel's `umonitor`/`umwait` (CPUID leaf 7, ECX bit 5).
    Umwait,
    /// AMD's `monitorx`/`mwaitx` (CPUID leaf 0x8000_0001, ECX bit 29).
    Mwaitx,
}

/// The monitored wait this processor offers to user code, if any. Virtual machines usually hide both.
pub fn monitored_wait() -> Option<MonitoredWait> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0 {
            return Some(MonitoredWait::Umwait);
        }
        if __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).ecx & (1 << 29) != 0 {
            return Some(MonitoredWait::Mwaitx);
        }
    }
    None
}

/// Whether the cycle counter ticks at one rate whatever the core does (CPUID leaf 0x8000_0007, EDX bit 8).
pub fn has_constant_cycles() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// The processor's own name, for reports.
pub fn model_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':').map(|(_, v)| v.trim()));
    name.unwrap_or("unknown processor").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_reaches_an_allowed_core_and_refuses_others() {
        std::thread::spawn(|| {
            let cores = allowed_cores();
            let last = *cores.last().expect("a process has a core");
            pin_to(last).expect("an allowed core");
            assert_eq!(allowed_cores(), [last]);
            assert!(pin_to(usize::MAX).is_err());
        })
        .join()
        .expect("no panic");
    }
}
