//! The filter, the handler, and how they get into a process.

use crate::call::{Class, TRAPPED, class};
use crate::control::{Control, State};
use crate::{CONTROL, ONLY, clock, decide, raw};
use base::prng::mix64;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

static STATE: OnceLock<&'static State> = OnceLock::new();
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// What a test says.
pub fn state() -> Option<&'static State> {
    STATE.get().copied()
}

/// Runs before `main` of whatever it is loaded into.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    let Some(path) = std::env::var_os(CONTROL) else { return };
    if let Some(word) = std::env::var_os(ONLY) {
        let words = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        if !words.split(|byte| *byte == 0).any(|argument| argument == word.as_encoded_bytes()) {
            return;
        }
    }
    match Control::open(Path::new(&path)) {
        Ok((state, process)) => {
            PROCESS.store(process, Ordering::Relaxed);
            let _ = STATE.set(state);
            install();
        }
        Err(e) => {
            eprintln!("{CONTROL}={}: {e}", path.display());
            std::process::abort();
        }
    }
}

fn install() {
    clock::install();
    // SAFETY: an action that is filled in whole; the handler keeps to what a handler may do.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_call as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut())
    };
    assert_eq!(installed, 0, "SIGSYS has a handler");
    filter();
}

/// `if nr is none of TRAPPED, or the call is ours, or glibc's own futex: allow; else: trap`.
///
/// glibc waits for its own locks with all signals blocked (a thread that ends, or is started, and its list of stacks): the kernel would end the
/// process over a trap there. What the program asks for by `syscall` is not that.
fn filter() {
    let load = |offset: u32| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let jump = |test: u32, value: u32, yes: u8, no: u8| {
        instruction(libc::BPF_JMP | test | libc::BPF_K, yes, no, value)
    };
    let equal = |value: u32, yes: u8, no: u8| jump(libc::BPF_JEQ, value, yes, no);
    let end = |action: u32| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    let mut program = vec![load(0)];
    let count = TRAPPED.len();
    for (i, (nr, _)) in TRAPPED.iter().enumerate() {
        // To the first instruction behind `allow`.
        program.push(equal(*nr as u32, (count - i) as u8, 0));
    }
    program.push(end(libc::SECCOMP_RET_ALLOW));
    if let Some(libc) = raw::libc() {
        let low = |address: u64| address as u32;
        program.extend([
            equal(libc::SYS_futex as u32, 0, 7),
            load(12),
            equal((libc.text.start >> 32) as u32, 0, 5),
            load(8),
            jump(libc::BPF_JGE, low(libc.text.start), 0, 3),
            jump(libc::BPF_JGE, low(libc.text.end), 2, 0),
            equal(low(libc.syscall), 1, 0),
            end(libc::SECCOMP_RET_ALLOW),
        ]);
    }
    let after = raw::after();
    // The instruction pointer is at offset 8, the lower half first.
    program.extend([load(8), equal(after as u32, 0, 3), load(12), equal((after >> 32) as u32, 0, 1)]);
    program.extend([end(libc::SECCOMP_RET_ALLOW), end(libc::SECCOMP_RET_TRAP)]);
    let length = program.len() as u16;
    let list = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: numbers, and a program that lives until the kernel has copied it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &list) == 0
    };
    if !done {
        eprintln!("{CONTROL}: this system allows no seccomp filter: {}", std::io::Error::last_os_error());
        std::process::abort();
    }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// A call that was trapped: makes it, or says what went wrong with it.
extern "C" fn on_call(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context of this signal, which is ours until the handler returns.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let register = |name: i32| registers[name as usize];
    let nr = register(libc::REG_RAX);
    let args = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
    let args = args.map(register);
    registers[libc::REG_RAX as usize] = answer(nr, args);
}

fn answer(nr: i64, args: [i64; 6]) -> i64 {
    // SAFETY: the program's own call, with its own arguments.
    let really = || unsafe { raw::syscall(nr, args) };
    let (Some(state), Some(class)) = (state(), class(nr)) else { return really() };
    match class {
        Class::Watch => {
            decide::note_watch(args);
            really()
        }
        Class::Clock => clock::answer(state, args),
        _ if !state.is_armed() => really(),
        _ => {
            state.calls.fetch_add(1, Ordering::Relaxed);
            match draw(state) {
                Some(number) => decide::answer(state, class, nr, args, number),
                None => really(),
            }
        }
    }
}

/// A thread's stream.
struct Thread {
    id: AtomicI32,
    at: AtomicU64,
}

const THREADS: usize = 1024;
static ALL: [Thread; THREADS] = [const { Thread { id: AtomicI32::new(0), at: AtomicU64::new(0) } }; THREADS];
/// How many threads of a name there were, by the name's hash.
static NAMED: [AtomicU32; 256] = [const { AtomicU32::new(0) }; 256];

/// The next number of this thread's stream.
pub fn draw(state: &State) -> Option<u64> {
    // SAFETY: no arguments.
    let id = unsafe { raw::syscall(libc::SYS_gettid, [0; 6]) } as i32;
    for step in 0..16 {
        let thread = &ALL[(id as usize + step) % THREADS];
        let found = thread.id.load(Ordering::Relaxed);
        if found == id
            || found == 0 && thread.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            if found == 0 {
                thread.at.store(begin(state), Ordering::Relaxed);
            }
            return Some(mix64(thread.at.fetch_add(1, Ordering::Relaxed)));
        }
    }
    None
}

/// Where the stream of the calling thread begins.
fn begin(state: &State) -> u64 {
    let mut name = [0u8; 16];
    let args = [libc::PR_GET_NAME as i64, name.as_mut_ptr() as i64, 0, 0, 0, 0];
    // SAFETY: 16 bytes for the name are what the call wants.
    unsafe { raw::syscall(libc::SYS_prctl, args) };
    let name = mix64(u128::from_le_bytes(name) as u64) ^ (u128::from_le_bytes(name) >> 64) as u64;
    let ordinal = NAMED[(name % 256) as usize].fetch_add(1, Ordering::Relaxed);
    let process = u64::from(PROCESS.load(Ordering::Relaxed)) << 32;
    mix64(mix64(state.seed.load(Ordering::Relaxed) ^ name).wrapping_add(process | u64::from(ordinal)))
}
