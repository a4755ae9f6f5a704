//! `millrace.meta`: what a store knows beside its memory, as bytes that are believed only as a whole.
//!
//! ```text
//!  0       8       12         16                 24      28       32         36
//!  │ magic │ state │ crc of … │ … image, bytes   │ kind  │ number │ division │ …text…     │ crc of this page │   4096 bytes
//!          1 in use, 2 closed                     whose it is: kind 0, a node's without boxes; 1, that home's (`Whose`)
//!  4096
//!  │ Image: words, segments, queues │
//! ```
//! All numbers are little-endian. The magic ends in two digits, the version of this layout and of everything in the other files.
//!
//! What the checksums (CRC32C) cover: this page and the image. What is in the other files is covered by what follows from the image
//! (`super::check`): every item lies where its segment says and every entry of the index refers to one. Values are not covered.
//!
//! Bounds: the image is at most [`IMAGE_MAX`] bytes; nothing is allocated for what bytes claim to be but are not.
//!
//! Errors: [`Cold`]. Tests: every flipped bit and every shorter file, at the end; fuzz target `warm_meta`.

use super::{Cold, Whose};
use crate::log::{Geometry, Kept, Queue, Segment, State};
use crate::stats::Counters;

/// The format's name.
const NAME: &[u8; 6] = b"MRWARM";
/// Its version.
const VERSION: &[u8; 2] = b"02";

/// Bytes of the first page.
pub(super) const PAGE: usize = 4096;
/// The longest image.
const IMAGE_MAX: usize = 64 << 20;

const IN_USE: u32 = 1;
const CLOSED: u32 = 2;

/// For people who look into the file.
const TEXT: &[u8] = b"millrace: memory of a key-value store, handed from one process to the next. The checksums cover this page \
and the metadata behind it. Items are covered by their places, lengths and hashes; bytes of values are not.";

/// What a store knows beside its memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    /// The last version given.
    pub(crate) version: u64,
    pub(crate) epoch: u16,
    pub(crate) flush_at: u32,
    /// When it was closed, by the clock that expiry goes by.
    pub(crate) closed_at: u32,
    /// Bytes of memory that it was allowed.
    pub(crate) limit: u64,
    pub(crate) hash_seed: u64,
    /// The hash of some bytes under that seed: another function is another hash.
    pub(crate) hash_check: u64,
    pub(crate) counters: Counters,
    pub(crate) geometry: Geometry,
    pub(crate) kept: Kept,
    pub(crate) index: crate::index::Shape,
    /// Bytes of `millrace.ghosts`, 0 for none.
    pub(crate) ghosts: u64,
    /// Bytes of `millrace.large`.
    pub(crate) large: u64,
}

/// Whether a file that begins with these bytes is one of ours, of whatever version; an empty one may become one.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes.starts_with(NAME)
}

fn page(state: u32, whose: Whose, image: &[u8]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[..6].copy_from_slice(NAME);
    page[6..8].copy_from_slice(VERSION);
    page[8..12].copy_from_slice(&state.to_le_bytes());
    page[12..16].copy_from_slice(&crc32c::crc32c(image).to_le_bytes());
    page[16..24].copy_from_slice(&(image.len() as u64).to_le_bytes());
    let whose = match whose {
        Whose::Node => [0; 3],
        Whose::Home { number, division } => [1, number.into(), division],
    };
    for (i, word) in whose.into_iter().enumerate() {
        page[24 + 4 * i..28 + 4 * i].copy_from_slice(&word.to_le_bytes());
    }
    page[36..36 + TEXT.len()].copy_from_slice(TEXT);
    seal(&mut page);
    page
}

