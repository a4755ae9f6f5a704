//! Dialling without waiting: each attempt is a thread of its own, which lives as long as the attempt. A machine that does not answer takes
//! seconds, and the node that dials it has a chain to serve.
//!
//! Bounds: one attempt per peer at a time.

use super::options;
use fabric::link::{self, Address, Link};
use protocol::chain::NodeId;
use ring::wait::{Sleeper, Waker, waiting_on_eventfd};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What came of an attempt; the error's text.
pub(super) type Dialled = (NodeId, Result<Box<dyn Link>, String>);

/// Attempts under way.
pub(super) struct Dials {
    ended: Receiver<Dialled>,
    end: Sender<Dialled>,
    /// Found while arming.
    ahead: Option<Dialled>,
    sleeper: Sleeper,
    waker: Waker,
}

impl Dials {
    pub(super) fn new() -> io::Result<Dials> {
        let (sleeper, waker) = waiting_on_eventfd()?;
        let (end, ended) = channel();
        Ok(Dials { ended, end, ahead: None, sleeper, waker })
    }

    pub(super) fn start(&self, node: NodeId, address: Address) {
        let (end, waker) = (self.end.clone(), self.waker.clone());
        let dial = move || {
            let link = link::connect(&address, &options()).map_err(|error| error.to_string());
            // Who asked may be gone.
            let _ = end.send((node, link));
            waker.wake();
        };
        let thread = std::thread::Builder::new().name("chain-dial".into()).spawn(dial);
        if let Err(error) = thread {
            let _ = self.end.send((node, Err(error.to_string())));
            self.waker.wake();
        }
    }

    pub(super) fn next(&mut self) -> Option<Dialled> {
        self.ahead.take().or_else(|| self.ended.try_recv().ok())
    }

    pub(super) fn arm(&mut self) -> bool {
        self.sleeper.arm();
        self.ahead = self.next();
        self.ahead.is_none()
    }

    pub(super) fn disarm(&mut self) {
        self.sleeper.disarm();
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleeper.descriptor().expect("made with an eventfd")
    }
}
