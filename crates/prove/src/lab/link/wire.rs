//! A packet socket on an interface of this namespace: whole frames, as they come from the cable.
//!
//! What a sender left for hardware to do, its checksum or its cutting into segments, is said in a header before each frame
//! (`PACKET_VNET_HDR`); the header is sent on with the frame, so that the receiver knows as much as it would on a plain cable.

use crate::lab::LabError;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The longest frame: a segment of 64 KiB before it is cut, and headers.
pub const MAX_FRAME: usize = (64 << 10) + 256;
/// What is asked of the kernel for frames that wait; it gives what it may.
const SOCKET_BUFFER: usize = 4 << 20;

/// The socket.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// On an interface.
    pub fn open(interface: &str) -> Result<Wire, LabError> {
        let failed = |cause| LabError::Io(format!("taking frames from {interface}"), cause);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0: no frames before it is bound to the one interface.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|errno| failed(errno.into()))?;
        let index = name_to_index(&socket, interface).map_err(|errno| failed(errno.into()))?;
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER);
        let wire = Wire { socket };
        wire.set(libc::PACKET_VNET_HDR, 1).map_err(failed)?;
        wire.set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(failed)?;
        wire.bind(index).map_err(failed)?;
        Ok(wire)
    }

    fn set(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: an open socket, and an option that reads one int, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: an open socket, and the address of a structure of this length that outlives the call.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The next frame, with its header, or none that waits.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.socket, buffer, RecvFlags::empty()) {
            Ok((len, _)) => Ok(Some(len)),
            // An interface that went down and up again says so once.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::NETDOWN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a frame with its header; whether the kernel took it.
    pub fn send(&self, frame: &[u8]) -> bool {
        send(&self.socket, frame, SendFlags::empty()).is_ok()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
