//! One connection's load over the fabric, on the machinery of `millrace rpc bench`.

use super::tally::StageTally;
use crate::drive::Caller;
use fabric::channel::{CallOptions, Channel, Event, Method, StartError};
use fabric::status::{Code, Status};
use serve::rec::proto::millrace::InferReply;
use serve::rec::take_stages;

/// Sends encoded requests in turns.
pub struct Infer<'r> {
    /// `Recommend.Infer` of the channel's peer.
    pub method: Method,
    /// Requests.
    pub bodies: &'r [Vec<u8>],
    /// Queries of each.
    pub batch: usize,
    /// The next.
    pub next: usize,
}

impl Caller for Infer<'_> {
    type Counts = StageTally;

    fn start(&mut self, channel: &mut Channel, user: u64) -> Result<(), StartError> {
        let body = &self.bodies[self.next % self.bodies.len()];
        channel.start(self.method, &CallOptions::default(), user, body)?;
        self.next += 1;
        Ok(())
    }

    fn check(&mut self, event: &mut Event<'_>, counts: &mut StageTally) -> Result<(), Status> {
        let reply = event.message::<InferReply>()?;
        if reply.batch() as usize != self.batch || !reply.scores().iter().all(|score| score.is_finite()) {
            return Err(Status::new(Code::Internal, "scores of other queries, or no numbers"));
        }
        if let Some(stages) = reply.stages() {
            counts.note(&take_stages(stages));
        }
        Ok(())
    }
}
