//! Sockets of one port, one for each core of a box: the kernel hands each datagram to the socket of its hash.
//!
//! ```text
//!   bind, alone ──▶ share the port (SO_REUSEPORT) ──▶ the others bind beside it ──▶ selector
//! ```
//! Whoever binds the first socket is alone at the address, for it is bound before it shares: two boxes of one name on a machine are refused as ever.
//! The selector is a classic BPF program of four instructions, which needs no privilege. It sees the datagram from its first byte on, whatever the family.
//!
//! For a moment after the others have bound there is no selector, and what the first received before is in its queue. So a packet may meet the wrong
//! core, which drops it (`protocol::coherence::boxes::shards`).
//!
//! Tests: below, over IPv4 and IPv6.

use protocol::coherence::boxes::shards::Shard;
use protocol::wire::HASH_AT;
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

/// `first`, and beside it, at its address, so many others that there are `count`: the one at place `i` gets the datagrams of shard `i` of `count`.
///
/// # Errors
/// The system's: an address that is not in this thread's network namespace, a kernel without SO_REUSEPORT.
pub fn beside(first: UdpSocket, count: u8) -> io::Result<Vec<UdpSocket>> {
    let mut sockets = vec![first];
    if count == 1 {
        return Ok(sockets);
    }
    let address = sockets[0].local_addr()?;
    set_socket_reuseport(&sockets[0], true)?;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    for _ in 1..count {
        let other: OwnedFd = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        set_socket_reuseport(&other, true)?;
        bind(&other, &address)?;
        sockets.push(other.into());
    }
    select_by_hash(&sockets[0], count)?;
    Ok(sockets)
}

/// Hands the datagrams of a group out as [`Shard::of_datagram`] says.
fn select_by_hash(socket: &UdpSocket, count: u8) -> io::Result<()> {
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // What is too short for the load ends the program with 0: the first socket.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, HASH_AT as u32),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, u32::from(Shard::GROUPS - 1)),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, u32::from(count)),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the option's value is a program of `len` steps, which the kernel copies before the call returns.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// What waits in a socket: over loopback it does when the sender's call has returned.
    fn waiting(socket: &UdpSocket) -> Vec<Vec<u8>> {
        socket.set_nonblocking(true).expect("sockets can");
        let mut all = Vec::new();
        let mut buffer = [0; 64];
        while let Ok(len) = socket.recv(&mut buffer) {
            all.push(buffer[..len].to_vec());
        }
        all
    }

    #[test]
    fn datagrams_come_to_the_socket_of_their_hash() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            for count in 1..=Shard::MOST {
                let group = beside(UdpSocket::bind(loopback).expect("ports"), count).expect("a group");
                let address = group[0].local_addr().expect("bound");
                // Another sender each time: the kernel's own choice would be by his port.
                let send = |datagram: &[u8]| {
                    let sender = UdpSocket::bind(loopback).expect("ports");
                    sender.send_to(datagram, address).expect("it is sent");
                };
                let mut datagrams: Vec<Vec<u8>> = vec![b"short".to_vec(), Vec::new()];
                datagrams.extend((0..=255).map(|byte| {
                    let mut datagram = vec![7; 16];
                    datagram[HASH_AT] = byte;
                    datagram
                }));
                for datagram in datagrams {
                    send(&datagram);
                    let all = group.iter().map(waiting).enumerate().filter(|(_, came)| !came.is_empty());
                    let right = usize::from(Shard::of_datagram(&datagram, count));
                    assert_eq!(all.collect::<Vec<_>>(), [(right, vec![datagram])], "{loopback} {count}");
                }
            }
        }
    }

    #[test]
    fn whoever_comes_second_is_refused() {
        let group = beside(UdpSocket::bind("127.0.0.1:0").expect("ports"), 2).expect("a group");
        let address = group[0].local_addr().expect("bound");
        let refused = UdpSocket::bind(address).expect_err("somebody is there");
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        // The next life of the node: its first socket has outlived the others.
        let first = group.into_iter().next().expect("there are two");
        let again = beside(first, 3).expect("a group");
        assert_eq!(again.len(), 3);
        let mut datagram = [0; 16];
        datagram[HASH_AT] = 2;
        UdpSocket::bind("127.0.0.1:0").expect("ports").send_to(&datagram, address).expect("it is sent");
        assert_eq!(waiting(&again[2]).len(), 1);
    }
}
