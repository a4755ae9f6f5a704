//! Topologies: which boxes, homes, clients and controllers there are, by a name or a short text.
//!
//! ```text
//!  rooted                       tree                       two
//!   root  root                     top                      C ─▶ box 1
//!    │ ╲ ╱ │                      ╱   ╲                           │
//!    │ ╱ ╲ │   (4 ToRs)      middle   middle                C ─▶ box 2 ── home
//!   tor … tor                 ╱ ╲       ╱ ╲
//!    C     C, home          tor tor   tor tor ── home
//! ```
//! `rooted` is the published multi-rooted one (Source: IncBricks, section 6.1), `tree` one path between any two, five boxes long, which is
//! longer than a packet has places for sharers; `two` the smallest in which a box has a child.
//!
//! Others: `tors=4,roots=2,homes=2,clients=6`, with `middles`, `controllers` and `keys` too. Homes stand behind the last ToRs, clients
//! behind the ToRs in turn.

use protocol::coherence::holders::MAX_BOXES;
use protocol::coherence::table::{BoxPlace, Layout};
use protocol::wire::{BoxId, HomeId};
use sim::NodeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Slots of a layout: enough for every home to be reached over every root.
const SLOTS: usize = 16;
/// Keys, where neither text nor name say how many: 1 to so many, by seed.
pub const MOST_KEYS: u64 = 8;

/// Names of topologies.
pub const NAMES: &[&str] = &["rooted", "tree", "two"];

/// Who there is.
#[derive(Clone, Debug)]
pub struct Topology {
    text: String,
    /// Boxes, and homes behind them.
    pub layout: Arc<Layout>,
    /// For each client the box it is behind.
    pub clients: Vec<BoxId>,
    /// How many controllers.
    pub controllers: u8,
    /// How many keys; by seed where none.
    pub keys: Option<u64>,
}

/// The numbers of a topology in levels.
#[derive(Clone, Copy)]
struct Levels {
    tors: u16,
    middles: u16,
    roots: u16,
    homes: u16,
    clients: u16,
    controllers: u16,
    keys: u16,
}

impl Levels {
    const ROOTED: Levels =
        Levels { tors: 4, middles: 0, roots: 2, homes: 2, clients: 4, controllers: 2, keys: 0 };
    const TREE: Levels = Levels { middles: 2, roots: 1, homes: 1, controllers: 1, ..Levels::ROOTED };

    fn read(text: &str) -> Result<Levels, String> {
        let mut levels = Levels { homes: 1, controllers: 1, clients: 0, ..Levels::ROOTED };
        for field in text.split(',') {
            let (name, number) = field.split_once('=').ok_or_else(|| unknown(field))?;
            let number: u16 = number.parse().map_err(|_| format!("{number:?} is no small number"))?;
            *match name {
                "tors" => &mut levels.tors,
                "middles" => &mut levels.middles,
                "roots" => &mut levels.roots,
                "homes" => &mut levels.homes,
                "clients" => &mut levels.clients,
                "controllers" => &mut levels.controllers,
                "keys" => &mut levels.keys,
                _ => return Err(unknown(name)),
            } = number;
        }
        if levels.clients == 0 {
            levels.clients = levels.tors;
        }
        levels.check()?;
        Ok(levels)
    }

