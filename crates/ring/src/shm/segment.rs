//! The segment: made, sealed, measured and checked.

use super::envelope::Envelope;
use super::lanes;
use crate::memory::SPACING;
use crate::spsc::{Hybrid, MAX_CAPACITY, Variant};
use crate::{Mapping, arena, pair, plain};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::sync::Arc;
use std::{fmt, io};

/// `b"millring"`, little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"millring");
const VERSION: u32 = 1;
/// A segment of an attacker's choice must not exhaust the address space.
const MAX_BYTES: usize = 64 << 30;
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// What the rings of a segment carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Requests, and one reply to each: [`super::ShmClient`] and [`super::ShmServer`].
    Pair,
    /// Messages either way, independent of each other, through rings of this variant: [`super::Lanes`].
    Lanes(Variant),
}

impl Form {
    const ALL: [Form; 4] =
        [Form::Pair, Form::Lanes(Variant::InSlot), Form::Lanes(Variant::Index), Form::Lanes(Variant::Hybrid)];

    /// As the header says it: the place in [`Form::ALL`]. Segments of before there were others say 0.
    fn number(self) -> u32 {
        Form::ALL.iter().position(|form| *form == self).expect("all are listed") as u32
    }

    fn numbered(number: u32) -> Option<Form> {
        Form::ALL.get(number as usize).copied()
    }

    fn mapped_bytes(self, entries: u32) -> usize {
        match self {
            Form::Pair => pair::mapped_bytes::<Hybrid, Envelope, Envelope>(entries),
            Form::Lanes(variant) => 2 * lanes::mapped_bytes(variant, entries),
        }
    }
}

/// How large everything in a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Requests in flight at most, or messages in a lane; a power of two.
    pub entries: u32,
    /// Bytes of the request arena; a power of two from 64 up to 2³².
    pub request_arena: u64,
    /// Bytes of the response arena, likewise.
    pub response_arena: u64,
    /// Bytes of the longest message either way. For a pair at most half of the smaller arena, so that it fits whatever was
    /// skipped; lanes send what is longer in pieces.
    pub max_message: u32,
}

impl Default for Geometry {
    /// 256 requests in flight, messages to 1 MiB, 4 MiB each way.
    fn default() -> Geometry {
        Geometry { entries: 256, request_arena: 4 << 20, response_arena: 4 << 20, max_message: 1 << 20 }
    }
}

/// Which pages a segment is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// 4 KiB pages.
    #[default]
    Base,
    /// Reserved 2 MiB pages; refused where the system has none.
    Huge2M,
}

/// Why a segment cannot be attached.
#[derive(Debug)]
pub enum AttachError {
    /// The system's error while receiving or mapping.
    System(io::Error),
    /// The peer sent no segment.
    NothingSent,
    /// The file may shrink under us: its seals are missing.
    NotSealed,
    /// Not a segment of this version.
    NotASegment,
    /// A segment of another form: a pair where lanes were awaited, or the other way round.
    OtherForm,
    /// Sizes that cannot be, or that the file does not hold.
    BadGeometry,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::System(error) => write!(f, "cannot attach the shared segment: {error}"),
            AttachError::NothingSent => f.write_str("the peer sent no shared segment"),
            AttachError::NotSealed => f.write_str("the peer's segment is not sealed against shrinking"),
            AttachError::NotASegment => write!(f, "not a millrace ring segment of version {VERSION}"),
            AttachError::OtherForm => f.write_str("the peer's segment carries messages of another form"),
            AttachError::BadGeometry => f.write_str("the segment's sizes do not fit together or its file"),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::System(error)
    }
}

impl From<rustix::io::Errno> for AttachError {
    fn from(error: rustix::io::Errno) -> AttachError {
        AttachError::System(error.into())
    }
}

/// The first words of a segment. Written once by its maker, read once by whoever attaches.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    magic: u64,
    request_arena: u64,
    response_arena: u64,
    version: u32,
    entries: u32,
    max_message: u32,
    form: u32,
}

// SAFETY: integers only, without padding.
unsafe impl crate::Plain for Header {}

/// Where each part of a segment starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) server_wake: usize,
    pub(super) client_wake: usize,
    pub(super) rings: usize,
    pub(super) request_arena: usize,
    pub(super) response_arena: usize,
    bytes: usize,
}

