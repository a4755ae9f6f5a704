//! The system calls that are looked at.

use libc::*;

/// What a call does, as far as faults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// read, recv, recvfrom; and the vectors and messages of them.
    Read,
    /// write, send, sendto; and the vectors and messages of them.
    Write,
    /// recvmmsg.
    ReadMany,
    /// sendmmsg.
    WriteMany,
    /// accept.
    Accept,
    /// open, socket, eventfd: gives a descriptor.
    Open,
    /// fsync, fdatasync, rename, truncate, allocate.
    File,
    /// epoll, poll, futex.
    Wait,
    /// epoll_ctl: noted only.
    Watch,
    /// clock_gettime.
    Clock,
}

/// Number and class of each. `writev` and so on are looked at because their caller may be anybody, std and tokio too.
pub const TRAPPED: &[(i64, Class)] = &[
    (SYS_read, Class::Read),
    (SYS_pread64, Class::Read),
    (SYS_readv, Class::Read),
    (SYS_recvfrom, Class::Read),
    (SYS_recvmsg, Class::Read),
    (SYS_recvmmsg, Class::ReadMany),
    (SYS_write, Class::Write),
    (SYS_pwrite64, Class::Write),
    (SYS_writev, Class::Write),
    (SYS_sendto, Class::Write),
    (SYS_sendmsg, Class::Write),
    (SYS_sendmmsg, Class::WriteMany),
    (SYS_accept, Class::Accept),
    (SYS_accept4, Class::Accept),
    (SYS_openat, Class::Open),
    (SYS_socket, Class::Open),
    (SYS_eventfd2, Class::Open),
    (SYS_fsync, Class::File),
    (SYS_fdatasync, Class::File),
    (SYS_ftruncate, Class::File),
    (SYS_fallocate, Class::File),
    (SYS_rename, Class::File),
    (SYS_renameat, Class::File),
    (SYS_renameat2, Class::File),
    (SYS_epoll_wait, Class::Wait),
    (SYS_epoll_pwait, Class::Wait),
    (SYS_epoll_pwait2, Class::Wait),
    (SYS_poll, Class::Wait),
    (SYS_ppoll, Class::Wait),
    (SYS_futex, Class::Wait),
    (SYS_epoll_ctl, Class::Watch),
    (SYS_clock_gettime, Class::Clock),
];

/// The class of a call.
pub fn class(nr: i64) -> Option<Class> {
    TRAPPED.iter().find(|(number, _)| *number == nr).map(|(_, class)| *class)
}
