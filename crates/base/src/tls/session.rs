//! One connection of TLS without its socket: what came from the socket goes in, plain bytes come out, and the other way round.
//!
//! ```text
//!  socket ─read()─▶ scratch of the thread ─▶ rustls, in place ─▶ plain bytes to whoever reads
//!                    └ the rest, if a record is not whole: `partial`
//!  socket ◀─send()─ `outgoing` ◀─ rustls ◀─ pieces of plain bytes, gathered to records
//!                    └ what the socket did not take, if it did not take all
//! ```
//! Why rustls' unbuffered interface: a connection at rest holds no buffer, reads are as long as records, and what is held is counted by its owner
//! ([`Session::held`]).
//!
//! Invariants
//! 1. rustls is shown all of `partial` whenever it is asked for anything: it remembers where in it a message began.
//! 2. After an error it is asked for nothing more: what it remembers of the buffer is of no use then.
//! 3. Nothing is sealed while more than [`UNSENT_MAX`] waits to be sent.
//!
//! Bounds: `partial` [`PARTIAL_MAX`], `outgoing` [`UNSENT_MAX`] and the records of one piece; two buffers for each thread.

use super::client::server_name;
use super::{ClientTls, ServerTls, TlsError, explain, identities};
use crate::rights::Identity;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use std::cell::Cell;
use std::fmt;
use std::io;

/// Of a record or handshake message that is not whole. A chain of certificates has less; a record has 16 KiB and a little.
const PARTIAL_MAX: usize = 32 << 10;
/// Read at once.
const READ_BYTES: usize = 32 << 10;
/// Plain bytes of a record at most.
const RECORD_BYTES: usize = 16 << 10;
/// Plain bytes that are sealed in one step.
const SEAL_BYTES: usize = 4 * RECORD_BYTES;
/// Bytes of TLS that wait for the socket before it is asked again.
const UNSENT_MAX: usize = 64 << 10;

