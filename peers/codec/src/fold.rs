//! Reading every field of a message once, in one shape for every library, so that what is compared is the same.
//!
//! Each library's message types implement [`Fold`] from one list of fields (`families.rs`): fields go into a [`Sink`] in the
//! list's order, repeated fields and sub-messages with their count in front. Two sinks:
//!
//! * [`Digest`] takes every byte, in order. Equal digests prove that all libraries saw the same values; never timed.
//! * [`Touch`] is what "decode and read" times: it adds up every number, and of a text or bytes field the length and both
//!   ends, which is what handing the slice on would touch. A full hash would cost more than decoding and hide it.

use std::borrow::Cow;

use base::prng::mix64;

/// Where values go.
pub trait Sink {
    /// A number, in two's complement or as its bits; also counts and presence.
    fn word(&mut self, value: u64);
    /// A string or bytes field.
    fn bytes(&mut self, value: &[u8]);
}

/// A message or field that can be read in full.
pub trait Fold {
    /// Reads everything once, in the order of the field list.
    fn fold<S: Sink>(&self, sink: &mut S);
}

/// All bytes of all fields, in order.
#[derive(Default)]
pub struct Digest(pub u64);

impl Sink for Digest {
    fn word(&mut self, value: u64) {
        self.0 = mix64(self.0 ^ value);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.word(value.len() as u64);
        for chunk in value.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}

/// Every number, and the length and ends of every text.
#[derive(Default)]
pub struct Touch(pub u64);

impl Sink for Touch {
    #[inline(always)]
    fn word(&mut self, value: u64) {
        self.0 = self.0.wrapping_add(value);
    }

    #[inline(always)]
    fn bytes(&mut self, value: &[u8]) {
        self.word(value.len() as u64);
        if let (Some(&first), Some(&last)) = (value.first(), value.last()) {
            self.word(first as u64 + last as u64);
        }
    }
}

/// `Fold` for a message type that has its fields as Rust fields.
macro_rules! fold_fields {
    ($message:ty: $($field:ident)*) => {
        impl $crate::fold::Fold for $message {
            #[inline(always)]
            fn fold<S: $crate::fold::Sink>(&self, sink: &mut S) {
                $($crate::fold::Fold::fold(&self.$field, sink);)*
            }
        }
    };
}
pub(crate) use fold_fields;

macro_rules! fold_numbers {
    ($($number:ty: $to_word:expr;)*) => {$(
        impl Fold for $number {
            #[inline(always)]
            fn fold<S: Sink>(&self, sink: &mut S) {
                sink.word($to_word(*self));
            }
        }
    )*};
}
fold_numbers! {
    i32: |n| n as i64 as u64;
    i64: |n| n as u64;
    u32: |n| n as u64;
    u64: |n| n;
    bool: |n| n as u64;
    f32: |n: f32| n.to_bits() as u64;
    f64: f64::to_bits;
}

impl Fold for str {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.bytes(self.as_bytes());
    }
}

impl Fold for String {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.bytes(self.as_bytes());
    }
}

impl Fold for [u8] {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.bytes(self);
    }
}

impl Fold for bytes::Bytes {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.bytes(self);
    }
}

impl<T: Fold> Fold for [T] {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.word(self.len() as u64);
        self.iter().for_each(|item| item.fold(sink));
    }
}

impl<T> Fold for Vec<T>
where
    [T]: Fold,
{
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        self.as_slice().fold(sink);
    }
}

impl<T: Fold> Fold for Option<T> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        sink.word(self.is_some() as u64);
        if let Some(message) = self {
            message.fold(sink);
        }
    }
}

impl<T: Fold + ?Sized> Fold for &T {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        (**self).fold(sink);
    }
}

impl<T: Fold + ?Sized> Fold for &mut T {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        (**self).fold(sink);
    }
}

impl<T: Fold + ToOwned + ?Sized> Fold for Cow<'_, T> {
    #[inline(always)]
    fn fold<S: Sink>(&self, sink: &mut S) {
        (**self).fold(sink);
    }
}
