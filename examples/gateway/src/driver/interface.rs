//! What the system knows of an interface, by ioctl in the namespace of the calling thread.

use crate::config::Known;
use crate::packet::Mac;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Of `ethtool`: the commands that set these, by number.
const OFFLOADS: [(&str, u32); 4] =
    [("generic receive", 0x2C), ("checksums", 0x17), ("segmentation", 0x1F), ("generic segmentation", 0x24)];

/// A socket to ask by.
fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

fn request_of(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface's name has 1 to 15 bytes"));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    Ok(request)
}

fn ask(request: &mut libc::ifreq, what: libc::c_ulong) -> io::Result<()> {
    let socket = any_socket()?;
    // SAFETY: an open socket, and a request of the form that `what` reads and writes, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, std::ptr::from_mut(request)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Its hardware address and MTU.
///
/// # Errors
/// There is none of that name, or it is no Ethernet.
pub fn known(name: &str) -> Result<Known, String> {
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENODEV) => format!("there is no interface {name}: `ip link` lists them"),
        _ => format!("asking for the interface {name}: {error}"),
    };
    let mut request = request_of(name).map_err(failed)?;
    ask(&mut request, libc::SIOCGIFMTU as _).map_err(failed)?;
    // SAFETY: the call before wrote this field.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu } as usize;
    ask(&mut request, libc::SIOCGIFHWADDR as _).map_err(failed)?;
    // SAFETY: the call before wrote this field.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    if address.sa_family != libc::ARPHRD_ETHER {
        return Err(format!("{name} is no Ethernet: the gateway needs hardware addresses"));
    }
    let mut mac = [0; 6];
    for (to, byte) in mac.iter_mut().zip(address.sa_data) {
        *to = byte as u8;
    }
    Ok(Known { mac: Mac(mac), mtu })
}

/// Its number.
///
/// # Errors
/// The system's; there is none of that name.
pub fn index(name: &str) -> io::Result<i32> {
    let mut request = request_of(name)?;
    ask(&mut request, libc::SIOCGIFINDEX as _)?;
    // SAFETY: the call before wrote this field.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// Whether it is up.
///
/// # Errors
/// As [`index`].
pub fn is_up(name: &str) -> io::Result<bool> {
    let mut request = request_of(name)?;
    ask(&mut request, libc::SIOCGIFFLAGS as _)?;
    // SAFETY: the call before wrote this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

/// Has an interface take frames as they come from the cable: what the system joins on receipt would not fit the next link. With `senders`, which
/// is for the hosts of a laboratory, what they send is whole packets with whole checksums, too. Those that could not be set.
pub fn without_offloads(name: &str, senders: bool) -> Vec<&'static str> {
    let set = |command: u32| -> io::Result<()> {
        // `struct ethtool_value`.
        let mut value = [command, 0_u32];
        let mut request = request_of(name)?;
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        ask(&mut request, SIOCETHTOOL)
    };
    let all = OFFLOADS.iter().take(if senders { OFFLOADS.len() } else { 1 });
    all.filter(|(_, command)| set(*command).is_err()).map(|(what, _)| *what).collect()
}
