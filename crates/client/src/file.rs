//! The file of a cluster, as its clients read it; and who reads which part of it.
//!
//! One file names every member: boxes, homes and controllers of a rack, and chains of replicas. Each reader takes its own tables and leaves the
//! others'; a key that nobody reads is refused by all. What a member must know beyond this is read by the server (`serve::chain::members`,
//! `serve::inc::topology`).

use crate::table::{Source, Table, Wrong};
use fabric::link::Address;
use protocol::chain::ReplicaId;
use std::path::Path;

/// All keys of the file: those of a rack, then those of chains.
pub const KEYS: &[&str] = &["slots", "cluster", "box", "home", "controller", "range", "coherence", "chain"];

/// A chain, as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its number.
    pub number: u32,
    /// Where its replicas serve clients, as a new chain has them from head to tail.
    pub replicas: Vec<(ReplicaId, Address)>,
}

/// The chain of this number in the file at a path, or the only one.
///
/// # Errors
/// What is wrong with the file, and where; or it has no such chain.
pub fn chain(path: &Path, number: Option<u32>) -> Result<Chain, Wrong> {
    let source = Source::read(path)?;
    let parsed = source.parse()?;
    one(&source.table(&parsed), number)
}

fn one(file: &Table<'_>, number: Option<u32>) -> Result<Chain, Wrong> {
    let mut all = chains(file)?;
    let at = match number {
        Some(number) => all.iter().position(|chain| chain.number == number),
        None => Some(0).filter(|_| all.len() == 1),
    };
    if let Some(at) = at {
        return Ok(all.swap_remove(at));
    }
    let numbers: Vec<_> = all.iter().map(|chain| chain.number.to_string()).collect();
    let what = match (number, &numbers[..]) {
        (_, []) => "there is no [[chain]]".to_owned(),
        (Some(number), _) => format!("there is no chain {number}; there are {}", numbers.join(", ")),
        (None, _) => format!("there are the chains {}; say which", numbers.join(", ")),
    };
    Err(file.get("chain").map_or_else(|| file.wrong(&*what), |entry| entry.wrong(&*what)))
}

/// All chains of a file.
///
/// # Errors
/// What is wrong with it, and where.
pub fn chains(file: &Table<'_>) -> Result<Vec<Chain>, Wrong> {
    file.only(KEYS)?;
    let tables = file.get("chain").map_or(Ok(Vec::new()), |entry| entry.tables())?;
    tables.iter().map(read).collect()
}

fn read(table: &Table<'_>) -> Result<Chain, Wrong> {
    let number = table.need("number", "the chain's")?;
    let what = || number.wrong("a chain's number has 32 bits");
    let chain = u32::try_from(number.count()?).map_err(|_| what())?;
    let places = table.need("replica", "[[chain.replica]], one for each")?.tables()?;
    let replicas = places.iter().map(replica).collect::<Result<Vec<_>, Wrong>>()?;
    Ok(Chain { number: chain, replicas })
}

fn replica(place: &Table<'_>) -> Result<(ReplicaId, Address), Wrong> {
    let id = place.need("id", "the replica's number in the chain")?;
    let number = u16::try_from(id.count()?).ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| id.wrong("a replica's number is between 1 and 65535"))?;
    let entry = place.need("address", "where clients find it: tcp:HOST:PORT")?;
    let address = entry.text()?;
    let address =
        address.parse().map_err(|error| entry.wrong(format!("address cannot be {address:?}: {error}")))?;
    Ok((ReplicaId(number), address))
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
            ("number = 7", "numbr = 7", "needs number: the chain's"),
            ("tcp:127.0.0.1:1", "tcp:127.0.0.1", "cluster.toml:10: address cannot be \"tcp:127.0.0.1\""),
            ("id = 1\naddress", "id = 0\naddress", "cluster.toml:9: a replica's number"),
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
