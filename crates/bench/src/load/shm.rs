//! The load generator's way over shared-memory rings: one request per message, one answer per message.
//!
//! Requests are issued as they are encoded and shown to the server together, when the generator next looks for answers: a batch
//! is one burst, as a batch over a socket is one write.

use super::target::{Framing, Transport};
use client::kv::rings::{Client, Outcome, SendError, WaitPolicy};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// Looks in vain after which the socket is asked whether the server is alive.
const PATIENCE: u32 = 1 << 14;

/// A connection.
pub struct Rings {
    client: Client,
    /// Answers that came and were not handed out, and how much of the first was.
    answers: VecDeque<Vec<u8>>,
    taken: usize,
    spare: Vec<Vec<u8>>,
    issued: bool,
    in_vain: u32,
}

/// Answers taken from the ring at once.
const BURST: usize = 64;

impl Rings {
    /// Asks for rings at `path`.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(path: &Path) -> io::Result<Rings> {
        let client = Client::connect(path)?;
        let (answers, spare) = (VecDeque::new(), Vec::new());
        Ok(Rings { client, answers, taken: 0, spare, issued: false, in_vain: 0 })
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.issued) {
            self.client.flush();
        }
    }

    /// Takes answers from the ring; false when there are none. An empty one says that nobody wanted any.
    fn poll(&mut self) -> io::Result<bool> {
        let (answers, spare) = (&mut self.answers, &mut self.spare);
        let took = self.client.poll(BURST, |_, answer| {
            if answer.is_empty() {
                return;
            }
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.extend_from_slice(answer);
            answers.push_back(bytes);
        });
        let took = took.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        self.in_vain = if took == 0 { self.in_vain + 1 } else { 0 };
        Ok(!self.answers.is_empty())
    }

    /// Whether the server is gone, asked now and then.
    fn is_over(&mut self) -> bool {
        if self.in_vain < PATIENCE {
            return false;
        }
        self.in_vain = 0;
        self.client.wait(WaitPolicy::BLOCK, Some(Duration::ZERO)) == Outcome::PeerGone
    }
}

impl Transport for Rings {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.client.send(bytes) {
            Ok(_) => {
                self.issued = true;
                Ok(bytes.len())
            }
            Err(SendError::Full) => Err(io::ErrorKind::WouldBlock.into()),
            Err(SendError::TooLarge) => Err(io::Error::new(io::ErrorKind::InvalidInput, SendError::TooLarge)),
            Err(SendError::Gone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.flush();
        if self.answers.is_empty() && !self.poll()? {
            return if self.is_over() { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let first = self.answers.front().expect("an answer is there");
        let n = room.len().min(first.len() - self.taken);
        room[..n].copy_from_slice(&first[self.taken..][..n]);
        self.taken += n;
        if self.taken == first.len() {
            let mut done = self.answers.pop_front().expect("an answer is there");
            done.clear();
            self.spare.push(done);
            self.taken = 0;
        }
        Ok(n)
    }

    fn waitable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn framing(&self) -> Framing {
        Framing::Messages
    }
}
