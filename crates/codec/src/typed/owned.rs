//! A decoded message with the memory that it lies in, for whoever keeps one longer than the bytes it came in.
//!
//! Cost: a chunk of 4 KiB at least for each message; a view into an arena that is used again is cheaper where it will do.

use super::Message;
use crate::decode::{DecodeError, Decoder};
use crate::memory::Arena;
use crate::object::{Object, View};
use std::fmt;
use std::marker::PhantomData;

/// A finished message and its memory.
///
/// Invariant: `root` is an object of `M`'s class in `arena`, which nobody gives from or resets any more.
pub struct Owned<M: Message> {
    root: Object,
    arena: Arena,
    of: PhantomData<M>,
}

// SAFETY: it owns the arena that the object lies in; the message type itself is only a name.
unsafe impl<M: Message> Send for Owned<M> {}
// SAFETY: through a shared reference the message is only read, and the arena is not reached.
unsafe impl<M: Message> Sync for Owned<M> {}

impl<M: Message> Owned<M> {
    /// Decodes `input`, which is not needed any more then.
    ///
    /// # Errors
    /// As [`Decoder::owned`].
    pub fn decode(decoder: &mut Decoder, input: &[u8]) -> Result<Owned<M>, DecodeError> {
        let arena = Arena::default();
        let root = decoder.owned(M::types().table(), M::CLASS, input, &arena)?.object();
        Ok(Owned { root, arena, of: PhantomData })
    }

    /// The message.
    #[inline]
    pub fn view(&self) -> M::View<'_> {
        // SAFETY: the invariant; the arena lives as long as the view borrows it.
        unsafe { M::view(View::of(self.root)) }
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.arena.held_bytes()
    }
}

impl<M: Message> fmt::Debug for Owned<M>
where
    for<'a> M::View<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}
