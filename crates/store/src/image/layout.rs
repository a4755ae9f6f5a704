//! What the bytes of an image mean: pages of slots, each slot saying what is in it.
//!
//! ```text
//!  page:  ├─ header, 64 B ─────────────────────────┼─ slot ─┼─ slot ─┼─ … ─┼─ rest ─┤    all slots of a page have one size
//!          "page" u32 │ slot size u32 │ u64 lsn │ 0
//!  slot:  ├────────┼──────────┼─────┼───────────┼─────────────┼───────────┼─────────────┼───────────────────
//!         │ mark   │ key u8   │ 0   │ value u32 │ version u64 │ key bytes │ value bytes │ as it was
//! ```
//! The mark is 0 for nothing, 1 + space for an item, and that with the highest bit set for a deleted one, which keeps its key: so each
//! tuple that writes a slot names its key, whatever else is known of the image.
//!
//! A page that no entry has given a size is all zero.

use super::Space;

/// Bytes before the first slot.
pub(super) const PAGE_HEADER: usize = 64;
/// Bytes of a page's header that mean something: what a tuple writes that gives a page its size.
pub(super) const PAGE_WORDS: usize = 16;
/// Bytes before a slot's key.
pub(super) const SLOT_HEADER: usize = 16;
/// The smallest slot.
pub(super) const MIN_SLOT: usize = 32;
/// Sizes and offsets of slots are multiples of this.
pub(super) const UNIT: usize = 16;
/// Spaces are below this.
pub(super) const SPACES: u8 = 0x7F;

const MAGIC: u32 = u32::from_le_bytes(*b"page");
const DELETED: u8 = 0x80;

/// The sizes of slots in pages of one size: steps of 16 bytes to 128, then of a quarter, each widened to what divides the page. So at most a
/// quarter of a slot is wasted, but for items of less than 48 bytes, or more than a third of a page.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    page: usize,
    sizes: Vec<u32>,
}

impl Classes {
    pub(super) fn new(page: usize) -> Classes {
        let room = page - PAGE_HEADER;
        let widest = |slots: usize| room / slots / UNIT * UNIT;
        let mut sizes = vec![MIN_SLOT as u32];
        let mut size = MIN_SLOT;
        while room / size > 1 {
            let next = size + (size / 4 / UNIT * UNIT).max(UNIT);
            let wider = [room.div_ceil(next), room / next].map(|slots| widest(slots.max(1)));
            size = wider.into_iter().find(|wider| *wider > size).unwrap_or(widest(1));
            sizes.push(size as u32);
        }
        Classes { page, sizes }
    }

    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn page(&self) -> usize {
        self.page
    }

    /// The class of the smallest slots that have room for so many bytes.
    pub(super) fn of(&self, bytes: usize) -> Option<u8> {
        let class = self.sizes.partition_point(|&size| (size as usize) < bytes);
        (class < self.sizes.len()).then_some(class as u8)
    }

    pub(super) fn size(&self, class: u8) -> usize {
        self.sizes[usize::from(class)] as usize
    }

    /// Slots of a page.
    pub(super) fn slots(&self, class: u8) -> usize {
        (self.page - PAGE_HEADER) / self.size(class)
    }

    /// The most slots that a page can have.
    pub(super) fn most_slots(&self) -> usize {
        self.slots(0)
    }

    /// Where a slot begins, in the image.
    pub(super) fn offset(&self, page: usize, class: u8, slot: usize) -> usize {
        page * self.page + PAGE_HEADER + slot * self.size(class)
    }

    /// The slot that begins at an offset in the image, if one does in a page of this class.
    pub(super) fn slot(&self, offset: usize, class: u8) -> Option<usize> {
        let inside = (offset % self.page).checked_sub(PAGE_HEADER)?;
        let slot = inside / self.size(class);
        (slot * self.size(class) == inside && slot < self.slots(class)).then_some(slot)
    }

