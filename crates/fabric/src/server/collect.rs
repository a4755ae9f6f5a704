//! What comes back from elsewhere: deferred answers, futures that can go on, workers' replies.

use super::calls::Kind;
use super::connection::Connection;
use super::returns::Return;
use super::tasks::{Of, TaskId};
use super::watched::code_of;
use super::{Core, Server, find};
use crate::frame::{Frame, HEADER, Header};
use crate::monitor::Point;
use base::units::Nanos;

/// Looks at the queue in one poll: a future that is woken by what it does itself waits for the next.
const ROUNDS: usize = 3;

impl Server {
    /// Takes what came back; how much.
    #[inline]
    pub(super) fn collect(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        if self.core.places.is_some() {
            done += self.collect_replies(now);
        }
        for _ in 0..ROUNDS {
            if self.core.fresh.is_empty() && !self.core.returns.is_pending() {
                break;
            }
            done += self.collect_once(now);
        }
        done
    }

    fn collect_replies(&mut self, now: Nanos) -> usize {
        let Some(mut places) = self.core.places.take() else { return 0 };
        let done = places.collect(now, &mut |number, frame| self.answer(number, call_of(frame), frame, now));
        self.core.places = Some(places);
        self.core.settle();
        done
    }

    #[cold]
    fn collect_once(&mut self, now: Nanos) -> usize {
        let mut fresh = std::mem::take(&mut self.core.fresh);
        let mut done = fresh.len();
        for id in fresh.drain(..) {
            self.resume(id, now);
        }
        if self.core.fresh.is_empty() {
            self.core.fresh = fresh;
        }
        let mut returned = std::mem::take(&mut self.returned);
        self.core.returns.take(&mut returned);
        done += returned.len();
        for what in returned.drain(..) {
            self.take_return(what, now);
        }
        returned.shrink_to(1024);
        self.returned = returned;
        done
    }

    fn take_return(&mut self, what: Return, now: Nanos) {
        match what {
            Return::Deferred { connection, call, state } => {
                let open = find(&mut self.connections, connection).and_then(|found| found.calls.get(call));
                match open.map(|open| &mut open.kind) {
                    Some(Kind::Deferred { state: home, cancelled }) => {
                        if *cancelled {
                            state.cancel();
                        }
                        *home = Some(state);
                    }
                    // The connection ended before the handler had said that it defers.
                    _ => state.cancel(),
                }
            }
            Return::Answer { connection, call, frame } => self.answer(connection, call, &frame, now),
            Return::Woken(id) => self.resume(id, now),
            Return::Pump { connection, call } => {
                if let Some(connection) = find(&mut self.connections, connection) {
                    connection.pump(&mut self.core, call, now);
                }
            }
            Return::Spawn(future) => {
                let id = self.core.tasks.add(future, Of::Spawned, &self.core.returns);
                self.resume(id, now);
            }
        }
    }

    /// Lets a future go on.
    fn resume(&mut self, id: TaskId, now: Nanos) {
        match self.core.tasks.run(id) {
            Some((Of::Stream { connection, call }, result)) => {
                if let Some(connection) = find(&mut self.connections, connection) {
                    connection.end_of_handler(&mut self.core, call, result, now);
                }
            }
            Some((Of::Spawned, _)) => self.core.returns.spawn_ended(),
            None => {}
        }
    }

    /// Sends the Reply of an open call.
    fn answer(&mut self, number: u64, call: u32, frame: &[u8], now: Nanos) {
        if let Some(connection) = find(&mut self.connections, number)
            && let Some(watch) = connection.calls.get(call).map(|open| open.watch)
        {
            self.core.watch_pass(watch, Point::Ended);
            connection.close_call(&mut self.core, call);
            connection.reply(frame, now);
            self.core.watch_reply(watch, frame.len().saturating_sub(HEADER));
            self.core.watch_end(watch, code_of(frame));
        }
    }
}

impl Connection {
    fn end_of_handler(
        &mut self,
        core: &mut Core,
        call: u32,
        result: Result<(), crate::status::Status>,
        now: Nanos,
    ) {
        if let Some(Kind::Stream { shared, .. }) = self.calls.get(call).map(|open| &open.kind) {
            shared.end(result);
            self.pump(core, call, now);
        }
    }
}

fn call_of(frame: &[u8]) -> u32 {
    let header: Header = Frame::parse(frame).expect("a worker's reply is a frame").header;
    header.call
}
