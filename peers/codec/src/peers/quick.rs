//! quick-protobuf: `Cow` strings and bytes that borrow the input. Packed fixed-width fields are lent in place, unchecked.
//!
//! Unknown fields are dropped, and an unknown enum value becomes the default one. Encoding goes into a slice, its fastest way.

use std::marker::PhantomData;

use bytes::Bytes;
use quick_protobuf::{BytesReader, BytesWriter, MessageRead, MessageWrite, Writer};

use crate::contest::{Decoder, Encoder};
use crate::families::{Family, messages};
use crate::fold::{Fold, Sink, fold_fields};

/// What pb-rs generated.
#[allow(missing_docs, non_camel_case_types, unused_imports, dead_code, clippy::all)]
pub mod generated {
    pub mod log {
        include!(concat!(env!("OUT_DIR"), "/quick/log.rs"));
    }
    pub mod nested {
        include!(concat!(env!("OUT_DIR"), "/quick/nested.rs"));
    }
    pub mod wide {
        include!(concat!(env!("OUT_DIR"), "/quick/wide.rs"));
    }
    pub mod micro {
        include!(concat!(env!("OUT_DIR"), "/quick/micro.rs"));
    }
}

macro_rules! fold_messages {
    ($package:ident $message:ident $view:ident $lazy:ident ($($field:ident)*)) => {
        fold_fields! { generated::$package::$message<'_>: $($field)* }
    };
}
messages!(fold_messages);

macro_rules! fold_enums {
    ($($enum:ty)*) => {$(
        impl Fold for $enum {
            #[inline(always)]
            fn fold<S: Sink>(&self, sink: &mut S) {
                (*self as i32).fold(sink);
            }
        }
    )*};
}
fold_enums! { generated::log::Severity generated::log::Transport generated::micro::PostKind }

/// A borrowed message each time.
pub struct Borrowed<F>(pub PhantomData<F>);

impl<F: Family> Decoder for Borrowed<F> {
    type Message<'a> = F::Quick<'a>;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::Quick<'a> {
        decode::<F>(input)
    }
}

#[inline(always)]
fn decode<F: Family>(input: &Bytes) -> F::Quick<'_> {
    F::Quick::from_reader(&mut BytesReader::from_bytes(input), input).expect("prost wrote this input")
}

/// Encodes the corpus from borrowed messages.
pub struct Encode<F: Family>(Vec<F::Quick<'static>>);

impl<F: Family> Encode<F> {
    /// Decodes what will be encoded.
    pub fn new(corpus: &'static [Bytes]) -> Encode<F> {
        Encode(corpus.iter().map(decode::<F>).collect())
    }
}

impl<F: Family> Encoder for Encode<F> {
    #[inline(always)]
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        let message = &self.0[index];
        let length = message.get_size();
        if out.len() < length {
            out.resize(length, 0);
        }
        message.write_message(&mut Writer::new(BytesWriter::new(out))).expect("the size was asked for");
        &out[..length]
    }
}
