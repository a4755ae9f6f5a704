//! Fields of messages that a handler has in hand: typed views and editors of them are about, so nothing in their objects may move.
//!
//! ```text
//! request, finished ── views (Copy, Send, Sync) ──▶ the handler        what is brought to the other memory is a copy beside it: Copies
//! reply, edited ───── one editor (exclusive)   ──▶ the handler        a unit's result goes into it through that editor: BytesTarget
//! ```
//! Why copies and not moves: [`Accelerator::move_field`] changes the object, for which it must have the message alone. A handler holds a
//! view, and views may be on several threads. So the field's bytes are brought where they are wanted and found by whoever asks
//! [`Copies`]; the view goes on reading what it always read. The message ends with the call, so nothing is lost by leaving its slot as it is.
//! As to where later messages put the field, bringing counts as a move does (RPCAcc III-F).
//!
//! Invariants: (1) a copy is of a field of the request that the copies were made for and borrow (asserted), so an address names
//! one object as long as they live; (2) results are in an arena that the reply takes over ([`Placed::adopt`]) before it is sent.

use super::accelerator::Accelerator;
use super::field_unit::{FieldUnit, RunError};
use super::live::FieldId;
use super::message::Placed;
use super::transfer::{MoveError, Slot};
use crate::crossing::Crossing;
use crate::memory::{Arena, OutOfMemory, Place};
use crate::object::{self, Edit, Object, Ref, View};
use crate::table::{Entry, Kind, Table};
use crate::typed::{Message, MessageEdit, MessageView};
use crate::unit::Span;

/// A singular string or bytes field of a finished message.
#[derive(Clone, Copy)]
pub struct TextField<'v> {
    view: View<'v>,
    field: FieldId,
    /// What it holds; empty if it is absent.
    holds: Ref,
}

fn entry_of(table: &Table, class: u32, field: FieldId) -> &Entry {
    assert_eq!(field.class, class, "the field belongs to another message");
    &table.entries(table.message(class))[field.entry as usize]
}

impl<'v> TextField<'v> {
    /// The field of a message.
    ///
    /// # Panics
    /// If it is a field of another message, or no singular string or bytes field.
    pub fn of<V: MessageView<'v>>(message: V, field: FieldId) -> TextField<'v> {
        let entry = entry_of(V::Of::types().table(), V::Of::CLASS, field);
        let is_text = matches!(entry.kind(), Kind::String | Kind::Bytes) && !entry.is_repeated();
        assert!(is_text, "a unit reads a string or bytes field");
        let view = message.raw();
        // SAFETY: an entry of the message's class, of that kind.
        let holds = unsafe { if view.has(field.entry) { view.scalar_ref(entry.offset) } else { Ref::EMPTY } };
        TextField { view, field, holds }
    }

    fn object(&self) -> Object {
        self.view.object()
    }

    /// The message has it, with a byte at least.
    pub fn is_there(&self) -> bool {
        self.holds.len > 0
    }

    /// Its bytes, unless they are in accelerator memory.
    pub fn host_bytes(self) -> Option<&'v [u8]> {
        if self.holds.len > 0 && self.holds.addr.is_acc() {
            return None;
        }
        // SAFETY: the Ref of a field of a finished message, in host memory, alive as the view is.
        Some(unsafe { object::bytes_of(self.holds) })
    }
}

/// A singular bytes field of a message that is being built.
pub struct BytesTarget<'m, 'a> {
    edit: Edit<'m, 'a>,
    slot: object::Slot,
    field: FieldId,
    layout_hash: u64,
}

impl<'m, 'a> BytesTarget<'m, 'a> {
    /// The field of a message.
    ///
    /// # Panics
    /// If it is a field of another message, or no singular bytes field.
    pub fn of<E: MessageEdit<'a>>(message: &'m mut E, field: FieldId) -> BytesTarget<'m, 'a> {
        let table = E::Of::types().table();
        let entry = entry_of(table, E::Of::CLASS, field);
        let is_bytes = entry.kind() == Kind::Bytes && !entry.is_repeated();
        assert!(is_bytes, "a unit writes a bytes field");
        let slot = object::Slot::of(entry, field.entry as usize);
        BytesTarget { edit: message.raw_edit(), slot, field, layout_hash: table.layout_hash() }
    }

    /// The arena that the message is built in.
    pub fn arena(&self) -> &Arena {
        self.edit.arena()
    }

    /// Brings what a unit wrote into the field to host memory, for a serialiser that reads only there: the memory that it is in then, which
    /// the message is to take over.
    ///
    /// # Errors
    /// [`MoveError`]; the field is as before.
    ///
    /// # Panics
    /// If a thread of the accelerator has died, or it does not know the message's schema.
    pub fn bring_to_host<C: Crossing + Send + Sync + 'static>(
        &mut self,
        accelerator: &mut Accelerator<C>,
    ) -> Result<Option<Arena>, MoveError> {
        let object = self.edit.object();
        let table = accelerator.live_with(self.layout_hash).table();
        // SAFETY: `of` checked the field; this editor keeps everybody else from writing the object.
        unsafe {
            if !object.has(self.field.entry) || !object.read::<Ref>(self.slot.offset).addr.is_acc() {
                return Ok(None);
            }
            let (slot, memory) = accelerator.copy_field(&table, object, self.field, Place::Host)?;
            slot.write(object, entry_of(&table, self.field.class, self.field));
            Ok(Some(memory))
        }
    }

    /// Sets the field to a copy of `bytes`.
    ///
    /// # Errors
    /// The memory is full.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        // SAFETY: `of` checked that it is such a field.
        unsafe { self.edit.set_bytes(self.slot, bytes) }
    }
}

