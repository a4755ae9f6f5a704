//! A client's two ways to what it asks for: packets, and for what does not fit one a stream to its home.
//!
//! ```text
//!  call ─┬─ fits ─▶ packets ─▶ box ─ … ─ home ─▶ answer ─┬─ TOO_LARGE to a GET, NO_ROOM to an APPEND ─▶ stream
//!        │                                               └─ all others ─▶ outcome
//!        └─ a value of more than a packet holds ─▶ stream ─▶ home ─▶ outcome
//! ```
//! Each operation takes effect once, at its home: what was refused by packet had none, and is another operation by stream, with a patience of its own.
//!
//! Without streams in the topology: packets alone.

use super::driver::Driver;
use super::stream::{self, StreamId, Streams};
use base::{Clock, Nanos};
use protocol::coherence;
use protocol::coherence::client::{Answer, Call, Failed, OpId, Refused};
use protocol::wire::{MAX_KEY, MAX_VALUE, Status, Verb};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Operations that never went by packet have numbers from here on.
const BY_STREAM: u64 = 1 << 63;

/// See the head of the file.
#[derive(Debug)]
pub struct Ways {
    packets: Driver<coherence::Client>,
    streams: Option<ByStream>,
}

#[derive(Debug)]
struct ByStream {
    streams: Streams,
    /// What may turn out to be too long.
    calls: HashMap<OpId, Call>,
    asked: HashMap<StreamId, (OpId, Verb)>,
    /// Operations that may be under way by streams.
    most: usize,
    next: u64,
    /// Over the sockets of both ways.
    epoll: OwnedFd,
    clock: Clock,
}

impl Ways {
    /// By packets of this client, and by `streams`; so many operations may be under way by each.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(
        packets: Driver<coherence::Client>,
        streams: Option<Streams>,
        most: usize,
    ) -> io::Result<Ways> {
        let by_stream = |streams: Streams| {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let watch = |fd| epoll::add(&epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            watch(packets.as_fd())?;
            watch(streams.as_fd())?;
            let (calls, asked) = (HashMap::new(), HashMap::new());
            io::Result::Ok(ByStream { streams, calls, asked, most, next: 0, epoll, clock: Clock::shared() })
        };
        let streams = streams.map(by_stream).transpose()?;
        Ok(Ways { packets, streams })
    }

    /// Begins an operation.
    pub fn start(&mut self, call: Call) -> Result<OpId, Refused> {
        let Some(by_stream) = &mut self.streams else {
            return self.packets.act(|client, now, out| client.start(now, call, out));
        };
        if call.value.len() > MAX_VALUE {
            return by_stream.start(&call);
        }
        let kept = matches!(call.verb, Verb::Get | Verb::Append).then(|| call.clone());
        let id = self.packets.act(|client, now, out| client.start(now, call, out))?;
        by_stream.calls.extend(kept.map(|call| (id, call)));
        Ok(id)
    }

    /// An operation that ended, and how.
    pub fn poll_outcome(&mut self) -> Option<(OpId, Result<Answer, Failed>)> {
        while let Some((id, outcome)) = self.packets.act(|client, _, _| client.poll_outcome()) {
            let Some(by_stream) = &mut self.streams else { return Some((id, outcome)) };
            let call = by_stream.calls.remove(&id);
            let is_too_long = |call: &Call| match &outcome {
                Ok(answer) => is_too_long(call, answer.status),
                Err(_) => false,
            };
            match call.filter(is_too_long).and_then(|call| by_stream.ask(id, &call)) {
                Some(()) => {}
                None => return Some((id, outcome)),
            }
        }
        self.streams.as_mut()?.poll_outcome()
    }

    /// Takes what has arrived and does what is due. It does not wait.
    pub fn serve(&mut self) -> io::Result<()> {
        self.packets.serve()?;
        if let Some(by_stream) = &mut self.streams {
            by_stream.streams.serve(by_stream.clock.now());
        }
        Ok(())
    }

    /// Waits for something, at most for `longest`, and serves what there is.
    pub fn turn(&mut self, longest: Nanos) -> io::Result<()> {
        let Some(by_stream) = &self.streams else { return self.packets.turn(longest) };
        let span = self.next_deadline().since(by_stream.clock.now()).min(longest);
        let timeout =
            Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as _ };
        match poll(&mut [PollFd::new(&by_stream.epoll, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => self.serve(),
            Err(error) => Err(error.into()),
        }
    }

    /// When [`Ways::serve`] is wanted although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        let packets = self.packets.next_deadline();
        self.streams.as_ref().map_or(packets, |by| packets.min(by.streams.next_deadline()))
    }
}

impl ByStream {
    fn start(&mut self, call: &Call) -> Result<OpId, Refused> {
        if call.value.len() > self.streams.value_max() || !(1..=MAX_KEY).contains(&call.key.len()) {
            return Err(Refused::Bad);
        }
        if self.asked.len() >= self.most {
            return Err(Refused::Full);
        }
        let id = OpId(BY_STREAM | self.next);
        self.ask(id, call).ok_or(Refused::Bad)?;
        self.next += 1;
        Ok(id)
    }

    /// Asks the home; none where a stream cannot.
    fn ask(&mut self, id: OpId, call: &Call) -> Option<()> {
        let request = stream::of_call(call)?;
        let asked = self.streams.ask(self.clock.now(), request);
        self.asked.insert(asked, (id, call.verb));
        Some(())
    }

    fn poll_outcome(&mut self) -> Option<(OpId, Result<Answer, Failed>)> {
        let (asked, outcome) = self.streams.poll()?;
        let (id, verb) = self.asked.remove(&asked).expect("what is asked is entered");
        Some((id, outcome.map(|said| stream::answer(verb, said))))
    }
}

/// Whether a packet could not carry it, or what it would make.
fn is_too_long(call: &Call, status: Status) -> bool {
    matches!((call.verb, status), (Verb::Get, Status::TooLarge) | (Verb::Append, Status::NoRoom))
}

impl AsFd for Ways {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.streams.as_ref().map_or(self.packets.as_fd(), |by| by.epoll.as_fd())
    }
}
