//! One connection to a home's memcached listener, with at most one request.
//!
//! ```text
//!  Connecting ──writable──▶ the request is written ──all sent──▶ its reply is read ──whole──▶ free ──▶ the next
//!       └────────────┴──────────────────┴─────────────── broken: gone, with what it had
//! ```
//! Bounds: a request, and a reply whose value is no longer than was said; a buffer that became long goes with its reply.

use super::Job;
use super::request::Said;
use protocol::memcache::client::{Progress, ReplyError, ReplyReader};
use protocol::wire::Status;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Bytes that are read at once; also of a buffer that is kept.
const PIECE: usize = 64 << 10;

/// See the head of the file.
#[derive(Debug)]
pub struct Link {
    socket: Option<OwnedFd>,
    is_connected: bool,
    job: Option<Job>,
    /// Bytes of its request that were sent.
    sent: usize,
    reader: ReplyReader,
    input: Vec<u8>,
    /// Bytes of input that the reader waits for.
    needs: usize,
    /// Of a reply in parts.
    said: Option<Said>,
    watched: EventFlags,
    /// It was answered with more than is taken: the rest is not read.
    is_torn: bool,
}

/// What came of looking at it.
pub enum Turn {
    /// Nothing that is whole.
    Waits,
    /// It is connected.
    Connected,
    /// The reply.
    Said(Job, Said),
    /// It is of no use any more, for this reason.
    Broken(String),
}

impl Link {
    /// A new one, to do `job` when it is connected.
    /// What the system says of it stands beside.
    pub fn connect(
        address: SocketAddr,
        value_max: usize,
        job: Job,
        epoll: &OwnedFd,
        token: EventData,
    ) -> (Link, io::Result<()>) {
        let mut link = Link {
            socket: None,
            is_connected: false,
            job: Some(job),
            sent: 0,
            reader: ReplyReader::new(value_max),
            input: Vec::new(),
            needs: 1,
            said: None,
            watched: EventFlags::OUT,
            is_torn: false,
        };
        let opened = link.open(address, epoll, token);
        (link, opened)
    }

    fn open(&mut self, address: SocketAddr, epoll: &OwnedFd, token: EventData) -> io::Result<()> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        epoll::add(epoll, &socket, token, self.watched)?;
        let connected = rustix::net::connect(&socket, &address);
        self.socket = Some(socket);
        match connected {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does `job`: it has none.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn begin(&mut self, job: Job, epoll: &OwnedFd, token: EventData) -> io::Result<()> {
        debug_assert!(self.is_free());
        self.job = Some(job);
        self.sent = 0;
        self.go_on(epoll, token)
    }

    /// Whether it is connected and has nothing to do.
    pub fn is_free(&self) -> bool {
        self.is_connected && self.job.is_none()
    }

    /// Whether the home took the connection.
    pub fn was_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether it is over although it is connected.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// What it does.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// What it did, and whether all of it was sent.
    pub fn into_job(self) -> Option<(Job, bool)> {
        let sent = self.sent;
        self.job.map(|job| {
            let is_sent = sent == job.request.text.len();
            (job, is_sent)
        })
    }

    /// It is ready for something.
    pub fn turn(&mut self, epoll: &OwnedFd, token: EventData) -> Turn {
        let was_connected = self.is_connected;
        match self.try_turn(epoll, token) {
            Ok(Some((job, said))) => Turn::Said(job, said),
            Ok(None) if self.is_connected && !was_connected => Turn::Connected,
            Ok(None) => Turn::Waits,
            Err(error) => Turn::Broken(error.to_string()),
        }
    }

    fn try_turn(&mut self, epoll: &OwnedFd, token: EventData) -> io::Result<Option<(Job, Said)>> {
        if !self.is_connected {
            let socket = self.socket.as_ref().expect("it is watched");
            sockopt::socket_error(socket)??;
            self.is_connected = true;
        }
        self.go_on(epoll, token)?;
        self.read()
    }

    /// Writes what the socket takes of the request.
    fn go_on(&mut self, epoll: &OwnedFd, token: EventData) -> io::Result<()> {
        let socket = self.socket.as_ref().expect("it is open");
        if let Some(Job { request, .. }) = &self.job {
            if self.sent == 0 {
                self.reader.expect(request.expect);
            }
            while self.sent < request.text.len() {
                match rustix::net::send(socket, &request.text[self.sent..], SendFlags::NOSIGNAL) {
                    Ok(count) => self.sent += count,
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let is_writing = self.job.as_ref().is_some_and(|job| self.sent < job.request.text.len());
        let wanted = if is_writing { EventFlags::OUT | EventFlags::IN } else { EventFlags::IN };
        if std::mem::replace(&mut self.watched, wanted) != wanted {
            epoll::modify(epoll, socket, token, wanted)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<Option<(Job, Said)>> {
        loop {
            let (socket, length) = (self.socket.as_ref().expect("it is open"), self.input.len());
            self.input.reserve(self.needs.saturating_sub(length));
            self.input.resize(length + PIECE, 0);
            let read = rustix::net::recv(socket, &mut self.input[length..], RecvFlags::empty());
            self.input.truncate(length + read.as_ref().map_or(0, |(count, _)| *count));
            match read {
                Ok((0, _)) => return Err(io::Error::other("the connection was closed")),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if self.input.len() >= self.needs
                && let Some(said) = self.parse()?
            {
                self.needs = 1;
                self.input.shrink_to(PIECE);
                let job = self.job.take().ok_or_else(|| io::Error::other("it answers what nobody asked"))?;
                return Ok(Some((job, said)));
            }
        }
    }

    /// The reply, if it is whole: the part of it that says most.
    fn parse(&mut self) -> io::Result<Option<Said>> {
        let mut at = 0;
        let said = loop {
            let progress = match self.reader.next(&self.input[at..]) {
                Err(ReplyError::ValueTooLong(_)) => {
                    self.is_torn = true;
                    self.input = Vec::new();
                    return Ok(Some(Said::Refused(Status::TooLarge)));
                }
                progress => progress.map_err(io::Error::other)?,
            };
            match progress {
                Progress::Incomplete { need } => {
                    self.needs = need;
                    break None;
                }
                Progress::Reply { reply, used, .. } => {
                    at += used;
                    let said = Said::of(&reply, self.said.take());
                    if self.reader.owed() == 0 {
                        break Some(said);
                    }
                    self.said = Some(said);
                }
            }
        };
        self.input.drain(..at);
        if said.is_some() && !self.input.is_empty() {
            return Err(io::Error::other("it says more than it was asked"));
        }
        Ok(said)
    }
}
