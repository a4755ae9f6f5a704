//! What goes through the gateways, and is checked byte by byte: echo, datagrams, streams in both directions.
//!
//! A stream's bytes are those of a block whose length is no multiple of a segment's, again and again: bytes that are missing, doubled or out of place
//! show. Every wait has an end.

use super::namespace::Namespace;
use super::network::{CLIENT, SERVER};
use crate::packet::{Ipv4, build};
use base::prng::Prng;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrV4, SocketFlags, SocketType, ipproto};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The server's ports.
const TCP: u16 = 7000;
const UDP: u16 = 7001;
const BLOCK: usize = 65_521;
/// Longer than a machine whose threads wait for each other keeps anybody waiting.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was checked so far.
#[derive(Debug, Default)]
pub struct Checked {
    /// Bytes of streams.
    pub stream_bytes: AtomicU64,
    /// Datagrams that came back.
    pub datagrams: AtomicU64,
    /// Datagrams that did not.
    pub lost: AtomicU64,
}

fn block() -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    Prng::new(42).fill(&mut block);
    block
}

/// The server: its threads end with the process.
///
/// # Errors
/// The system refuses.
pub fn serve(namespace: &Namespace) -> io::Result<()> {
    let (listener, socket) =
        namespace.within(|| Ok((TcpListener::bind((SERVER, TCP))?, UdpSocket::bind((SERVER, UDP))?)))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // The client sees what went wrong: fewer bytes, or another count.
                let _ = answer(stream);
            });
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    Ok(())
}

/// A stream begins with what is wanted: `U` has its bytes counted and checked, `D` and milliseconds has bytes sent so long.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut order = [0; 5];
    stream.read_exact(&mut order)?;
    let millis = u32::from_be_bytes([order[1], order[2], order[3], order[4]]);
    match order[0] {
        b'U' => {
            let count = check(&mut stream, |_| {})?;
            stream.write_all(&count.to_be_bytes())
        }
        _ => {
            pour(&mut stream, Duration::from_millis(millis.into()), &AtomicBool::new(false))?;
            stream.shutdown(Shutdown::Write)
        }
    }
}

/// Reads to the end; how many bytes were as they should be: all, or it is an error.
fn check(stream: &mut impl Read, mut seen: impl FnMut(u64)) -> io::Result<u64> {
    let block = block();
    let (mut buffer, mut count) = (vec![0; 64 << 10], 0_usize);
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(count as u64);
        }
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            let expected = &block[count % BLOCK..];
            let same = rest.len().min(expected.len());
            if rest[..same] != expected[..same] {
                return Err(io::Error::other(format!(
                    "wrong bytes in a stream, within {same} after {count}"
                )));
            }
            (rest, count) = (&rest[same..], count + same);
        }
        seen(len as u64);
    }
}

/// Writes for so long; how many bytes.
fn pour(stream: &mut TcpStream, time: Duration, stop: &AtomicBool) -> io::Result<u64> {
    let (block, until) = (block(), Instant::now() + time);
    let mut count = 0_usize;
    while Instant::now() < until && !stop.load(Relaxed) {
        let at = count % BLOCK;
        count += stream.write(&block[at..BLOCK.min(at + (16 << 10))])?;
    }
    Ok(count as u64)
}

fn connect(order: u8, time: Duration) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&(SERVER, TCP).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = [order, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&(time.as_millis() as u32).to_be_bytes());
    stream.write_all(&bytes)?;
    Ok(stream)
}

fn upload(time: Duration, stop: &AtomicBool, checked: &Checked) -> io::Result<()> {
    let mut stream = connect(b'U', time)?;
    let sent = pour(&mut stream, time, stop)?;
    stream.shutdown(Shutdown::Write)?;
    let mut counted = [0; 8];
    stream.read_exact(&mut counted)?;
    let counted = u64::from_be_bytes(counted);
    checked.stream_bytes.fetch_add(counted, Relaxed);
    if counted == sent {
        Ok(())
    } else {
        Err(io::Error::other(format!("of {sent} bytes up {counted} arrived")))
    }
}

fn download(time: Duration, checked: &Checked) -> io::Result<()> {
    let mut stream = connect(b'D', time)?;
    check(&mut stream, |len| _ = checked.stream_bytes.fetch_add(len, Relaxed))?;
    Ok(())
}

