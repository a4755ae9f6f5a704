//! Where a call's time went, without a clock that both sides would have to agree on.
//!
//! A caller that wants to know sends the metadata key [`KEY`]; [`Timed`] then sends back how long the handler took. What the caller saw
//! beyond that is the way: rings or sockets, and waiting until the other side looked.

use base::{Clock, Nanos};
use fabric::service::{BoxFuture, Incoming, Service, ServiceDescriptor, StreamCall};
use fabric::status::Status;

/// Asks for, and carries, a handler's time.
pub const KEY: &str = "handler-ns";

/// A service whose handlers are timed when a caller asks for it.
#[derive(Debug)]
pub struct Timed<S>(pub S);

impl<S: Service> Service for Timed<S> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.0.descriptor()
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        if call.context().metadata_value(KEY).is_none() {
            return self.0.unary(method, call);
        }
        let clock = Clock::shared();
        let begin = clock.now();
        let result = self.0.unary(method, call);
        let took = clock.now().since(begin);
        // The handler filled the metadata: then its caller learns nothing.
        let _ = call.context().push_metadata(KEY, &took.0.to_le_bytes());
        result
    }

    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        self.0.stream(method, call)
    }
}

/// What [`Timed`] sent back.
pub fn handler_time<'a>(mut metadata: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Nanos> {
    let (_, value) = metadata.find(|&(key, _)| key == KEY)?;
    Some(Nanos(u64::from_le_bytes(value.try_into().ok()?)))
}