    fn check(&self) -> Result<(), String> {
        let boxes = u32::from(self.tors) + u32::from(self.middles) + u32::from(self.roots);
        let others = u32::from(self.homes) + u32::from(self.clients) + u32::from(self.controllers);
        let rules = [
            (self.tors > 0 && self.homes > 0, "there must be a ToR and a home".to_string()),
            (
                boxes <= u32::from(MAX_BOXES) && boxes + others <= NodeSet::MOST,
                format!("at most {MAX_BOXES} boxes, and {} nodes", NodeSet::MOST),
            ),
            (
                usize::from(self.homes) <= SLOTS && self.controllers <= 16,
                format!("at most {SLOTS} homes, 16 controllers"),
            ),
            (u64::from(self.keys) <= 64, "at most 64 keys".to_string()),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
    }

    fn build(&self, text: &str) -> Result<Topology, String> {
        let ids = |from: u16, count: u16| (from..from + count).map(BoxId).collect::<Vec<_>>();
        let tors = ids(1, self.tors);
        let middles = ids(1 + self.tors, self.middles);
        let roots = ids(1 + self.tors + self.middles, self.roots);
        let above_tor = |i: usize| match middles.len() {
            0 => roots.clone(),
            count => vec![middles[i * count / tors.len()]],
        };
        let tor_places = tors.iter().enumerate().map(|(i, id)| BoxPlace { id: *id, above: above_tor(i) });
        let middle_places = middles.iter().map(|id| BoxPlace { id: *id, above: roots.clone() });
        let root_places = roots.iter().map(|id| BoxPlace { id: *id, above: vec![] });
        let boxes: Vec<_> = tor_places.chain(middle_places).chain(root_places).collect();
        let homes: Vec<_> =
            (0..self.homes).map(|i| (HomeId(i + 1), BoxId(self.tors - i % self.tors))).collect();
        Ok(Topology {
            text: text.to_string(),
            layout: Arc::new(Layout::new(&boxes, &homes, SLOTS).map_err(|bad| bad.to_string())?),
            clients: (0..self.clients).map(|i| BoxId(1 + i % self.tors)).collect(),
            controllers: self.controllers as u8,
            keys: (self.keys > 0).then_some(self.keys.into()),
        })
    }
}

fn unknown(field: &str) -> String {
    format!("{field:?} is no topology; there are {} and, for example, tors=4,roots=2", NAMES.join(", "))
}

impl Topology {
    /// A box below another, with the home behind the upper one, and a client at each.
    fn two() -> Topology {
        let (lower, upper) = (BoxId(1), BoxId(2));
        let boxes = [BoxPlace { id: lower, above: vec![upper] }, BoxPlace { id: upper, above: vec![] }];
        Topology {
            text: "two".to_string(),
            layout: Arc::new(Layout::new(&boxes, &[(HomeId(1), upper)], 1).expect("two boxes are a layout")),
            clients: vec![lower, upper],
            controllers: 0,
            keys: Some(1),
        }
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Topology, String> {
        match text {
            "two" => Ok(Topology::two()),
            "rooted" => Levels::ROOTED.build(text),
            "tree" => Levels::TREE.build(text),
            _ => Levels::read(text)?.build(text),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::coherence::table::Table;
    use protocol::wire::KeyHash;

    fn read(text: &str) -> Topology {
        text.parse().expect("a topology")
    }

    #[test]
    fn names_and_texts_are_read() {
        for name in NAMES {
            assert_eq!(read(name).to_string(), *name);
        }
        let own = read("tors=3,roots=1,homes=2,clients=5,keys=3");
        assert_eq!((own.layout.boxes().count(), own.layout.homes().count()), (4, 2));
        assert_eq!(own.clients.iter().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 3, 1, 2]);
        assert_eq!((own.controllers, own.keys), (1, Some(3)));
        for bad in
            ["", "three", "tors=0", "tors=4,roots", "tors=70", "clients=120,tors=60", "homes=17", "keys=65"]
        {
            assert!(bad.parse::<Topology>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_tree_is_longer_than_a_packet_has_places() {
        let tree = read("tree");
        let way = Table::first(tree.layout.clone()).designated(BoxId(1), KeyHash(0));
        assert_eq!(way.iter().map(|id| id.0).collect::<Vec<_>>(), [1, 5, 7, 6, 4]);
        let two = Table::first(read("two").layout.clone()).designated(BoxId(1), KeyHash(0));
        assert_eq!(two, [BoxId(1), BoxId(2)]);
    }
}
