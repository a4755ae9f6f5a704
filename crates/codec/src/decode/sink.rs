//! Where a lane puts what it decodes.
//!
//! One lane, three ways to write: `Direct` for this thread's own memory, one-shot and field-by-field for objects that cross
//! to another one. The lane always builds the open object in memory that it can write; what becomes of it when it is
//! closed is the sink's matter.

use crate::memory::{OutOfMemory, Place};
use crate::object::{Addr, Object, Ref};
use crate::table::{Entry, Message};

/// An object under construction: memory that this thread writes, zeroed when opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) object: Object,
    pub(crate) place: Place,
}

pub(crate) trait Sink {
    /// Begins an object of `message` that will be in `place`.
    fn open(&mut self, place: Place, message: &Message) -> Result<Open, OutOfMemory>;

    /// Goes on with a finished object (the field came a second time and must merge), if this sink can.
    fn reopen(&mut self, addr: Addr, place: Place) -> Option<Open>;

    /// Finishes an object; its arrays are those that [`Sink::grow`] gave. Its address is as objects will hold it.
    fn close(&mut self, open: Open, message: &Message, entries: &[Entry]) -> Result<Addr, OutOfMemory>;

    /// Stores bytes that belong to an open object.
    fn bytes(&mut self, place: Place, bytes: &[u8]) -> Result<Addr, OutOfMemory>;

    /// Makes room for `more` elements of `size` bytes in an array of an open object.
    fn grow(&mut self, place: Place, array: Ref, size: usize, more: u32) -> Result<Ref, OutOfMemory>;

    /// Where an element of an open object's array is written.
    fn element(&self, array: Ref, size: usize, index: u32) -> *mut u8;
}
