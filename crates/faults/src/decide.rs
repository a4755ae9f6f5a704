//! What goes wrong with a call: what may, of that what the thread's number says, and how it is done.
//!
//! | call | on | may |
//! |---|---|---|
//! | read, recv | stream | Short, Again (nonblocking), Interrupted (blocking), Reset |
//! | | datagrams | Again (nonblocking), Lost |
//! | | file | Short, Broken |
//! | write, send | stream | Short, Again (nonblocking), Interrupted (blocking), Reset |
//! | | datagrams | Again (nonblocking), Lost, NoBuffers |
//! | | file | Short, NoSpace, Broken |
//! | recvmmsg, sendmmsg | datagrams | as above; Short is fewer datagrams |
//! | accept | listener | Again (nonblocking), Aborted, NoDescriptors, Interrupted (blocking) |
//! | open, socket, eventfd | | NoDescriptors |
//! | fsync, fdatasync, rename, truncate, allocate | file | NoSpace, Broken, Slow (syncs) |
//! | epoll, poll, futex wait | | Interrupted |
//!
//! Neither Short nor Again where an edge-triggered epoll watches, and no Again or Short for a single byte: a bell's full pipe is the only one that
//! says that.

#![allow(non_upper_case_globals, reason = "the names are libc's")]

use crate::call::Class;
use crate::control::{Kind, Lie, OUT_OF, State};
use crate::raw::syscall;
use libc::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors in edge-triggered epolls, a bit each.
static EDGE: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// Listeners that accept no more, by [`Lie::NoDescriptorsEndsAccepting`].
static DEAF: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn has(bits: &[AtomicU64; 1024], fd: i64) -> bool {
    bits.get(fd as usize / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 != 0)
}

