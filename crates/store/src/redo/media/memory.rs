//! Memory of the process, declared as what it is.

use super::{Class, Media, within};
use std::io;
use std::ops::Range;

/// Bytes that end with the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    /// `len` zeros.
    pub fn new(len: usize) -> Memory {
        Memory { bytes: vec![0; len] }
    }
}

impl Media for Memory {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes[within(offset, out.len(), self.len())?]);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = within(offset, bytes.len(), self.len())?;
        self.bytes[at].copy_from_slice(bytes);
        Ok(())
    }

    fn persist(&mut self, _: &[Range<u64>]) -> io::Result<()> {
        Ok(())
    }

    fn class(&self) -> Class {
        Class::Volatile
    }
}
