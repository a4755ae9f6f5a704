//! The file of a cluster, as its clients read it; and who reads which part of it.
//!
//! One file names every member: boxes, homes and controllers of a rack, and chains of replicas. Each reader takes its own tables and leaves the
//! others'; a key that nobody reads is refused by all. What a member must know beyond this is read by the server (`serve::chain::members`,
//! `serve::inc::topology`).
//!
//! Clients may name controllers instead of a path, `http://HOST:PORT`: these have the file, too ([`crate::controllers`]).

use crate::table::{Source, Table, Wrong};
use fabric::link::Address;
use protocol::chain::ReplicaId;
use protocol::chain::slots::{BadMap, Map, Slots};
use std::path::Path;

/// All keys of the file: those of a rack, then those of chains.
pub const KEYS: &[&str] = &["slots", "cluster", "box", "home", "controller", "range", "coherence", "chain"];

/// All keys of a chain: what clients read, then what its members do.
const KEYS_OF_CHAIN: &[&str] = &[
    "number",
    "slots",
    "replica",
    "key",
    "state",
    "etcd",
    "etcd_user",
    "etcd_password_file",
    "controller",
    "registers",
];

/// All keys of a replica.
const KEYS_OF_REPLICA: &[&str] = &["id", "address", "peers", "admin", "data"];

/// A chain, as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its number.
    pub number: u32,
    /// The slots whose keys it has.
    pub slots: Slots,
    /// Where its replicas serve clients, as a new chain has them from head to tail.
    pub replicas: Vec<(ReplicaId, Address)>,
}

/// The chain of this number in the file at a path, or the only one.
///
/// # Errors
/// What is wrong with the file, and where; or it has no such chain.
pub fn chain(path: &Path, number: Option<u32>) -> Result<Chain, Wrong> {
    let source = Source::of_cluster(path)?;
    let parsed = source.parse()?;
    one(&source.table(&parsed), number)
}

/// All chains of the file at a path: one at least, and every slot is one's.
///
/// # Errors
/// What is wrong with it, and where.
pub fn all(path: &Path) -> Result<Vec<Chain>, Wrong> {
    let source = Source::of_cluster(path)?;
    let parsed = source.parse()?;
    let file = source.table(&parsed);
    match chains(&file)? {
        none if none.is_empty() => Err(file.wrong("there is no [[chain]]")),
        all => Ok(all.into_iter().map(|(chain, _)| chain).collect()),
    }
}

/// What a file is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// A rack: boxes, homes.
    pub rack: bool,
    /// Chains of replicas.
    pub chains: bool,
}

/// What the file at a path is about. What stands in it is not looked at.
///
/// # Errors
/// It cannot be read, or is not TOML.
pub fn parts(path: &Path) -> Result<Parts, Wrong> {
    let source = Source::of_cluster(path)?;
    let parsed = source.parse()?;
    let file = source.table(&parsed);
    let has = |key| file.get(key).is_some();
    Ok(Parts { rack: has("box") || has("home"), chains: has("chain") })
}

fn one(file: &Table<'_>, number: Option<u32>) -> Result<Chain, Wrong> {
    let all = chains(file)?.into_iter().map(|(chain, _)| chain).collect();
    pick(file, all, |chain| chain.number, number, "say which")
}

/// Of all chains of a file the one of this number, or the only one; `how` it is said which.
///
/// # Errors
/// There is none, or there are several.
pub fn pick<T>(
    file: &Table<'_>,
    mut all: Vec<T>,
    number_of: fn(&T) -> u32,
    number: Option<u32>,
    how: &str,
) -> Result<T, Wrong> {
    let at = match number {
        Some(number) => all.iter().position(|chain| number_of(chain) == number),
        None => Some(0).filter(|_| all.len() == 1),
    };
    if let Some(at) = at {
        return Ok(all.swap_remove(at));
    }
    let numbers: Vec<_> = all.iter().map(|chain| number_of(chain).to_string()).collect();
    let what = match (number, &numbers[..]) {
        (_, []) => "there is no [[chain]]".to_owned(),
        (Some(number), _) => format!("there is no chain {number}; there are {}", numbers.join(", ")),
        (None, _) => format!("there are the chains {}; {how}", numbers.join(", ")),
    };
    Err(file.get("chain").map_or_else(|| file.wrong(&*what), |entry| entry.wrong(&*what)))
}

