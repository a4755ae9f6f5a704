//! Chains in the file of a cluster: who is a member of which, and where.
//!
//! ```toml
//! [cluster]
//! key = "cluster.key"                    # of chains that name none; paths are from this file's folder
//!
//! [[chain]]
//! number = 7
//! slots = "0-8191"                       # its keys' hash slots, where there are several chains; without it, all
//! state = ["chain7"]                     # the registry of one controller; or of several:
//! # etcd = ["http://10.0.0.1:2379"]
//! # etcd_user = "millrace"
//! # etcd_password_file = "etcd.password"
//! [[chain.replica]]
//! id = 1
//! address = "tcp:10.0.0.1:7401"          # where clients find it
//! peers = "tcp:10.0.0.1:7411"            # where the other members do
//! admin = "10.0.0.1:9401"                # where operators do
//! data = "/var/lib/millrace/replica"     # memory alone, if it is not said
//! [[chain.controller]]                   # the first is number 0
//! address = "tcp:10.0.0.1:7400"
//! [chain.registers]                      # the same for all members
//! chain.lease = 500000
//! ```
//! Invariant of a [`ChainPlan`]: it was checked; its members have numbers and addresses of their own.

use super::registers::Registers;
use super::registry::etcd::Login;
use crate::admin::parse_address;
use crate::process::cluster_file;
use crate::process::table::{Source, Table, Wrong};
use base::registers::Shown;
use fabric::link::Address;
use protocol::chain::slots::Slots;
use protocol::chain::{ReplicaAddress, ReplicaId};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A replica's place.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub struct ReplicaPlace {
    /// Its number in the chain
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub id: u16,

    /// Where clients find it
    #[arg(long)]
    pub address: Address,

    /// Where the other members find it
    #[arg(long)]
    pub peers: Address,

    /// Where operators find it
    #[arg(long, value_parser = parse_address)]
    pub admin: Option<SocketAddr>,

    /// Its directory
    #[arg(long)]
    pub data: Option<PathBuf>,
}

impl ReplicaPlace {
    /// As the chain's configuration has it.
    pub fn at(&self) -> ReplicaAddress {
        ReplicaAddress {
            replica: ReplicaId(self.id),
            peers: self.peers.to_string(),
            clients: self.address.to_string(),
        }
    }
}

/// A controller's place.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub struct ControllerPlace {
    /// Where replicas find it
    #[arg(long)]
    pub address: Address,

    /// Where operators find it
    #[arg(long, value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
}

/// What a chain's table says besides its members.
#[derive(clap::Args, Clone, Debug)]
struct Head {
    #[arg(long)]
    key: Option<PathBuf>,

    #[command(flatten)]
    kept: Kept,

    #[command(flatten)]
    login: Login,
}

/// Where its configuration is kept.
#[derive(clap::Args, Clone, Debug)]
#[group(multiple = false)]
struct Kept {
    #[arg(long, value_delimiter = ',')]
    state: Vec<PathBuf>,

    #[arg(long, value_delimiter = ',')]
    etcd: Vec<String>,
}

/// A chain, as its file has it.
#[derive(Clone, Debug)]
pub struct ChainPlan {
    /// Its number.
    pub number: u32,
    /// The slots whose keys it has.
    pub slots: Slots,
    /// The file of its members' key.
    pub key: Option<PathBuf>,
    /// The registry's files, or none.
    pub state: Vec<PathBuf>,
    /// Or its etcd endpoints.
    pub etcd: Vec<String>,
    /// As whom etcd is asked.
    pub login: Login,
    /// Replicas, as a new chain has them from head to tail.
    pub replicas: Vec<ReplicaPlace>,
    /// Controllers, by their numbers.
    pub controllers: Vec<ControllerPlace>,
    /// Registers that are not at their defaults, as `--set` has them.
    pub set: Vec<String>,
}

/// A chain of the file at a path: of this number, or the only one.
///
/// # Errors
/// What is wrong with the file, where, and what may have been meant; or it has no such chain.
pub fn one(path: &Path, number: Option<u32>) -> Result<ChainPlan, Wrong> {
    let source = Source::read(path)?;
    let parsed = source.parse()?;
    let file = source.table(&parsed);
    let all = chains(&file, path)?;
    cluster_file::pick(&file, all, |chain| chain.number, number, "say which with --chain")
}

/// The chains of a file that lies at `path`.
///
/// # Errors
/// As [`one`].
pub fn chains(file: &Table<'_>, path: &Path) -> Result<Vec<ChainPlan>, Wrong> {
    let read = cluster_file::chains(file)?;
    let cluster = file.get("cluster").map(|entry| entry.table()).transpose()?;
    let shared = match cluster.as_ref().and_then(|cluster| cluster.get("key")) {
        Some(key) => Some(PathBuf::from(key.text()?)),
        None => None,
    };
    let mut taken = Vec::new();
    read.iter().map(|(read, table)| chain(read, table, shared.clone(), path, &mut taken)).collect()
}

