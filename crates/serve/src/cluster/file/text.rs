//! The text of a cluster's file without a replica, or with one more. All else stays as it was written, comments too.

use crate::chain::members::ReplicaPlace;
use crate::process::table::{Source, Table, Wrong};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

/// The head of a replica's table.
const HEAD: &str = "[[chain.replica]]";

/// The text without this replica of this chain.
///
/// # Errors
/// The file is none, has no such replica, or not as a table of its own.
pub fn without(source: &Source, chain: u32, id: u16) -> Result<String, String> {
    let lines = block(source, chain, Some(id))?;
    let text = source.text();
    Ok(format!("{}{}", &text[..lines.start], &text[lines.end..]))
}

/// The text with one more replica, after the chain's last.
///
/// # Errors
/// As [`without`], or what is wrong with the place.
pub fn with(source: &Source, chain: u32, place: &ReplicaPlace) -> Result<String, String> {
    let lines = block(source, chain, None)?;
    let quoted = |text: String| toml::Value::String(text).to_string();
    let mut new = format!("\n{HEAD}\nid = {}\naddress = {}\n", place.id, quoted(place.address.to_string()));
    let _ = writeln!(new, "peers = {}", quoted(place.peers.to_string()));
    if let Some(admin) = place.admin {
        let _ = writeln!(new, "admin = {}", quoted(admin.to_string()));
    }
    if let Some(data) = &place.data {
        let _ = writeln!(new, "data = {}", quoted(data.display().to_string()));
    }
    let (before, after) = source.text().split_at(lines.end);
    let end = if before.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{before}{end}{new}{after}"))
}

/// The text in which a box is to be stopped, or is not.
///
/// # Errors
/// The file is none, has no such box, or not as a table of its own.
pub fn draining(source: &Source, id: u16, is_draining: bool) -> Result<String, String> {
    let lines = node(source, "box", id)?;
    let text = source.text();
    let is_other = |line: &&str| line.split_once('=').is_none_or(|(key, _)| key.trim() != "draining");
    let mut table: String = text[lines.clone()].split_inclusive('\n').filter(is_other).collect();
    if is_draining {
        let end = if table.ends_with('\n') { "" } else { "\n" };
        let _ = writeln!(table, "{end}draining = true");
    }
    Ok(format!("{}{table}{}", &text[..lines.start], &text[lines.end..]))
}

/// The text in which a home is at another address since an order of this epoch; and where operators find it there, if that is said.
///
/// # Errors
/// The file is none, has no such home, or not as a table of its own with its address on a line of its own.
pub fn moved(
    source: &Source,
    id: u16,
    (address, admin): (SocketAddr, Option<SocketAddr>),
    epoch: u32,
) -> Result<String, String> {
    let lines = node(source, "home", id)?;
    let text = source.text();
    let key = |line: &str| line.split_once('=').map(|(key, _)| key.trim().to_owned()).unwrap_or_default();
    let mut table = String::new();
    let mut has_address = false;
    for line in text[lines.clone()].split_inclusive('\n') {
        match (&*key(line), admin) {
            ("address", _) => {
                // What stands behind it stays.
                let (before, rest) = line.split_once('"').unwrap_or((line, ""));
                let Some((_, after)) = rest.split_once('"') else { continue };
                let _ = write!(table, "{before}\"{address}\"{after}");
                has_address = true;
            }
            ("moved", _) | ("admin", Some(_)) => {}
            _ => table.push_str(line),
        }
    }
    if !has_address {
        return Err(format!("home {id} has no line with its address in quotes: change the file by hand"));
    }
    let end = if table.ends_with('\n') { "" } else { "\n" };
    table.push_str(end);
    if let Some(admin) = admin {
        let _ = writeln!(table, "admin = \"{admin}\"");
    }
    let _ = writeln!(table, "moved = {epoch}");
    Ok(format!("{}{table}{}", &text[..lines.start], &text[lines.end..]))
}

