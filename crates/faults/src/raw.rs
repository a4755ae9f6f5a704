//! System calls from the one instruction that the filter lets through.

use std::arch::global_asm;
use std::ops::Range;

// The result is left as the kernel gives it: a negative errno is an error.
global_asm!(
    ".hidden millrace_faults_syscall",
    ".hidden millrace_faults_after",
    ".globl millrace_faults_syscall",
    ".globl millrace_faults_after",
    ".type millrace_faults_syscall, @function",
    "millrace_faults_syscall:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "millrace_faults_after:",
    "ret",
);

unsafe extern "C" {
    fn millrace_faults_syscall(nr: i64, a: i64, b: i64, c: i64, d: i64, e: i64, f: i64) -> i64;
    static millrace_faults_after: u8;
}

/// Makes the call.
///
/// # Safety
/// As the call itself asks.
pub unsafe fn syscall(nr: i64, args: [i64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller's.
    unsafe { millrace_faults_syscall(nr, a, b, c, d, e, f) }
}

/// The address behind the instruction, as the filter sees it.
pub fn after() -> u64 {
    std::ptr::addr_of!(millrace_faults_after) as u64
}

/// The C library, as far as the filter wants to know it.
pub struct Libc {
    /// Where its code is: within 4 GiB that have the same upper half.
    pub text: Range<u64>,
    /// Behind the instruction of its `syscall`.
    pub syscall: u64,
}

/// Where the C library is; none if that cannot be said, or the upper half of its addresses is not one.
pub fn libc() -> Option<Libc> {
    let function = libc::syscall as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let text = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        (rest.starts_with("r-x") && range.contains(&function)).then_some(range)
    })?;
    // SAFETY: the function's own code, some 40 bytes.
    let code = unsafe { std::slice::from_raw_parts(function as *const u8, 40) };
    let at = code.windows(2).position(|two| two == [0x0F, 0x05])?;
    (text.start >> 32 == text.end >> 32).then_some(Libc { text, syscall: function + at as u64 + 2 })
}
