//! What generated stubs need of whoever makes unary calls: a channel, or a thread's share of one.

use super::{CallId, CallOptions, Channel, Method, StartError};
use crate::status::Status;
use codec::memory::OutOfMemory;
use codec::typed::{Message, Owned};

/// Makes unary calls with messages: [`Channel`], and [`Member`](crate::shared::Member).
pub trait Caller {
    /// The method of a path: `/shop.Cart/Add`.
    fn method(&self, path: &str) -> Option<Method>;

    /// Starts a call with the message that `fill` builds; its outcome comes with `user`.
    ///
    /// # Errors
    /// [`StartError`]; no call was started then, and no event comes.
    fn build<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<CallId, StartError>;

    /// Calls with the message that `fill` builds, and waits for the outcome.
    ///
    /// # Errors
    /// Whatever the call ended with; that it could not be started, too.
    fn call_built<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<Owned<R>, Status>;
}

/// By the type's own functions of the same names.
macro_rules! by_its_own {
    ($caller:ty) => {
        impl Caller for $caller {
            fn method(&self, path: &str) -> Option<Method> {
                <$caller>::method(self, path)
            }

            #[inline]
            fn build<M: Message>(
                &mut self,
                method: Method,
                options: &CallOptions<'_>,
                user: u64,
                fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
            ) -> Result<CallId, StartError> {
                <$caller>::build::<M>(self, method, options, user, fill)
            }

            #[inline]
            fn call_built<Q: Message, R: Message>(
                &mut self,
                method: Method,
                options: &CallOptions<'_>,
                fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
            ) -> Result<Owned<R>, Status> {
                <$caller>::call_built::<Q, R>(self, method, options, fill)
            }
        }
    };
}

by_its_own!(Channel);
by_its_own!(crate::shared::Member);