/// Puts the page's checksum to its end.
fn seal(page: &mut [u8]) {
    let crc = crc32c::crc32c(&page[..PAGE - 4]);
    page[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
}

/// The first page while a process has the store.
pub(super) fn in_use(whose: Whose) -> [u8; PAGE] {
    page(IN_USE, whose, &[])
}

/// The first page of a store that was closed with `image`.
pub(super) fn closed(whose: Whose, image: &[u8]) -> [u8; PAGE] {
    page(CLOSED, whose, image)
}

/// What a file says is of another version from now on, if it is one of ours.
pub(super) fn become_other(bytes: &mut [u8]) {
    if bytes.len() >= PAGE {
        bytes[6..8].copy_from_slice(b"00");
        seal(bytes);
    }
}

/// How many of these bytes mean something: the page and the image.
pub(super) fn used(bytes: &[u8]) -> usize {
    let image = Reader(bytes.get(16..).unwrap_or_default()).size().unwrap_or(0);
    bytes.len().min(PAGE.saturating_add(image)).max(1)
}

/// Whose memory it is, where a page of this version is whole.
pub(super) fn whose(bytes: &[u8]) -> Option<Whose> {
    let page = bytes.get(..PAGE)?;
    let is_whole = crc32c::crc32c(&page[..PAGE - 4]).to_le_bytes() == page[PAGE - 4..];
    if !is_whole || !page.starts_with(NAME) || &page[6..8] != VERSION {
        return None;
    }
    let mut words = Reader(&page[24..36]);
    match (words.u32()?, words.u32()?, words.u32()?) {
        (0, ..) => Some(Whose::Node),
        (1, number, division) => Some(Whose::Home { number: number.try_into().ok()?, division }),
        _ => None,
    }
}

/// What `bytes` of a whole file say; with `any_version`, a mistake on purpose, also those of another one.
pub(super) fn parse(bytes: &[u8], any_version: bool) -> Result<Image, Cold> {
    if bytes.is_empty() {
        return Err(Cold::New);
    }
    let damaged = |what| Err(Cold::Damaged(what));
    let Some((page, behind)) = bytes.split_at_checked(PAGE) else {
        return damaged("it is shorter than a page");
    };
    if crc32c::crc32c(&page[..PAGE - 4]).to_le_bytes() != page[PAGE - 4..] {
        return damaged("its first page does not match its checksum");
    }
    if &page[6..8] != VERSION && !any_version {
        return Err(Cold::OtherLayout(String::from_utf8_lossy(&page[6..8]).into_owned()));
    }
    let mut words = Reader(&page[8..24]);
    let (Some(state), Some(crc), Some(len)) = (words.u32(), words.u32(), words.u64()) else {
        return damaged("its first page ends early");
    };
    match state {
        IN_USE => return Err(Cold::NotClosed),
        CLOSED => {}
        _ => return damaged("its state is none"),
    }
    let image = usize::try_from(len).ok().filter(|&len| len <= IMAGE_MAX).and_then(|len| behind.get(..len));
    let Some(image) = image else { return damaged("it is shorter than its image") };
    if crc32c::crc32c(image) != crc {
        return damaged("its image does not match its checksum");
    }
    Image::parse(image).ok_or(Cold::Damaged("its image says what cannot be"))
}

impl Image {
    pub(super) fn emit(&self) -> Vec<u8> {
        let c = &self.counters;
        let index = &self.index;
        let mut out = Vec::with_capacity(256 + 12 * self.kept.segments.len());
        let words = [
            self.version,
            self.epoch.into(),
            self.flush_at.into(),
            self.closed_at.into(),
            self.limit,
            self.hash_seed,
            self.hash_check,
            c.evicted,
            c.expired,
            c.flushed,
            c.ghost_hits,
            c.segments_cleaned,
            c.bytes_copied,
            self.geometry.shift.into(),
            self.geometry.classes as u64,
            index.count as u64,
            index.main as u64,
            index.overflow as u64,
            index.entries as u64,
            self.ghosts,
            self.large,
            self.kept.segments.len() as u64,
            self.kept.queues[0].len() as u64,
            self.kept.queues[1].len() as u64,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        for s in &self.kept.segments {
            let state = match s.state {
                State::Unbacked => 0,
                State::Free => 1,
                State::Open => 2,
                State::Sealed => 3,
                State::Victim => unreachable!("no victim is in hand when a store is closed"),
            };
            out.extend_from_slice(&[state, s.queue as u8, s.class, 0]);
            out.extend_from_slice(&s.used.to_le_bytes());
        }
        for number in self.kept.queues.iter().flatten() {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// The inverse of `emit`; `None` for bytes that no store emits. Whether the numbers fit each other is for those who use them.
    fn parse(bytes: &[u8]) -> Option<Image> {
        let mut r = Reader(bytes);
        let version = r.u64()?;
        let epoch = r.u64()?.try_into().ok()?;
        let (flush_at, closed_at) = (r.u64()?.try_into().ok()?, r.u64()?.try_into().ok()?);
        let (limit, hash_seed, hash_check) = (r.u64()?, r.u64()?, r.u64()?);
        let counters = Counters {
            evicted: r.u64()?,
            expired: r.u64()?,
            flushed: r.u64()?,
            ghost_hits: r.u64()?,
            segments_cleaned: r.u64()?,
            bytes_copied: r.u64()?,
        };
        let geometry = Geometry { shift: r.u64()?.try_into().ok()?, classes: r.size()? };
        let index = crate::index::Shape {
            count: r.size()?,
            main: r.size()?,
            overflow: r.size()?,
            entries: r.size()?,
        };
        let (ghosts, large) = (r.u64()?, r.u64()?);
        let lens = (r.size()?, r.size()?, r.size()?);
        let total = lens.0.checked_mul(8)?.checked_add(lens.1.checked_add(lens.2)?.checked_mul(4)?)?;
        if r.0.len() != total {
            return None;
        }
        let mut segment = || {
            let [state, queue, class, zero] = r.bytes::<4>()?;
            let state = [State::Unbacked, State::Free, State::Open, State::Sealed].get(usize::from(state));
            let queue = [Queue::Small, Queue::Main].get(usize::from(queue));
            let used = r.u32()?;
            (zero == 0).then_some(Segment { used, class, ..Segment::in_state(*state?, *queue?) })
        };
        let segments = (0..lens.0).map(|_| segment()).collect::<Option<_>>()?;
        let mut queue = |len| (0..len).map(|_| r.u32()).collect::<Option<Vec<u32>>>();
        let queues = [queue(lens.1)?, queue(lens.2)?];
        let kept = Kept { segments, queues };
        let sound = version < 3 << 62 && counters_are_sound(&counters);
        sound.then_some(Image {
            version,
            epoch,
            flush_at,
            closed_at,
            limit,
            hash_seed,
            hash_check,
            counters,
            geometry,
            kept,
            index,
            ghosts,
            large,
        })
    }
}

/// Whether there is room for counting on.
fn counters_are_sound(c: &Counters) -> bool {
    [c.evicted, c.expired, c.flushed, c.ghost_hits, c.segments_cleaned, c.bytes_copied]
        .iter()
        .all(|n| n >> 62 == 0)
}

/// Numbers from the front of bytes.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A number of things in memory.
    fn size(&mut self) -> Option<usize> {
        self.u64()?.try_into().ok().filter(|&size: &usize| size < 1 << 48)
    }
}

/// For the fuzzer: whatever bytes are, they are refused or say the same when written again.
///
/// # Panics
/// When they do not.
#[doc(hidden)]
pub fn probe(bytes: &[u8]) {
    let _ = whose(bytes);
    let both = [parse(bytes, false).ok(), Image::parse(bytes)];
    for image in both.into_iter().flatten() {
        assert_eq!(
            Image::parse(&image.emit()),
            Some(image),
            "an image that was read is another when it is read again"
        );
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const HOME: Whose = Whose::Home { number: 3, division: 0xD1E5 };

    fn image() -> Image {
        let segment = |state, used| Segment { used, class: 2, ..Segment::in_state(state, Queue::Main) };
        let segments = vec![segment(State::Sealed, 4096), segment(State::Open, 64), segment(State::Free, 0)];
        Image {
            version: 7,
            epoch: 3,
            flush_at: u32::MAX,
            closed_at: 1000,
            limit: 1 << 20,
            hash_seed: 5,
            hash_check: 6,
            counters: Counters { evicted: 9, ..Counters::default() },
            geometry: Geometry { shift: 14, classes: 4 },
            kept: Kept { segments, queues: [vec![], vec![0, 1]] },
            index: crate::index::Shape { count: 64, main: 64, overflow: 64, entries: 11 },
            ghosts: 4096,
            large: 0,
        }
    }

    fn file(image: &Image) -> Vec<u8> {
        let bytes = image.emit();
        [&closed(HOME, &bytes)[..], &bytes].concat()
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        assert_eq!(parse(&file(&image()), false), Ok(image()));
        assert_eq!(parse(&in_use(Whose::Node), false), Err(Cold::NotClosed));
        assert_eq!(parse(&[], false), Err(Cold::New));
        assert_eq!(whose(&file(&image())), Some(HOME));
        assert_eq!(whose(&in_use(Whose::Node)), Some(Whose::Node));
        assert_eq!(whose(&in_use(HOME)[..PAGE - 1]), None);
    }

    #[test]
    fn every_flipped_bit_and_every_shorter_file_is_refused() {
        let whole = file(&image());
        // Miri takes a second for each page.
        for byte in (0..whole.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[byte] ^= 1 << bit;
                assert!(matches!(parse(&bytes, false), Err(Cold::Damaged(_))), "bit {bit} of byte {byte}");
                assert!(byte >= PAGE || whose(&bytes).is_none(), "bit {bit} of byte {byte}");
                probe(&bytes);
            }
        }
        for len in (1..whole.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
            assert!(matches!(parse(&whole[..len], false), Err(Cold::Damaged(_))), "{len} bytes");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = file(&image());
        bytes[6..8].copy_from_slice(b"77");
        seal(&mut bytes);
        assert_eq!(whose(&bytes), None);
        assert_eq!(parse(&bytes, false), Err(Cold::OtherLayout("77".into())));
        assert!(is_ours(&bytes) && !is_ours(b"somebody's diary"));
    }

    #[test]
    fn images_of_nonsense_are_refused_before_memory_is_taken() {
        let good = image().emit();
        for word in 0..24 {
            for nonsense in [u64::MAX, 1 << 61, 1 << 47] {
                let mut bytes = good.clone();
                bytes[word * 8..word * 8 + 8].copy_from_slice(&nonsense.to_le_bytes());
                probe(&bytes);
            }
        }
    }
}