fn set(bits: &[AtomicU64; 1024], fd: i64, to: bool) {
    let Some(word) = bits.get(fd as usize / 64) else { return };
    let bit = 1 << (fd % 64);
    if to {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// Remembers what is watched for edges.
pub fn note_watch(args: [i64; 6]) {
    let [_, operation, fd, event, ..] = args;
    let is_edge = operation != i64::from(EPOLL_CTL_DEL) && event != 0 && {
        // SAFETY: the program's event, which the kernel is about to read.
        let events = unsafe { (event as *const u32).read_unaligned() };
        events & EPOLLET as u32 != 0
    };
    set(&EDGE, fd, is_edge);
}

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Stream,
    Datagrams,
    File,
    Other,
}

/// A call that something may happen to.
struct Call {
    nr: i64,
    args: [i64; 6],
    class: Class,
    of: Of,
    can_wait: bool,
    is_edge: bool,
    is_direct: bool,
}

fn error(errno: i32) -> i64 {
    -i64::from(errno)
}

impl Call {
    fn new(nr: i64, class: Class, args: [i64; 6]) -> Call {
        let fd = args[0];
        let is_of_descriptor = !matches!(class, Class::Wait | Class::Open) && !is_rename(nr);
        let of = if is_of_descriptor { of(fd) } else { Of::Other };
        let flags = if is_of_descriptor {
            // SAFETY: no pointers.
            unsafe { syscall(SYS_fcntl, [fd, F_GETFL.into(), 0, 0, 0, 0]) }
        } else {
            0
        };
        let asked = match nr {
            SYS_recvfrom | SYS_sendto | SYS_recvmmsg | SYS_sendmmsg => args[3],
            SYS_recvmsg | SYS_sendmsg => args[2],
            _ => 0,
        };
        let can_wait = flags & i64::from(O_NONBLOCK) == 0 && asked & i64::from(MSG_DONTWAIT) == 0;
        let is_special = asked & i64::from(MSG_PEEK | MSG_ERRQUEUE) != 0;
        let of = if is_special { Of::Other } else { of };
        let is_direct = flags & i64::from(O_DIRECT) != 0;
        Call { nr, args, class, of, can_wait, is_edge: has(&EDGE, fd), is_direct }
    }

    /// Makes it.
    fn really(&self) -> i64 {
        // SAFETY: the program's own call.
        unsafe { syscall(self.nr, self.args) }
    }

    /// Bytes that are asked for or offered, or datagrams.
    fn total(&self) -> u64 {
        match self.nr {
            SYS_readv | SYS_writev => bytes(self.args[1] as *const iovec, self.args[2] as usize),
            SYS_recvmsg | SYS_sendmsg => {
                // SAFETY: the program's own message.
                let message = unsafe { &*(self.args[1] as *const msghdr) };
                bytes(message.msg_iov, message.msg_iovlen)
            }
            _ => self.args[2] as u64,
        }
    }

    /// Makes it for `n` bytes or datagrams only.
    fn partly(&self, n: u64) -> i64 {
        let mut args = self.args;
        match self.nr {
            SYS_readv | SYS_writev => {
                let (vector, count) = first(args[1] as *const iovec, args[2] as usize, n);
                (args[1], args[2]) = (vector.as_ptr() as i64, count);
                // SAFETY: the program's call with fewer of its own bytes.
                unsafe { syscall(self.nr, args) }
            }
            SYS_recvmsg | SYS_sendmsg => {
                // SAFETY: the program's own message.
                let message = unsafe { &mut *(args[1] as *mut msghdr) };
                let (old, many) = (message.msg_iov, message.msg_iovlen);
                let (mut vector, count) = first(old, many, n);
                (message.msg_iov, message.msg_iovlen) = (vector.as_mut_ptr(), count as usize);
                // SAFETY: as above.
                let result = unsafe { syscall(self.nr, args) };
                (message.msg_iov, message.msg_iovlen) = (old, many);
                result
            }
            _ => {
                args[2] = n as i64;
                // SAFETY: as above.
                unsafe { syscall(self.nr, args) }
            }
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.class, Class::Read | Class::ReadMany)
    }
}

fn is_rename(nr: i64) -> bool {
    matches!(nr, SYS_rename | SYS_renameat | SYS_renameat2)
}

fn is_sync(nr: i64) -> bool {
    matches!(nr, SYS_fsync | SYS_fdatasync)
}

fn bytes(vector: *const iovec, count: usize) -> u64 {
    // SAFETY: the program's own vector.
    (0..count.min(1024)).map(|i| unsafe { (*vector.add(i)).iov_len as u64 }).sum()
}

/// The first `n` bytes of a vector, of its first eight pieces.
fn first(vector: *const iovec, count: usize, mut n: u64) -> ([iovec; 8], i64) {
    let mut short = [const { iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; 8];
    let mut used = 0;
    for (i, place) in short.iter_mut().enumerate().take(count) {
        if n == 0 {
            break;
        }
        // SAFETY: the program's own vector.
        *place = unsafe { *vector.add(i) };
        place.iov_len = place.iov_len.min(n as usize);
        n -= place.iov_len as u64;
        used = i as i64 + 1;
    }
    (short, used)
}

fn of(fd: i64) -> Of {
    // Standard streams are the test's.
    if fd <= 2 {
        return Of::Other;
    }
    let (mut kind, mut length) = (0i32, 4u32);
    let args = [fd, SOL_SOCKET.into(), SO_TYPE.into(), (&raw mut kind) as i64, (&raw mut length) as i64, 0];
    // SAFETY: places for a number and its length.
    let result = unsafe { syscall(SYS_getsockopt, args) };
    match (result, kind) {
        (0, SOCK_STREAM) => return Of::Stream,
        (0, SOCK_DGRAM) => return Of::Datagrams,
        (0, _) => return Of::Other,
        _ => {}
    }
    // SAFETY: plain data, which the calls fill in.
    let (mut stat, mut system): (stat, statfs) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: places for what is asked.
    let done = unsafe {
        syscall(SYS_fstat, [fd, (&raw mut stat) as i64, 0, 0, 0, 0]) == 0
            && syscall(SYS_fstatfs, [fd, (&raw mut system) as i64, 0, 0, 0, 0]) == 0
    };
    let is_plain = stat.st_mode & S_IFMT == S_IFREG && !matches!(system.f_type, 0x9FA0 | 0x6265_6572);
    if done && is_plain { Of::File } else { Of::Other }
}

/// Which of these it is, if any.
pub fn pick(state: &State, number: u64, kinds: &[Kind]) -> Option<Kind> {
    let mut x = number % OUT_OF;
    for kind in kinds {
        let rate = state.rate(*kind);
        if x < rate {
            return Some(*kind);
        }
        x -= rate;
    }
    None
}

/// What may happen to calls of a class.
fn kinds(class: Class) -> &'static [Kind] {
    use Kind::*;
    match class {
        Class::Read => &[Short, Again, Interrupted, Reset, Broken, Lost],
        Class::Write => &[Short, Again, Interrupted, Reset, NoSpace, Broken, Lost, NoBuffers],
        Class::ReadMany => &[Short, Again],
        Class::WriteMany => &[Short, Again, Lost, NoBuffers],
        Class::Accept => &[Again, Interrupted, NoDescriptors, Aborted],
        Class::Open => &[NoDescriptors],
        Class::File => &[NoSpace, Broken, Slow],
        Class::Wait => &[Interrupted],
        Class::Watch | Class::Clock => &[],
    }
}

/// Whether a kernel does that.
fn may(call: &Call, kind: Kind, lie: Lie) -> bool {
    let is_socket = matches!(call.of, Of::Stream | Of::Datagrams);
    let is_several = matches!(call.class, Class::ReadMany | Class::WriteMany);
    match kind {
        Kind::Short => {
            let is_divisible = is_several || matches!(call.of, Of::Stream | Of::File);
            is_divisible && !call.is_edge && call.total() >= 2
        }
        Kind::Again if call.class == Class::Accept => !call.can_wait && !call.is_edge,
        Kind::Again => is_socket && !call.can_wait && !call.is_edge && call.total() >= 2,
        Kind::Interrupted if call.class == Class::Wait => {
            call.nr != SYS_futex || matches!(call.args[1] & 127, 0 | 9)
        }
        Kind::Interrupted => is_socket && call.can_wait,
        Kind::Reset => call.of == Of::Stream,
        Kind::NoSpace | Kind::Broken => call.of == Of::File || is_rename(call.nr),
        Kind::Slow => call.of == Of::File && is_sync(call.nr),
        Kind::Lost if lie == Lie::BellLost => {
            call.of == Of::Other && call.nr == SYS_write && call.total() == 8
        }
        Kind::Lost => call.of == Of::Datagrams && (!call.is_read() || !call.can_wait),
        Kind::NoBuffers => call.of == Of::Datagrams,
        Kind::NoDescriptors | Kind::Aborted => true,
        Kind::WallStep | Kind::CounterJump | Kind::CounterBack => false,
    }
}

/// Makes a call, or what becomes of it.
pub fn answer(state: &State, class: Class, nr: i64, args: [i64; 6], number: u64) -> i64 {
    let lie = state.lie();
    if class == Class::Accept && has(&DEAF, args[0]) {
        return error(EAGAIN);
    }
    let picked = pick(state, number, kinds(class));
    // SAFETY: the program's own call.
    let Some(kind) = picked else { return unsafe { syscall(nr, args) } };
    let call = Call::new(nr, class, args);
    if !may(&call, kind, lie) || !state.note(kind, nr, args[0]) {
        return call.really();
    }
    let more = number >> 16;
    match kind {
        Kind::Short => short(&call, lie, more),
        Kind::Again if lie == Lie::AgainCloses && call.of == Of::Stream => error(ECONNRESET),
        Kind::Again => error(EAGAIN),
        Kind::Interrupted => error(EINTR),
        Kind::Reset => {
            // SAFETY: no pointers.
            unsafe { syscall(SYS_shutdown, [args[0], SHUT_RDWR.into(), 0, 0, 0, 0]) };
            error(if call.is_read() || more & 1 == 0 { ECONNRESET } else { EPIPE })
        }
        Kind::NoDescriptors => {
            if lie == Lie::NoDescriptorsEndsAccepting && class == Class::Accept {
                set(&DEAF, args[0], true);
            }
            error(if more & 1 == 0 { EMFILE } else { ENFILE })
        }
        Kind::Aborted => error(ECONNABORTED),
        Kind::NoSpace if lie == Lie::NoSpaceTakenForWritten => {
            if class == Class::Write {
                call.total() as i64
            } else {
                0
            }
        }
        Kind::NoSpace => error(ENOSPC),
        Kind::Broken => error(EIO),
        Kind::Slow => {
            sleep(state.slow_ns.load(Ordering::Relaxed));
            call.really()
        }
        Kind::Lost => lost(&call),
        Kind::NoBuffers => error(ENOBUFS),
        Kind::WallStep | Kind::CounterJump | Kind::CounterBack => call.really(),
    }
}

fn short(call: &Call, lie: Lie, more: u64) -> i64 {
    let total = call.total();
    // Few bytes half of the time: a reader offers much room, of which any large part is all that there is.
    let most = if more & 1 == 0 { (total - 1).min(64) } else { total - 1 };
    let mut n = 1 + (more >> 1) % most;
    if call.is_direct {
        n -= n % 512;
    }
    if n == 0 {
        return call.really();
    }
    match lie {
        Lie::ShortTakenForEnd if call.of == Of::Stream && call.is_read() => 0,
        Lie::ShortTakenForWhole if call.of == Of::Stream && !call.is_read() => {
            let done = call.partly(n);
            if done < 0 { done } else { total as i64 }
        }
        Lie::ShortWrittenAgain if call.of == Of::Stream && !call.is_read() && !call.can_wait => {
            let done = call.partly(n);
            if done < 0 { done } else { error(EAGAIN) }
        }
        _ => call.partly(n),
    }
}

/// A datagram that arrives nowhere, or a bell that nobody hears.
fn lost(call: &Call) -> i64 {
    if call.is_read() {
        let result = call.really();
        return if result < 0 { result } else { error(EAGAIN) };
    }
    call.total() as i64
}

fn sleep(ns: u64) {
    let time = timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: a time to read; what is left of it is not wanted.
    unsafe { syscall(SYS_nanosleep, [(&raw const time) as i64, 0, 0, 0, 0, 0]) };
}