/// One field, in the memory where its message does not have it.
struct Copied {
    object: Object,
    field: FieldId,
    place: Place,
    holds: Ref,
    _memory: Arena,
}

/// What was brought to the other memory of one request's fields.
pub struct Copies<'r> {
    request: &'r Placed,
    fields: Vec<Copied>,
}

impl<'r> Copies<'r> {
    /// Nothing yet of this request.
    pub fn of(request: &'r Placed) -> Copies<'r> {
        Copies { request, fields: Vec::new() }
    }

    /// Whether a field is one of the request.
    pub fn are_of(&self, of: &TextField<'_>) -> bool {
        self.request.owns(of.object())
    }

    fn find(&self, of: &TextField<'_>, place: Place) -> Option<Ref> {
        let own = if of.holds.addr.is_acc() { Place::Acc } else { Place::Host };
        if own == place {
            return Some(of.holds);
        }
        let same = |copied: &&Copied| {
            copied.object.start() == of.object().start() && copied.field == of.field && copied.place == place
        };
        self.fields.iter().find(same).map(|copied| copied.holds)
    }

    /// Whether its bytes are in accelerator memory, there too if they were brought to the host since.
    pub fn is_in_acc(&self, of: &TextField<'_>) -> bool {
        of.is_there() && self.find(of, Place::Acc).is_some()
    }

    /// Where a unit may read the bytes of a field.
    pub fn span(&self, of: &TextField<'_>) -> Option<Span> {
        let holds = self.find(of, Place::Acc).filter(|_| of.is_there())?;
        Some(Span::new(holds.addr.offset() as u64, holds.len))
    }

    /// A field's bytes, if they are in host memory.
    pub fn host_bytes<'c>(&'c self, of: &TextField<'c>) -> Option<&'c [u8]> {
        let holds = self.find(of, Place::Host)?;
        // SAFETY: of a field of a finished message, alive as the view is, or of a copy that stays as long as this.
        Some(unsafe { object::bytes_of(holds) })
    }

    /// Brings a field's bytes into memory `to`, unless they are there: true if they were brought.
    ///
    /// # Errors
    /// [`MoveError`].
    ///
    /// # Panics
    /// If the field is not one of the request, or a thread of the accelerator has died.
    pub fn bring<C: Crossing + Send + Sync + 'static>(
        &mut self,
        accelerator: &mut Accelerator<C>,
        of: &TextField<'_>,
        to: Place,
    ) -> Result<bool, MoveError> {
        if !of.is_there() || self.find(of, to).is_some() {
            return Ok(false);
        }
        assert!(self.are_of(of), "only fields of the call's own request are brought");
        let table = self.request.table();
        // SAFETY: a finished message, of this field's class by `TextField::of`, that nobody writes while there are views.
        let (slot, memory) = unsafe { accelerator.copy_field(table, of.object(), of.field, to)? };
        let Slot::Array(holds) = slot else { unreachable!("a string or bytes field is a Ref") };
        accelerator.object_to(self.request, of.field, to);
        let (object, field) = (of.object(), of.field);
        self.fields.push(Copied { object, field, place: to, holds, _memory: memory });
        Ok(true)
    }
}

impl<C: Crossing + Send + Sync + 'static> FieldUnit<C> {
    /// Runs the kernel on `input`, which is [`Copies::span`]; the result, at most `room` bytes, becomes the target's field and
    /// stays in accelerator memory, in `results`. Its length.
    ///
    /// # Errors
    /// [`RunError`]; the target is as before.
    ///
    /// # Panics
    /// If `results` is an arena of another memory.
    ///
    /// # Safety
    /// Nobody writes the bytes of `input` until this returns, and the target's message takes over `results` before it is read.
    pub unsafe fn run_into(
        &mut self,
        input: Span,
        target: &mut BytesTarget<'_, '_>,
        results: &Arena,
        room: u32,
    ) -> Result<usize, RunError> {
        // SAFETY: the caller's promise.
        let (at, len) = unsafe { self.run_span(input, results, room)? };
        // SAFETY: `BytesTarget::of` checked that it is such a field; the bytes are the arena's.
        unsafe { target.edit.set_acc_bytes(target.slot, at, len) };
        Ok(len as usize)
    }
}

impl std::fmt::Debug for Copies<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copies({} fields)", self.fields.len())
    }
}
