//! The spans of a request on lanes: from when its message is with them until it is seen that they are done. What a unit does is
//! recorded where it is asked for (`Context::run`).
//!
//! Cost: a request that leaves no spans has none of this, and is asked for its metadata's length.

use super::queue::Stage;
use super::{Reply, Waiting};
use crate::frame::Frame;
use crate::server::router::Router;
use base::Clock;
use base::trace::{Kind, OK, Place, Scope};
use base::units::Nanos;
use codec::decode::DecodeError;
use codec::place::Placed;
use std::cell::Cell;

/// Of a request that leaves spans.
pub(super) struct Traced {
    scope: Scope,
    since: Cell<Nanos>,
}

impl Traced {
    /// Of a request whose message the lanes have from now on.
    #[inline]
    pub(super) fn of(router: &Router, request: &Frame<'_>) -> Option<Box<Traced>> {
        let scope = router.scope(request)?;
        Some(Box::new(Traced { scope, since: Cell::new(Clock::shared().now()) }))
    }

    /// The lanes have its reply from now on.
    pub(super) fn begin(&self) {
        self.since.set(Clock::shared().now());
    }

    /// They are done.
    pub(super) fn end(&self, name: &'static str) {
        let open = self.scope.open(self.since.get());
        open.end_as(Kind::Part, name, Place::Accelerator, Clock::shared().now(), OK, None, "lanes".into());
    }
}

/// A request was handled, or its reply offered again.
pub(super) fn put(queue: &mut Waiting, number: u64, stage: Stage<Result<Placed, DecodeError>, Reply>) {
    if let (Stage::Sending, Some(traced)) = (&stage, &queue.head(number).traced) {
        traced.begin();
    }
    queue.set(number, stage);
}