fn chain(
    read: &cluster_file::Chain,
    table: &Table<'_>,
    shared: Option<PathBuf>,
    path: &Path,
    taken: &mut Vec<(Address, String)>,
) -> Result<ChainPlan, Wrong> {
    let head: Head = table.flags(&["number", "slots", "replica", "controller"])?;
    if let Some(other) = table.entries().find(|entry| entry.table().is_ok() && entry.key != "registers") {
        return Err(other.unknown(&table.title(), ["registers", "replica", "controller"].into_iter()));
    }
    if head.kept.state.is_empty() && head.kept.etcd.is_empty() {
        return Err(
            table.wrong("[chain] needs state, a file, or etcd, endpoints: where its configuration is kept")
        );
    }
    let registers = Registers::default();
    if let Some(entry) = table.get("registers") {
        entry.table()?.registers(&registers, &[])?;
    }
    let beside = |file: PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
    let (replicas, controllers) = places(table, read.number, taken)?;
    if controllers.len() > 1 && head.kept.etcd.is_empty() {
        let more = table.get("controller").map_or(Ok(Vec::new()), |entry| entry.tables())?;
        return Err(more[1].wrong(format!(
            "chain {} has {} controllers, and a file is for one: write etcd = [\"http://HOST:PORT\"] in place of state",
            read.number,
            controllers.len()
        )));
    }
    let replicas = replicas.into_iter().map(|place| ReplicaPlace { data: place.data.map(beside), ..place });
    let login = head.login.with_files(beside);
    Ok(ChainPlan {
        number: read.number,
        slots: read.slots.clone(),
        key: head.key.or(shared).map(beside),
        state: head.kept.state.into_iter().map(beside).collect(),
        etcd: head.kept.etcd,
        login,
        replicas: replicas.collect(),
        controllers,
        set: registers.show().iter().filter_map(assignment).collect(),
    })
}

/// The members of a chain, whose numbers and addresses are their own.
fn places<'a>(
    table: &Table<'a>,
    number: u32,
    taken: &mut Vec<(Address, String)>,
) -> Result<(Vec<ReplicaPlace>, Vec<ControllerPlace>), Wrong> {
    let list = |key| table.get(key).map_or(Ok(Vec::new()), |entry| entry.tables());
    let controller = |table: Table<'a>| Ok((table.flags(&[])?, table));
    let replicas = list("replica")?.into_iter().map(|at| Ok((replica(&at)?, at)));
    let replicas: Vec<(ReplicaPlace, _)> = replicas.collect::<Result<_, Wrong>>()?;
    let controllers = list("controller")?.into_iter().map(controller);
    let controllers: Vec<(ControllerPlace, _)> = controllers.collect::<Result<_, Wrong>>()?;
    let mut take = |address: &Address, who: String, at: &Table<'_>| match taken
        .iter()
        .find(|(other, _)| other == address)
    {
        Some((_, other)) => {
            Err(at.wrong(format!("{who} and {other} have the same address {address}; give each its own")))
        }
        None => {
            taken.push((address.clone(), who));
            Ok(())
        }
    };
    let mut places: Vec<ReplicaPlace> = Vec::new();
    for (place, at) in replicas {
        if places.iter().any(|other| other.id == place.id) {
            return Err(
                at.wrong(format!("chain {number} has a replica {} already: ids are given once", place.id))
            );
        }
        take(&place.address, format!("replica {} of chain {number}, for clients,", place.id), &at)?;
        take(&place.peers, format!("replica {} of chain {number}, for its peers,", place.id), &at)?;
        places.push(place);
    }
    for (index, (place, at)) in controllers.iter().enumerate() {
        take(&place.address, format!("controller {index} of chain {number}"), at)?;
    }
    if places.is_empty() || controllers.is_empty() {
        let what = if places.is_empty() { "replica" } else { "controller" };
        return Err(table.wrong(format!("chain {number} needs a {what}: [[chain.{what}]]")));
    }
    Ok((places, controllers.into_iter().map(|(place, _)| place).collect()))
}

fn assignment(shown: &Shown) -> Option<String> {
    (shown.value != shown.default).then(|| format!("{}={}", shown.name, shown.value))
}

/// Its number and where clients find it, as clients read it; and what members know besides.
fn replica(table: &Table<'_>) -> Result<ReplicaPlace, Wrong> {
    let (id, address) = cluster_file::replica(table)?;
    table.need("peers", "where the other members find it: tcp:HOST:PORT")?;
    let peers = cluster_file::address(table, "peers")?.expect("it is there");
    let admin = table.get("admin").map(|entry| {
        let text = entry.scalar()?;
        parse_address(&text).map_err(|error| entry.wrong(format!("admin cannot be {text:?}: {error}")))
    });
    let data = table.get("data").map(|entry| entry.text().map(PathBuf::from));
    Ok(ReplicaPlace { id: id.0, address, peers, admin: admin.transpose()?, data: data.transpose()? })
}

