//! What generated accessors are made of.
//!
//! For each message `User` of a .proto file the compiler (`generate`, with feature `compile`) writes three
//! types: `User`, a name for it that implements [`Message`]; `UserView`, a finished one to be read; and `UserMut`, one that is
//! being built. Their methods are one load or store each, at offsets that are constants; the types here are those that they
//! return and take.
//!
//! ```text
//! User::decode(&mut decoder, bytes, &arena) ─▶ UserView<'a> ── name(), photos().iter(), contact() …
//! User::new(&arena) ─▶ UserMut<'m, 'a> ── set_name(…), cover_mut(), labels_mut() … ── freeze() ─▶ UserView<'a>
//! ```
//!
//! A view cannot outlive its arena:
//!
//! ```compile_fail,E0505
//! use codec::{memory::Arena, object::Edit};
//! let arena = Arena::default();
//! let view = Edit::new(&arena, 24).unwrap().freeze();
//! drop(arena);
//! println!("{view:?}");
//! ```
//!
//! nor can bytes that were lent to a part of a message be gone before the message:
//!
//! ```compile_fail,E0597
//! use codec::{memory::Arena, object::{Edit, Slot}};
//! let arena = Arena::default();
//! let mut message = Edit::new(&arena, 32).unwrap();
//! {
//!     let bytes = vec![1, 2, 3];
//!     let mut part = message.borrow();
//!     // SAFETY: pretend that the message has a bytes field there.
//!     unsafe { part.lend_bytes(Slot::new(0, 8), &bytes) };
//! }
//! println!("{:?}", message.freeze());
//! ```
//!
//! Safety: a generated file holds the layout's hash, and [`Message::types`] compares it with that of the table which this
//! crate makes of the same descriptors, once; so the constants are the table's, or nothing runs.

mod calls;
mod item;
mod list;
mod macros;
mod map;
mod owned;
mod text;

pub use calls::{bools, field, message, message_mut, messages_mut, push_message};
pub use item::{Item, MapKey, Plain};
pub use list::List;
pub use map::{Map, MapMut};
pub use owned::Owned;
pub use text::{AnyText, Text};

use crate::decode::{DecodeError, Decoder};
use crate::encode::{EncodeError, Encoder};
use crate::memory::{Arena, OutOfMemory};
use crate::object::{Dynamic, Edit, View};
use crate::place::Placed;
use crate::schema::Types;

/// A message type; implemented by generated code.
///
/// # Safety
/// `CLASS` and `SIZE` are those of the message in the table of `types`, and `View` and `Mut` access objects of that class
/// as the table says.
pub unsafe trait Message: Sized + 'static {
    /// Class id.
    const CLASS: u32;
    /// Bytes of an object.
    const SIZE: u32;
    /// A finished message.
    type View<'a>: MessageView<'a, Of = Self>;
    /// A message being built; see [`Edit`] for the two lives.
    type Mut<'m, 'a>;

    /// The schema and table that it is part of.
    fn types() -> &'static Types;

    /// Reads an object.
    ///
    /// # Safety
    /// The object is of this message's class, in a table with the layout of `types`.
    unsafe fn view(view: View<'_>) -> Self::View<'_>;

    /// Changes an object.
    ///
    /// # Safety
    /// As [`Message::view`].
    unsafe fn edit<'m, 'a>(edit: Edit<'m, 'a>) -> Self::Mut<'m, 'a>;

    /// What was built, finished.
    fn freeze<'m>(message: Self::Mut<'m, '_>) -> Self::View<'m>;

    /// An empty message.
    ///
    /// # Errors
    /// The memory is full.
    #[inline]
    fn new(arena: &Arena) -> Result<Self::Mut<'_, '_>, OutOfMemory> {
        let edit = Edit::new(arena, Self::SIZE)?;
        // SAFETY: zeros of that size are an empty message of any class.
        Ok(unsafe { Self::edit(edit) })
    }

    /// Decodes `input`; strings and bytes of the result point into it.
    ///
    /// # Errors
    /// As [`Decoder::borrowed`].
    fn decode<'a>(
        decoder: &mut Decoder,
        input: &'a [u8],
        arena: &'a Arena,
    ) -> Result<Self::View<'a>, DecodeError> {
        let view = decoder.borrowed(Self::types().table(), Self::CLASS, input, arena)?;
        // SAFETY: decoded as this class.
        Ok(unsafe { Self::view(view) })
    }

    /// Decodes `input`, which is not needed any more then.
    ///
    /// # Errors
    /// As [`Decoder::owned`].
    fn decode_owned<'a>(
        decoder: &mut Decoder,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<Self::View<'a>, DecodeError> {
        let view = decoder.owned(Self::types().table(), Self::CLASS, input, arena)?;
        // SAFETY: decoded as this class.
        Ok(unsafe { Self::view(view) })
    }

    /// Decodes `input` to be changed; it is not needed any more then.
    ///
    /// # Errors
    /// As [`Decoder::owned`].
    fn decode_mut<'a>(
        decoder: &mut Decoder,
        input: &[u8],
        arena: &'a Arena,
    ) -> Result<Self::Mut<'a, 'a>, DecodeError> {
        let view = decoder.owned(Self::types().table(), Self::CLASS, input, arena)?;
        // SAFETY: decoded as this class just now, and the view goes no further.
        Ok(unsafe { Self::edit(Edit::of(view.object(), arena)) })
    }

    /// Reads a message that lies in two memories; nothing if it is of another class or schema.
    fn placed(message: &Placed) -> Option<Self::View<'_>> {
        // SAFETY: it is of this class, laid out as here.
        is_placed::<Self>(message).then(|| unsafe { Self::view(message.view()) })
    }

    /// Changes a message that lies in two memories; nothing if it is of another class or schema. What is lent to it must
    /// live for ever, since nobody knows when the message ends.
    fn placed_mut(message: &mut Placed) -> Option<Self::Mut<'_, 'static>> {
        if !is_placed::<Self>(message) {
            return None;
        }
        let root = message.root();
        // SAFETY: of this class, laid out as here, and borrowed alone.
        Some(unsafe { Self::edit(Edit::of(root, message.arena())) })
    }
}

fn is_placed<M: Message>(message: &Placed) -> bool {
    let same_layout = message.table().layout_hash() == M::types().table().layout_hash();
    same_layout && message.class() == M::CLASS
}

/// The building side of a message; implemented by generated code.
pub trait MessageEdit<'a> {
    /// The message type.
    type Of: Message;

    /// The object, for a while.
    fn raw_edit(&mut self) -> Edit<'_, 'a>;
}

/// The reading side of a message; implemented by generated code. (A trait, so that no field's name is in its way.)
pub trait MessageView<'a>: Copy {
    /// The message type.
    type Of: Message<View<'a> = Self>;

    /// The object.
    fn raw(self) -> View<'a>;

    /// The same message, read by name.
    fn dynamic(self) -> Dynamic<'a> {
        // SAFETY: the object is of this class; that is what a view of this type means.
        unsafe { Dynamic::of(Self::Of::types(), Self::Of::CLASS, self.raw()) }
    }

    /// The message, encoded, until the encoder is used again.
    ///
    /// # Errors
    /// As [`Encoder::encoded`].
    fn encode(self, encoder: &mut Encoder) -> Result<&[u8], EncodeError> {
        // SAFETY: as above.
        unsafe { encoder.encoded(Self::Of::types().table(), Self::Of::CLASS, self.raw()) }
    }
}
