//! Frames of an interface through rings that are shared with the kernel (AF_PACKET, TPACKET_V2).
//!
//! ```text
//!  one mapping:  │ receive ring: RX frames │ send ring: TX frames │
//!  a frame       │ tpacket2_hdr: status, lengths, where │ … frame … │
//!  status        the kernel's ── frame is there ──▶ ours ── read ──▶ the kernel's
//!                ours ── written ──▶ the kernel's ── sent ──▶ ours
//! ```
//! Why a socket of its own: `prove`'s lab has one for its link program, which passes on whole segments with what the sender left for hardware to
//! do, one frame a system call. A gateway changes packets, so it wants them whole, and many for one call.
//!
//! Ordering: **status** is stored with Release after the frame was written or read, and loaded with Acquire before: the kernel does the same.
//!
//! Bounds: [`RX`] and [`TX`] frames of [`FRAME`] bytes; what has no room is counted by the kernel. A frame that is longer than a slot is
//! cut by it, and then ends here.
//!
//! Sources: Documentation/networking/packet_mmap.rst.

use crate::packet::{Ipv4, Transport, ethernet, transport};
use crate::place::lane::Wire;
use crate::place::slots::MOST_FRAME;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames that wait to be read.
pub const RX: usize = 1024;
/// Frames that wait to be sent.
pub const TX: usize = 512;
/// Bytes of a frame's slot, header with it.
pub const FRAME: usize = 2048;
const BLOCK: usize = 64 << 10;
/// Where the frame begins that is to be sent.
const TX_DATA: usize = 32;

const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
const STATUS_COPY: u32 = 1 << 1;
const STATUS_NO_CHECKSUM: u32 = 1 << 3;
const STATUS_VLAN: u32 = 1 << 4;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;

/// The mapping and its socket.
struct Rings {
    socket: OwnedFd,
    start: NonNull<u8>,
}

// SAFETY: plain shared memory; `Rx` and `Tx`, which are one each, touch a ring of their own.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and both halves are gone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), (RX + TX) * FRAME) };
    }
}

impl Rings {
    /// The header of a frame: of the receive ring's first, then of the send ring's.
    fn header(&self, number: usize) -> *mut u8 {
        assert!(number < RX + TX, "a frame of the rings");
        self.start.as_ptr().wrapping_add(number * FRAME)
    }

    fn status(&self, number: usize) -> &AtomicU32 {
        // SAFETY: the header is aligned to 16 bytes, mapped as long as this is, and begins with the status.
        unsafe { &*self.header(number).cast::<AtomicU32>() }
    }
}

/// What comes.
pub struct Rx {
    rings: Arc<Rings>,
    next: usize,
}

/// What goes.
pub struct Tx {
    rings: Arc<Rings>,
    next: usize,
    waits: bool,
}

/// A frame in the receive ring.
pub struct Frame<'a> {
    bytes: &'a [u8],
    needs_checksum: bool,
    status: &'a AtomicU32,
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: an open socket, and an option that reads a value of this type, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens the socket of an interface in the calling thread's namespace.
///
/// # Errors
/// The system's: without CAP_NET_RAW in the namespace, permission denied.
pub fn open(name: &str) -> io::Result<(Rx, Tx)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // Protocol 0: no frames before it is bound to the one interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let index = super::interface::index(name)?;
    let ring = |frames: usize| libc::tpacket_req {
        tp_block_size: BLOCK as libc::c_uint,
        tp_block_nr: (frames * FRAME / BLOCK) as libc::c_uint,
        tp_frame_size: FRAME as libc::c_uint,
        tp_frame_nr: frames as libc::c_uint,
    };
    set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
    set(&socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
    // A frame that the kernel cannot send is skipped, and the ring goes on.
    set(&socket, libc::PACKET_LOSS, &1)?;
    set(&socket, libc::PACKET_RX_RING, &ring(RX))?;
    set(&socket, libc::PACKET_TX_RING, &ring(TX))?;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, as long as both rings.
    let start = unsafe { mmap(std::ptr::null_mut(), (RX + TX) * FRAME, prot, MapFlags::SHARED, &socket, 0)? };
    let start = NonNull::new(start.cast()).expect("mmap never returns null");
    let rings = Rings { socket, start };
    bind(&rings.socket, index)?;
    let rings = Arc::new(rings);
    Ok((Rx { rings: rings.clone(), next: 0 }, Tx { rings, next: 0, waits: false }))
}

fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: an open socket, and the address of a structure of this length that outlives the call.
    let result = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the socket has to say of its interface: it went down, or is gone.