/// Datagrams of every length that fits, one after another, each of which comes back as it was or not at all.
fn datagrams(time: Duration, stop: &AtomicBool, checked: &Checked) -> io::Result<()> {
    let socket = UdpSocket::bind((CLIENT, 0))?;
    socket.connect((SERVER, UDP))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut prng, until) = (Prng::new(7), Instant::now() + time);
    let mut buffer = [0; 2048];
    for number in 0_u64.. {
        if Instant::now() >= until || stop.load(Relaxed) {
            break;
        }
        let mut sent = vec![0; 8 + prng.below(1380) as usize];
        prng.fill(&mut sent);
        sent[..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&sent)?;
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) if buffer[..len] == sent => {
                    checked.datagrams.fetch_add(1, Relaxed);
                    break;
                }
                // One that was given up came late.
                Ok(len) if len >= 8 && buffer[..8] < sent[..8] => {}
                Ok(_) => return Err(io::Error::other(format!("datagram {number} came back changed"))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    checked.lost.fetch_add(1, Relaxed);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// All of it at once, from the client, for so long.
///
/// # Errors
/// Something was not as it should be.
pub fn run(
    namespace: &Namespace,
    time: Duration,
    stop: &AtomicBool,
    checked: &Arc<Checked>,
) -> io::Result<()> {
    let in_client = |work: &(dyn Fn() -> io::Result<()> + Sync)| {
        namespace.enter()?;
        work()
    };
    thread::scope(|scope| {
        let all = [
            scope.spawn(|| in_client(&|| upload(time, stop, checked))),
            scope.spawn(|| in_client(&|| download(time, checked))),
            scope.spawn(|| in_client(&|| datagrams(time, stop, checked))),
        ];
        let ended = all.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.into_iter().collect::<io::Result<Vec<()>>>().map(drop)
    })
}

/// Who answered an echo request, and the type of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The address.
    pub from: Ipv4Addr,
    /// 0: the echo, which was as it should be. 11: time exceeded.
    pub kind: u8,
}

/// Sends an echo request that so many routers may pass on; who answered, if anybody did within the time.
///
/// # Errors
/// The system refuses, or an echo was not as it should be.
pub fn ping(
    namespace: &Namespace,
    to: Ipv4Addr,
    ttl: u8,
    number: u16,
    time: Duration,
) -> io::Result<Option<Answer>> {
    namespace.within(|| {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::ICMP))?;
        rustix::net::sockopt::set_ip_ttl(&socket, ttl.into())?;
        let until = Instant::now() + time;
        let (id, payload) = (0x4D52, b"are the gateways there? ".repeat(8));
        let request = build::echo(Ipv4Addr::UNSPECIFIED, to, true, (id, number), &payload);
        rustix::net::sendto(&socket, &request[20..], SendFlags::empty(), &SocketAddrV4::new(to, 0))?;
        let mut buffer = [0; 2048];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            rustix::net::sockopt::set_socket_timeout(
                &socket,
                rustix::net::sockopt::Timeout::Recv,
                Some(left),
            )?;
            let len = match rustix::net::recv(&socket, &mut buffer, RecvFlags::empty()) {
                Ok((len, _)) => len,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let Ok(ip) = Ipv4::parse(&buffer[..len]) else { continue };
            let body = &buffer[ip.header..ip.len];
            let quotes = body.windows(8).any(|bytes| bytes[4..] == request[24..28]);
            match body.first() {
                Some(0) if body[4..8] == request[24..28] => {
                    return match body[8..] == payload {
                        true => Ok(Some(Answer { from: ip.src, kind: 0 })),
                        false => Err(io::Error::other("an echo came back changed")),
                    };
                }
                Some(kind @ 11) if quotes => return Ok(Some(Answer { from: ip.src, kind: *kind })),
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_changed_missing_doubled_or_out_of_place_are_found() {
        let whole: Vec<u8> = block().into_iter().cycle().take(200_000).collect();
        assert_eq!(check(&mut &whole[..], |_| {}).expect("as it should be"), 200_000);
        for at in [0, 1, 1460, BLOCK - 1, BLOCK, 150_000] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let missing = [&whole[..at], &whole[at + 1448..]].concat();
            let doubled = [&whole[..at + 1448], &whole[at..]].concat();
            let mut swapped = whole.clone();
            swapped[at..at + 2896].rotate_left(1448);
            for wrong in [changed, missing, doubled, swapped] {
                assert!(check(&mut &wrong[..], |_| {}).is_err(), "{at}");
            }
        }
    }
}