thread_local! {
    /// What is read into.
    static INCOMING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// What a session that has nothing to send gave back.
    static OUTGOING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Where small pieces become one record.
    static GATHERED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Why a session is over.
#[derive(Debug)]
pub enum SessionError {
    /// The socket's.
    Io(io::Error),
    /// The other side sent what it may not, or is not believed; or it says that about this side.
    Tls(rustls::Error),
    /// A record or message is longer than any that is needed.
    TooLong,
    /// Whoever reads has no room for more.
    NoRoom,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Io(error) => error.fmt(f),
            SessionError::Tls(error) => write!(f, "TLS: {}", explain(error)),
            SessionError::TooLong => f.write_str("TLS: a message is too long"),
            SessionError::NoRoom => f.write_str("there is no room for what came"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> io::Error {
        match error {
            SessionError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        }
    }
}

/// What a read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of TLS.
    pub bytes: usize,
    /// Nothing more will come.
    pub is_end: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// See the head of the file.
pub struct Session {
    side: Side,
    partial: Vec<u8>,
    outgoing: Vec<u8>,
    /// Of them, what the socket has taken.
    sent: usize,
    is_end: bool,
    has_failed: bool,
}

/// What rustls is to do once it can.
#[derive(Clone, Copy)]
enum Task<'a> {
    Nothing,
    Seal(&'a [u8]),
    SayGoodbye,
}

/// What a step of rustls came to.
enum Step {
    Again,
    /// Nothing more without more from the socket.
    Dry,
    /// The other side sends nothing more.
    End,
}

impl Session {
    /// Of a client that has connected.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn server(tls: &ServerTls) -> Result<Session, SessionError> {
        let connection = UnbufferedServerConnection::new(tls.config()).map_err(SessionError::Tls)?;
        Ok(Session::of(Side::Server(connection)))
    }

    /// Of a client, to the server that was reached as `host`. [`Session::start`] is next.
    ///
    /// # Errors
    /// That is no name for a server.
    pub fn client(tls: &ClientTls, host: &str) -> Result<Session, TlsError> {
        let name = server_name(host)?;
        let connection = UnbufferedClientConnection::new(tls.config(), name);
        Ok(Session::of(Side::Client(connection.map_err(|_| TlsError::BadName(host.to_owned()))?)))
    }

    fn of(side: Side) -> Session {
        Session { side, partial: Vec::new(), outgoing: Vec::new(), sent: 0, is_end: false, has_failed: false }
    }

    /// Says a client's hello.
    ///
    /// # Errors
    /// The socket's.
    pub fn start(&mut self, send: impl FnMut(&[u8]) -> io::Result<usize>) -> Result<(), SessionError> {
        self.turn(&mut [], Task::Nothing, &mut |_| true)?;
        self.flush(send).map_err(SessionError::Io)?;
        Ok(())
    }

    /// A client's whole handshake, over a stream that blocks. Plain bytes that come with its end go to `plain`.
    ///
    /// # Errors
    /// The stream's, its end included; or the server is not believed, or does not believe.
    pub fn shake_hands(
        &mut self,
        stream: &mut (impl io::Read + io::Write),
        mut plain: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), SessionError> {
        self.start(|bytes| stream.write_all(bytes).map(|()| bytes.len()))?;
        while self.is_handshaking() {
            let received = self.read(|room| stream.read(room), &mut plain);
            let flushed = self.flush(|bytes| stream.write_all(bytes).map(|()| bytes.len()));
            if received?.is_end {
                return Err(SessionError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            flushed.map_err(SessionError::Io)?;
        }
        Ok(())
    }

    /// Whether it is not yet agreed upon who is who.
    pub fn is_handshaking(&self) -> bool {
        match &self.side {
            Side::Server(connection) => connection.is_handshaking(),
            Side::Client(connection) => connection.is_handshaking(),
        }
    }

    /// Whether a session of before went on, without certificates and signatures.
    pub fn is_resumed(&self) -> bool {
        let kind = match &self.side {
            Side::Server(connection) => connection.handshake_kind(),
            Side::Client(connection) => connection.handshake_kind(),
        };
        kind == Some(rustls::HandshakeKind::Resumed)
    }

    /// Whom the certificate of the other side names, if it has shown one; after the handshake.
    pub fn identities(&self) -> Vec<Identity> {
        identities(match &self.side {
            Side::Server(connection) => connection.peer_certificates(),
            Side::Client(connection) => connection.peer_certificates(),
        })
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.partial.len() + self.unsent()
    }

    /// Bytes of TLS that the socket has not taken.
    pub fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Has `read` read once, and gives the plain bytes that came to `plain`, which says whether it has room for them. What is to be said in
    /// answer is sent by [`Session::flush`], also after an error.
    ///
    /// # Errors
    /// The socket's, "try again" included; or the session is over, and the connection with it.
    pub fn read(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        mut plain: impl FnMut(&[u8]) -> bool,
    ) -> Result<Received, SessionError> {
        let mut buffer = INCOMING.take();
        buffer.resize(PARTIAL_MAX + READ_BYTES, 0);
        let result = self.read_into(&mut buffer, read, &mut plain);
        INCOMING.set(buffer);
        result
    }

    fn read_into(
        &mut self,
        buffer: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        plain: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<Received, SessionError> {
        let held = self.partial.len();
        let bytes = read(&mut buffer[held..held + READ_BYTES]).map_err(SessionError::Io)?;
        if bytes == 0 {
            self.is_end = true;
            return Ok(Received { bytes, is_end: true });
        }
        buffer[..held].copy_from_slice(&self.partial);
        let done = self.turn(&mut buffer[..held + bytes], Task::Nothing, plain)?;
        let rest = &buffer[done..held + bytes];
        if rest.len() > PARTIAL_MAX {
            return Err(SessionError::TooLong);
        }
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        if rest.is_empty() {
            self.partial = Vec::new();
        }
        Ok(Received { bytes, is_end: self.is_end })
    }

    /// Sends as much of `pieces` as the socket takes, and some 64 KiB more, which [`Session::flush`] sends. Returns the plain bytes
    /// that are taken: none during the handshake, also where TLS would allow it, since nobody knows yet who reads. `send` returns fewer bytes than it
    /// was given when the socket takes no more.
    ///
    /// # Errors
    /// The socket's; or the session is over.
    pub fn write(
        &mut self,
        pieces: &[&[u8]],
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if !self.flush(&mut send)? || pieces.is_empty() {
            return Ok(0);
        }
        if self.has_failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.is_handshaking() {
            return Ok(0);
        }
        let mut gathered = GATHERED.take();
        let result = self.write_gathered(pieces, &mut gathered, &mut send);
        gathered.clear();
        GATHERED.set(gathered);
        result
    }

    fn write_gathered(
        &mut self,
        pieces: &[&[u8]],
        gathered: &mut Vec<u8>,
        send: &mut impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let is_alone = pieces.len() == 1;
        let mut taken = 0;
        for piece in pieces {
            let mut piece = *piece;
            while !piece.is_empty() {
                let is_direct = gathered.is_empty() && (is_alone || piece.len() >= RECORD_BYTES);
                let most = if is_direct { SEAL_BYTES } else { RECORD_BYTES - gathered.len() };
                let (chunk, rest) = piece.split_at(piece.len().min(most));
                piece = rest;
                if is_direct {
                    self.seal(chunk)?;
                    taken += chunk.len();
                } else {
                    gathered.extend_from_slice(chunk);
                    if gathered.len() < RECORD_BYTES {
                        continue;
                    }
                    self.seal(gathered)?;
                    taken += gathered.len();
                    gathered.clear();
                }
                if self.unsent() >= UNSENT_MAX && !self.flush(&mut *send)? {
                    return Ok(taken);
                }
            }
        }
        if !gathered.is_empty() {
            self.seal(gathered)?;
            taken += gathered.len();
        }
        self.flush(send)?;
        Ok(taken)
    }

    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        self.ask(Task::Seal(plain))
    }

    /// A task for rustls, and nothing new from the socket.
    fn ask(&mut self, task: Task<'_>) -> io::Result<()> {
        let mut partial = std::mem::take(&mut self.partial);
        // Whatever is whole was read before.
        let done = self.turn(&mut partial, task, &mut |_| false);
        self.partial = partial;
        self.partial.drain(..done?);
        Ok(())
    }

    /// Sends what waits. True when nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.unsent() > 0 {
            self.sent += send(&self.outgoing[self.sent..])?;
            if self.unsent() > 0 {
                return Ok(false);
            }
        }
        self.sent = 0;
        if self.outgoing.capacity() > 0 {
            self.outgoing.clear();
            OUTGOING.set(std::mem::take(&mut self.outgoing));
        }
        Ok(true)
    }

    /// Says that nothing more will be sent, as far as the socket takes it.
    pub fn close(&mut self, send: impl FnMut(&[u8]) -> io::Result<usize>) {
        // Best effort: the connection closes whether or not the other side hears of it.
        let _ = self.ask(Task::SayGoodbye);
        let _ = self.flush(send);
    }

    /// Has rustls go on until it wants more. Returns how many bytes of `buffer` are done with.
    fn turn(
        &mut self,
        buffer: &mut [u8],
        task: Task<'_>,
        plain: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<usize, SessionError> {
        if self.has_failed {
            return Err(SessionError::Io(io::ErrorKind::BrokenPipe.into()));
        }
        if self.outgoing.capacity() == 0 {
            self.outgoing = OUTGOING.take();
        }
        let mut done = 0;
        loop {
            let (discard, step) = self.step(&mut buffer[done..], task, plain);
            match step {
                Ok(Step::Again) => {}
                Ok(Step::End) => self.is_end = true,
                Ok(Step::Dry) => return Ok(done + discard),
                Err(error) => {
                    self.has_failed = true;
                    // It may have something to say about that: an alert, which comes before everything else.
                    let _ = self.step(&mut buffer[done..], Task::Nothing, &mut |_| false);
                    return Err(error);
                }
            }
            done += discard;
        }
    }

    fn step(
        &mut self,
        buffer: &mut [u8],
        task: Task<'_>,
        plain: &mut impl FnMut(&[u8]) -> bool,
    ) -> (usize, Result<Step, SessionError>) {
        let out = &mut self.outgoing;
        match &mut self.side {
            Side::Server(connection) => step(connection.process_tls_records(buffer), task, out, plain),
            Side::Client(connection) => step(connection.process_tls_records(buffer), task, out, plain),
        }
    }
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    task: Task<'_>,
    out: &mut Vec<u8>,
    plain: &mut impl FnMut(&[u8]) -> bool,
) -> (usize, Result<Step, SessionError>) {
    let UnbufferedStatus { mut discard, state } = status;
    let result = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Ok(Step::Again),
                Some(Err(error)) => break Err(SessionError::Tls(error)),
                Some(Ok(record)) => {
                    discard += record.discard;
                    if !plain(record.payload) {
                        break Err(SessionError::NoRoom);
                    }
                }
            }
        },
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out).map(|()| Step::Again),
        // It goes out before all that follows.
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::PeerClosed) => Ok(Step::End),
        Ok(ConnectionState::WriteTraffic(traffic)) => write(traffic, task, out).map(|()| Step::Dry),
        Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => match task {
            // There was a handshake: this side has said its last.
            Task::Seal(_) => Err(SessionError::Io(io::ErrorKind::BrokenPipe.into())),
            Task::Nothing | Task::SayGoodbye => Ok(Step::Dry),
        },
        Ok(_) => Err(SessionError::Tls(rustls::Error::General("early data was not offered".to_owned()))),
        Err(error) => Err(SessionError::Tls(error)),
    };
    (discard, result)
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), SessionError> {
    let begin = out.len();
    // How much room it needs, it says to whom has none.
    let Err(EncodeError::InsufficientSize(short)) = data.encode(&mut []) else { return Ok(()) };
    out.resize(begin + short.required_size, 0);
    data.encode(&mut out[begin..]).expect("as much room as it asked for");
    Ok(())
}

fn write<Data>(
    mut traffic: WriteTraffic<'_, Data>,
    task: Task<'_>,
    out: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let begin = out.len();
    let mut attempt = |room: &mut [u8]| match task {
        Task::Nothing => Ok(0),
        Task::Seal(plain) => traffic.encrypt(plain, room),
        Task::SayGoodbye => traffic.queue_close_notify(room),
    };
    let exhausted = |_| SessionError::Tls(rustls::Error::EncryptError);
    let written = match attempt(&mut []) {
        Err(EncryptError::InsufficientSize(short)) => {
            out.resize(begin + short.required_size, 0);
            attempt(&mut out[begin..]).map_err(exhausted)?
        }
        other => other.map_err(exhausted)?,
    };
    out.truncate(begin + written);
    Ok(())
}
