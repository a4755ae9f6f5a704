//! Arrays in an arena: room for more elements, where they are if possible.

use super::reference::{Addr, Ref};
use crate::memory::{Arena, OutOfMemory};

/// The fewest bytes that an array begins with.
const FIRST: usize = 32;

/// Makes room for `more` elements of `size` bytes in an array of host memory: where it is if it was the arena's last block,
/// else twice as long elsewhere.
pub(crate) fn grow_in(arena: &Arena, array: Ref, size: usize, more: u32) -> Result<Ref, OutOfMemory> {
    let needed = array.len.checked_add(more).ok_or(OutOfMemory)?;
    let capacity = needed.max(array.capacity.saturating_mul(2)).max((FIRST / size) as u32);
    if array.capacity != 0 {
        let old = array.capacity as usize * size;
        let end = array.addr.pointer().wrapping_add(old.next_multiple_of(8));
        if arena.extend(end, (capacity as usize * size).next_multiple_of(8) - old.next_multiple_of(8)) {
            return Ok(Ref { capacity, ..array });
        }
    }
    let bytes = (capacity as usize).checked_mul(size).ok_or(OutOfMemory)?;
    let start = arena.alloc(bytes)?.as_ptr();
    if array.len != 0 {
        // SAFETY: the array has len initialised elements; the new block is longer and was just given.
        unsafe { start.copy_from_nonoverlapping(array.addr.pointer(), array.len as usize * size) };
    }
    Ok(Ref { addr: Addr::host(start), len: array.len, capacity })
}
