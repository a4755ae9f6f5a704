//! Network interfaces: number, MTU, namespace, and what a refused attachment means.

use crate::error::LoadError;
use crate::options::Mode;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Of an interface in the calling thread's namespace.
pub(crate) fn number(name: &str) -> Result<u32, LoadError> {
    let none = || LoadError::NoInterface(name.into());
    let c_name = CString::new(name).map_err(|_| none())?;
    // SAFETY: a string that ends with 0 and lives until the call is over.
    let number = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
    if number == 0 { Err(none()) } else { Ok(number) }
}

/// Bytes of the longest IP packet of an interface; 1500 where it cannot be asked.
pub(crate) fn mtu(name: &str) -> u32 {
    // SAFETY: plain numbers, all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    let Ok(socket) = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)) else { return 1500 };
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of the structure that it is given.
    let result = unsafe { libc::ioctl(fd, libc::SIOCGIFMTU as _, &mut request) };
    // SAFETY: the call wrote this member of the union; before it was zeros, a number as well.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    if result == 0 { mtu.unsigned_abs() } else { 1500 }
}

/// What names the calling thread's network namespace, while it exists.
pub(crate) fn namespace() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |meta| meta.ino())
}

/// An attachment that failed, for another reason than that a program is there.
pub(crate) fn refusal(name: &str, mode: Mode, error: io::Error) -> LoadError {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => LoadError::Occupied(name.into()),
        Some(libc::EPERM | libc::EACCES) => LoadError::Permission,
        Some(libc::ENODEV) => LoadError::NoInterface(name.into()),
        Some(libc::EINVAL) if mode == Mode::Generic => LoadError::KernelTooOld("XDP links"),
        _ if mode == Mode::Native => LoadError::NativeRefused { interface: name.into(), error },
        _ => LoadError::Os { call: "attaching the XDP program", error },
    }
}
