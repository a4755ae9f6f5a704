//! Clocks that jump: the vDSO's become system calls, which are trapped, and the cycle counter becomes a fault.

use crate::control::{Kind, State};
use crate::decide::pick;
use crate::{CLOCKS, raw, trap};
use std::sync::atomic::Ordering;

/// Takes the clocks, if that is wanted.
pub fn install() {
    if std::env::var_os(CLOCKS).is_none() {
        return;
    }
    if let Err(why) = patch().and_then(|()| forbid_counter()) {
        eprintln!("{CLOCKS}: {why}");
        std::process::abort();
    }
}

/// What clock_gettime says.
pub fn answer(state: &State, args: [i64; 6]) -> i64 {
    // SAFETY: the program's own call.
    let result = unsafe { raw::syscall(libc::SYS_clock_gettime, args) };
    if result != 0 || args[0] != i64::from(libc::CLOCK_REALTIME) {
        return result;
    }
    if state.is_armed()
        && let Some(number) = trap::draw(state)
        && pick(state, number, &[Kind::WallStep]).is_some()
        && state.note(Kind::WallStep, libc::SYS_clock_gettime, 0)
    {
        let hour = 3_600_000_000_000i64;
        let step = ((number >> 16) % (2 * hour) as u64) as i64 - hour;
        state.wall_ns.store(step, Ordering::Relaxed);
    }
    let step = state.wall_ns.load(Ordering::Relaxed);
    // SAFETY: the call has written a time there.
    let time = unsafe { &mut *(args[1] as *mut libc::timespec) };
    let ns = time.tv_sec * 1_000_000_000 + time.tv_nsec + step;
    (time.tv_sec, time.tv_nsec) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    0
}

/// The cycle counter of a machine of 1 GHz, which jumps.
fn counter(state: &State) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [i64::from(libc::CLOCK_MONOTONIC), (&raw mut time) as i64, 0, 0, 0, 0];
    // SAFETY: a place for the time.
    unsafe { raw::syscall(libc::SYS_clock_gettime, args) };
    if state.is_armed()
        && let Some(number) = trap::draw(state)
        && let Some(kind) = pick(state, number, &[Kind::CounterJump, Kind::CounterBack])
        && state.note(kind, 0, 0)
    {
        let jump = ((number >> 16) % state.jump_ns.load(Ordering::Relaxed).max(1)) as i64;
        let jump = if kind == Kind::CounterJump { jump } else { -jump };
        state.counter_ns.fetch_add(jump, Ordering::Relaxed);
    }
    let ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    // Far from zero, so that it can go back.
    (ns + (1 << 60) + state.counter_ns.load(Ordering::Relaxed)) as u64
}

fn forbid_counter() -> Result<(), String> {
    // SAFETY: an action that is filled in whole, and a number for prctl.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) == 0
            && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) == 0
    };
    if done { Ok(()) } else { Err("this system does not let the cycle counter be taken".into()) }
}

/// `rdtsc` or `rdtscp` is answered; every other fault ends the process as it would have.
extern "C" fn on_fault(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context of this signal.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the instruction that faulted; a jump to nowhere faults here again, and ends the process.
    let code = unsafe { [at.read_volatile(), at.add(1).read_volatile()] };
    let length = match code {
        [0x0F, 0x31] => 2,
        [0x0F, 0x01] => 3,
        _ => {
            // SAFETY: back to how it was; the instruction faults again.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            return;
        }
    };
    let now = trap::state().map_or(0, counter);
    registers[libc::REG_RAX as usize] = (now & 0xFFFF_FFFF) as i64;
    registers[libc::REG_RDX as usize] = (now >> 32) as i64;
    registers[libc::REG_RIP as usize] += length;
}

/// Overwrites the vDSO's clock functions with system calls of the same meaning.
fn patch() -> Result<(), String> {
    // SAFETY: no pointers.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    if vdso == 0 {
        return Ok(());
    }
    // SAFETY: the kernel's own pages, private to this process; nothing else runs yet.
    let opened =
        unsafe { libc::mprotect(vdso as *mut _, 8192, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) };
    if opened != 0 {
        return Err("this system does not let its vDSO be changed".into());
    }
    for (name, nr) in [
        (c"__vdso_clock_gettime", libc::SYS_clock_gettime),
        (c"__vdso_gettimeofday", libc::SYS_gettimeofday),
        (c"__vdso_time", libc::SYS_time),
    ] {
        let Some(function) = symbol(vdso, name) else { continue };
        // mov eax, nr; syscall; ret
        let mut code = [0xB8, 0, 0, 0, 0, 0x0F, 0x05, 0xC3];
        code[1..5].copy_from_slice(&(nr as u32).to_le_bytes());
        // SAFETY: writable since above, and longer than this.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), function as *mut u8, code.len()) };
    }
    Ok(())
}

/// Where the vDSO has a function.
fn symbol(vdso: usize, name: &std::ffi::CStr) -> Option<usize> {
    /// # Safety
    /// There is a number.
    unsafe fn word(at: usize) -> usize {
        // SAFETY: the caller's.
        unsafe { (at as *const usize).read_unaligned() }
    }
    // SAFETY: an ELF image that the kernel made for this process: header, program headers, dynamic section, and the tables that it names.
    unsafe {
        let headers = vdso + word(vdso + 32);
        let count = *((vdso + 56) as *const u16) as usize;
        let kinds = (0..count).map(|i| headers + i * 56);
        let dynamic = kinds.clone().find(|at| *(*at as *const u32) == 2)?;
        let mut entry = vdso + word(dynamic + 16);
        let (mut strings, mut symbols, mut hash, mut gnu) = (0, 0, 0, 0);
        while word(entry) != 0 {
            let value = word(entry + 8);
            let value = if value < vdso { vdso + value } else { value };
            match word(entry) {
                4 => hash = value,
                5 => strings = value,
                6 => symbols = value,
                0x6FFF_FEF5 => gnu = value,
                _ => {}
            }
            entry += 16;
        }
        // As many as the hash table has chains; where there is only the GNU table, the strings come behind the symbols.
        let many = match (hash, gnu) {
            (0, 0) => return None,
            (0, _) => strings.checked_sub(symbols)? / 24,
            (hash, _) => *((hash + 4) as *const u32) as usize,
        };
        (0..many).map(|i| symbols + i * 24).find_map(|at| {
            let text = std::ffi::CStr::from_ptr((strings + *(at as *const u32) as usize) as *const _);
            (text == name).then(|| vdso + word(at + 8))
        })
    }
}
