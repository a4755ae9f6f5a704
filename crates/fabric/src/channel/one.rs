//! For a thread that waits for one call that streams; events of other calls wait for the next poll. Generated stubs stand on it.

use super::blocking::AGAIN;
use super::event::{Event, undecodable};
use super::{CallId, Channel, StartError, What};
use crate::status::{Code, Status};
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};

impl Event<'_> {
    /// As [`Event::message`], with memory of its own.
    ///
    /// # Errors
    /// As [`Event::message`].
    pub fn owned<M: Message>(&mut self) -> Result<Owned<M>, Status> {
        match &self.what {
            What::Reply(body) | What::Item(body) => {
                Owned::decode(&mut self.scratch.decoder, body).map_err(undecodable)
            }
            What::Failed(status) => Err(status.clone()),
            What::End => Err(Status::new(Code::Internal, "the end of a stream has no message")),
        }
    }
}

impl Channel {
    /// Publishes what was started; whether a poll would find something.
    pub fn is_ready(&mut self) -> bool {
        let now = self.time.now();
        self.core.publish(now);
        !self.backlog.is_empty() || self.look(now) || self.core.next_deadline() <= now
    }

    /// Waits for the next event of a call that has not had its last.
    pub(crate) fn next_of<T>(&mut self, call: CallId, take: impl FnOnce(Event<'_>) -> T) -> T {
        let (mut take, mut taken) = (Some(take), None);
        if let Some(at) = self.backlog.iter().position(|kept| kept.call == call) {
            let kept = self.backlog.remove(at).expect("it was there");
            if !kept.happened().what.is_terminal() {
                self.core.handed_out(call);
            }
            let take = take.take().expect("one event is taken");
            return take(Event::new(kept.happened(), &mut self.scratch));
        }
        loop {
            let mut others = std::mem::take(&mut self.backlog);
            let now = self.time.now();
            let mut is_item = false;
            let count = self.turn::<false>(now, 1, |happened, scratch| {
                if happened.call != call {
                    others.push_back(happened.keep());
                } else if let Some(take) = take.take() {
                    is_item = !happened.what.is_terminal();
                    taken = Some(take(Event::new(happened, scratch)));
                }
            });
            self.backlog = others;
            if is_item {
                self.core.handed_out(call);
            }
            if let Some(taken) = taken {
                return taken;
            }
            if count == 0 {
                self.wait_for_frames(self.policy, None);
            }
        }
    }

    /// Sends a further message of a client's stream when there is room for it, and publishes it if it had to wait.
    pub(crate) fn send_waiting<M: Message>(
        &mut self,
        call: CallId,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(), StartError> {
        self.with_typed(|channel, typed| {
            let body = typed.built::<M>(fill)?;
            channel.until_room(|channel| channel.send(call, body))
        })
    }

    /// Ends a client's stream when there is room for saying so.
    pub(crate) fn finish_waiting(&mut self, call: CallId) -> Result<(), StartError> {
        self.until_room(|channel| channel.finish(call))
    }

    fn until_room(
        &mut self,
        mut step: impl FnMut(&mut Channel) -> Result<(), StartError>,
    ) -> Result<(), StartError> {
        loop {
            match step(self) {
                Err(StartError::Full) => {
                    if self.take_turn() == 0 {
                        self.wait_for_frames(self.policy, Some(AGAIN));
                    }
                }
                other => return other,
            }
        }
    }
}
