//! The way to a server: rings in shared memory, where each request is a message, or a stream. Requests go out by either, and the bytes of replies
//! come in the order of the requests.

use super::rings::{Client as Rings, Outcome, SendError, WaitPolicy};
use super::stream::Stream;
use super::{Error, Options};
use fabric::link::Address;
use std::io;
use std::time::{Duration, Instant};

/// Bytes of requests after which a stream sends what was submitted.
const GATHERED_BYTES: usize = 16 << 10;

/// Messages taken from a ring at once.
const BURST: usize = 64;

pub(super) enum Line {
    Rings(Box<Rings>),
    Stream { stream: Stream, out: Vec<u8> },
}

impl Line {
    pub(super) fn open(address: &Address, options: &Options, input: &mut Vec<u8>) -> Result<Line, Error> {
        let opened = match address {
            Address::Shm(path) => Rings::connect(path).map(|rings| Line::Rings(Box::new(rings))),
            Address::Unix(_) | Address::Tcp(_) | Address::Tls(_) => Stream::connect(address, options, input)
                .map(|stream| Line::Stream { stream, out: Vec::new() }),
            Address::Memory(_) | Address::Udp(_) => {
                return Err(Error::Argument(format!(
                    "{address} is no way to a key-value server: write shm:/path, unix:/path, HOST:PORT or tls:HOST:PORT"
                )));
            }
        };
        opened.map_err(|error| Error::Unreachable(cannot_open(address, &error)))
    }

    /// Takes `request`, and waits for room for it at most `timeout`; what comes meanwhile is appended to `input`.
    pub(super) fn send(
        &mut self,
        request: &[u8],
        input: &mut Vec<u8>,
        timeout: Duration,
    ) -> Result<(), Error> {
        match self {
            Line::Rings(rings) => {
                let mut until = None;
                loop {
                    match rings.send(request) {
                        Ok(_) => return Ok(()),
                        Err(SendError::TooLarge) => return Err(Error::TooLarge),
                        Err(SendError::Gone) => return Err(Error::Gone),
                        Err(SendError::Full) => {}
                    }
                    let until = *until.get_or_insert_with(|| Instant::now() + timeout);
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || !receive(rings, input, left)? {
                        return Err(Error::Full);
                    }
                }
            }
            Line::Stream { out, .. } => {
                out.extend_from_slice(request);
                if out.len() >= GATHERED_BYTES {
                    // What does not go within the time goes with the next flush.
                    self.flush(input, timeout)?;
                }
                Ok(())
            }
        }
    }

    /// Sends what was taken on its way, within `timeout` as far as the server takes it. Reads meanwhile: a server that cannot send its replies takes
    /// no requests.
    pub(super) fn flush(&mut self, input: &mut Vec<u8>, timeout: Duration) -> Result<(), Error> {
        let (stream, out) = match self {
            Line::Rings(rings) => {
                rings.flush();
                return Ok(());
            }
            Line::Stream { stream, out } => (stream, out),
        };
        let (mut sent, mut until) = (0, None);
        while sent < out.len() || stream.has_unsent() {
            let before = sent;
            sent += stream.send(&out[sent..]).map_err(|_| Error::Gone)?;
            if sent == before {
                let until = *until.get_or_insert_with(|| Instant::now() + timeout);
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !stream.wait(true, left) {
                    break;
                }
                stream.receive(input)?;
            }
        }
        out.drain(..sent);
        Ok(())
    }

    /// Waits for bytes of replies and appends them to `input`; false when none came within `timeout`.
    pub(super) fn receive(&mut self, input: &mut Vec<u8>, timeout: Duration) -> Result<bool, Error> {
        match self {
            Line::Rings(rings) => receive(rings, input, timeout),
            Line::Stream { stream, .. } => Ok(stream.wait(false, timeout) && {
                stream.receive(input)?;
                true
            }),
        }
    }
}

/// Appends the replies that are there, or come within `timeout`, to `input`; false when none did.
fn receive(rings: &mut Rings, input: &mut Vec<u8>, timeout: Duration) -> Result<bool, Error> {
    let outcome = rings.wait(WaitPolicy::default(), Some(timeout));
    let took = rings.poll(BURST, |_, reply| input.extend_from_slice(reply));
    match (took.map_err(|error| Error::Broken(error.to_string()))?, outcome) {
        (0, Outcome::PeerGone) => Err(Error::Gone),
        (0, Outcome::TimedOut) => Ok(false),
        // Room came for a message that found none.
        _ => Ok(true),
    }
}

fn cannot_open(address: &Address, error: &io::Error) -> String {
    let is_path = matches!(address, Address::Shm(_) | Address::Unix(_));
    let hint = match error.kind() {
        io::ErrorKind::NotFound if is_path => match address {
            Address::Shm(_) => "there is no such socket; start the server with --shm PATH",
            _ => "there is no such socket; start the server with -s PATH",
        },
        io::ErrorKind::ConnectionRefused if is_path => {
            "nobody serves there any more, or gives no more rings; start the server again, or see its shm.memory"
        }
        io::ErrorKind::ConnectionRefused => "nothing listens there; start a server with: millrace up",
        io::ErrorKind::PermissionDenied => "the socket's mode forbids it; see the server's -a",
        io::ErrorKind::InvalidData => "somebody else listens there, or the certificate is not believed",
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "nobody answers there; check the address and any firewall"
        }
        io::ErrorKind::InvalidInput => "see the options of TLS",
        _ => "check the address",
    };
    format!("cannot reach {address}: {error}; {hint}")
}
