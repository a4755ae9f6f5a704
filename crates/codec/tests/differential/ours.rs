//! Our side: every way we decode and write, held against one another.

use crate::read::Reader;
use crate::tree::Tree;
use codec::decode::{DecodeError, Decoder, Fault, Limits};
use codec::memory::Arena;
use codec::schema::Schema;

/// One class of a compiled schema.
pub struct Ours {
    reader: Reader,
    class: u32,
}

impl Ours {
    /// The message with that full name in a serialised `FileDescriptorSet`.
    pub fn new(descriptor_set: &[u8], message: &str) -> Ours {
        let schema = Schema::from_descriptor_set(descriptor_set).expect("the set describes a schema");
        let class = schema.class(message).expect("the schema has that message");
        Ours { reader: Reader { table: schema.table(), schema }, class }
    }

    /// Decodes in every way, within `limits`. Inside, whether the bytes were refused; outside, what is wrong with us.
    pub fn check(&self, bytes: &[u8], limits: Limits) -> Result<Result<Tree, DecodeError>, String> {
        let (mut decoder, arena, owned) = (Decoder::new(limits), Arena::default(), Arena::default());
        let borrowed = decoder.borrowed(&self.reader.table, self.class, bytes, &arena);
        let owned = decoder.owned(&self.reader.table, self.class, bytes, &owned);
        if arena.held_bytes() > limits.memory_for(bytes.len()) {
            return Err(format!("{} bytes of input took {} of memory", bytes.len(), arena.held_bytes()));
        }
        let tree = |view| self.reader.tree(self.class, view);
        match (borrowed.map(tree), owned.map(tree)) {
            (Ok(borrowed), Ok(owned)) if borrowed == owned => Ok(Ok(borrowed)),
            (Err(borrowed), Err(owned)) if borrowed == owned => Ok(Err(borrowed)),
            // Copies of strings need memory that borrowed ones do not.
            (_, Err(owned)) if owned.fault == Fault::Memory => Ok(Err(owned)),
            (borrowed, owned) => Err(format!("borrowed {borrowed:?}\nowned {owned:?}")),
        }
    }
}
