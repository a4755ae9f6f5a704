//! Parts of a machine that is composed: `[[part]]` entries of a platform file, in the order in which a request meets them.
//!
//! ```toml
//! [[part]]
//! name = "tor"                 # numbers of this part begin so: tor.box.memory_size
//! kind = "box"
//! from = "xpliant-octeon"      # whose numbers it has, and whose model reads them
//!
//! [tor.box]                    # what differs from it
//! memory_size = { value = 8, unit = "GiB", class = "assumed", source = "a larger board", range = [2, 16] }
//! ```
//!
//! A part takes over those tables of its platform that are about it (`TABLES`). Parts of the server that come from the same family are one device for
//! that family's model: each number is then at the part that it is about, and a table that is about none of them at the first. So every number is there
//! once, and `--set`, ranges and audits find it by one name.
//!
//! Which kinds a family's model can make, and in which order parts can be joined, is checked here; whether numbers are complete, when the machine is made.

use super::{Number, Platform};
use std::collections::BTreeMap;
use std::fmt;

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Machines that ask.
    Clients,
    /// A cable.
    Link,
    /// A cache beside a switch, or on a machine of its own, that requests pass.
    Box,
    /// A network card, with the cores on it if it has any.
    NicSoc,
    /// An accelerator that shares the host's memory coherently.
    CoherentAccelerator,
    /// A server's processor and memory, with what serves on it.
    Host,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 6] =
        [Kind::Clients, Kind::Link, Kind::Box, Kind::NicSoc, Kind::CoherentAccelerator, Kind::Host];

    /// As files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Clients => "clients",
            Kind::Link => "link",
            Kind::Box => "box",
            Kind::NicSoc => "nic-soc",
            Kind::CoherentAccelerator => "coherent-accelerator",
            Kind::Host => "host",
        }
    }

    /// Whether it belongs to the server, and not to what is before it.
    pub const fn is_of_server(self) -> bool {
        matches!(self, Kind::NicSoc | Kind::CoherentAccelerator | Kind::Host)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Kinds that a machine could have and no model makes yet, and who is planned alone meanwhile.
const ELSEWHERE: [(&str, &str); 2] = [
    ("pcie-accelerator", "pcie-rpc-accelerator"),
    ("rpc-engine", "broadwell-fpga and onchip-rpc-accelerator"),
];

/// Which tables of a family's platforms are about a part of a kind. What is not here no model makes.
pub const TABLES: &[(&str, Kind, &[&str])] = &[
    ("host", Kind::Clients, &["code", "cores", "kernel", "memory"]),
    ("host", Kind::Link, &["link"]),
    ("host", Kind::Box, &["code", "cores", "kernel", "memory"]),
    ("host", Kind::Host, &["code", "cores", "kernel", "memory"]),
    ("in-network-cache", Kind::Clients, &["client", "stack", "network"]),
    ("in-network-cache", Kind::Link, &["network"]),
    ("in-network-cache", Kind::Box, &["box", "switch", "network", "packet"]),
    ("in-network-cache", Kind::Host, &["server", "stack", "network"]),
    ("off-path-smartnic", Kind::Clients, &["client", "network"]),
    ("off-path-smartnic", Kind::NicSoc, &["network", "nic", "pcie", "dram", "soc", "dma", "client.poll"]),
    ("off-path-smartnic", Kind::Host, &["host"]),
    ("coherent-accelerator", Kind::Clients, &["client", "nic", "jitter"]),
    ("coherent-accelerator", Kind::NicSoc, &["network", "nic", "pcie", "soc", "rpc"]),
    ("coherent-accelerator", Kind::CoherentAccelerator, &["interconnect", "accelerator", "local"]),
    ("coherent-accelerator", Kind::Host, &["host", "jitter"]),
];

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name; its numbers begin so. Empty where a platform has its numbers at the root.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The family whose model reads its numbers.
    pub family: String,
}

impl Part {
    /// A number of the part by its name in the platform.
    pub fn number(&self, name: &str) -> String {
        if self.name.is_empty() { name.into() } else { format!("{}.{name}", self.name) }
    }
}

/// A part as a file says it, with the platform that it takes its numbers from.
pub(super) struct Said {
    pub(super) part: Part,
    pub(super) from: Platform,
    pub(super) at: usize,
}

/// What a word for a kind means.
///
/// # Errors
/// A sentence that says which there are.
pub(super) fn kind(word: &str) -> Result<Kind, String> {
    if let Some((_, alone)) = ELSEWHERE.iter().find(|(name, _)| *name == word) {
        return Err(format!(
            "kind {word:?} cannot be joined to others yet; platforms {alone} are planned alone"
        ));
    }
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == word);
    found.ok_or_else(|| {
        format!("{word:?} is no kind of part; there are {}", Kind::ALL.map(Kind::name).join(", "))
    })
}

/// Whether a family's model makes parts of this kind.
///
/// # Errors
/// A sentence that says which it makes.
pub(super) fn made_by(family: &str, kind: Kind, from: &str) -> Result<(), String> {
    let of_family: Vec<_> =
        TABLES.iter().filter(|(name, ..)| *name == family).map(|(_, kind, _)| *kind).collect();
    if of_family.contains(&kind) {
        return Ok(());
    }
    let list =
        |all: Vec<&str>| if all.is_empty() { "nothing that can be joined".into() } else { all.join(", ") };
    let families: Vec<&str> =
        TABLES.iter().filter(|(_, other, _)| *other == kind).map(|(name, ..)| *name).collect();
    Err(format!(
        "{from} has no numbers of a part of kind {kind}: platforms of family {family} have those of {}; those of a {kind} are in families {}",
        list(of_family.into_iter().map(Kind::name).collect()),
        families.join(", ")
    ))
}

