//! What the machine says of itself: processor, caches, memory, kernel, and the settings that move every figure.
//!
//! Nothing here is measured, and nothing is required: a file that is missing (a container, another architecture) leaves
//! its field empty.

use base::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::path::Path;

/// One cache of the first core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// 1 is nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Cores that share it, as the kernel lists them.
    pub shared_by_cores: String,
}

/// The machine. Every number's unit is the last word of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's own name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores_allowed: Vec<usize>,
    /// Ticks of the cycle counter per second, where it is constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_counter_hz: Option<u64>,
    /// The instruction that waits on a cache line, where there is one.
    pub monitored_wait: String,
    /// Memory in all.
    pub memory_bytes: u64,
    /// Memory that could be had when this was read.
    pub memory_available_bytes: u64,
    /// How busy all cores were in the tenth of a second before measuring, by anybody.
    pub busy_before_percent: u64,
    /// Kernel release.
    pub kernel: String,
    /// What the kernel runs on, as far as it says.
    pub hypervisor: String,
    /// The setting of transparent huge pages.
    pub transparent_huge_pages: String,
    /// Reserved 2 MiB pages that are free.
    pub hugetlb_2m_free_pages: u64,
    /// Reserved 1 GiB pages that are free.
    pub hugetlb_1g_free_pages: u64,
    /// How long an idle virtual core spins before it gives itself up, where the kernel has the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_halt_poll_ns: Option<u64>,
    /// Caches of the first core, nearest first.
    #[serde(default)]
    pub caches: Vec<Cache>,
}

impl Machine {
    /// Reads them all.
    pub fn read() -> Machine {
        let cores_allowed = base::cpu::allowed_cores();
        let first = cores_allowed.first().copied().unwrap_or(0);
        Machine {
            cpu: base::cpu::model_name(),
            cycle_counter_hz: base::Clock::shared().cycles_per_sec().map(|hz| hz as u64),
            monitored_wait: match base::cpu::monitored_wait() {
                Some(kind) => format!("{kind:?}").to_lowercase(),
                None => "none".to_string(),
            },
            memory_bytes: base::memory::total().unwrap_or(0),
            memory_available_bytes: base::memory::available().unwrap_or(0),
            busy_before_percent: busy_percent(std::time::Duration::from_millis(100)),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            hypervisor: hypervisor(),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text).map(str::to_string))
                .unwrap_or_else(|| "not in this kernel".into()),
            hugetlb_2m_free_pages: number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
                .unwrap_or(0),
            hugetlb_1g_free_pages: number("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages")
                .unwrap_or(0),
            guest_halt_poll_ns: number("/sys/module/haltpoll/parameters/guest_halt_poll_ns"),
            caches: caches(Path::new(&format!("/sys/devices/system/cpu/cpu{first}/cache"))),
            cores_allowed,
        }
    }

    /// The facts as lines for people, with what follows from them.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let caches: Vec<String> = self
            .caches
            .iter()
            .filter(|c| c.kind != "Instruction")
            .map(|c| format!("L{} {} (cores {})", c.level, Bytes(c.size_bytes), c.shared_by_cores))
            .collect();
        let counter = match self.cycle_counter_hz {
            Some(hz) => format!("{:.3} GHz, constant", hz as f64 / 1e9),
            None => "not constant: the system's clock is used".to_string(),
        };
        let busy = match self.busy_before_percent {
            percent @ 10.. => {
                format!("{percent} % of all cores: WARNING, other programs spoil these figures")
            }
            percent => format!("{percent} % of all cores"),
        };
        let halt = match self.guest_halt_poll_ns {
            Some(0) => "0: a wake-up across cores leaves the virtual machine (200000 makes it about 5 µs)"
                .to_string(),
            Some(ns) => format!("{ns} ns"),
            None => "no such setting here".to_string(),
        };
        vec![
            ("processor", self.cpu.clone()),
            ("cores allowed", format!("{:?}", self.cores_allowed)),
            (
                "caches",
                if caches.is_empty() { "not listed by this kernel".into() } else { caches.join(", ") },
            ),
            (
                "memory",
                format!("{}, {} available", Bytes(self.memory_bytes), Bytes(self.memory_available_bytes)),
            ),
            ("busy before", busy),
            ("kernel", self.kernel.clone()),
            ("hypervisor", self.hypervisor.clone()),
            ("cycle counter", counter),
            (
                "monitored wait",
                format!("{} (umwait or mwaitx lets a polling core rest)", self.monitored_wait),
            ),
            (
                "huge pages",
                format!(
                    "transparent: {}; reserved and free: {} × 2 MiB, {} × 1 GiB",
                    self.transparent_huge_pages, self.hugetlb_2m_free_pages, self.hugetlb_1g_free_pages
                ),
            ),
            ("halt polling", halt),
        ]
    }
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// Ticks that all cores were busy, and all ticks, from `/proc/stat`.
pub fn ticks(stat: &str) -> Option<(u64, u64)> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = all.split_whitespace().map_while(|f| f.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; what follows is counted in these already.
    let total = fields.iter().take(8).sum::<u64>();
    Some((total - fields.get(3)? - fields.get(4)?, total))
}

