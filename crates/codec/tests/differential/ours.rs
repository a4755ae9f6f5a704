//! Our side: every way we decode and write, held against one another.

use crate::read;
use crate::serialisers::Serialisers;
use crate::tree::{Tree, Value};
use codec::decode::{DecodeError, Decoder, Fault, Limits};
use codec::encode::{Encoder, Strategy};
use codec::memory::Arena;
use codec::object::Dynamic;
use codec::schema::{Schema, Types};
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    static SERIALISERS: RefCell<Serialisers> = RefCell::default();
}

/// A decoded message: what it says, and how we write it.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub tree: Tree,
    /// What the root's singular fields read as, there or not.
    pub scalars: BTreeMap<u32, Value>,
    pub bytes: Vec<u8>,
}

/// One class of a compiled schema.
pub struct Ours {
    types: Types,
    class: u32,
}

impl Ours {
    /// The message with that full name in a serialised `FileDescriptorSet`.
    pub fn new(descriptor_set: &[u8], message: &str) -> Ours {
        let schema = Schema::from_descriptor_set(descriptor_set).expect("the set describes a schema");
        let class = schema.class(message).expect("the schema has that message");
        Ours { types: Types::new(schema), class }
    }

    /// Decodes in every way, within `limits`, and writes what was decoded. Inside, whether the bytes were refused; outside,
    /// what is wrong with us.
    pub fn check(&self, bytes: &[u8], limits: Limits) -> Result<Result<Read, DecodeError>, String> {
        let (mut decoder, arena, copies) = (Decoder::new(limits), Arena::default(), Arena::default());
        let borrowed = Dynamic::decode(&self.types, self.class, &mut decoder, bytes, &arena);
        let owned = Dynamic::decode_owned(&self.types, self.class, &mut decoder, bytes, &copies);
        let held = arena.held_bytes().max(copies.held_bytes());
        if held > limits.memory_for(bytes.len()) {
            return Err(format!("{} bytes of input took {held} of memory", bytes.len()));
        }
        let (borrowed, owned) = match (borrowed, owned) {
            (Ok(borrowed), Ok(owned)) => (read(borrowed)?, read(owned)?),
            (Err(borrowed), Err(owned)) if borrowed == owned => return Ok(Err(borrowed)),
            // Copies of strings need memory that borrowed ones do not.
            (_, Err(owned)) if owned.fault == Fault::Memory => return Ok(Err(owned)),
            (borrowed, owned) => return Err(format!("borrowed {borrowed:?}\nowned {owned:?}")),
        };
        if borrowed != owned {
            return Err(format!("borrowed {borrowed:?}\nowned {owned:?}"));
        }
        self.again(&borrowed)?;
        Ok(Ok(borrowed))
    }

    /// The schema, and the class in it.
    #[allow(dead_code, reason = "who tests binary messages only has no use for it")]
    pub fn types(&self) -> (&Types, u32) {
        (&self.types, self.class)
    }

    /// What we wrote means the same, and is written the same way again.
    fn again(&self, first: &Read) -> Result<(), String> {
        // Written bytes may need more memory than those that came: a run of unknown fields may have become many.
        let limits = Limits { slack_bytes: 1 << 30, ..Limits::default() };
        let (mut decoder, arena) = (Decoder::new(limits), Arena::default());
        let second = Dynamic::decode(&self.types, self.class, &mut decoder, &first.bytes, &arena)
            .map_err(|error| format!("we refuse what we wrote: {error}: {:02x?}", first.bytes))?;
        let second = read(second)?;
        if second == *first { Ok(()) } else { Err(format!("first  {first:?}\nsecond {second:?}")) }
    }
}

/// Reads a message and writes it in every way.
fn read(message: Dynamic) -> Result<Read, String> {
    let (table, class, view) = (message.types().table(), message.class(), message.view());
    let mut encoder = Encoder::default();
    // SAFETY: the view is of this class and table.
    let written = unsafe { encoder.encoded(table, class, view) };
    let bytes = written.map_err(|error| format!("decoded, but not written: {error}"))?.to_vec();
    for strategy in Strategy::ALL {
        // SAFETY: as above.
        let written = SERIALISERS
            .with_borrow_mut(|serialisers| unsafe { serialisers.write(strategy, table, class, view) });
        if written.as_ref() != Ok(&bytes) {
            return Err(format!("{strategy:?} writes {written:02x?}\nand not {bytes:02x?}"));
        }
    }
    Ok(Read { tree: read::tree(message), scalars: read::scalars(message), bytes })
}
