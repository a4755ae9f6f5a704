//! Why the fast tier cannot be had, and what to do about it. The user tier works without it.

use std::fmt;
use std::io;

/// See each. Its text says what to do.
#[derive(Debug)]
pub enum LoadError {
    /// Not x86-64: the seqlock needs its order of loads and stores.
    Architecture,
    /// Not root, or without the capabilities.
    Permission,
    /// The kernel was built without eBPF, or a sandbox hides it.
    NoBpf,
    /// It lacks something.
    KernelTooOld(&'static str),
    /// The verifier refused the program, with its last lines.
    Refused(String),
    /// A file that is no XDP program of a box.
    BadObject(String),
    /// No interface of this name in this network namespace.
    NoInterface(String),
    /// The interface's driver cannot run XDP.
    NativeRefused {
        /// Its name.
        interface: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// Another program than ours, or one of ours that cannot be taken over.
    Occupied(String),
    /// A box that lives has the interface.
    InUse {
        /// Its name.
        interface: String,
        /// The box's process.
        process: u32,
    },
    /// A system call failed for another reason.
    Os {
        /// Which.
        call: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Architecture => {
                f.write_str("the XDP tier is for x86-64 only; the user tier answers everything")
            }
            LoadError::Permission => f.write_str(
                "XDP needs root, or the capabilities CAP_BPF and CAP_NET_ADMIN; the user tier needs neither",
            ),
            LoadError::NoBpf => f.write_str("this kernel offers no bpf(2): use the user tier alone"),
            LoadError::KernelTooOld(what) => {
                write!(f, "this kernel lacks {what}: XDP needs Linux 5.18 or later")
            }
            LoadError::Refused(log) => write!(f, "the kernel's verifier refused the XDP program: {log}"),
            LoadError::BadObject(what) => {
                write!(f, "this object file holds no program for a box: {what}; `bpf/build` makes one")
            }
            LoadError::NoInterface(name) => {
                write!(f, "no interface {name} in this network namespace; `ip link` lists them")
            }
            LoadError::NativeRefused { interface, error } => write!(
                f,
                "{interface} cannot run XDP in its driver ({error}): try the generic mode, or an MTU up to 1500 on it and its peer"
            ),
            LoadError::Occupied(name) => write!(
                f,
                "an XDP program that is not this box's is on {name}; `ip link show {name}` names it, `ip link set {name} xdp off` \
                 (or the end of its owner) takes it off"
            ),
            LoadError::InUse { interface, process } => {
                write!(
                    f,
                    "the box of process {process} is on {interface}: end it, or have it hand over first"
                )
            }
            LoadError::Os { call, error } => write!(f, "{call}: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl LoadError {
    pub(crate) fn of(call: &'static str, error: io::Error) -> LoadError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LoadError::Permission,
            Some(libc::ENOSYS) => LoadError::NoBpf,
            _ => LoadError::Os { call, error },
        }
    }
}