/// How busy all cores are during `span`.
fn busy_percent(span: std::time::Duration) -> u64 {
    let now = || ticks(&read_to_string("/proc/stat").unwrap_or_default());
    let before = now();
    std::thread::sleep(span);
    match (before, now()) {
        (Some((busy, all)), Some((busy_after, all_after))) => {
            100 * busy_after.saturating_sub(busy) / all_after.saturating_sub(all).max(1)
        }
        _ => 0,
    }
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

/// `512K` and `32M` as the kernel writes cache sizes.
fn cache_size(text: &str) -> Option<u64> {
    text.parse::<Bytes>().ok().map(|b| b.0)
}

fn caches(directory: &Path) -> Vec<Cache> {
    let cache = |index: u32| {
        let file = |name: &str| line(directory.join(format!("index{index}")).join(name));
        Some(Cache {
            level: file("level")?.parse().ok()?,
            kind: file("type")?,
            size_bytes: cache_size(&file("size")?)?,
            shared_by_cores: file("shared_cpu_list")?,
        })
    };
    (0..16).map_while(cache).collect()
}

/// What the kernel knows of a hypervisor: the processor's hint, and the vendor's name where the firmware gives it.
fn hypervisor() -> String {
    let hinted = read_to_string("/proc/cpuinfo").is_ok_and(|text| {
        text.lines()
            .find(|l| l.starts_with("flags"))
            .is_some_and(|l| l.split_whitespace().any(|f| f == "hypervisor"))
    });
    match (hinted, line("/sys/class/dmi/id/sys_vendor").or_else(|| line("/sys/hypervisor/type"))) {
        (true, Some(vendor)) => format!("a virtual machine ({vendor})"),
        (true, None) => "a virtual machine".to_string(),
        (false, _) => "none that the processor hints at".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts_are_read() {
        assert_eq!(ticks("cpu  10 1 20 300 40 1 2 3 9 9\ncpu0 1\n"), Some((37, 377)));
        assert_eq!(ticks("cpu  10 1 20\n"), None);
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(cache_size("32M"), Some(32 << 20));
        assert_eq!(cache_size("big"), None);
    }

    #[test]
    fn this_machine_has_a_processor_cores_and_memory() {
        let machine = Machine::read();
        assert!(!machine.cpu.is_empty() && !machine.cores_allowed.is_empty());
        assert!(machine.memory_bytes >= machine.memory_available_bytes);
        assert!(machine.lines().iter().all(|(_, value)| !value.is_empty()));
        assert!(caches(Path::new("/nonexistent")).is_empty());
    }
}
