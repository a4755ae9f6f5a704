//! TLS between a stream link and its socket; and what links of a process go by that are told nothing of their own.
//!
//! Bounds: of plain bytes those of one read, 48 KiB, for which the deframer had no space; a handshake takes [`HANDSHAKE_TIMEOUT`] at most.

use base::rights::Identity;
use base::tls::{ClientTls, ServerTls, Session, SessionError};
use base::units::Nanos;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// A client whose handshake takes longer is given up.
const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// What links at `tls:` addresses go by.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The certificate of who listens.
    pub certificate: Option<Arc<ServerTls>>,
    /// Whom who connects believes.
    pub trust: Option<ClientTls>,
}

static OF_PROCESS: RwLock<TlsOptions> = RwLock::new(TlsOptions { certificate: None, trust: None });

impl TlsOptions {
    /// What flags have said of this process: [`LinkOptions::default`](super::LinkOptions) has it.
    pub fn of_process() -> TlsOptions {
        OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has links of this process that are made from now on listen with this certificate, unless their options have one.
    pub fn set_certificate(certificate: Arc<ServerTls>) {
        OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner).certificate = Some(certificate);
    }

    /// Has links of this process that are made from now on believe these, unless their options say whom.
    pub fn set_trust(trust: ClientTls) {
        OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner).trust = Some(trust);
    }
}

/// What one read brought.
struct Pumped {
    count: usize,
    is_end: bool,
}

/// The layer of one link.
pub(super) struct Secure {
    session: Session,
    /// Came, and there was no space for it.
    plain: Vec<u8>,
    /// When the handshake must be over.
    until: Nanos,
}

impl Secure {
    /// Of a server, whose client has connected at `now`.
    pub(super) fn server(tls: &ServerTls, now: Nanos) -> io::Result<Secure> {
        let session = Session::server(tls)?;
        Ok(Secure { session, plain: Vec::new(), until: now.plus(HANDSHAKE_TIMEOUT) })
    }

    /// Of a client, to `host`, over a stream that blocks: its handshake is over then.
    pub(super) fn client(
        tls: &ClientTls,
        host: &str,
        stream: &mut std::net::TcpStream,
    ) -> Result<Secure, String> {
        let mut session = Session::client(tls, host).map_err(|error| error.to_string())?;
        let mut plain = Vec::new();
        let shaken = session.shake_hands(stream, |bytes| {
            plain.extend_from_slice(bytes);
            true
        });
        shaken.map_err(|error| error.to_string())?;
        Ok(Secure { session, plain, until: Nanos::MAX })
    }

    /// When somebody must look whether the handshake is over.
    pub(super) fn next_deadline(&self) -> Nanos {
        if self.session.is_handshaking() { self.until } else { Nanos::MAX }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whom the other end's certificate names.
    pub(super) fn identities(&self) -> Vec<Identity> {
        self.session.identities()
    }

    /// Bytes of TLS that wait for the socket.
    pub(super) fn unsent(&self) -> usize {
        self.session.unsent()
    }

    /// Whether there is something to be received without the socket.
    pub(super) fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    /// Fills `space`; 0 at the end.
    pub(super) fn recv(&mut self, socket: &impl AsFd, space: &mut [u8]) -> Result<usize, Errno> {
        let mut filled = self.plain.len().min(space.len());
        space[..filled].copy_from_slice(&self.plain[..filled]);
        self.plain.drain(..filled);
        while filled == 0 {
            let Pumped { count, is_end } = self.pump(socket, space)?;
            filled = count;
            if is_end {
                break;
            }
        }
        Ok(filled)
    }

    /// Reads once: into `space`, and what it has no room for is kept.
    fn pump(&mut self, socket: &impl AsFd, space: &mut [u8]) -> Result<Pumped, Errno> {
        let (more, mut count) = (&mut self.plain, 0);
        let received = self.session.read(
            |room| Ok(recv(socket, room, RecvFlags::DONTWAIT)?.1),
            |bytes| {
                let (fitting, rest) = bytes.split_at(bytes.len().min(space.len() - count));
                space[count..count + fitting.len()].copy_from_slice(fitting);
                count += fitting.len();
                more.extend_from_slice(rest);
                true
            },
        );
        // Also after an error: it says why.
        let flushed = self.send_on(socket);
        match received {
            Ok(received) => flushed.map(|()| Pumped { count, is_end: received.is_end }),
            Err(SessionError::Io(error)) => Err(errno(&error)),
            Err(_) => Err(Errno::CONNABORTED),
        }
    }

    /// Takes bytes to be sent; "try again" where it takes none.
    pub(super) fn send(&mut self, socket: &impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
        let taken = self.session.write(&[bytes], |bytes| send_some(socket, bytes));
        match taken.map_err(|error| errno(&error))? {
            0 => Err(Errno::AGAIN),
            taken => Ok(taken),
        }
    }

    /// Sends what was taken, as far as the socket takes it. Whoever only sends takes a handshake further with it; what comes with its end is received
    /// later.
    pub(super) fn flush(&mut self, socket: &impl AsFd) -> Result<(), Errno> {
        if self.session.is_handshaking() {
            match self.pump(socket, &mut []) {
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        self.send_on(socket)
    }

    fn send_on(&mut self, socket: &impl AsFd) -> Result<(), Errno> {
        self.session.flush(|bytes| send_some(socket, bytes)).map(drop).map_err(|error| errno(&error))
    }

    /// Says that nothing more comes.
    pub(super) fn close(&mut self, socket: &impl AsFd) {
        self.session.close(|bytes| send_some(socket, bytes));
    }
}

fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        _ => Errno::from_io_error(error).unwrap_or(Errno::PIPE),
    }
}

/// Sends as much as the socket takes.
fn send_some(socket: impl AsFd, mut bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while !bytes.is_empty() {
        match send(&socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => (sent, bytes) = (sent + count, &bytes[count..]),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}
