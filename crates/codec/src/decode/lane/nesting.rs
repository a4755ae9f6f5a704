//! Messages in messages: opening, closing, linking; and the entries of maps, which are messages with a key.

use super::{Frame, Walk, entries};
use crate::decode::error::Fault;
use crate::decode::maps::Key;
use crate::decode::sink::Sink;
use crate::object::{Addr, Ref};
use crate::table::{Entry, Kind, Message};

impl<S: Sink, const BORROW: bool> Walk<'_, S, BORROW> {
    /// Opens the message that is the value of entry `index`; its tag began at `start`.
    #[inline]
    pub(super) fn open(
        &mut self,
        entry: &Entry,
        index: usize,
        end: usize,
        group: u32,
        start: usize,
    ) -> Result<(), Fault> {
        if self.around.len() as u32 + 1 >= self.depth {
            return Err(Fault::Depth);
        }
        let message = self.table.message(entry.aux);
        let place = self.place(entry);
        let object = self.frame.open.object;
        // SAFETY: the entry is one of the open object's.
        let present = !entry.is_repeated() && unsafe { object.has(index as u32) };
        let open = if present {
            // SAFETY: as above; a present sub-message has an address.
            let addr = unsafe { object.read::<Addr>(entry.offset) };
            self.sink.reopen(addr, place).ok_or(Fault::Split)?
        } else {
            self.sink.open(place, message)?
        };
        self.around.push(self.frame);
        self.frame = Frame::new(open, entry.aux, end, group, index, start);
        self.message = message;
        self.entries = entries(self.table, message);
        Ok(())
    }

    /// Closes the innermost message and links it into the one around it; the root's address if it was the root.
    #[inline]
    pub(super) fn close(&mut self) -> Result<Option<Addr>, Fault> {
        if self.frame.unknown.1 != 0 {
            self.keep_run()?;
        }
        if self.message.required != 0 {
            self.check_required()?;
        }
        if self.is_in_map() {
            return self.close_map_entry().map(|()| None);
        }
        let addr = self.seal()?;
        let index = usize::from(self.frame.slot);
        if !self.leave() {
            return Ok(Some(addr));
        }
        let entry = self.entries[index];
        if entry.is_repeated() {
            self.push(&entry, index, addr)?;
        } else {
            self.store(&entry, index, addr);
        }
        Ok(None)
    }

    /// Back to the message around the open one; false if there is none.
    #[inline]
    pub(super) fn leave(&mut self) -> bool {
        let Some(parent) = self.around.pop() else { return false };
        self.frame = parent;
        self.message = self.table.message(parent.class);
        self.entries = entries(self.table, self.message);
        true
    }

    /// Finishes the open object.
    #[inline]
    pub(super) fn seal(&mut self) -> Result<Addr, Fault> {
        if self.message.flags & Message::PLAIN == 0 {
            self.maps.close(self.around.len());
        }
        let entries = &self.entries[..usize::from(self.message.fields)];
        Ok(self.sink.close(self.frame.open, self.message, entries)?)
    }

    #[cold]
    pub(super) fn check_required(&mut self) -> Result<(), Fault> {
        for word in 0..usize::from(self.message.words) {
            let mask = self.table.required(self.message, word);
            // SAFETY: presence words come first in the object.
            let have = unsafe { self.frame.open.object.read::<u32>(word as u32 * 4) };
            if have & mask != mask {
                return Err(Fault::Required);
            }
        }
        Ok(())
    }

    /// True if the open message is the entry of a map. As a root, its class being asked for, it is a message like others.
    pub(super) fn is_in_map(&self) -> bool {
        self.message.flags & Message::MAP_ENTRY != 0 && !self.around.is_empty()
    }

    pub(super) fn end_group(&mut self, number: u32) -> Result<(), Fault> {
        if self.frame.group != number {
            return Err(Fault::EndGroup);
        }
        let root = self.close()?;
        assert!(root.is_none(), "the root is not a group");
        Ok(())
    }

    /// Closes the entry of a map: it replaces the one that has its key already.
    pub(super) fn close_map_entry(&mut self) -> Result<(), Fault> {
        let (start, stray) = (self.frame.start, self.frame.stray);
        let (key, value) = (self.entries[0], self.entries[1]);
        let object = self.frame.open.object;
        // SAFETY: entry 0 is the key and entry 1 the value of every map entry; their kinds say what to read.
        let (key, valueless) = unsafe {
            let key = match key.kind() {
                Kind::String => {
                    Key::Text(self.input[self.frame.key.0 as usize..].as_ptr(), self.frame.key.1 as usize)
                }
                kind => match kind.size() {
                    1 => Key::Number(object.read::<u8>(key.offset).into()),
                    4 => Key::Number(object.read::<u32>(key.offset).into()),
                    _ => Key::Number(object.read(key.offset)),
                },
            };
            (key, value.kind().is_message() && !object.has(1))
        };
        if valueless && !stray {
            // A missing value is an empty message: opened and closed like one that is there, ending where it begins.
            self.open(&value, 1, self.at, 0, self.at)?;
            if self.message.required != 0 {
                self.check_required()?;
            }
            let addr = self.seal()?;
            assert!(self.leave(), "the map entry is around its value");
            self.store(&value, 1, addr);
        }
        let addr = if stray { Addr::NULL } else { self.seal()? };
        let index = usize::from(self.frame.slot);
        assert!(self.leave(), "a map entry is in a message");
        if stray {
            return self.unknown(start as usize, self.at);
        }
        let entry = self.entries[index];
        let of = (self.around.len(), index as u16);
        let array = self.array(&entry);
        if array.len != 0 && !self.maps.is_open(of) {
            self.index_map(of, array);
        }
        match self.maps.place(of, key) {
            None => self.push(&entry, index, addr),
            Some(at) => {
                // SAFETY: `at` is below the array's length.
                unsafe { self.sink.element(array, size_of::<Addr>(), at).cast::<Addr>().write(addr) };
                Ok(())
            }
        }
    }

    /// Indexes the entries of a map that was finished and is open again. Only a sink that can reopen comes here, and its
    /// objects are this thread's memory.
    #[cold]
    pub(super) fn index_map(&mut self, of: (usize, u16), array: Ref) {
        let message = self.table.message(self.entries[usize::from(of.1)].aux);
        let key = self.table.entries(message)[0];
        for number in 0..array.len {
            // SAFETY: elements of a map are finished objects of the entry's class.
            unsafe {
                let element = self.sink.element(array, size_of::<Addr>(), number).cast::<Addr>().read();
                let view = crate::object::view_at(element);
                let key = match key.kind() {
                    Kind::String => {
                        let text = view.bytes(key.offset);
                        Key::Text(text.as_ptr(), text.len())
                    }
                    kind => match kind.size() {
                        1 => Key::Number(view.scalar::<u8>(key.offset).into()),
                        4 => Key::Number(view.scalar::<u32>(key.offset).into()),
                        _ => Key::Number(view.scalar(key.offset)),
                    },
                };
                self.maps.place(of, key);
            }
        }
    }
}
