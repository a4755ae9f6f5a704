//! buffa: owned messages, fresh or reused; views that borrow strings and bytes; lazy views.
//!
//! Owned messages and views are complete after decoding. A **lazy** view keeps sub-messages as undecoded byte ranges and finds
//! their errors only on access, so its "decode" is a smaller promise and is listed apart. Without sub-messages it is a view.
//! Encoding reuses the cache of sizes, which is buffa's fastest way. Unknown fields are kept (the default).

use std::marker::PhantomData;

use buffa::{EnumValue, Enumeration, LazyMessageView, Message, MessageView, ViewEncode};
use bytes::Bytes;

use crate::contest::{Decoder, Encoder};
use crate::families::{Family, messages};
use crate::fold::{Fold, Sink, fold_fields};

/// What buffa-build generated.
pub mod generated {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/buffa/all.rs"));
}

macro_rules! fold_messages {
    ($package:ident $message:ident $view:ident $lazy:ident ($($field:ident)*)) => {
        fold_fields! { generated::$package::$message: $($field)* }
        fold_fields! { generated::$package::$view<'_>: $($field)* }
        fold_fields! { generated::$package::$lazy<'_>: $($field)* }
    };
}
messages!(fold_messages);

impl<E: Enumeration> Fold for EnumValue<E> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        self.to_i32().fold(sink);
    }
}

impl<T: Fold + Default, P: buffa::ProtoBox<T>> Fold for buffa::MessageField<T, P> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        self.as_option().fold(sink);
    }
}

impl<V: Fold> Fold for buffa::MessageFieldView<V> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        self.as_option().fold(sink);
    }
}

impl<T> Fold for buffa::RepeatedView<'_, T>
where
    [T]: Fold,
{
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        (**self).fold(sink);
    }
}

impl<'a, V: LazyMessageView<'a> + Fold> Fold for buffa::LazyMessageFieldView<'a, V> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        self.get().expect("prost wrote this input").fold(sink);
    }
}

impl<'a, V: LazyMessageView<'a> + Fold> Fold for buffa::LazyRepeatedView<'a, V> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.word(self.len() as u64);
        self.iter().for_each(|item| item.expect("prost wrote this input").fold(sink));
    }
}

/// A new owned message each time.
pub struct Fresh<F>(pub PhantomData<F>);

impl<F: Family> Decoder for Fresh<F> {
    type Message<'a> = F::Buffa;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::Buffa {
        F::Buffa::decode_from_slice(input).expect("prost wrote this input")
    }
}

/// One owned message, cleared and merged into.
pub struct Reused<F: Family>(pub F::Buffa);

impl<F: Family> Decoder for Reused<F> {
    type Message<'a> = &'a F::Buffa;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> &'a F::Buffa {
        self.0.clear();
        self.0.merge_from_slice(input).expect("prost wrote this input");
        &self.0
    }
}

/// A view of the input each time.
pub struct View<F>(pub PhantomData<F>);

impl<F: Family> Decoder for View<F> {
    type Message<'a> = F::BuffaView<'a>;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::BuffaView<'a> {
        F::BuffaView::decode_view(input).expect("prost wrote this input")
    }
}

/// A lazy view of the input each time.
pub struct LazyView<F>(pub PhantomData<F>);

impl<F: Family> Decoder for LazyView<F> {
    type Message<'a> = F::BuffaLazyView<'a>;

    #[inline(always)]
    fn decode<'a>(&'a mut self, input: &'a Bytes) -> F::BuffaLazyView<'a> {
        F::BuffaLazyView::decode_lazy(input).expect("prost wrote this input")
    }
}

/// Encodes the corpus from owned messages.
pub struct Encode<F: Family> {
    messages: Vec<F::Buffa>,
    sizes: buffa::SizeCache,
}

impl<F: Family> Encode<F> {
    /// Decodes what will be encoded.
    pub fn new(corpus: &[Bytes]) -> Encode<F> {
        let decode = |input: &Bytes| F::Buffa::decode_from_slice(input).expect("prost wrote this input");
        Encode { messages: corpus.iter().map(decode).collect(), sizes: buffa::SizeCache::new() }
    }
}

impl<F: Family> Encoder for Encode<F> {
    #[inline(always)]
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        out.clear();
        self.messages[index].encode_with_cache(&mut self.sizes, out);
        out
    }
}

/// Encodes the corpus from views.
pub struct EncodeView<F: Family> {
    messages: Vec<F::BuffaView<'static>>,
    sizes: buffa::SizeCache,
}

impl<F: Family> EncodeView<F> {
    /// Decodes what will be encoded.
    pub fn new(corpus: &'static [Bytes]) -> EncodeView<F> {
        let decode =
            |input: &'static Bytes| F::BuffaView::decode_view(input).expect("prost wrote this input");
        EncodeView { messages: corpus.iter().map(decode).collect(), sizes: buffa::SizeCache::new() }
    }
}

impl<F: Family> Encoder for EncodeView<F> {
    #[inline(always)]
    fn encode<'a>(&'a mut self, index: usize, out: &'a mut Vec<u8>) -> &'a [u8] {
        out.clear();
        self.messages[index].encode_with_cache(&mut self.sizes, out);
        out
    }
}
