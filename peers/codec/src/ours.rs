//! Our codec: views that borrow the input, and messages that own all they hold in an arena that is reused.
//!
//! The schema is the descriptor set that prost and buffa were generated from. Both modes decode into one arena, which is reset
//! before each message: what a server does for each request, so its cost is counted. Reading walks the table's entries, in
//! the same order as the field lists, and asks for each what kind it is; typed accessors know that when they are compiled.
//!
//! Encoding goes from back to front, in a buffer that the encoder keeps. The row of views lends that buffer, as a sender would
//! use it; the row of owned messages also copies it into the caller's, as the peers' encoders are used.

use std::marker::PhantomData;

use bytes::Bytes;
use codec::memory::Arena;
use codec::object::{View, bytes_of, view_at};
use codec::schema::Schema;
use codec::table::{Entry, Kind, Table};

use crate::contest::{Decoder, Encoder};
use crate::families::Family;
use crate::fold::{Fold, Sink};

/// Decodes with one lane into one arena; `BORROW` leaves strings and bytes in the input, else they are copied.
pub struct Lane<F, const BORROW: bool> {
    decoder: codec::decode::Decoder,
    arena: Arena,
    table: Table,
    class: u32,
    family: PhantomData<F>,
}

impl<F: Family, const BORROW: bool> Lane<F, BORROW> {
    /// A lane for the family's outermost message.
    pub fn new() -> Lane<F, BORROW> {
        let (table, class) = table_of(F::MESSAGE);
        Lane {
            decoder: codec::decode::Decoder::default(),
            arena: Arena::default(),
            table,
            class,
            family: PhantomData,
        }
    }
}

/// The table of all families, and the class of a message in it.
pub fn table_of(message: &str) -> (Table, u32) {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/peers.binpb"));
    let schema = Schema::from_descriptor_set(descriptors).expect("protox writes valid descriptors");
    (schema.table(), schema.class(message).expect("the descriptors have every family"))
}

impl<F: Family, const BORROW: bool> Decoder for Lane<F, BORROW> {
    type Message<'a> = Message<'a>;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> Message<'a> {
        self.arena.reset();
        let (table, class, arena) = (&self.table, self.class, &self.arena);
        let view = match BORROW {
            true => self.decoder.borrowed(table, class, input, arena),
            false => self.decoder.owned(table, class, input, arena),
        };
        Message { view: view.expect("prost wrote this input"), table, class }
    }
}

/// A decoded message, and the part of the table that describes it.
pub struct Message<'a> {
    view: View<'a>,
    table: &'a Table,
    class: u32,
}

impl<'a> Message<'a> {
    /// The message `view` of the class that `entry` of this one says.
    #[inline(always)]
    fn inner(&self, entry: &Entry, view: View<'a>) -> Message<'a> {
        Message { view, table: self.table, class: entry.aux }
    }

    #[inline(always)]
    fn fold_one<S: Sink>(&self, index: usize, entry: &Entry, sink: &mut S) {
        let (view, at) = (self.view, entry.offset);
        // SAFETY: index and offset are of an entry of the view's class, and each arm reads what its kind has in an object.
        unsafe {
            match entry.kind() {
                Kind::String | Kind::Bytes => sink.bytes(view.bytes(at)),
                Kind::Message | Kind::Group => {
                    view.message(index as u32, at).map(|view| self.inner(entry, view)).fold(sink);
                }
                Kind::Double | Kind::Fixed64 | Kind::Uint64 => view.scalar::<u64>(at).fold(sink),
                Kind::Int64 | Kind::Sfixed64 | Kind::Sint64 => view.scalar::<i64>(at).fold(sink),
                Kind::Float | Kind::Fixed32 | Kind::Uint32 => view.scalar::<u32>(at).fold(sink),
                Kind::Int32 | Kind::Sfixed32 | Kind::Sint32 | Kind::Enum => view.scalar::<i32>(at).fold(sink),
                Kind::Bool => sink.word(view.scalar::<u8>(at).into()),
            }
        }
    }

    #[inline(always)]
    fn fold_all<S: Sink>(&self, entry: &Entry, sink: &mut S) {
        let (view, at) = (self.view, entry.offset);
        // SAFETY: as in `fold_one`; elements are of the kind, and come from this view.
        unsafe {
            match entry.kind() {
                Kind::String | Kind::Bytes => {
                    let elements = view.refs(at);
                    sink.word(elements.len() as u64);
                    elements.iter().for_each(|&element| sink.bytes(bytes_of(element)));
                }
                Kind::Message | Kind::Group => {
                    let elements = view.messages(at);
                    sink.word(elements.len() as u64);
                    elements.iter().for_each(|&element| self.inner(entry, view_at(element)).fold(sink));
                }
                Kind::Double | Kind::Fixed64 | Kind::Uint64 => view.array::<u64>(at).fold(sink),
                Kind::Int64 | Kind::Sfixed64 | Kind::Sint64 => view.array::<i64>(at).fold(sink),
                Kind::Float | Kind::Fixed32 | Kind::Uint32 => view.array::<u32>(at).fold(sink),
                Kind::Int32 | Kind::Sfixed32 | Kind::Sint32 | Kind::Enum => view.array::<i32>(at).fold(sink),
                Kind::Bool => {
                    let elements = view.array::<u8>(at);
                    sink.word(elements.len() as u64);
                    elements.iter().for_each(|&element| sink.word(element.into()));
                }
            }
        }
    }
}

impl Fold for Message<'_> {
    #[inline]
    fn fold<S: Sink>(&self, sink: &mut S) {
        for (index, entry) in self.table.entries(self.table.message(self.class)).iter().enumerate() {
            match entry.is_repeated() {
                true => self.fold_all(entry, sink),
                false => self.fold_one(index, entry, sink),
            }
        }
    }
}

/// Encodes the corpus: from borrowed messages into the encoder's own buffer, or from owned ones into the caller's.
pub struct Encode<F, const BORROW: bool> {
    encoder: codec::encode::Encoder,
    messages: Vec<View<'static>>,
    table: Table,
    class: u32,
    family: PhantomData<F>,
}

impl<F: Family, const BORROW: bool> Encode<F, BORROW> {
    /// Decodes what will be encoded; its arena lives as long as the corpus.
    pub fn new(corpus: &'static [Bytes]) -> Encode<F, BORROW> {
        let (table, class) = table_of(F::MESSAGE);
        let arena: &'static Arena = Box::leak(Box::default());
        let mut decoder = codec::decode::Decoder::default();
        let decode = |input: &'static Bytes| match BORROW {
            true => decoder.borrowed(&table, class, input, arena),
            false => decoder.owned(&table, class, input, arena),
        };
        let messages: Result<_, _> = corpus.iter().map(decode).collect();
        let messages = messages.expect("prost wrote this input");
        Encode { encoder: codec::encode::Encoder::default(), messages, table, class, family: PhantomData }
    }
}

impl<F: Family, const BORROW: bool> Encoder for Encode<F, BORROW> {
    #[inline(always)]
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        let (table, class, message) = (&self.table, self.class, self.messages[index]);
        if BORROW {
            // SAFETY: the message was decoded as this class of this table.
            return unsafe { self.encoder.encoded(table, class, message) }.expect("it was decoded");
        }
        out.clear();
        // SAFETY: as above.
        unsafe { self.encoder.encode(table, class, message, out) }.expect("it was decoded");
        out
    }
}