/// Whether parts in this order make a machine; what is wrong, and of which one.
pub(super) fn joined(all: &[Part]) -> Result<(), (usize, String)> {
    let position = |kind: Kind| all.iter().position(|part| part.kind == kind);
    for (at, part) in all.iter().enumerate() {
        let no = |why: String| Err((at, format!("part {}: {why}", part.name)));
        let once = !matches!(part.kind, Kind::Link | Kind::Box);
        if once && all[..at].iter().any(|other| other.kind == part.kind) {
            return no(format!(
                "a machine has one part of kind {}; {}.count says how many are side by side",
                part.kind, part.name
            ));
        }
        if all[..at].iter().any(|other| other.name == part.name) {
            return no("has the name of another".into());
        }
        if (part.kind == Kind::Clients) != (at == 0) {
            return no("clients come first, and nothing else does".into());
        }
        if !part.kind.is_of_server() && all[..at].iter().any(|other| other.kind.is_of_server()) {
            return no(format!(
                "a {} is between clients and server: put it before nic-soc, accelerator and host",
                part.kind
            ));
        }
        if part.kind == Kind::Host && at + 1 < all.len() {
            return no("the host comes last: all others are before it".into());
        }
        let has_nic = position(Kind::NicSoc).is_some_and(|nic| nic < at);
        if part.kind == Kind::CoherentAccelerator && !has_nic {
            return no("takes requests from rings that a network card writes: put a nic-soc before it".into());
        }
        let by_messages = matches!(&*part.family, "off-path-smartnic" | "coherent-accelerator");
        if part.kind == Kind::Host && by_messages && !has_nic {
            return no(
                "its cores take messages that a network card writes into memory: put a nic-soc before it"
                    .into(),
            );
        }
        if part.kind == Kind::Host && part.family == "in-network-cache" && has_nic {
            return no("has its cables in its own numbers: leave out the nic-soc".into());
        }
    }
    match all.last() {
        Some(last) if last.kind != Kind::Host => {
            Err((all.len() - 1, "a machine ends with a host: whoever has all the data".into()))
        }
        _ => Ok(()),
    }
}

/// The numbers of all parts, under the parts' names.
pub(super) fn numbers(all: &[Said]) -> BTreeMap<String, Number> {
    let mut numbers = BTreeMap::new();
    for (at, said) in all.iter().enumerate() {
        let mut tables = tables(&said.part.family, said.part.kind).to_vec();
        // The device that server parts of one family are has these too: at its first part.
        let of_device =
            |other: &&Said| other.part.kind.is_of_server() && other.part.family == said.part.family;
        let is_first =
            said.part.kind.is_of_server() && all.iter().position(|other| of_device(&other)) == Some(at);
        if is_first {
            for kind in [Kind::NicSoc, Kind::Host] {
                if !all.iter().any(|other| of_device(&other) && other.part.kind == kind) {
                    tables.extend(self::tables(&said.part.family, kind));
                }
            }
        }
        let is_own = |name: &str| {
            let begins = |table: &str| {
                name.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            tables.iter().any(|table| begins(table))
        };
        let own = said.from.numbers().filter(|(name, _)| is_own(name));
        numbers.extend(own.map(|(name, number)| (said.part.number(name), number.clone())));
    }
    numbers
}

fn tables(family: &str, kind: Kind) -> &'static [&'static str] {
    TABLES.iter().find(|(name, of, _)| *name == family && *of == kind).map_or(&[], |(.., tables)| tables)
}

/// A platform's numbers as the model of one family reads them: without the parts' names.
#[derive(Debug)]
pub struct View {
    /// What the model reads.
    pub platform: Platform,
    /// The platform's own name of each number.
    own: BTreeMap<String, String>,
}

impl Platform {
    /// The numbers of these parts together, as if a platform had them alone.
    pub fn view(&self, parts: &[&Part]) -> View {
        let mut own = BTreeMap::new();
        let mut platform = self.unread();
        if parts.iter().all(|part| part.name.is_empty()) {
            own.extend(platform.numbers.keys().map(|name| (name.clone(), name.clone())));
            return View { platform, own };
        }
        platform.name = format!(
            "{}, part {}",
            self.name,
            parts.iter().map(|part| &*part.name).collect::<Vec<_>>().join(" or ")
        );
        platform.numbers.clear();
        for part in parts {
            let prefix = format!("{}.", part.name);
            for (name, number) in self.numbers.iter().filter(|(name, _)| name.starts_with(&prefix)) {
                let short = &name[prefix.len()..];
                if !platform.numbers.contains_key(short) {
                    platform.numbers.insert(short.into(), number.clone());
                    own.insert(short.into(), name.clone());
                }
            }
        }
        View { platform, own }
    }

    /// What was read in a view of this platform counts as read.
    pub fn was_viewed(&self, view: &View) {
        let read = view.platform.were_read();
        self.read.borrow_mut().extend(read.iter().filter_map(|name| view.own.get(name).cloned()));
    }
}
