//! One UDP socket, read and written in batches.
//!
//! Why a library below: segmentation offload (one call, up to 64 datagrams of one size), coalescing on receipt and `recvmmsg` are
//! control messages of many shapes; `quinn-udp` knows them and falls back where a kernel has none.
//!
//! Shape: datagrams of one length to one address form a *run*, which goes out in one call; a shorter one ends a run. What the socket
//! does not take stays and goes first next time: the session's own window bounds it.
//!
//! Cost: over loopback a call is some 2 to 5 µs; datagrams within a run add a tenth of that.

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

/// Bytes of the longest run: UDP's own limit, whatever the offload would take.
const MAX_RUN: usize = 65_000;
/// Runs that wait at most; beyond it they are dropped, as a network would: sessions send again what matters.
const MAX_WAITING: usize = 256;

/// Datagrams of one length for one address, the last possibly shorter.
struct Run {
    to: SocketAddr,
    segment: usize,
    count: usize,
    bytes: Vec<u8>,
}

/// A socket with its buffers.
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    waiting: VecDeque<Run>,
    /// Buffers of runs that went out.
    spare: Vec<Vec<u8>>,
    received: Vec<u8>,
    /// Bytes of `received` for each datagram, or for several that the kernel put together.
    stride: usize,
}

impl Socket {
    /// Binds; datagrams are at most `datagram` bytes.
    pub(super) fn bind(address: SocketAddr, datagram: usize) -> io::Result<Socket> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // More than the default holds a burst of a whole window; a refusal leaves the default.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), 2 << 20);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), 2 << 20);
        let stride = (datagram * state.gro_segments()).clamp(2048, 1 << 16);
        let received = vec![0; stride * BATCH_SIZE];
        Ok(Socket { socket, state, waiting: VecDeque::new(), spare: Vec::new(), received, stride })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// A buffer to write datagrams for [`Socket::push`] into.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes what [`Socket::buffer`] gave and datagrams of `segment` bytes each, the last possibly shorter, were written to.
    pub(super) fn push(&mut self, to: SocketAddr, segment: usize, bytes: Vec<u8>) {
        let count = bytes.len().div_ceil(segment.max(1));
        if count == 0 || self.waiting.len() >= MAX_WAITING {
            self.keep(bytes);
            return;
        }
        self.waiting.push_back(Run { to, segment, count, bytes });
    }

    /// How many datagrams of `segment` bytes one run may have.
    pub(super) fn run(&self, segment: usize) -> usize {
        (MAX_RUN / segment.max(1)).clamp(1, self.state.max_gso_segments())
    }

    /// Sends what waits; false where the socket does not take all of it now.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(run) = self.waiting.front() {
            let transmit = Transmit {
                destination: run.to,
                ecn: None,
                contents: &run.bytes,
                segment_size: (run.count > 1).then_some(run.segment),
                src_ip: None,
            };
            match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // Any other refusal (no route, no such port) is a lost datagram; the session notices.
                Ok(()) | Err(_) => {
                    let run = self.waiting.pop_front().expect("it is at the front");
                    self.keep(run.bytes);
                }
            }
        }
        true
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < 8 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Hands each datagram of one batch to `each`, and says how many calls more may be worth while: false when the socket is empty.
    pub(super) fn receive(&mut self, mut each: impl FnMut(SocketAddr, &[u8])) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = {
            let mut slices = self.received.chunks_mut(self.stride).map(IoSliceMut::new);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                std::array::from_fn(|_| slices.next().expect("as many as there are places"));
            match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
                // Empty; or an answer of the network to an earlier datagram, which the session notices by silence.
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        for (meta, bytes) in metas[..count].iter().zip(self.received.chunks(self.stride)) {
            bytes[..meta.len].chunks(meta.stride.max(1)).for_each(|datagram| each(meta.addr, datagram));
        }
        count == BATCH_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_arrive_as_datagrams() {
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let (mut a, mut b) =
            (Socket::bind(loopback, 1452).expect("a"), Socket::bind(loopback, 1452).expect("b"));
        let to = b.socket().local_addr().expect("bound");
        let from = a.socket().local_addr().expect("bound");
        let mut sent = Vec::new();
        for (segment, count, last) in [(100, 1, 100), (1000, 5, 1), (1452, 30, 700)] {
            let mut bytes = a.buffer();
            for n in 0..count {
                let len = if n + 1 == count { last } else { segment };
                sent.push(vec![n as u8; len]);
                bytes.extend_from_slice(sent.last().expect("just pushed"));
            }
            a.push(to, segment, bytes);
        }
        a.flush();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            b.receive(|address, bytes| {
                assert_eq!(address, from);
                received.push(bytes.to_vec());
            });
        }
        assert_eq!(received, sent);
    }
}
