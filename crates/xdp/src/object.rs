//! The compiled program, from its file to the kernel.
//!
//! `bpf/box.o` is committed and built into this library; `.ci/xdp` rebuilds and compares it.

use crate::bpf::{self, MapShape};
use crate::error::LoadError;
use crate::layout::{Bucket, Config, Entry, Home, OwnedKey, Row, Sights, WAYS};
use aya_obj::Object;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The program's name, in the object and in the kernel.
pub(crate) const PROGRAM: &str = "millrace_box";

/// The committed object.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../bpf/box.o"));

/// Its bytes.
pub(crate) fn committed() -> &'static [u8] {
    &OBJECT.0
}

/// The maps of a program. They outlive it where another takes its place.
pub(crate) struct Maps {
    pub config: OwnedFd,
    pub buckets: OwnedFd,
    pub entries: OwnedFd,
    pub hits: OwnedFd,
    pub rows: OwnedFd,
    pub homes: OwnedFd,
    pub owned: OwnedFd,
    sights: OwnedFd,
    scratches: OwnedFd,
}

/// Names as in `bpf/maps.h`, in the order of [`Maps`].
const NAMES: [&str; 9] =
    ["config_map", "buckets", "entries", "hits", "rows", "homes", "owned_keys", "sights", "scratches"];

/// How large the maps are that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub buckets: usize,
    /// Keys that can be lent.
    pub owned: usize,
}

impl Maps {
    /// New ones, all zeros.
    pub fn create(sizes: Sizes) -> Result<Maps, LoadError> {
        let object = parse();
        let create = |name| {
            let shape = shape(&object, name, sizes);
            bpf::map_create(name, shape).map_err(|error| LoadError::of("making a map", error))
        };
        Ok(Maps::of(NAMES.into_iter().map(create).collect::<Result<_, _>>()?))
    }

    /// Those of a program in the kernel; none where they are not of the shapes that this version makes.
    pub fn of_program(ids: &[u32], sizes: Sizes) -> io::Result<Option<Maps>> {
        let object = parse();
        let mut found = [const { None }; NAMES.len()];
        for &id in ids {
            let map = bpf::map_by_id(id)?;
            let (name, is) = bpf::map_info(map.as_fd())?;
            if let Some(i) = NAMES.iter().position(|known| *known == name) {
                found[i] = (is == shape(&object, NAMES[i], sizes)).then_some(map);
            }
        }
        Ok(found.into_iter().collect::<Option<_>>().map(Maps::of))
    }

    /// Of all of them, in the order of [`NAMES`].
    fn of(maps: Vec<OwnedFd>) -> Maps {
        let maps: [OwnedFd; NAMES.len()] = maps.try_into().expect("a map for each name");
        let [config, buckets, entries, hits, rows, homes, owned, sights, scratches] = maps;
        Maps { config, buckets, entries, hits, rows, homes, owned, sights, scratches }
    }

    fn fds(&self) -> [BorrowedFd<'_>; NAMES.len()] {
        let Maps { config, buckets, entries, hits, rows, homes, owned, sights, scratches } = self;
        [config, buckets, entries, hits, rows, homes, owned, sights, scratches].map(OwnedFd::as_fd)
    }
}

/// Puts the maps into an object's program and gives it to the kernel.
pub(crate) fn load(bytes: &[u8], maps: &Maps) -> Result<OwnedFd, LoadError> {
    let bad = |what: &dyn std::fmt::Display| LoadError::BadObject(what.to_string());
    let mut object = Object::parse(bytes).map_err(|error| bad(&error))?;
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let described = object.maps.clone();
    let known =
        NAMES.iter().zip(maps.fds()).filter_map(|(name, fd)| Some((*name, fd, described.get(*name)?)));
    let pairs = known.map(|(name, fd, map)| (name, fd.as_raw_fd(), map));
    object.relocate_maps(pairs, &text).map_err(|error| bad(&error))?;
    object.relocate_calls(&text).map_err(|error| bad(&error))?;
    let program =
        object.programs.get(PROGRAM).ok_or_else(|| bad(&format_args!("no program is named {PROGRAM}")))?;
    let code = &object.functions[&program.function_key()].instructions;
    bpf::program_load(PROGRAM, code).map_err(|(error, log)| refusal(error, &log))
}

/// The config among a program's maps, where it is laid out as here.
pub(crate) fn config_of(ids: &[u32]) -> io::Result<Option<OwnedFd>> {
    let object = parse();
    for &id in ids {
        let map = bpf::map_by_id(id)?;
        if bpf::map_info(map.as_fd())?
            == (NAMES[0].into(), shape(&object, NAMES[0], Sizes { buckets: 0, owned: 0 }))
        {
            return Ok(Some(map));
        }
    }
    Ok(None)
}

fn refusal(error: io::Error, log: &str) -> LoadError {
    if log.contains("unknown func") || log.contains("invalid func") {
        return LoadError::KernelTooOld("bpf_xdp_load_bytes");
    }
    if log.is_empty() {
        return LoadError::of("loading the XDP program", error);
    }
    let lines: Vec<_> = log.lines().collect();
    LoadError::Refused(lines[lines.len().saturating_sub(12)..].join("\n"))
}

fn parse() -> Object {
    Object::parse(committed()).expect("the committed object is one")
}

fn shape(object: &Object, name: &str, Sizes { buckets, owned }: Sizes) -> MapShape {
    let map = &object.maps[name];
    let max_entries = match name {
        "buckets" => buckets,
        "entries" | "hits" => buckets * WAYS,
        "rows" => possible_cpus(),
        "sights" => sight_lines(buckets),
        "owned_keys" => owned,
        _ => map.max_entries() as usize,
    };
    let expected = match name {
        "config_map" => size_of::<Config>(),
        "buckets" => size_of::<Bucket>(),
        "entries" => size_of::<Entry>(),
        "hits" => 8,
        "rows" => size_of::<Row>(),
        "homes" => size_of::<Home>(),
        "sights" => size_of::<Sights>(),
        "owned_keys" => size_of::<OwnedKey>(),
        _ => map.value_size() as usize,
    };
    assert_eq!(map.value_size() as usize, expected, "the committed object's {name} is laid out as here");
    MapShape {
        kind: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: max_entries as u32,
        flags: map.map_flags(),
    }
}

/// Lines of sights for so many buckets: four cells for each entry, and never so few that two keys would soon meet.
pub(crate) fn sight_lines(buckets: usize) -> usize {
    buckets.max(256)
}

/// One more than the highest number that a CPU of this machine can have.
pub(crate) fn possible_cpus() -> usize {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let highest = list.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    highest.map_or(1024, |highest| highest + 1)
}
