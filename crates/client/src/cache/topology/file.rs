//! A topology's file: its tables, read by the names of their keys, and the line at which something is wrong.

use super::{SLOTS, Topology};
use crate::cache::error::TopologyError;
use crate::cache::registers::Registers;
use crate::cache::secret::Secret;
use crate::file as cluster_file;
use crate::table::{Entry, Table, Wrong};
use crate::web::parse_address;
use protocol::coherence::NodeId;
use protocol::coherence::controller::MAX_CONTROLLERS;
use protocol::coherence::holders::Boxes;
use protocol::coherence::moved::Place;
use protocol::coherence::ranges::{BadRanges, Caching, Range};
use protocol::coherence::table::{BadLayout, BoxPlace};
use protocol::wire::{BoxId, Epoch, HomeId};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

/// Keys of a node of each kind.
const BOX: &[&str] = &["id", "address", "admin", "above", "draining"];
const HOME: &[&str] = &["id", "address", "admin", "box", "stream", "moved"];
const CONTROLLER: &[&str] = &["address", "admin"];

/// What any node says.
#[derive(Clone, Copy, Debug)]
struct At {
    /// By which the others reach it.
    address: SocketAddr,
    /// Where operators find it.
    admin: Option<SocketAddr>,
}

impl At {
    fn read(table: &Table<'_>) -> Result<At, Wrong> {
        let address =
            table.need("address", "by which the others reach it, as HOST:PORT")?.read(str::parse)?;
        let admin = table.get("admin").map(|entry| entry.read(parse_address)).transpose()?;
        Ok(At { address, admin })
    }
}

#[derive(Debug)]
struct BoxEntry {
    id: u16,
    at: At,
    above: Vec<u16>,
    /// It is to be stopped: controllers begin with this; `millrace cluster drain` writes it.
    draining: bool,
}

impl BoxEntry {
    fn read(table: &Table<'_>) -> Result<BoxEntry, Wrong> {
        table.only(BOX)?;
        let id = table.need("id", "its number, 1 to 64")?.read(str::parse)?;
        let above = table.get("above").map_or(Ok(Vec::new()), |entry| entry.read_all(str::parse))?;
        let draining = table.get("draining").map_or(Ok(false), |entry| entry.is_on())?;
        Ok(BoxEntry { id, at: At::read(table)?, above, draining })
    }
}

#[derive(Debug)]
struct HomeEntry {
    id: u16,
    at: At,
    before: u16,
    /// Its memcached listener, for values that are too long for a packet.
    stream: Option<SocketAddr>,

    /// It is at this address by an order of this epoch: `millrace cluster move` writes it.
    moved: Option<u32>,
}

impl HomeEntry {
    fn read(table: &Table<'_>) -> Result<HomeEntry, Wrong> {
        table.only(HOME)?;
        let id = table.need("id", "its number")?.read(str::parse)?;
        let before = table.need("box", "the number of the box before it")?.read(str::parse)?;
        let stream = table.get("stream").map(|entry| entry.read(str::parse)).transpose()?;
        let moved = table.get("moved").map(|entry| entry.read(str::parse)).transpose()?;
        Ok(HomeEntry { id, at: At::read(table)?, before, stream, moved })
    }
}

#[derive(Debug)]
struct ControllerEntry {
    at: At,
}

impl ControllerEntry {
    fn read(table: &Table<'_>) -> Result<ControllerEntry, Wrong> {
        table.only(CONTROLLER)?;
        Ok(ControllerEntry { at: At::read(table)? })
    }
}

