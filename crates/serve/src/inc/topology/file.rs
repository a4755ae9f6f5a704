//! A topology's file: its tables, read by the names of their keys, and the line at which something is wrong.

use super::{SLOTS, Topology};
use crate::admin::parse_address;
use crate::inc::IncError;
use crate::inc::registers::Registers;
use crate::inc::secret::{ClusterEntry, Secret};
use crate::process::cluster_file;
use crate::process::table::{Entry, Table, Wrong};
use protocol::coherence::NodeId;
use protocol::coherence::controller::MAX_CONTROLLERS;
use protocol::coherence::holders::Boxes;
use protocol::coherence::moved::Place;
use protocol::coherence::ranges::{BadRanges, Caching, Range};
use protocol::coherence::table::{BadLayout, BoxPlace};
use protocol::wire::{BoxId, Epoch, HomeId};
use std::net::SocketAddr;
use std::path::Path;

/// What any node says.
#[derive(clap::Args, Clone, Copy, Debug)]
struct At {
    /// By which the others reach it
    #[arg(long)]
    address: SocketAddr,

    /// Where operators find it
    #[arg(long, value_parser = parse_address)]
    admin: Option<SocketAddr>,
}

#[derive(clap::Args, Debug)]
struct BoxEntry {
    #[arg(long)]
    id: u16,

    #[command(flatten)]
    at: At,

    #[arg(long, value_delimiter = ',')]
    above: Vec<u16>,

    /// It is to be stopped: controllers begin with this; `millrace cluster drain` writes it
    #[arg(long)]
    draining: bool,
}

#[derive(clap::Args, Debug)]
struct HomeEntry {
    #[arg(long)]
    id: u16,

    #[command(flatten)]
    at: At,

    #[arg(id = "box", long = "box")]
    before: u16,

    /// Its memcached listener, for values that are too long for a packet
    #[arg(long)]
    stream: Option<SocketAddr>,

    /// It is at this address by an order of this epoch: `millrace cluster move` writes it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    moved: Option<u32>,
}

#[derive(clap::Args, Debug)]
struct ControllerEntry {
    #[command(flatten)]
    at: At,
}

/// Where copies of some slots may be kept.
#[derive(clap::Args, Debug)]
struct RangeEntry {
    /// The first and the last, as 0-31; or one, as 5
    #[arg(long, value_parser = slots)]
    slots: (u16, u16),

    /// all, cluster, nowhere, or the ids of boxes
    #[arg(long, value_delimiter = ',', required = true)]
    cache: Vec<String>,
}

fn slots(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u16>();
    let both = number(first).and_then(|first| Ok((first, number(last)?)));
    both.map_err(|_| format!("{text:?} are no slots; write the first and the last, as \"0-31\""))
}

impl RangeEntry {
    fn range(&self) -> Result<Range, String> {
        let wrong = || {
            let said = self.cache.join(", ");
            format!("cache = {said:?}: write \"all\", \"cluster\", \"nowhere\", or ids of boxes, as [1, 2]")
        };
        let caching = match self.cache.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["all"] => Caching::All,
            ["cluster"] => Caching::Cluster,
            ["nowhere"] => Caching::Nowhere,
            ref ids => {
                let of = |id: &&str| id.parse().ok().and_then(|id| Boxes::of(BoxId(id)));
                let boxes = ids.iter().map(of).collect::<Option<Vec<Boxes>>>().ok_or_else(wrong)?;
                Caching::Only(boxes.into_iter().fold(Boxes::default(), Boxes::with))
            }
        };
        let (first, last) = self.slots;
        Ok(Range { first, last, caching })
    }
}

