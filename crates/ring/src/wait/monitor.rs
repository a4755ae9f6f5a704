//! One monitored wait: the core dozes until a watched line is written or a short time is over.
//!
//! Bounds: a wait lasts at most 100,000 cycles (the kernel's own limit for umwait is of that order), so a caller that must
//! look at a clock gets its turn. Without the instructions nothing is done and the caller goes on to its next step.
//!
//! Machines: written for umonitor/umwait (Intel) and monitorx/mwaitx (AMD); virtual machines usually hide both, and the
//! instructions themselves have not been run by the authors. What is tested is the gate and the way around them.

/// Cycles that one wait lasts at most.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
const CYCLES: u32 = 100_000;

/// Whether this processor lets user code wait on a line.
pub fn is_available() -> bool {
    kind().is_some()
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
fn kind() -> Option<base::cpu::MonitoredWait> {
    use std::sync::OnceLock;
    static KIND: OnceLock<Option<base::cpu::MonitoredWait>> = OnceLock::new();
    *KIND.get_or_init(base::cpu::monitored_wait)
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
fn kind() -> Option<base::cpu::MonitoredWait> {
    None
}

/// Waits once for a write to the line at `line`, unless `condition` holds already; whether it holds.
pub(super) fn wait(line: *const u8, condition: &mut impl FnMut() -> bool) -> bool {
    let Some(kind) = kind() else { return condition() };
    watch(kind, line);
    // Between watching and dozing: a write before the watch is seen here, a later one ends the doze.
    if condition() {
        return true;
    }
    doze(kind);
    condition()
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
fn watch(kind: base::cpu::MonitoredWait, line: *const u8) {
    use base::cpu::MonitoredWait;
    match kind {
        // SAFETY: CPUID says the instruction exists; it changes no memory, and the line may be any readable address.
        MonitoredWait::Umwait => unsafe {
            std::arch::asm!("umonitor {0}", in(reg) line, options(nostack, preserves_flags));
        },
        // SAFETY: as above; ecx and edx carry no extensions and no hints.
        MonitoredWait::Mwaitx => unsafe {
            std::arch::asm!("monitorx", in("rax") line, in("ecx") 0, in("edx") 0,
                options(nostack, preserves_flags));
        },
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
fn doze(kind: base::cpu::MonitoredWait) {
    use base::cpu::MonitoredWait;
    match kind {
        MonitoredWait::Umwait => {
            let until = base::clock::cycles().wrapping_add(u64::from(CYCLES));
            // SAFETY: CPUID says the instruction exists; bit 0 set asks for C0.1, the state that wakes faster.
            unsafe {
                std::arch::asm!("umwait {0:e}", in(reg) 1u32, in("eax") until as u32,
                    in("edx") (until >> 32) as u32, options(nostack));
            }
        }
        // SAFETY: CPUID says the instruction exists; ecx bit 1 arms the timer in ebx, which is saved around since the
        // compiler keeps it; eax 0xF0 asks for C0.
        MonitoredWait::Mwaitx => unsafe {
            std::arch::asm!("xchg {cycles:r}, rbx", "mwaitx", "xchg {cycles:r}, rbx",
                cycles = inout(reg) u64::from(CYCLES) => _, in("eax") 0xF0, in("ecx") 2,
                options(nostack, preserves_flags));
        },
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
fn watch(_: base::cpu::MonitoredWait, _: *const u8) {}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
fn doze(_: base::cpu::MonitoredWait) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_gate_is_the_processors_word() {
        let expected = if cfg!(miri) { None } else { base::cpu::monitored_wait() };
        assert_eq!(kind(), expected);
        assert_eq!(is_available(), expected.is_some());
    }

    #[test]
    fn with_or_without_the_instructions_a_wait_ends_and_says_what_holds() {
        let line = [0u8; 64];
        let mut looks = 0;
        assert!(!wait(line.as_ptr(), &mut || {
            looks += 1;
            false
        }));
        assert!(looks >= 1);
        assert!(wait(line.as_ptr(), &mut || true));
    }
}