/// Where copies of some slots may be kept.
fn range(table: &Table<'_>) -> Result<Range, Wrong> {
    table.only(&["slots", "cache"])?;
    let (first, last) =
        table.need("slots", "the first and the last, as \"0-31\"; or one, as 5")?.read(slots)?;
    let cache = table.need("cache", WHERE)?;
    let said: Vec<String> = cache.read_all(|word| Ok::<_, Infallible>(word.to_owned()))?;
    let wrong = || table.wrong(format!("cache = {:?}: write {WHERE}", said.join(", ")));
    let caching = match said.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return Err(cache.wrong(format!("{} needs cache: {WHERE}", table.title()))),
        ["all"] => Caching::All,
        ["cluster"] => Caching::Cluster,
        ["nowhere"] => Caching::Nowhere,
        ref ids => {
            let of = |id: &&str| id.parse().ok().and_then(|id| Boxes::of(BoxId(id)));
            let boxes = ids.iter().map(of).collect::<Option<Vec<Boxes>>>().ok_or_else(wrong)?;
            Caching::Only(boxes.into_iter().fold(Boxes::default(), Boxes::with))
        }
    };
    Ok(Range { first, last, caching })
}

/// What stands at `cache`.
const WHERE: &str = "\"all\", \"cluster\", \"nowhere\", or ids of boxes, as [1, 2]";

fn slots(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u16>();
    let both = number(first).and_then(|first| Ok((first, number(last)?)));
    both.map_err(|_| format!("{text:?} are no slots; write the first and the last, as \"0-31\""))
}

