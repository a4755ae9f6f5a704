//! `millrace lab up`, `down`, `status` and `exec`.

use super::LabError;
use super::hold;
use super::namespace;
use super::network::Place;
use super::place;
use super::plan::Plan;
use super::site::{Site, require_root};
use super::state::{self, parse_name};
use protocol::coherence::NodeId;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Unless said.
pub const NAME: &str = "rack";

/// Build a rack of network namespaces on this machine, and start its nodes.
///
/// Each box, home, controller and client has a namespace and an address of its own. A box's namespace is the switch: it routes between
/// cables to its hosts and to the boxes above and below. Nodes are processes of this program; their logs are in /run/millrace/lab/NAME/log,
/// and the topology for clients is /run/millrace/lab/NAME/topology.toml.
///
/// The lab stands until `millrace lab down`, which clears it away even if this was killed half-way. Needs root and iproute2. Only namespaces
/// whose names begin with "mrlab-" are ever touched.
///
/// Examples:
///   millrace lab up --tors 4 --roots 2 --link box:1-box:5,delay=50us,loss=0.01
///   millrace lab exec client:1 -- millrace inc set colour blue --topology /run/millrace/lab/rack/topology.toml
///   millrace lab exec box:1 -- ip -s link
///   millrace lab down
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Up {
    #[command(flatten)]
    plan: Plan,

    /// What the lab is called: 1 to 16 small letters and digits
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,

    /// Only the network; nodes may be started by hand, with `millrace lab exec`
    #[arg(long)]
    no_nodes: bool,

    /// First remove the lab of this name, or what is left of one
    #[arg(long)]
    replace: bool,
}

impl Up {
    /// Builds it.
    ///
    /// # Errors
    /// It cannot be built; then nothing is left of it.
    pub fn run(&self) -> Result<(), LabError> {
        require_root("lab up")?;
        if self.replace {
            state::remove(&self.name)?;
        }
        let mut site = Site::build(&self.name, &self.plan, None)?;
        if !self.no_nodes
            && let Err(cause) = site.start_nodes()
        {
            // What a node said is in the error.
            let _ = site.remove();
            return Err(cause);
        }
        say(&format!(
            "lab {}: {} namespaces; `millrace lab status {}` lists them, topology {}",
            self.name,
            site.network().namespaces().len(),
            self.name,
            state::topology_file(&self.name).display()
        ))
    }
}

/// Remove a lab: its processes, namespaces and files.
///
/// All processes in its namespaces end, also those that `millrace lab exec` or somebody else started there. It does not matter whether the
/// lab is whole, whether its maker was killed, or whether there is one at all.
#[derive(clap::Args, Debug)]
pub struct Down {
    /// The lab
    #[arg(default_value = NAME, value_parser = parse_name)]
    name: String,