/// The text without a key of a home's table.
///
/// # Errors
/// The file is none, has no such home, or not as a table of its own.
pub fn without_key(source: &Source, home: u16, key: &str) -> Result<String, String> {
    let lines = node(source, "home", home)?;
    let text = source.text();
    let is_other = |line: &&str| line.split_once('=').is_none_or(|(found, _)| found.trim() != key);
    let table: String = text[lines.clone()].split_inclusive('\n').filter(is_other).collect();
    Ok(format!("{}{table}{}", &text[..lines.start], &text[lines.end..]))
}

/// The text in which the keys of the rack are where they are on this machine: paths of `[cluster]` that are from the file's folder are from its root.
///
/// # Errors
/// The file is none.
pub fn with_whole_paths(source: &Source, folder: &Path) -> Result<String, String> {
    let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
    let cluster = source.table(&parsed).get("cluster").and_then(|entry| entry.table().ok());
    let mut keys: Vec<_> = ["key", "client_key"]
        .iter()
        .filter_map(|key| {
            let entry = cluster.as_ref()?.get(key)?;
            Some((entry.at(), entry.text().ok()?))
        })
        .filter(|(_, path)| Path::new(path).is_relative())
        .collect();
    // From the last to the first, so that those before stay where they are.
    keys.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut text = source.text().to_owned();
    for (at, path) in keys {
        let value = text[at..].find('=').map(|equals| at + equals + 1);
        let quotes = value.and_then(|value| Some(value + text[value..].find(['"', '\''])?));
        let Some(start) = quotes else { continue };
        let quote = text[start..].chars().next().expect("it was found");
        // A path with quotes in it stays as it is.
        let Some(end) = text[start + 1..].find(quote).map(|end| start + 1 + end + 1) else { continue };
        if &text[start + 1..end - 1] != path {
            continue;
        }
        let whole = toml::Value::String(folder.join(path).display().to_string());
        text.replace_range(start..end, &whole.to_string());
    }
    Ok(text)
}

/// The bytes of the table of a box or home.
fn node(source: &Source, kind: &str, id: u16) -> Result<Range<usize>, String> {
    let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
    let file = source.table(&parsed);
    let tables = file.get(kind).map_or(Ok(Vec::new()), |entry| entry.tables());
    let tables = tables.map_err(|wrong| wrong.to_string())?;
    let is = |table: &&Table<'_>| {
        table.get("id").is_some_and(|entry| entry.count().is_ok_and(|found| found == usize::from(id)))
    };
    let at = tables.iter().find(is).map(Table::at).ok_or_else(|| format!("the file has no {kind} {id}"))?;
    let head = format!("[[{kind}]]");
    lines_of(source.text(), &head, at)
        .ok_or_else(|| format!("{kind} {id} is no {head} of its own: change the file by hand"))
}

/// The bytes of a replica's table, of the chain's last if none is named: from its head to the end of its last key.
fn block(source: &Source, chain: u32, id: Option<u16>) -> Result<Range<usize>, String> {
    let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
    let file = source.table(&parsed);
    let at = find(&file, chain, id).map_err(|wrong| wrong.to_string())?;
    let at = at.ok_or_else(|| format!("the file has no such replica of chain {chain}"))?;
    let text = source.text();
    let by_hand = || {
        format!(
            "chain {chain} has no {HEAD}: its replicas are not tables of their own; change the file by hand"
        )
    };
    lines_of(text, HEAD, at).ok_or_else(by_hand)
}

/// The bytes of the table with this head whose first key is at `at`, from its head to the end of its last key. None where it is not written so.
fn lines_of(text: &str, head: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind(head)?;
    let rest = &text[start + head.len()..];
    let mut end = start + head.len();
    let mut passed = end;
    for line in rest.split_inclusive('\n') {
        passed += line.len();
        let line = line.trim();
        if line.starts_with('[') {
            break;
        }
        // What follows its last key belongs to what comes next.
        if !line.is_empty() && !line.starts_with('#') || end == start + head.len() {
            end = passed;
        }
    }
    // A key of another table before it means that its own is written in another way.
    (at <= end).then_some(start..end)
}

