//! What a message makes an accelerator do: how much it decodes and encodes, and what crosses the link for it.
//!
//! Two sources say so, and everything that takes a message takes either. A [`Shape`] does by arithmetic, for C++ objects as protoc generates them
//! (what the paper's authors ran). Whoever runs a real codec counts it: its objects are its own, so its bytes and its writes are, too.

use super::shape::Shape;
use std::rc::Rc;

/// A message, for whoever charges time for it.
pub trait Traffic {
    /// Its fields by kind: what software works on.
    fn shape(&self) -> &Shape;

    /// Bytes on the wire.
    fn wire(&self) -> u64 {
        self.shape().wire()
    }

    /// Bytes of each write to the host when every field is written where it belongs, by itself.
    fn writes(&self) -> Vec<u64> {
        self.shape().writes()
    }

    /// Bytes of each write to the host through a buffer of `buffer` bytes.
    fn flushes(&self, buffer: u64) -> Vec<u64> {
        let bytes = self.shape().memory();
        let count = bytes.div_ceil(buffer);
        (0..count).map(|i| bytes * (i + 1) / count - bytes * i / count).collect()
    }

    /// Bytes of each write to the host when every field that can be is placed in the accelerator's own memory.
    fn left_to_host(&self) -> Vec<u64> {
        vec![]
    }

    /// Reads of a serialiser that walks the objects in the host's memory: how many have as many others before them, from the root's on.
    fn dereferences(&self) -> Vec<u64> {
        self.shape().dereferences()
    }

    /// Bytes of those reads.
    fn walked(&self) -> u64 {
        self.shape().memory()
    }

    /// Bytes that a processor lays out for a serialiser that encodes them.
    fn presented(&self) -> u64 {
        self.shape().presented()
    }
}

impl Traffic for Shape {
    fn shape(&self) -> &Shape {
        self
    }
}

/// A bench: its name, and its messages.
pub type Bench = (String, Vec<Rc<dyn Traffic>>);
