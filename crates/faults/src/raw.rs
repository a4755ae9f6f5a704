//! System calls from the one instruction that the filter lets through.

use std::arch::global_asm;

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