    /// All labs of this machine
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

impl Down {
    /// Removes.
    ///
    /// # Errors
    /// Something cannot be removed; the others are.
    pub fn run(&self) -> Result<(), LabError> {
        require_root("lab down")?;
        let names = if self.all { state::names() } else { vec![self.name.clone()] };
        if names.is_empty() {
            return say("there is no lab");
        }
        let mut failed = None;
        for name in names {
            let was_there = state::folder(&name).exists();
            match state::remove(&name) {
                Ok((0, 0)) if !was_there => say(&format!("there is no lab {name}"))?,
                Ok((processes, spaces)) => {
                    say(&format!("lab {name} is gone: {processes} processes, {spaces} namespaces"))?;
                }
                Err(cause) => failed = Some(cause),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// List a lab's nodes: where they are, and whether they run.
#[derive(clap::Args, Debug)]
pub struct Status {
    /// The lab; all of them, unless said
    #[arg(value_parser = parse_name)]
    name: Option<String>,

    /// Print a JSON array instead of a table: a lab each
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Lists.
    ///
    /// # Errors
    /// There is no such lab.
    pub fn run(&self) -> Result<(), LabError> {
        let names = self.name.clone().map_or_else(state::names, |name| vec![name]);
        if self.json {
            let all = names.iter().map(|name| match LabStatus::of(name) {
                // One that is broken does not hide the others.
                Err(cause) if self.name.is_none() => Ok(json!({ "lab": name, "error": cause.to_string() })),
                result => result.map(|lab| lab.json()),
            });
            let all = all.collect::<Result<Vec<_>, LabError>>()?;
            return say(&serde_json::to_string_pretty(&all).expect("texts and numbers"));
        }
        if names.is_empty() {
            return say("there is no lab");
        }
        for name in &names {
            match LabStatus::of(name).and_then(|lab| lab.say()) {
                // One that is broken does not hide the others.
                Err(cause) if self.name.is_none() => say(&format!("lab {name}: {cause}"))?,
                result => result?,
            }
        }
        Ok(())
    }
}

/// A lab as it is shown.
struct LabStatus {
    name: String,
    topology: PathBuf,
    members: Vec<MemberStatus>,
}

/// A node, a client or another process of a lab.
struct MemberStatus {
    role: String,
    /// Empty of one that has none of its own.
    namespace: String,
    address: String,
    /// The box that it stands behind.
    tor: String,
    process: Option<ProcessStatus>,
}

struct ProcessStatus {
    pid: u32,
    is_alive: bool,
    log: PathBuf,
}

impl LabStatus {
    fn of(name: &str) -> Result<LabStatus, LabError> {
        let (state, _, network) = hold::network(name)?;
        let process = |role: &str| {
            state.process(role).map(|process| ProcessStatus {
                pid: process.pid,
                is_alive: process.is_alive(),
                log: state::log(name, role),
            })
        };
        let node = |(node, place): (&NodeId, &Place)| {
            let role = place::name(*node);
            MemberStatus {
                namespace: network.namespace(*node),
                address: place.address.to_string(),
                tor: network.tor(*node).map_or(String::new(), |tor| tor.to_string()),
                process: process(&role),
                role,
            }
        };
        let mut members: Vec<MemberStatus> = network.places().iter().map(node).collect();
        for other in state.processes.iter().filter(|process| place::parse(&process.role).is_err()) {
            members.push(MemberStatus {
                role: other.role.clone(),
                namespace: String::new(),
                address: String::new(),
                tor: String::new(),
                process: process(&other.role),
            });
        }
        Ok(LabStatus { name: name.to_owned(), topology: state::topology_file(name), members })
    }

    fn say(&self) -> Result<(), LabError> {
        say(&format!("lab {}, topology {}", self.name, self.topology.display()))?;
        say(&format!("  {:24} {:32} {:16} {:8} process", "node", "namespace", "address", "box"))?;
        for MemberStatus { role, namespace, address, tor, process } in &self.members {
            let process = match process {
                None => "none".to_string(),
                Some(process) if process.is_alive => process.pid.to_string(),
                Some(process) => format!("{} ended, see {}", process.pid, process.log.display()),
            };
            say(&format!("  {role:24} {namespace:32} {address:16} {tor:8} {process}"))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let process = |process: &ProcessStatus| json!({ "pid": process.pid, "alive": process.is_alive, "log": process.log });
        let member = |member: &MemberStatus| {
            json!({
                "node": member.role,
                "namespace": text(&member.namespace),
                "address": text(&member.address),
                "box": text(&member.tor),
                "process": member.process.as_ref().map(process),
            })
        };
        let members: Vec<Value> = self.members.iter().map(member).collect();
        json!({ "lab": self.name, "topology": self.topology, "members": members })
    }
}

/// Run a command in the namespace of a node or client.
///
/// Example: millrace lab exec client:1 -- millrace inc get colour --topology /run/millrace/lab/rack/topology.toml
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Exec {
    /// Of this lab
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,

    /// Where: client:1, box:2, home:1, controller:0
    #[arg(value_parser = place::parse)]
    node: NodeId,

    /// What
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

impl Exec {
    /// Becomes the command.
    ///
    /// # Errors
    /// There is no such place, or command.
    pub fn run(&self) -> Result<(), LabError> {
        require_root("lab exec")?;
        let (_, _, network) = hold::network(&self.name)?;
        if !network.places().contains_key(&self.node) {
            return Err(LabError::NoPlace(self.node, network.places().keys().copied().collect()));
        }
        namespace::enter(&network.namespace(self.node))?;
        let cause = Command::new(&self.command[0]).args(&self.command[1..]).exec();
        Err(LabError::Io(format!("cannot run {}", self.command[0]), cause))
    }
}

fn say(line: &str) -> Result<(), LabError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(LabError::io("cannot write"))
}
