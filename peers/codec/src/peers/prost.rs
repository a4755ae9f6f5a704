//! prost: owned messages of `String` and `Vec`, fresh or reused; and with `bytes::Bytes` for bytes fields, which share the input.
//!
//! "Reused" clears one message and merges into it, so its outermost strings and lists keep their memory; sub-messages do not.

use bytes::Bytes;
use prost::Message;

use crate::contest::{Decoder, Encoder};
use crate::families::{Family, messages};
use crate::fold::fold_fields;

/// Types with `String` and `Vec<u8>`.
pub mod owned {
    #![allow(missing_docs)]
    pub mod log {
        include!(concat!(env!("OUT_DIR"), "/prost/log.rs"));
    }
    pub mod nested {
        include!(concat!(env!("OUT_DIR"), "/prost/nested.rs"));
    }
    pub mod wide {
        include!(concat!(env!("OUT_DIR"), "/prost/wide.rs"));
    }
    pub mod micro {
        include!(concat!(env!("OUT_DIR"), "/prost/micro.rs"));
    }
    pub mod large {
        include!(concat!(env!("OUT_DIR"), "/prost/large.rs"));
    }
}

/// Types with `String` and `Bytes`.
pub mod shared {
    #![allow(missing_docs)]
    pub mod log {
        include!(concat!(env!("OUT_DIR"), "/prost_bytes/log.rs"));
    }
    pub mod nested {
        include!(concat!(env!("OUT_DIR"), "/prost_bytes/nested.rs"));
    }
    pub mod wide {
        include!(concat!(env!("OUT_DIR"), "/prost_bytes/wide.rs"));
    }
    pub mod micro {
        include!(concat!(env!("OUT_DIR"), "/prost_bytes/micro.rs"));
    }
}

macro_rules! fold_messages {
    ($package:ident $message:ident $view:ident $lazy:ident ($($field:ident)*)) => {
        fold_fields! { owned::$package::$message: $($field)* }
        fold_fields! { shared::$package::$message: $($field)* }
    };
}
messages!(fold_messages);

/// A new message each time.
pub struct Fresh<F>(pub std::marker::PhantomData<F>);

impl<F: Family> Decoder for Fresh<F> {
    type Message<'a> = F::Prost;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::Prost {
        F::Prost::decode(&input[..]).expect("prost wrote this input")
    }
}

/// One message, cleared and merged into.
pub struct Reused<F: Family>(pub F::Prost);

impl<F: Family> Decoder for Reused<F> {
    type Message<'a> = &'a F::Prost;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> &'a F::Prost {
        self.0.clear();
        self.0.merge(&input[..]).expect("prost wrote this input");
        &self.0
    }
}

/// A new message each time, whose bytes fields are references to the input.
pub struct Shared<F>(pub std::marker::PhantomData<F>);

impl<F: Family> Decoder for Shared<F> {
    type Message<'a> = F::ProstBytes;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::ProstBytes {
        F::ProstBytes::decode(input.clone()).expect("prost wrote this input")
    }
}

/// Encodes the corpus from prost's messages.
pub struct Encode<F: Family>(Vec<F::Prost>);

impl<F: Family> Encode<F> {
    /// Decodes what will be encoded.
    pub fn new(corpus: &[Bytes]) -> Encode<F> {
        Encode(
            corpus
                .iter()
                .map(|input| F::Prost::decode(&input[..]).expect("prost wrote this input"))
                .collect(),
        )
    }
}

impl<F: Family> Encoder for Encode<F> {
    #[inline(always)]
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        out.clear();
        self.0[index].encode(out).expect("a vector grows");
        out
    }
}
