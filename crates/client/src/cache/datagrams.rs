//! Datagrams in batches: many received by one call, many sent by one call.
//!
//! ```text
//!   Arrivals     BATCH places of a whole datagram each, filled by recvmmsg
//!   Departures   packets one after the other, sent by sendmmsg
//! ```
//!
//! Why not `quinn-udp`, as `fabric` has: it forbids the network to split datagrams, and a packet may be longer than the network's. Why a
//! place for a whole datagram each: memory that no datagram reached is never touched, so long places cost addresses only.
//!
//! Order: both keep it. A datagram that the system does not take is dropped, and those after it are tried.
//!
//! Bounds: 4 MiB of addresses for arrivals, of which small datagrams touch a page per place. Departures are [`Departures::is_full`] at
//! [`BATCH`], or at 256 KiB.
//!
//! Cost: `docs/measurements/box.md`, "Datagrams in batches".

use protocol::wire::MAX_DATAGRAM;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Datagrams of one call, at most.
pub const BATCH: usize = 64;
/// Bytes of departures that should not wait for more.
const ENOUGH: usize = 256 << 10;
/// One byte more than a datagram, to tell one that is too long. Not a power of two: the heads of all places would share one set of the
/// processor's cache.
const PLACE: usize = (MAX_DATAGRAM + 1).next_multiple_of(64) + 64;
/// As long as an address of either family: `sockaddr_in6`.
const NAME: usize = 28;

/// Received datagrams, and room for more.
pub struct Arrivals {
    bytes: Vec<u8>,
    names: [[u8; NAME]; BATCH],
    lengths: [usize; BATCH],
}

impl Arrivals {
    /// Room for [`BATCH`].
    pub fn new() -> Arrivals {
        Arrivals { bytes: vec![0; PLACE * BATCH], names: [[0; NAME]; BATCH], lengths: [0; BATCH] }
    }

    /// Receives what waits in a socket that does not block, at most `most`, over what was received before; how many.
    ///
    /// # Errors
    /// The system's: `WouldBlock` where nothing waits.
    pub fn receive(&mut self, socket: &UdpSocket, most: usize) -> io::Result<usize> {
        let places = self.bytes.chunks_exact_mut(PLACE).zip(&mut self.names).take(most);
        let (mut parts, names): (Vec<libc::iovec>, Vec<*mut u8>) = places
            .map(|(place, name)| {
                let part = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
                (part, name.as_mut_ptr())
            })
            .unzip();
        let header = |(part, name): (&mut libc::iovec, *mut u8)| {
            // SAFETY: integers and pointers. musl's has padding besides, which no literal can name.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = name.cast();
            header.msg_hdr.msg_namelen = NAME as libc::socklen_t;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let mut headers: Vec<libc::mmsghdr> = parts.iter_mut().zip(names).map(header).collect();
        let room = headers.len() as libc::c_uint;
        // SAFETY: there are `room` headers; each points to one part and to a name, which are lent to nobody else until the call returns
        // and are as long as the header says.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), room, 0, std::ptr::null_mut())
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (length, header) in self.lengths.iter_mut().zip(&headers[..count]) {
            *length = header.msg_len as usize;
        }
        Ok(count)
    }

    /// The `at`-th of those that were received last, and who sent it; none where that is no address of the internet.
    pub fn datagram(&self, at: usize) -> (Option<SocketAddr>, &[u8]) {
        (address(&self.names[at]), &self.bytes[at * PLACE..][..self.lengths[at]])
    }
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals::new()
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

/// What the kernel wrote: `sockaddr_in` or `sockaddr_in6`.
fn address(name: &[u8; NAME]) -> Option<SocketAddr> {
    let two = |at: usize| [name[at], name[at + 1]];
    let four = |at: usize| *name[at..].first_chunk::<4>().expect("a name is long enough");
    let port = u16::from_be_bytes(two(2));
    match i32::from(u16::from_ne_bytes(two(0))) {
        libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(four(4)), port).into()),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*name[8..].first_chunk::<16>().expect("a name is long enough"));
            let (flow, scope) = (u32::from_ne_bytes(four(4)), u32::from_ne_bytes(four(24)));
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

/// Packets to be sent, in order.
#[derive(Debug, Default)]
pub struct Departures {
    bytes: Vec<u8>,
    packets: Vec<(SocketAddr, Range<usize>)>,
}

impl Departures {
    /// One more: what `emit` appends.
    pub fn push(&mut self, to: SocketAddr, emit: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        emit(&mut self.bytes);
        self.packets.push((to, start..self.bytes.len()));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether they should be sent before others are added.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= BATCH || self.bytes.len() >= ENOUGH
    }