impl ChainPlan {
    /// A replica's place.
    ///
    /// # Errors
    /// There is none of this number, in words.
    pub fn replica(&self, id: u16) -> Result<&ReplicaPlace, String> {
        self.replicas.iter().find(|place| place.id == id).ok_or_else(|| {
            let ids: Vec<_> = self.replicas.iter().map(|place| place.id.to_string()).collect();
            format!("chain {} has no replica {id}; it has {}", self.number, ids.join(", "))
        })
    }

    /// A controller's place.
    ///
    /// # Errors
    /// There is none of this number, in words.
    pub fn controller(&self, number: u16) -> Result<&ControllerPlace, String> {
        let last = self.controllers.len() - 1;
        self.controllers
            .get(usize::from(number))
            .ok_or_else(|| format!("chain {} has no controller {number}; it has 0 to {last}", self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
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
admin = \"9401\"
data = \"one\"
[[chain.replica]]
id = 2
address = \"tcp:127.0.0.1:3\"
peers = \"unix:/tmp/two\"
[[chain.controller]]
address = \"tcp:127.0.0.1:5\"
[chain.registers]
chain.lease = 400000
";

    fn parse(text: &str) -> Result<Vec<ChainPlan>, String> {
        let path = Path::new("/etc/cluster.toml");
        let source = Source::of(path, text);
        let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
        chains(&source.table(&parsed), path).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_file_says_who_is_in_a_chain_and_where() {
        let chains = parse(GOOD).expect("a good file; the rack is left to others");
        let [chain] = &chains[..] else { panic!("{chains:?}") };
        assert_eq!((chain.number, chain.key.as_deref()), (7, Some(Path::new("/etc/c.key"))));
        assert_eq!(
            (&chain.state[..], &chain.set[..]),
            (&["/etc/chain7".into()][..], &["chain.lease=400000".to_owned()][..])
        );
        let two = chain.replica(2).expect("it is there");
        assert_eq!(
            (two.peers.to_string(), two.admin, two.data.clone()),
            ("unix:/tmp/two".into(), None, None)
        );
        assert_eq!(chain.replica(1).expect("it is there").data.as_deref(), Some(Path::new("/etc/one")));
        assert_eq!(chain.replica(3).expect_err("it is not"), "chain 7 has no replica 3; it has 1, 2");
        assert_eq!(chain.controller(1).expect_err("it is not"), "chain 7 has no controller 1; it has 0 to 0");
        assert!(parse("[[box]]\nid = 1\n").expect("a rack alone").is_empty());
    }

    #[test]
    fn errors_have_a_line_and_say_what_was_meant() {
        for (from, to, words) in [
            (
                "[[chain.replica]]\nid = 2",
                "[[chain.replika]]\nid = 2",
                "cluster.toml:14: [chain] has no key \"replika\"; did you mean \"replica\"?",
            ),
            (
                "number = 7",
                "numbr = 7",
                "cluster.toml:6: [chain] has no key \"numbr\"; did you mean \"number\"?",
            ),
            ("number = 7\n", "", "cluster.toml:6: [chain] needs number"),
            ("state = [\"chain7\"]\n", "", "needs state"),
            ("state = [\"chain7\"]", "state = [\"chain7\"]\netcd = [\"http://h:1\"]", "does not go together"),
            ("id = 2", "id = 1", "cluster.toml:15: chain 7 has a replica 1 already"),
            (
                "127.0.0.1:3",
                "127.0.0.1:1",
                "cluster.toml:15: replica 2 of chain 7, for clients, and replica 1 of chain 7, for clients, have",
            ),
            ("tcp:127.0.0.1:5", "tcp:127.0.0.1", "cluster.toml:19: address cannot be"),
            (
                "chain.lease",
                "chain.laese",
                "cluster.toml:21: there is no register \"chain.laese\"; did you mean \"chain.lease\"?",
            ),
            (
                "[chain.registers]",
                "[chain.regsters]",
                "cluster.toml:20: [chain] has no key \"regsters\"; did you mean \"registers\"?",
            ),
            (
                "[[chain.controller]]",
                "[[chain.controller]]\naddress = \"tcp:h:9\"\n[[chain.controller]]",
                "a file is for one: write etcd",
            ),
            (
                "[[chain.controller]]\naddress = \"tcp:127.0.0.1:5\"\n",
                "",
                "cluster.toml:6: chain 7 needs a controller: [[chain.controller]]",
            ),
            ("[[box]]", "[[boxx]]", "cluster.toml:3: the file has no key \"boxx\"; did you mean \"box\"?"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            let error = parse(&text).expect_err(words);
            assert!(error.contains(words), "{words:?} in {error:?}");
        }
    }
}
