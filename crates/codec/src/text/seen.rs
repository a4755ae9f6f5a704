//! What of a message was there already.

/// Which fields of a message, by index, and which of its oneofs were there.
#[derive(Debug, Default)]
pub(super) struct Seen {
    fields: Vec<u64>,
    oneofs: Vec<u64>,
}

impl Seen {
    /// Marks a field; true if it was marked.
    pub fn field(&mut self, index: usize) -> bool {
        mark(&mut self.fields, index)
    }

    /// Marks a oneof; true if it was marked.
    pub fn oneof(&mut self, index: u32) -> bool {
        mark(&mut self.oneofs, index as usize)
    }
}

fn mark(bits: &mut Vec<u64>, index: usize) -> bool {
    let (word, bit) = (index / 64, 1_u64 << (index % 64));
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    let was = bits[word] & bit != 0;
    bits[word] |= bit;
    was
}
