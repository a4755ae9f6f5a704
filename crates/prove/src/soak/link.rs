//! One connection of the soak, for clients and for the last check: sends a batch and reads its answers at the same time,
//! so that neither side can wait for the other to read first.

use super::record::Bye;
use bench::load::target::{Target, Transport};
use protocol::memcache::client::{Expect, Progress, Reply, ReplyReader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::time::Duration;

/// How long an answer may take. Nothing here takes a second; a machine that is busy otherwise has a lot of them.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// How long to go on trying to connect.
const ATTEMPTS: u32 = 50;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// A connection to the server.
pub struct Link {
    transport: Box<dyn Transport>,
    reader: ReplyReader,
    /// Requests that wait to be sent.
    pub out: Vec<u8>,
    input: Vec<u8>,
    room: Vec<u8>,
}

impl Link {
    /// Connects to `address`.
    ///
    /// # Errors
    /// [`Bye::NoConnection`].
    pub fn open(address: &str) -> Result<Link, Bye> {
        let target = Target::Tcp(address.to_string());
        for _ in 0..ATTEMPTS {
            if let Ok(transport) = target.connect() {
                let reader = ReplyReader::new(super::ledger::MAX_VALUE as usize);
                return Ok(Link {
                    transport,
                    reader,
                    out: Vec::new(),
                    input: Vec::new(),
                    room: vec![0; 64 << 10],
                });
            }
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        Err(Bye::NoConnection)
    }

    /// The answer to the request just appended to `out` will be of this kind.
    pub fn expect(&mut self, expect: Expect) {
        self.reader.expect(expect);
    }

    /// Sends `out` and reads until every answer is there. `each` is given every reply and whether it is the last of its
    /// request; `pause` runs whenever all that has arrived was handed out.
    ///
    /// # Errors
    /// Why the connection is of no more use.
    pub fn exchange(
        &mut self,
        mut each: impl FnMut(Reply<'_>, bool),
        mut pause: impl FnMut(),
    ) -> Result<(), Bye> {
        let mut sent = 0;
        while self.reader.owed() > 0 {
            let mut moved = false;
            if sent < self.out.len() {
                match self.transport.send(&self.out[sent..]) {
                    Ok(n) => (sent, moved) = (sent + n, true),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    // What the server said before it closed may still be there to read.
                    Err(_) => sent = self.out.len(),
                }
            }
            match self.transport.receive(&mut self.room) {
                Ok(0) => return Err(Bye::Closed),
                Ok(n) => {
                    self.input.extend_from_slice(&self.room[..n]);
                    moved = true;
                    self.parse(&mut each)?;
                    pause();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(Bye::Closed),
            }
            if !moved {
                self.wait(sent < self.out.len())?;
            }
        }
        self.out.clear();
        Ok(())
    }

    fn parse(&mut self, each: &mut impl FnMut(Reply<'_>, bool)) -> Result<(), Bye> {
        let mut at = 0;
        while self.reader.owed() > 0 {
            match self.reader.next(&self.input[at..]) {
                Ok(Progress::Incomplete { .. }) => break,
                Ok(Progress::Reply {
                    reply: Reply::ServerError(b"out of memory reading request"), ..
                }) => {
                    return Err(Bye::NoBuffers);
                }
                Ok(Progress::Reply { reply, used, last }) => {
                    each(reply, last);
                    at += used;
                }
                Err(_) => return Err(Bye::Nonsense),
            }
        }
        self.input.drain(..at);
        Ok(())
    }

    fn wait(&self, to_send: bool) -> Result<(), Bye> {
        let socket = self.transport.waitable().expect("TCP can be waited for");
        let flags = if to_send { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        match poll(&mut [PollFd::new(&socket, flags)], Some(&PATIENCE)) {
            Ok(0) => Err(Bye::Silence),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(Bye::Closed),
        }
    }

    /// The local port.
    pub fn port(&self) -> u16 {
        let socket = self.transport.waitable().expect("TCP can be waited for");
        let address =
            rustix::net::getsockname(socket).ok().and_then(|a| std::net::SocketAddr::try_from(a).ok());
        address.map_or(0, |a| a.port())
    }
}