/// The nodes of a file, each with its table.
struct Nodes<'a> {
    boxes: Vec<(BoxEntry, Table<'a>)>,
    homes: Vec<(HomeEntry, Table<'a>)>,
    controllers: Vec<(ControllerEntry, Table<'a>)>,
    ranges: Vec<(Range, Table<'a>)>,
}

/// The topology in a file that lies at `path`.
pub(super) fn read(file: &Table<'_>, path: &Path) -> Result<Topology, IncError> {
    file.only(cluster_file::KEYS).map_err(IncError::File)?;
    let registers = Registers::default();
    let others = ["cluster"];
    file.registers(&registers, &others).map_err(IncError::File)?;
    let table = |key| file.get(key).map(|entry: Entry<'_>| entry.table()).transpose();
    table("coherence").map_err(IncError::File)?;
    let cluster = table("cluster").map_err(IncError::File)?;
    let cluster: Option<ClusterEntry> =
        cluster.map(|table| table.flags(&[])).transpose().map_err(IncError::File)?;
    let slots = file.get("slots").map_or(Ok(SLOTS), |entry| entry.count()).map_err(IncError::File)?;
    let nodes = Nodes::of(file).map_err(IncError::File)?;
    let found = nodes.topology(slots, &registers);
    let topology = found.map_err(|error| nodes.place(error, file))?;
    let secret = cluster.map_or(Secret::None, |entry| Secret::of(entry, path));
    let draining = nodes.boxes.iter().filter(|(entry, _)| entry.draining);
    let draining =
        draining.filter_map(|(entry, _)| Boxes::of(BoxId(entry.id))).fold(Boxes::default(), Boxes::with);
    let admin = nodes.places().into_iter().filter_map(|(node, at, _)| Some((node, at.admin?)));
    Ok(Topology { secret, draining, admin: admin.collect(), ..topology })
}

impl<'a> Nodes<'a> {
    fn of(file: &Table<'a>) -> Result<Nodes<'a>, Wrong> {
        let ranges = entries::<RangeEntry>(file, "range")?.into_iter().map(|(entry, table)| {
            let range = entry.range().map_err(|what| table.wrong(what))?;
            Ok((range, table))
        });
        Ok(Nodes {
            ranges: ranges.collect::<Result<_, Wrong>>()?,
            boxes: entries(file, "box")?,
            homes: entries(file, "home")?,
            controllers: entries(file, "controller")?,
        })
    }

    fn topology(&self, slots: usize, registers: &Registers) -> Result<Topology, IncError> {
        if self.controllers.len() > usize::from(MAX_CONTROLLERS) {
            return Err(IncError::Controllers(self.controllers.len()));
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
    fn place(&self, error: IncError, file: &Table<'a>) -> IncError {
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
            IncError::Layout(BadLayout::Slots(_)) => return IncError::File(entry_wrong(file, "slots", what)),
            IncError::Config(_) => return IncError::File(entry_wrong(file, "coherence", what)),
            IncError::Layout(BadLayout::Box(id) | BadLayout::TooHigh(id)) => node(NodeId::Box(*id)),
            IncError::Layout(BadLayout::Unknown(id)) => names(id),
            IncError::Layout(BadLayout::RangeOf(range, _))
            | IncError::Ranges(
                BadRanges::Slots(range, _) | BadRanges::NoBox(range) | BadRanges::Overlap(_, range),
            ) => self.ranges.iter().rfind(|(one, _)| one == range).map(|(_, table)| table.clone()),
            IncError::Layout(BadLayout::Homes) => twice(),
            IncError::Controllers(_) => self.controllers.last().map(|(_, table)| table.clone()),
            IncError::SameAddress(_, other) => node(*other),
            IncError::NobodysAddress(who, _) | IncError::MixedFamilies(who) | IncError::SomeStreams(who) => {
                node(*who)
            }
            _ => return error,
        };
        IncError::File(table.unwrap_or_else(|| file.clone()).wrong(what))
    }
}

fn entry_wrong(file: &Table<'_>, key: &str, what: String) -> Wrong {
    file.get(key).map_or_else(|| file.wrong(&*what), |entry| entry.wrong(&*what))
}

/// The tables of a list, if it is there.
fn entries<'a, T: clap::Args>(file: &Table<'a>, key: &str) -> Result<Vec<(T, Table<'a>)>, Wrong> {
    let tables = file.get(key).map_or(Ok(Vec::new()), |entry| entry.tables())?;
    tables.into_iter().map(|table| Ok((table.flags(&[])?, table))).collect()
}