    /// Sends all; how many the system took. The others are lost.
    pub fn send(&mut self, socket: &UdpSocket) -> usize {
        let sent = match self.packets.as_slice() {
            [] => 0,
            [(to, range)] => usize::from(socket.send_to(&self.bytes[range.clone()], *to).is_ok()),
            packets => send_many(socket, &self.bytes, packets),
        };
        self.packets.clear();
        self.bytes.clear();
        sent
    }
}

fn send_many(socket: &UdpSocket, bytes: &[u8], packets: &[(SocketAddr, Range<usize>)]) -> usize {
    let names: Vec<SocketAddrAny> = packets.iter().map(|(to, _)| to.as_any()).collect();
    let parts: Vec<[IoSlice<'_>; 1]> =
        packets.iter().map(|(_, range)| [IoSlice::new(&bytes[range.clone()])]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        packets.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut headers: Vec<MMsgHdr<'_>> = names
        .iter()
        .zip(&parts)
        .zip(&mut controls)
        .map(|((name, part), control)| MMsgHdr::new_with_addr(name, part, control))
        .collect();
    let (mut at, mut sent) = (0, 0);
    while at < headers.len() {
        match sendmmsg(socket, &mut headers[at..], SendFlags::empty()) {
            Ok(count) => {
                at += count.max(1);
                sent += count;
            }
            Err(rustix::io::Errno::INTR) => {}
            // The first of them was not taken.
            Err(_) => at += 1,
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).expect("loopback has ports");
        socket.set_nonblocking(true).expect("sockets can");
        socket
    }

    /// Over loopback what was sent waits in the other's socket when the call returns.
    fn receive_all(arrivals: &mut Arrivals, socket: &UdpSocket) -> Vec<(Option<SocketAddr>, Vec<u8>)> {
        let mut all = Vec::new();
        while let Ok(count) = arrivals.receive(socket, BATCH) {
            all.extend(
                (0..count).map(|at| arrivals.datagram(at)).map(|(from, bytes)| (from, bytes.to_vec())),
            );
        }
        all
    }

    #[test]
    fn batches_arrive_whole_and_in_order() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let (from, to) = (socket(loopback), socket(loopback));
            let (here, there) = (from.local_addr().expect("bound"), to.local_addr().expect("bound"));
            let (mut departures, mut arrivals) = (Departures::default(), Arrivals::new());
            assert_eq!(departures.send(&from), 0);
            // One that is too long for any datagram is lost alone.
            let lengths = [0, 1, 1400, 1 << 16, 9000, MAX_DATAGRAM, 3];
            for (at, length) in lengths.into_iter().enumerate() {
                departures.push(there, |bytes| bytes.extend(std::iter::repeat_n(at as u8, length)));
            }
            assert_eq!(departures.send(&from), lengths.len() - 1);
            assert!(departures.is_empty());
            let wanted: Vec<_> = (0u8..)
                .zip(lengths)
                .filter(|(_, length)| *length <= MAX_DATAGRAM)
                .map(|(at, length)| (Some(here), vec![at; length]))
                .collect();
            assert!(receive_all(&mut arrivals, &to) == wanted);
        }
    }

    #[test]
    fn no_more_are_received_than_asked_for_and_none_is_said() {
        let (from, to) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let there = to.local_addr().expect("bound");
        let (mut departures, mut arrivals) = (Departures::default(), Arrivals::new());
        for at in 0..BATCH as u8 {
            assert!(!departures.is_full());
            departures.push(there, |bytes| bytes.push(at));
        }
        assert!(departures.is_full());
        assert_eq!(departures.send(&from), BATCH);
        assert_eq!(arrivals.receive(&to, 5).expect("they wait"), 5);
        assert_eq!(arrivals.datagram(4).1, [4]);
        assert_eq!(receive_all(&mut arrivals, &to).len(), BATCH - 5);
        let error = arrivals.receive(&to, BATCH).expect_err("nothing waits");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