    /// The header of a page of this class.
    pub(super) fn header(&self, class: u8, lsn: u64) -> [u8; PAGE_WORDS] {
        let mut header = [0; PAGE_WORDS];
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&(self.size(class) as u32).to_le_bytes());
        header[8..].copy_from_slice(&lsn.to_le_bytes());
        header
    }

    /// The class that a page's header says.
    pub(super) fn class_in(&self, header: &[u8]) -> Option<u8> {
        let header = header.first_chunk::<8>()?;
        let magic = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let size = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let class = self.sizes.binary_search(&size).ok()?;
        (magic == MAGIC).then_some(class as u8)
    }
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot<'a> {
    /// False for one that was deleted.
    pub(super) is_item: bool,
    pub(super) space: Space,
    pub(super) key: &'a [u8],
    pub(super) version: u64,
    pub(super) value: &'a [u8],
}

/// Whether the slot that begins with this byte has an item.
pub(super) fn is_item(mark: u8) -> bool {
    mark != 0 && mark & DELETED == 0
}

/// Bytes that an item takes.
pub(super) fn footprint(key: usize, value: usize) -> usize {
    SLOT_HEADER + key + value
}

impl<'a> Slot<'a> {
    /// Reads what begins here; `None` for nothing, and for what no slot says.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Slot<'a>> {
        let (header, rest) = bytes.split_first_chunk::<SLOT_HEADER>()?;
        let mark = header[0] & !DELETED;
        let (key, rest) = rest.split_at_checked(usize::from(header[1]))?;
        let value_len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let value = rest.get(..value_len as usize)?;
        let version = u64::from_le_bytes(*header.last_chunk::<8>()?);
        let is_item = header[0] & DELETED == 0;
        let holds = mark != 0 && header[2..4] == [0, 0] && !key.is_empty() && (is_item || value.is_empty());
        holds.then(|| Slot { is_item, space: Space(mark - 1), key, version, value })
    }

    /// Reads a tuple that writes a slot and nothing else.
    pub(super) fn whole(data: &'a [u8]) -> Option<Slot<'a>> {
        Slot::parse(data).filter(|slot| footprint(slot.key.len(), slot.value.len()) == data.len())
    }

    /// The bytes that say it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(footprint(self.key.len(), self.value.len()));
        let mark = self.space.0 + 1;
        bytes.push(if self.is_item { mark } else { mark | DELETED });
        bytes.push(self.key.len() as u8);
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_slot_is_wasted_at_most_and_a_page_is_used_up() {
        for page in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let classes = Classes::new(page);
            assert!(classes.count() < 128, "{} classes", classes.count());
            for class in 1..classes.count() as u8 {
                let (before, size) = (classes.size(class - 1), classes.size(class));
                let waste = (size - before - 1) as f64 / size as f64;
                let is_exempt = size <= 48 || classes.slots(class) < 3;
                assert!(is_exempt || waste <= 0.25, "{before} then {size} in pages of {page}: {waste:.2}");
                let rest = page - classes.slots(class) * size;
                assert!(rest < page / 50 + size.min(256), "{rest} of {page} left by slots of {size}");
                assert_eq!(classes.of(before + 1), Some(class));
                assert_eq!(classes.of(size), Some(class));
            }
            assert_eq!(classes.of(page), None);
        }
        assert!(Classes::new(256 << 10).of(footprint(251, 64 << 10)).is_some());
    }

    #[test]
    fn slots_and_headers_read_as_they_were_written() {
        let classes = Classes::new(16 << 10);
        for class in 0..classes.count() as u8 {
            assert_eq!(classes.class_in(&classes.header(class, 7)), Some(class));
            let last = classes.slots(class) - 1;
            assert_eq!(classes.slot(classes.offset(3, class, last), class), Some(last));
            assert_eq!(classes.slot(classes.offset(3, class, last + 1), class), None);
            assert_eq!(classes.slot(classes.offset(3, class, 0) + 1, class), None);
        }
        let slot = Slot { is_item: true, space: Space(2), key: b"key", version: 9, value: b"value" };
        assert_eq!(Slot::whole(&slot.bytes()), Some(slot));
        let deleted = Slot { is_item: false, value: b"", ..slot };
        assert_eq!(Slot::whole(&deleted.bytes()), Some(deleted));
        assert!(is_item(slot.bytes()[0]) && !is_item(deleted.bytes()[0]) && !is_item(0));
        assert_eq!(Slot::whole(&[&slot.bytes()[..], b"x"].concat()), None);
        assert_eq!(Slot::parse(&[0; 64]), None);
    }
}