/// Where a replica's table has its first key.
fn find(file: &Table<'_>, chain: u32, id: Option<u16>) -> Result<Option<usize>, Wrong> {
    let is = |table: &Table<'_>, key: &str, number: usize| {
        table.get(key).is_some_and(|entry| entry.count().is_ok_and(|found| found == number))
    };
    let chains = file.get("chain").map_or(Ok(Vec::new()), |entry| entry.tables())?;
    let Some(chain) = chains.iter().find(|table| is(table, "number", chain as usize)) else {
        return Ok(None);
    };
    let replicas = chain.get("replica").map_or(Ok(Vec::new()), |entry| entry.tables())?;
    let found = match id {
        Some(id) => replicas.iter().find(|table| is(table, "id", usize::from(id))),
        None => replicas.last(),
    };
    Ok(found.map(Table::at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::file::File;
    use proptest::prelude::*;

    const TEXT: &str = "\
# Two chains.
[[chain]]
number = 7
[[chain.replica]] # the first
id = 1
address = \"tcp:h:1\"

# This one is old.
[[chain.replica]]
id = 2
address = \"tcp:h:2\"

# Who decides.
[[chain.controller]]
address = \"tcp:h:3\"
[[chain]]
number = 8
[[chain.replica]]
id = 2
";

    fn source(text: &str) -> Source {
        Source::of(Path::new("c.toml"), text)
    }

    #[test]
    fn a_replica_goes_and_all_else_stays() {
        let old = "[[chain.replica]]\nid = 2\naddress = \"tcp:h:2\"\n";
        assert_eq!(without(&source(TEXT), 7, 2).expect("it is there"), TEXT.replacen(old, "", 1));
        let first = "[[chain.replica]] # the first\nid = 1\naddress = \"tcp:h:1\"\n";
        assert_eq!(without(&source(TEXT), 7, 1).expect("it is there"), TEXT.replacen(first, "", 1));
        let last = without(&source(TEXT), 8, 2).expect("it is there");
        assert!(last.ends_with("[[chain]]\nnumber = 8\n") && last.contains(old), "{last}");
        assert!(without(&source(TEXT), 7, 3).is_err() && without(&source(TEXT), 9, 2).is_err());
        let inline = "[[chain]]\nnumber = 7\nreplica = [{ id = 1 }]\n";
        assert!(without(&source(inline), 7, 1).expect_err("no table").contains("by hand"));
    }

    #[test]
    fn keys_are_where_they_are_on_this_machine_and_all_else_stays() {
        let whole = |text: &str| with_whole_paths(&source(text), Path::new("/etc/a rack")).expect("a file");
        assert_eq!(whole(TEXT), TEXT, "it names none");
        for (before, after) in [
            (
                "# key = \"x\"\n[cluster]\nclient_key = 'c.key' # ours\nkey=\"n.key\"\n[[box]]\nkey = 1\n",
                "# key = \"x\"\n[cluster]\nclient_key = \"/etc/a rack/c.key\" # ours\nkey=\"/etc/a rack/n.key\"\n[[box]]\nkey = 1\n",
            ),
            ("cluster = { key = \"a\" }\n", "cluster = { key = \"/etc/a rack/a\" }\n"),
            ("[cluster]\nkey = \"/a/key\"\n", "[cluster]\nkey = \"/a/key\"\n"),
            ("[cluster]\nkey = \"a\\\"b\"\n", "[cluster]\nkey = \"a\\\"b\"\n"),
            ("[cluster]\nkey = 7\n", "[cluster]\nkey = 7\n"),
        ] {
            assert_eq!(whole(before), after);
        }
    }

    #[test]
    fn a_replica_comes_after_the_last_of_its_chain_and_goes_again() {
        let place = ReplicaPlace {
            id: 4,
            address: "tcp:h:8".parse().expect("an address"),
            peers: "tcp:h:9".parse().expect("an address"),
            admin: "127.0.0.1:9".parse().ok(),
            data: Some("/a \"b\"".into()),
        };
        for chain in [7, 8] {
            let more = with(&source(TEXT), chain, &place).expect("there is a chain");
            assert!(
                more.contains(
                    "id = 4\naddress = \"tcp:h:8\"\npeers = \"tcp:h:9\"\nadmin = \"127.0.0.1:9\"\n"
                ),
                "{more}"
            );
            let less = without(&source(&more), chain, 4).expect("it came");
            assert_eq!(less.replace('\n', ""), TEXT.replace('\n', ""));
        }
    }

    #[test]
    fn a_box_is_to_be_stopped_and_serves_again() {
        let text = "slots = 8\n[[box]]\nid = 1\nabove = [] # none\n\n# The other.\n[[box]]\nid = 2\n[[home]]\nid = 2\n";
        for id in [1, 2] {
            let drains = draining(&source(text), id, true).expect("it is there");
            assert_eq!(drains.matches("draining = true\n").count(), 1, "{drains}");
            assert_eq!(draining(&source(&drains), id, true).as_ref(), Ok(&drains), "once");
            assert_eq!(draining(&source(&drains), id, false).expect("it is there"), text);
        }
        let first = draining(&source(text), 1, true).expect("it is there");
        assert!(first.contains("above = [] # none\ndraining = true\n\n# The other."), "{first}");
        assert!(draining(&source(text), 3, true).expect_err("none").contains("no box 3"));
        assert!(draining(&source("box = [{ id = 1 }]\n"), 1, true).expect_err("none").contains("by hand"));
    }

    #[test]
    fn a_home_is_elsewhere_and_all_else_stays() {
        let text = "[[home]]\nid = 1\naddress = \"h:1\" # rack 3\nadmin = \"h:2\"\nbox = 1\n\n# The other.\n[[home]]\nid = 2\n";
        let (address, admin) = (SocketAddr::from(([10, 0, 0, 9], 7)), SocketAddr::from(([10, 0, 0, 9], 8)));
        let there = moved(&source(text), 1, (address, None), 17).expect("it is there");
        let new = "address = \"10.0.0.9:7\" # rack 3\nadmin = \"h:2\"\nbox = 1\nmoved = 17\n";
        assert_eq!(there, text.replace("address = \"h:1\" # rack 3\nadmin = \"h:2\"\nbox = 1\n", new));
        let again = moved(&source(&there), 1, (address, Some(admin)), 18).expect("it is there");
        assert!(again.contains("box = 1\nadmin = \"10.0.0.9:8\"\nmoved = 18\n\n# The other."), "{again}");
        assert!(moved(&source(text), 2, (address, None), 1).expect_err("none").contains("by hand"));
        assert!(moved(&source(text), 3, (address, None), 1).expect_err("none").contains("no home 3"));
    }

    proptest! {
        /// Whatever a file says in whichever order: it is read or refused, and so is a change of it.
        #[test]
        fn any_lines_are_a_file_or_refused(lines in proptest::collection::vec(prop_oneof![
            proptest::sample::select(TEXT.lines().collect::<Vec<_>>()).prop_map(str::to_owned),
            proptest::sample::select(vec!["[[box]]", "[[home]]", "[[controller]]", "[cluster]", "[coherence]", "[chain.registers]", "box = 1",
                "id = 64", "above = [1, 2]", "state = [\"s\"]", "peers = \"unix:/p\"", "chain.lease = 1", "address = \"127.0.0.1:1\"", "slots = -1",
                "replica = [{ id = 2 }]", "key = 1979-05-27"]).prop_map(str::to_owned),
            ".{0,12}",
        ], 0..24)) {
            let source = source(&lines.join("\n"));
            let _ = File::of(&source, Path::new("c.toml"));
            if let Ok(drains) = draining(&source, 64, true) {
                prop_assert!(drains.contains("draining = true"));
            }
            if let Ok(moved) = moved(&source, 64, (SocketAddr::from(([10, 0, 0, 9], 7)), None), 5) {
                prop_assert!(moved.contains("\"10.0.0.9:7\"") && moved.contains("moved = 5\n"));
            }
            if let Ok(less) = without(&source, 7, 2) {
                prop_assert!(less.len() < source.text().len());
            }
        }
    }
}
