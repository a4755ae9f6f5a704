//! What a message from outside may cost.

/// Limits of one decode.
///
/// The memory that a message may take is `slack_bytes + amplification × input length`, counted in whole chunks: an empty
/// sub-message is 2 bytes on the wire and a whole object in memory, so a limit on the input alone bounds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages within messages, the root included.
    pub depth: u32,
    /// Bytes of input.
    pub input_bytes: usize,
    /// Memory that any message may take, bytes.
    pub slack_bytes: usize,
    /// Memory for each byte of input, bytes.
    pub amplification: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { depth: 100, input_bytes: 64 << 20, slack_bytes: 64 << 10, amplification: 64 }
    }
}

impl Limits {
    /// No limit allows more input than this: protobuf's own 2 GiB − 1.
    pub const MOST_INPUT: usize = i32::MAX as usize;

    /// The most memory that an input of that length may take, bytes.
    pub fn memory_for(&self, input: usize) -> usize {
        self.amplification.saturating_mul(input).saturating_add(self.slack_bytes)
    }
}