impl Geometry {
    /// The layout, or `None` when the sizes cannot be a segment's.
    pub(super) fn layout(&self, form: Form) -> Option<Layout> {
        let arena_ok = |n: u64| n.is_power_of_two() && (64..=arena::MAX_CAPACITY).contains(&n);
        let fits = form != Form::Pair
            || u64::from(self.max_message) <= self.request_arena.min(self.response_arena) / 2;
        let entries_ok = self.entries.is_power_of_two() && self.entries <= MAX_CAPACITY;
        if !(arena_ok(self.request_arena) && arena_ok(self.response_arena) && fits && entries_ok) {
            return None;
        }
        let [server_wake, client_wake, rings] = [1, 2, 3].map(|n| n * SPACING);
        let request_arena = rings + form.mapped_bytes(self.entries);
        let response_arena = request_arena + arena::mapped_bytes(self.request_arena);
        let bytes = response_arena + arena::mapped_bytes(self.response_arena);
        let layout = Layout { server_wake, client_wake, rings, request_arena, response_arena, bytes };
        (bytes <= MAX_BYTES).then_some(layout)
    }
}

impl Geometry {
    /// Bytes of a segment for a pair; `None` for a geometry that cannot be.
    pub fn segment_bytes(&self) -> Option<usize> {
        self.layout(Form::Pair).map(|layout| layout.bytes)
    }
}

/// A segment in this process.
#[derive(Debug)]
pub struct Segment {
    pub(super) memory: Arc<Mapping>,
    pub(super) geometry: Geometry,
    pub(super) form: Form,
    pub(super) layout: Layout,
    file: OwnedFd,
}

impl Segment {
    /// Makes a segment of this geometry for a pair, sealed.
    ///
    /// # Errors
    /// `InvalidInput` for a geometry that cannot be; else the system's (memory, descriptors, no huge pages reserved).
    pub fn create(geometry: Geometry, pages: Pages) -> io::Result<Segment> {
        Segment::create_of(Form::Pair, geometry, pages)
    }

    /// As [`Segment::create`], of any form.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create_of(form: Form, geometry: Geometry, pages: Pages) -> io::Result<Segment> {
        let layout = geometry.layout(form).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("not a segment's geometry: {geometry:?}"))
        })?;
        let (huge, round) = match pages {
            Pages::Base => (MemfdFlags::empty(), 4096),
            Pages::Huge2M => (MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB, base::pages::HUGE_PAGE),
        };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let file = memfd_create("millrace-ring", flags)?;
        ftruncate(&file, layout.bytes.next_multiple_of(round) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let memory = Mapping::shared(&file, layout.bytes.next_multiple_of(round))?;
        let header = Header {
            magic: MAGIC,
            request_arena: geometry.request_arena,
            response_arena: geometry.response_arena,
            version: VERSION,
            entries: geometry.entries,
            max_message: geometry.max_message,
            form: form.number(),
        };
        // SAFETY: `at` checked place and alignment, and nobody else has the file yet.
        unsafe { memory.at::<Header>(0, 1).write(header) };
        Ok(Segment { memory, geometry, form, layout, file })
    }

    /// Attaches a segment for a pair that a peer made. Everything about it is checked; nothing in it is believed later.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(file: OwnedFd) -> Result<Segment, AttachError> {
        Segment::attach_any(file)?.of(|form| form == Form::Pair)
    }

    /// As [`Segment::attach`], of whatever form; [`Segment::form`] tells.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_any(file: OwnedFd) -> Result<Segment, AttachError> {
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(AttachError::NotSealed);
        }
        let len = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if !(size_of::<Header>()..=MAX_BYTES + base::pages::HUGE_PAGE).contains(&len) {
            return Err(AttachError::NotASegment);
        }
        let memory = Mapping::shared(&file, len)?;
        // SAFETY: inside the mapping, readable, and any bits are a Header; the peer may write meanwhile.
        let header = unsafe { plain::read_once::<Header>(memory.at(0, 1).as_ptr()) };
        if (header.magic, header.version) != (MAGIC, VERSION) {
            return Err(AttachError::NotASegment);
        }
        let geometry = Geometry {
            entries: header.entries,
            request_arena: header.request_arena,
            response_arena: header.response_arena,
            max_message: header.max_message,
        };
        let form = Form::numbered(header.form).ok_or(AttachError::OtherForm)?;
        let layout = geometry.layout(form).filter(|layout| layout.bytes <= len);
        let layout = layout.ok_or(AttachError::BadGeometry)?;
        Ok(Segment { memory, geometry, form, layout, file })
    }

    /// The segment, if it is of a form that is `wanted`.
    pub(super) fn of(self, wanted: impl FnOnce(Form) -> bool) -> Result<Segment, AttachError> {
        if wanted(self.form) { Ok(self) } else { Err(AttachError::OtherForm) }
    }

    /// What its rings carry.
    pub fn form(&self) -> Form {
        self.form
    }

    /// How large everything is.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}