pub fn error_of(rx: &Rx) -> io::Result<()> {
    match rustix::net::sockopt::socket_error(&rx.rings.socket)? {
        Ok(()) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

impl Rx {
    /// The next frame, if one is there.
    pub fn receive(&mut self) -> Option<Frame<'_>> {
        let (number, rings) = (self.next, &*self.rings);
        let status = rings.status(number);
        let said = status.load(Ordering::Acquire);
        if said & STATUS_USER == 0 {
            return None;
        }
        self.next = (number + 1) % RX;
        let header = rings.header(number);
        // SAFETY: the header is ours now, and the kernel wrote it: `tp_len`, `tp_snaplen` and `tp_mac` of tpacket2_hdr.
        let (len, kept, at) = unsafe {
            (
                header.add(4).cast::<u32>().read(),
                header.add(8).cast::<u32>().read(),
                header.add(12).cast::<u16>().read(),
            )
        };
        let (kept, at) = (kept as usize, usize::from(at));
        let is_whole = len as usize == kept && said & (STATUS_COPY | STATUS_VLAN) == 0;
        let fits = at + kept <= FRAME && kept <= MOST_FRAME;
        // One of another VLAN, or one that was cut, is shown as a frame without bytes: nobody's.
        let kept = if is_whole && fits { kept } else { 0 };
        // SAFETY: within the frame's slot, which is ours until its status says otherwise.
        let bytes = unsafe { std::slice::from_raw_parts(header.add(if kept == 0 { 0 } else { at }), kept) };
        Some(Frame { bytes, needs_checksum: said & STATUS_NO_CHECKSUM != 0, status })
    }

    /// Whether a frame is there.
    pub fn is_ready(&self) -> bool {
        self.rings.status(self.next).load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// Frames that had no room since this was asked last.
    pub fn missed(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: an open socket, and a structure of this length that the option fills.
        let result = unsafe {
            libc::getsockopt(
                self.rings.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result == 0 { u64::from(stats.tp_drops) } else { 0 }
    }
}

impl AsFd for Rx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rings.socket.as_fd()
    }
}

impl Frame<'_> {
    /// Copies it to where it fits, with the checksum that its sender left to hardware; how long it is.
    pub fn copy(&self, to: &mut [u8]) -> usize {
        let to = &mut to[..self.bytes.len()];
        to.copy_from_slice(self.bytes);
        if self.needs_checksum
            && let Some(packet) = to.get_mut(ethernet::HEADER..)
            && let Ok(ip) = Ipv4::parse(packet)
            && let Some(read) = transport(packet, &ip)
            && ip.len - ip.header >= read.flow.proto.header()
        {
            Transport::fill_checksum(packet, &ip, read.flow.proto);
        }
        to.len()
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        // status: the slot is the kernel's again.
        self.status.store(STATUS_KERNEL, Ordering::Release);
    }
}

impl Tx {
    /// Writes a frame to the ring; whether there was room.
    fn put(&mut self, frame: &[u8]) -> bool {
        let number = RX + self.next;
        let is_free = |said: u32| said == STATUS_KERNEL || said == WRONG_FORMAT;
        if !is_free(self.rings.status(number).load(Ordering::Acquire)) {
            self.flush();
            if !is_free(self.rings.status(number).load(Ordering::Acquire)) {
                return false;
            }
        }
        if frame.len() > FRAME - TX_DATA {
            return false;
        }
        let header = self.rings.header(number);
        // SAFETY: the slot is ours, and the frame fits behind its header; `tp_len` is the second word.
        unsafe {
            header.add(TX_DATA).copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            header.add(4).cast::<u32>().write(frame.len() as u32);
        }
        self.rings.status(number).store(SEND_REQUEST, Ordering::Release);
        self.next = (self.next + 1) % TX;
        self.waits = true;
        true
    }

    /// Has the kernel send what was written.
    pub fn flush(&mut self) {
        if !self.waits {
            return;
        }
        self.waits = false;
        // SAFETY: an open socket; no bytes are named, the ring has them.
        let sent = unsafe {
            libc::sendto(
                self.rings.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        // What the interface has no room for now is sent with what comes next.
        if sent < 0
            && matches!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)
            )
        {
            self.waits = true;
        }
    }

    /// Frames wait that the kernel did not take.
    pub fn waits(&self) -> bool {
        self.waits
    }
}

/// All interfaces' send rings, by number.
pub struct Wires(pub Vec<Tx>);

impl Wire for Wires {
    fn send(&mut self, interface: u8, frame: &[u8]) -> bool {
        self.0.get_mut(usize::from(interface)).is_some_and(|tx| tx.put(frame))
    }
}
