//! The system call bpf(2), as far as it is needed: maps, programs, links. One function for each command.
//!
//! Why not aya's: it shares maps between programs only through files in bpffs, which need not be mounted, and here a program is
//! replaced while its maps stay. So aya-obj reads the object (see `object`), and this loads what it read.
//!
//! The kernel takes a command's structure in any length and reads what is beyond as 0; so each is as short as its use.
//! Numbers are the kernel's stable ABI (include/uapi/linux/bpf.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const MAP_GET_FD_BY_ID: libc::c_long = 14;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_GET_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

const PROG_TYPE_XDP: u32 = 6;
const LINK_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Bytes of an object's name, with the 0 at its end.
const NAME: usize = 16;

/// A map to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapShape {
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
}

/// What a program did with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The kernel's number: 0 aborted, 1 drop, 2 pass, 3 send back.
    pub action: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Nanoseconds that a run took, on average.
    pub ns: u32,
}

/// A program's name and the numbers of its maps.
pub(crate) struct ProgramInfo {
    pub name: String,
    pub maps: Vec<u32>,
}

/// An XDP link: on which interface of its namespace, by which program.
pub(crate) struct LinkInfo {
    pub interface: u32,
    pub program: u32,
}

pub(crate) fn map_create(name: &str, shape: MapShape) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        shape: [u32; 5],
        inner: u32,
        numa: u32,
        name: [u8; NAME],
    }
    let MapShape { kind, key_size, value_size, max_entries, flags } = shape;
    let shape = [kind, key_size, value_size, max_entries, flags];
    descriptor(MAP_CREATE, &mut Attr { shape, inner: 0, numa: 0, name: short(name) })
}

/// Loads an XDP program of these instructions; the error comes with what the verifier said.
pub(crate) fn program_load<I: Copy>(name: &str, code: &[I]) -> Result<OwnedFd, (io::Error, String)> {
    #[repr(C)]
    struct Attr {
        kind: u32,
        count: u32,
        code: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel: u32,
        flags: u32,
        name: [u8; NAME],
        interface: u32,
        attach: u32,
    }
    assert_eq!(size_of::<I>(), 8, "an instruction is 8 bytes");
    let mut attr = Attr {
        kind: PROG_TYPE_XDP,
        count: code.len() as u32,
        code: code.as_ptr() as u64,
        // As in box.c.
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: short(name),
        interface: 0,
        attach: ATTACH_XDP,
    };
    descriptor(PROG_LOAD, &mut attr).or_else(|_| {
        let mut log = vec![0u8; 1 << 20];
        (attr.log_level, attr.log_size, attr.log) = (1, log.len() as u32, log.as_mut_ptr() as u64);
        let result = descriptor(PROG_LOAD, &mut attr);
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        result.map_err(|error| (error, String::from_utf8_lossy(&log[..end]).into_owned()))
    })
}

/// Runs a program on a frame that came from nowhere and goes nowhere.
pub(crate) fn program_try(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<Tried> {
    #[repr(C)]
    struct Attr {
        program: u32,
        action: u32,
        in_len: u32,
        out_len: u32,
        input: u64,
        output: u64,
        repeat: u32,
        ns: u32,
    }
    let mut out = vec![0; frame.len() + 4096];
    let mut attr = Attr {
        program: program.as_raw_fd() as u32,
        action: 0,
        in_len: frame.len() as u32,
        out_len: out.len() as u32,
        input: frame.as_ptr() as u64,
        output: out.as_mut_ptr() as u64,
        repeat,
        ns: 0,
    };
    bpf(PROG_TEST_RUN, &mut attr)?;
    out.truncate(attr.out_len as usize);
    Ok(Tried { action: attr.action, frame: out, ns: attr.ns })
}

/// Attaches a program to an interface of this thread's network namespace; gone when the last descriptor is closed.
pub(crate) fn link_create(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    descriptor(LINK_CREATE, &mut [program.as_raw_fd() as u32, interface, ATTACH_XDP, flags])
}

/// Puts another program in the place of a link's, between one frame and the next.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    bpf(LINK_UPDATE, &mut [link.as_raw_fd() as u32, program.as_raw_fd() as u32, 0, 0]).map(drop)
}

/// Takes the program off the interface, whoever else holds the link.
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    bpf(LINK_DETACH, &mut [link.as_raw_fd() as u32]).map(drop)
}

/// All links of the machine that are there while this runs.
pub(crate) fn links() -> impl Iterator<Item = OwnedFd> {
    let mut last = 0;
    std::iter::from_fn(move || {
        let mut attr = [last, 0, 0];
        bpf(LINK_GET_NEXT_ID, &mut attr).ok()?;
        last = attr[1];
        Some(last)
    })
    .filter_map(|id| descriptor(LINK_GET_FD_BY_ID, &mut [id, 0, 0]).ok())
}

/// None where it is no XDP link.
pub(crate) fn link_info(link: BorrowedFd<'_>) -> io::Result<Option<LinkInfo>> {
    // type, id, program, a gap, then interface.
    let mut info = [0u32; 6];
    object_info(link, &mut info)?;
    Ok((info[0] == LINK_TYPE_XDP).then_some(LinkInfo { interface: info[4], program: info[2] }))
}

pub(crate) fn program_info(id: u32) -> io::Result<ProgramInfo> {
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        kind: u32,
        id: u32,
        tag: [u8; 8],
        code_lens: [u32; 2],
        code: [u64; 2],
        loaded: u64,
        user: u32,
        map_count: u32,
        maps: u64,
        name: [u8; NAME],
    }
    let program = descriptor(PROG_GET_FD_BY_ID, &mut [id, 0, 0])?;
    let mut maps = vec![0u32; 64];
    let mut info = Info { map_count: maps.len() as u32, maps: maps.as_mut_ptr() as u64, ..Info::default() };
    object_info(program.as_fd(), &mut info)?;
    maps.truncate(info.map_count as usize);
    Ok(ProgramInfo { name: long(&info.name), maps })
}

/// A map by its number.
pub(crate) fn map_by_id(id: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_GET_FD_BY_ID, &mut [id, 0, 0])
}

/// A map's name and shape.
pub(crate) fn map_info(map: BorrowedFd<'_>) -> io::Result<(String, MapShape)> {
    let info = MapInfo::of(map)?;
    let MapInfo { kind, key_size, value_size, max_entries, flags, .. } = info;
    Ok((long(&info.name), MapShape { kind, key_size, value_size, max_entries, flags }))
}

/// The number that it has on this machine, as long as it lives.
pub(crate) fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    MapInfo::of(map).map(|info| info.id)
}

#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; NAME],
}

impl MapInfo {
    fn of(map: BorrowedFd<'_>) -> io::Result<MapInfo> {
        let mut info = MapInfo::default();
        object_info(map, &mut info)?;
        Ok(info)
    }
}

fn object_info<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        object: u32,
        len: u32,
        info: u64,
    }
    let len = size_of::<T>() as u32;
    bpf(
        OBJ_GET_INFO_BY_FD,
        &mut Attr { object: object.as_raw_fd() as u32, len, info: std::ptr::from_mut(info) as u64 },
    )
    .map(drop)
}

fn descriptor<T>(command: libc::c_long, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the command made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: `attr` is the command's structure, of repr(C) or plain u32s, and what it points to is alive and as long as it says.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>() as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

fn short(name: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let len = name.len().min(NAME - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

fn long(name: &[u8; NAME]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
    String::from_utf8_lossy(&name[..end]).into_owned()
}
