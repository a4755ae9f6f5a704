//! Requests that are handled on another thread, as packets: the frame with where it came from behind it, and the answer.
//!
//! ```text
//!  server   Courier::pack: [frame][connection, 8][arrived, 8] ══▶ Handler::execute   another thread
//!           Courier::connection              [Reply] or nothing ◀══ nothing: the handler deferred
//! ```
//! A packet's tag is the end of the connection's number.

use super::executor::Origin;
use super::router::{Executed, Router, Scratch};
use crate::frame::Frame;
use crate::port::Packet;
use base::clock::Clock;
use base::trace::Place;
use base::units::Nanos;
use std::sync::Arc;

/// Where a request came from, behind its frame.
const TAIL: usize = 16;

/// The server's side.
#[derive(Debug, Default)]
pub struct Courier {
    /// The highest connection seen.
    latest: u64,
}

impl Courier {
    /// A request (a whole frame), ready to travel.
    pub fn pack(&mut self, origin: Origin, request: &[u8]) -> Packet {
        self.latest = self.latest.max(origin.connection);
        let (number, arrived) = (origin.connection.to_le_bytes(), origin.arrived.0.to_le_bytes());
        Packet::new(origin.connection as u32, &[request, &number, &arrived])
    }

    /// The connection that an answer is for: of those whose numbers end in its tag the last one opened, for no request is on its way while
    /// four billion connections are opened.
    pub fn connection(&self, answer: &Packet) -> u64 {
        self.latest.wrapping_sub(u64::from((self.latest as u32).wrapping_sub(answer.tag())))
    }
}

/// The other thread's side: runs handlers.
pub struct Handler {
    router: Arc<Router>,
    scratch: Scratch,
    clock: Clock,
}

impl Handler {
    /// For one thread.
    pub fn new(router: Arc<Router>) -> Handler {
        let scratch = router.scratch();
        Handler { router, scratch, clock: Clock::shared() }
    }

    /// Handles a request; the answer is empty if the handler deferred.
    ///
    /// # Panics
    /// When no [`Courier`] packed it.
    pub fn execute(&mut self, request: &Packet) -> Packet {
        let now = self.clock.now();
        self.execute_at(request, now)
    }

    /// The same, on a worker: a request that leaves spans leaves those of its time there.
    pub(super) fn execute_on_host(&mut self, request: &Packet) -> Packet {
        let begun = self.clock.now();
        let (frame, origin) = parse(request);
        let Some(scope) = self.router.scope(&frame) else { return self.execute_at(request, begun) };
        let answer = self.execute_at(request, begun);
        scope.part("waiting", Place::Host, origin.arrived, begun);
        scope.part("running", Place::Host, begun, self.clock.now());
        answer
    }

    /// Answers that the request's time is over.
    ///
    /// # Panics
    /// When no [`Courier`] packed it.
    pub fn refuse(&mut self, request: &Packet) -> Packet {
        self.execute_at(request, Nanos::MAX)
    }

    fn execute_at(&mut self, request: &Packet, now: Nanos) -> Packet {
        let tag = request.tag();
        let (frame, origin) = parse(request);
        match self.router.execute(&mut self.scratch, &frame, origin, now) {
            Executed::Reply(head, body) => Packet::new(tag, &[&head, body]),
            Executed::Deferred => Packet::new(tag, &[]),
        }
    }
}

/// What a [`Courier`] packed.
#[inline]
fn parse(request: &Packet) -> (Frame<'_>, Origin) {
    let (request, tail) = request.bytes().split_at(request.bytes().len() - TAIL);
    let word = |at: usize| u64::from_le_bytes(*tail[at..].first_chunk().expect("a tail is two words"));
    let origin = Origin { connection: word(0), arrived: Nanos(word(8)) };
    (Frame::parse(request).expect("the server parsed it"), origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_the_end_of_its_number() {
        for (number, latest) in [(1, 1), (1, 9), (0xffff_ffff, 0x1_0000_0003), (0x1_0000_0002, 0x1_0000_0003)]
        {
            let answer = Packet::new(number as u32, &[]);
            assert_eq!(Courier { latest }.connection(&answer), number);
        }
    }
}