/// All chains of a file, each with its table. Their numbers are their own, and every slot is one's.
///
/// # Errors
/// What is wrong with it, and where.
pub fn chains<'a>(file: &Table<'a>) -> Result<Vec<(Chain, Table<'a>)>, Wrong> {
    file.only(KEYS)?;
    let tables = file.get("chain").map_or(Ok(Vec::new()), |entry| entry.tables())?;
    let count = tables.len();
    let mut all: Vec<(Chain, Table<'a>)> = Vec::with_capacity(count);
    for (at, table) in tables.into_iter().enumerate() {
        let chain = read(&table, (at, count))?;
        if all.iter().any(|(other, _)| other.number == chain.number) {
            let number = chain.number;
            return Err(table.wrong(format!("there is a chain {number} already: numbers are given once")));
        }
        all.push((chain, table));
    }
    check_slots(&all)?;
    Ok(all)
}

fn read(table: &Table<'_>, (at, count): (usize, usize)) -> Result<Chain, Wrong> {
    table.only(KEYS_OF_CHAIN)?;
    let number = table.need("number", "the chain's")?;
    let what = || number.wrong("a chain's number has 32 bits");
    let chain = u32::try_from(number.count()?).map_err(|_| what())?;
    let slots = match table.get("slots") {
        Some(entry) => {
            let text = entry.text()?;
            text.parse().map_err(|error| entry.wrong(format!("slots cannot be {text:?}: {error}")))?
        }
        None if count == 1 => Slots::default(),
        None => {
            return Err(table.wrong(format!(
                "chain {chain} is one of {count}, and the file does not say which keys are in it: write its hash slots, as slots = \"{}\"; each \
                 of the 16384 slots is one chain's",
                Slots::share(at, count)
            )));
        }
    };
    let places = table.need("replica", "[[chain.replica]], one for each")?.tables()?;
    let replicas = places.iter().map(replica).collect::<Result<Vec<_>, Wrong>>()?;
    Ok(Chain { number: chain, slots, replicas })
}

/// Every slot is one chain's.
fn check_slots(all: &[(Chain, Table<'_>)]) -> Result<(), Wrong> {
    let Some((last, table)) = all.last() else { return Ok(()) };
    let slots: Vec<Slots> = all.iter().map(|(chain, _)| chain.slots.clone()).collect();
    match Map::new(&slots) {
        Ok(_) => Ok(()),
        Err(BadMap::Both(slot, one, other)) => {
            let (one, (other, at)) = (all[one.min(other)].0.number, &all[one.max(other)]);
            let at = at.get("slots").expect("a chain without has none, or all alone");
            let other = other.number;
            Err(at.wrong(format!("slot {slot} is chain {one}'s, and chain {other}'s: it can be one's alone")))
        }
        Err(BadMap::Nobody(from, to)) => {
            let at = table.get("slots").expect("a chain without has all");
            let which = last.number;
            let slots = if from == to { format!("slot {from} is") } else { format!("slots {from}-{to} are") };
            Err(at.wrong(format!("{slots} no chain's: give them to one, for example to chain {which}")))
        }
    }
}

/// A replica's number, and where clients find it.
///
/// # Errors
/// What is wrong with its table.
pub fn replica(place: &Table<'_>) -> Result<(ReplicaId, Address), Wrong> {
    place.only(KEYS_OF_REPLICA)?;
    let id = place.need("id", "the replica's number in the chain")?;
    let number = u16::try_from(id.count()?).ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| id.wrong("a replica's number is between 1 and 65535"))?;
    place.need("address", "where clients find it: tcp:HOST:PORT")?;
    Ok((ReplicaId(number), address(place, "address")?.expect("it is there")))
}

/// The address that stands at a key.
///
/// # Errors
/// It is none.
pub fn address(place: &Table<'_>, key: &str) -> Result<Option<Address>, Wrong> {
    let Some(entry) = place.get(key) else { return Ok(None) };
    let text = entry.text()?;
    let read = text.parse().map_err(|error| entry.wrong(format!("{key} cannot be {text:?}: {error}")));
    read.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
[cluster]
key = \"c.key\"
[[box]]
id = 1
[[chain]]
number = 7
slots = \"0-99, 200-16383\"
state = [\"chain7\"]
[[chain.replica]]
id = 1
address = \"tcp:127.0.0.1:1\"
peers = \"tcp:127.0.0.1:2\"
[[chain.replica]]
id = 2
address = \"unix:/tmp/two\"
[[chain.controller]]
address = \"tcp:127.0.0.1:5\"
[[chain]]
number = 8
slots = \"100-199\"
[[chain.replica]]
id = 9
address = \"tcp:h:9\"
";

    fn parse(text: &str, number: Option<u32>) -> Result<Chain, String> {
        let source = Source::of(Path::new("cluster.toml"), text);
        let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
        one(&source.table(&parsed), number).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_file_says_where_the_replicas_of_a_chain_are() {
        let chain = parse(TEXT, Some(7)).expect("a good file");
        let places: Vec<_> = chain.replicas.iter().map(|(id, at)| (id.0, at.to_string())).collect();
        assert_eq!(places, [(1, "tcp:127.0.0.1:1".to_owned()), (2, "unix:/tmp/two".to_owned())]);
        for (number, words) in [
            (None, "cluster.toml:5: there are the chains 7, 8; say which"),
            (Some(9), "there is no chain 9; there are 7, 8"),
        ] {
            let error = parse(TEXT, number).expect_err(words);
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
        for (from, to, words) in [
            (
                "number = 7",
                "numbr = 7",
                "cluster.toml:6: [chain] has no key \"numbr\"; did you mean \"number\"?",
            ),
            ("number = 8", "number = 7", "cluster.toml:19: there is a chain 7 already"),
            ("slots = \"100-199\"\n", "", "cluster.toml:19: chain 8 is one of 2, and the file does not say"),
            ("slots = \"100-199\"\n", "", "as slots = \"8192-16383\""),
            ("100-199", "100-200", "cluster.toml:20: slot 200 is chain 7's, and chain 8's"),
            ("100-199", "100-198", "cluster.toml:20: slot 199 is no chain's: give them to one"),
            ("100-199", "99-1", "cluster.toml:20: slots cannot be \"99-1\": 99-1: a range rises"),
            ("tcp:127.0.0.1:1", "tcp:127.0.0.1", "cluster.toml:11: address cannot be \"tcp:127.0.0.1\""),
            ("id = 1\naddress", "id = 0\naddress", "cluster.toml:10: a replica's number"),
            ("[[box]]", "[[boxx]]", "did you mean \"box\"?"),
        ] {
            let text = TEXT.replace(from, to);
            assert_ne!(text, TEXT, "{from}");
            let error = parse(&text, Some(7)).expect_err(words);
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
        assert!(parse("[[box]]\nid = 1\n", None).expect_err("none").contains("there is no [[chain]]"));
    }

    proptest! {
        #[test]
        fn any_lines_are_a_file_or_refused(lines in proptest::collection::vec(prop_oneof![
            proptest::sample::select(TEXT.lines().collect::<Vec<_>>()).prop_map(str::to_owned),
            ".{0,12}",
        ], 0..24)) {
            let _ = parse(&lines.join("\n"), None);
        }
    }
}