/// The nodes of a file, each with its table.
struct Nodes<'a> {
    boxes: Vec<(BoxEntry, Table<'a>)>,
    homes: Vec<(HomeEntry, Table<'a>)>,
    controllers: Vec<(ControllerEntry, Table<'a>)>,
    ranges: Vec<(Range, Table<'a>)>,
}

/// The topology in a file that lies at `path`.
pub(super) fn read(file: &Table<'_>, path: &Path) -> Result<Topology, TopologyError> {
    file.only(cluster_file::KEYS).map_err(TopologyError::File)?;
    let registers = Registers::default();
    let others = ["cluster"];
    file.registers(&registers, &others).map_err(TopologyError::File)?;
    let table = |key| file.get(key).map(|entry: Entry<'_>| entry.table()).transpose();
    table("coherence").map_err(TopologyError::File)?;
    let cluster = table("cluster").map_err(TopologyError::File)?;
    let secret = Secret::of(cluster.as_ref(), path).map_err(TopologyError::File)?;
    let slots = file.get("slots").map_or(Ok(SLOTS), |entry| entry.count()).map_err(TopologyError::File)?;
    let nodes = Nodes::of(file).map_err(TopologyError::File)?;
    let found = nodes.topology(slots, &registers);
    let topology = found.map_err(|error| nodes.place(error, file))?;
    let draining = nodes.boxes.iter().filter(|(entry, _)| entry.draining);
    let draining =
        draining.filter_map(|(entry, _)| Boxes::of(BoxId(entry.id))).fold(Boxes::default(), Boxes::with);
    let admin = nodes.places().into_iter().filter_map(|(node, at, _)| Some((node, at.admin?)));
    Ok(Topology { secret, draining, admin: admin.collect(), ..topology })
}

impl<'a> Nodes<'a> {
    fn of(file: &Table<'a>) -> Result<Nodes<'a>, Wrong> {
        Ok(Nodes {
            ranges: entries(file, "range", range)?,
            boxes: entries(file, "box", BoxEntry::read)?,
            homes: entries(file, "home", HomeEntry::read)?,
            controllers: entries(file, "controller", ControllerEntry::read)?,
        })
    }

    fn topology(&self, slots: usize, registers: &Registers) -> Result<Topology, TopologyError> {
        if self.controllers.len() > usize::from(MAX_CONTROLLERS) {
            return Err(TopologyError::Controllers(self.controllers.len()));
        }
        let boxes = self.boxes.iter().map(|(entry, _)| BoxPlace {
            id: BoxId(entry.id),
            above: entry.above.iter().copied().map(BoxId).collect(),
        });
        let homes = self.homes.iter().map(|(entry, _)| (HomeId(entry.id), BoxId(entry.before)));
        let addresses = self.places().into_iter().map(|(node, at, _)| (node, at.address));
        let streams = self.homes.iter().filter_map(|(entry, _)| Some((HomeId(entry.id), entry.stream?)));
        let ranges: Vec<Range> = self.ranges.iter().map(|(range, _)| *range).collect();
        let moved = self.homes.iter().filter_map(|(entry, _)| {
            Some((HomeId(entry.id), Place::new(entry.at.address, Epoch(entry.moved?))?))
        });
        Ok(Topology::new(boxes.collect(), homes.collect(), slots, addresses.collect(), registers)?
            .with_streams(streams)?
            .with_ranges(ranges)?
            .with_moved(moved.collect()))
    }

    /// All nodes, in the order in which files list them.
    fn places(&self) -> Vec<(NodeId, At, &Table<'a>)> {
        let boxes = self.boxes.iter().map(|(entry, table)| (NodeId::Box(BoxId(entry.id)), entry.at, table));
        let homes = self.homes.iter().map(|(entry, table)| (NodeId::Home(HomeId(entry.id)), entry.at, table));
        let controllers = (0..).zip(&self.controllers);
        let controllers =
            controllers.map(|(index, (entry, table))| (NodeId::Controller(index), entry.at, table));
        boxes.chain(homes).chain(controllers).collect()
    }

    /// An error with the line of what is wrong.
    fn place(&self, error: TopologyError, file: &Table<'a>) -> TopologyError {
        let node = |wanted: NodeId| {
            // Of two, the second is one too many.
            let places = self.places().into_iter().rev();
            places.filter(|(node, ..)| *node == wanted).map(|(.., table)| table.clone()).next()
        };
        let names = |id: &BoxId| {
            let above =
                self.boxes.iter().find(|(entry, _)| entry.above.contains(&id.0)).map(|(_, table)| table);
            let home = || self.homes.iter().find(|(entry, _)| entry.before == id.0).map(|(_, table)| table);
            above.or_else(home).cloned()
        };
        let twice = || {
            let is_twice =
                |at: &usize| self.homes[..*at].iter().any(|(one, _)| one.id == self.homes[*at].0.id);
            (0..self.homes.len()).find(is_twice).map(|at| self.homes[at].1.clone())
        };
        let what = error.to_string();
        let table = match &error {
            TopologyError::Layout(BadLayout::Slots(_)) => {
                return TopologyError::File(entry_wrong(file, "slots", what));
            }
            TopologyError::Config(_) => return TopologyError::File(entry_wrong(file, "coherence", what)),
            TopologyError::Layout(BadLayout::Box(id) | BadLayout::TooHigh(id)) => node(NodeId::Box(*id)),
            TopologyError::Layout(BadLayout::Unknown(id)) => names(id),
            TopologyError::Layout(BadLayout::RangeOf(range, _))
            | TopologyError::Ranges(
                BadRanges::Slots(range, _) | BadRanges::NoBox(range) | BadRanges::Overlap(_, range),
            ) => self.ranges.iter().rfind(|(one, _)| one == range).map(|(_, table)| table.clone()),
            TopologyError::Layout(BadLayout::Homes) => twice(),
            TopologyError::Controllers(_) => self.controllers.last().map(|(_, table)| table.clone()),
            TopologyError::SameAddress(_, other) => node(*other),
            TopologyError::NobodysAddress(who, _)
            | TopologyError::MixedFamilies(who)
            | TopologyError::SomeStreams(who) => node(*who),
            _ => return error,
        };
        TopologyError::File(table.unwrap_or_else(|| file.clone()).wrong(what))
    }
}

fn entry_wrong(file: &Table<'_>, key: &str, what: String) -> Wrong {
    file.get(key).map_or_else(|| file.wrong(&*what), |entry| entry.wrong(&*what))
}

/// The tables of a list, if it is there.
fn entries<'a, T>(
    file: &Table<'a>,
    key: &str,
    read: impl Fn(&Table<'a>) -> Result<T, Wrong>,
) -> Result<Vec<(T, Table<'a>)>, Wrong> {
    let tables = file.get(key).map_or(Ok(Vec::new()), |entry| entry.tables())?;
    tables.into_iter().map(|table| Ok((read(&table)?, table))).collect()
}
