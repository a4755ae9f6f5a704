//! A run in network namespaces: a process per node, client and link, killed for good (SIGKILL), and another in its place.
//!
//! Everything is taken down at the end, after Ctrl-C, and after an error; after this process was killed, by the next run or `millrace lab
//! down`.

use super::conduct::{Death, Stage, conduct};
use super::kill::{Role, schedule};
use super::load::{Load, Pace};
use super::record::{Part, now};
use super::solo::Solo;
use super::stall::Life as ClientsLife;
use super::user::Mix;
use super::{Outcome, Run, Scene};
use crate::lab::link::{Faults, Link};
use crate::lab::network::client;
use crate::lab::process::{Process, Started};
use crate::lab::site::require_root;
use crate::lab::state::{self, State};
use crate::lab::{LabError, Plan, Site, command};
use base::Nanos;
use protocol::coherence::{Life, NodeId};
use serve::process::progress;
use sim::network::PerMillion;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whoever is asked to end has done so within this, beyond a client's patience.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client process, or what is left of one.
struct Client {
    journal: PathBuf,
    life: ClientsLife,
}

struct Spaces<'a> {
    run: &'a Run,
    site: Site,
    begun: Nanos,
    pace: Pace,
    /// By role; who is dead is not here.
    processes: BTreeMap<String, Started>,
    /// Of all lives, by the number that each has in the history.
    clients: BTreeMap<u32, Client>,
    /// The life in force of each client.
    numbers: BTreeMap<NodeId, u32>,
}

impl Drop for Spaces<'_> {
    fn drop(&mut self) {
        if let Err(cause) = self.site.remove() {
            serve::complain!("millrace: {cause}");
        }
    }
}

/// The lab of a run; what a run that was killed has left is removed first.
fn build(run: &Run, plan: &Plan) -> Result<Site, LabError> {
    let keeper = || Some(Process::new("run", std::process::id()));
    match Site::build(&run.name, plan, keeper()) {
        Err(LabError::Exists(name))
            if run.replace || State::read(&name).is_ok_and(|old| old.keeper.is_some()) =>
        {
            state::remove(&name)?;
            Site::build(&run.name, plan, keeper())
        }
        result => result,
    }
}

/// The run's plan; with a link program, if one is to die and there is none.
fn plan(run: &Run) -> Result<Plan, LabError> {
    let mut plan = run.plan.clone();
    if run.kill_all_roles && plan.links.is_empty() {
        let topology = plan.topology()?;
        let (home, before) = topology.homes()[0];
        let up = topology
            .places()
            .iter()
            .find_map(|place| place.above.first().map(|above| (NodeId::Box(place.id), NodeId::Box(*above))));
        let between = up.unwrap_or((NodeId::Box(before), NodeId::Home(home)));
        let faults = Faults { delay: Nanos::from_micros(50), loss: PerMillion(1000), ..Faults::default() };
        plan.links.push(Link { between, faults });
    }
    Ok(plan)
}

/// Runs and judges, ending early at `stop`.
pub fn measure(run: &Run, stop: &AtomicBool) -> Result<Outcome, LabError> {
    require_root("lab run")?;
    // Its clients would say so, too; but then everything stands.
    Mix::new(run.load.writes, run.load.compute).map_err(LabError::Mix)?;
    let site = build(run, &plan(run)?)?;
    let roles = roles(&site);
    let tor = site.network().tor(client(1)).expect("a client is next to a box");
    let (kills, seconds) = run.kills(&roles, tor, site.topology().config().lease);
    let pace = Pace::of(run.rate(seconds), run.plan.clients);
    let mut spaces = Spaces {
        run,
        site,
        begun: now(),
        pace,
        processes: BTreeMap::new(),
        clients: BTreeMap::new(),
        numbers: BTreeMap::new(),
    };
    let steps = schedule(&kills, run.back, &roles)?;
    spaces.start()?;
    let bar = progress::bar(false);
    let stopped = || stop.load(Ordering::Relaxed);
    let span = (spaces.begun, seconds);
    let deaths = conduct(&mut spaces, &steps, span, &stopped, &bar);
    bar.finish_and_clear();
    spaces.finish(deaths?, kills.len())
}

/// All that can die, clients last.
fn roles(site: &Site) -> Vec<Role> {
    let nodes = site.topology().nodes().into_iter();
    let clients = site.network().places().keys().copied().filter(|node| matches!(node, NodeId::Client(_)));
    let links = (1..=site.links().len()).map(Role::Link);
    nodes.chain(clients).map(Role::Node).chain(links).collect()
}

impl Spaces<'_> {
    fn start(&mut self) -> Result<(), LabError> {
        for (node, started) in self.site.start_nodes()? {
            self.processes.insert(Role::Node(node).to_string(), started);
        }
        for (number, program) in (1..).zip(self.site.take_programs()) {
            self.processes.insert(Role::Link(number).to_string(), program);
        }
        self.begun = now();
        for number in 0..self.run.plan.clients {
            self.start_client(client(number + 1), number, true)?;
        }
        Ok(())
    }

    /// A client, as `number` in the history. Only in its first life it stores its share of the keys.
    fn start_client(&mut self, node: NodeId, number: u32, first: bool) -> Result<(), LabError> {
        let role = Role::Node(node).to_string();
        let tor = self.site.network().tor(node).expect("a client is next to a box").0;
        let journal = state::folder(self.site.name()).join(format!("client{number}.jsonl"));
        let clients = self.run.plan.clients;
        let solo = Solo {
            topology: state::topology_file(self.site.name()),
            number,
            of: first.then_some(clients),
            tor,
            journal: journal.clone(),
            every: self.pace.every.into(),
            load: Load { operations: self.run.load.operations / u64::from(clients), ..self.run.load.clone() },
        };
        let namespace = self.site.network().namespace(node);
        let started = self.site.start(&role, &namespace, &command::client(&solo))?;
        self.processes.insert(role, started);
        let life = ClientsLife { tor, from: now().since(self.begun), to: Nanos::MAX };
        self.clients.insert(number, Client { journal, life });
        self.numbers.insert(node, number);
        Ok(())
    }

    /// Ends clients, then nodes, and judges.
    fn finish(mut self, deaths: Vec<Death>, planned: usize) -> Result<Outcome, LabError> {
        let (clients, others): (Vec<String>, Vec<String>) =
            self.processes.keys().cloned().partition(|role| is_client(role));
        let took = now().since(self.begun);
        let patience = Duration::from(self.site.topology().config().patience);
        self.stop(&clients, patience + PATIENCE);
        self.stop(&others, PATIENCE);
        let node = |node: NodeId| {
            let said = self.processes.get(&Role::Node(node).to_string())?.said();
            let prefix = format!("{}: ", Role::Node(node));
            said.lines().rev().find(|line| line.starts_with(&prefix)).map(|line| (node, line.to_string()))
        };
        let nodes = self.site.topology().nodes().into_iter().filter_map(node).collect();
        let read = |(number, client): (&u32, &Client)| {
            let broken = |why| LabError::Journal(client.journal.clone(), why);
            Part::read(*number, &client.journal).map_err(broken)
        };
        let parts = self.clients.iter().map(read).collect::<Result<_, LabError>>()?;
        let life = |(number, client): (&u32, &Client)| {
            (*number, ClientsLife { to: client.life.to.min(took), ..client.life })
        };
        let lives = self.clients.iter().map(life).collect();
        let scene = Scene { begun: self.begun, took, deaths, lives, planned, nodes };
        self.run.judge(parts, scene, self.site.topology())
    }

    fn stop(&mut self, roles: &[String], patience: Duration) {
        let until = Instant::now() + patience;
        let mut ending: Vec<&mut Started> = self
            .processes
            .iter_mut()
            .filter(|(role, _)| roles.contains(role))
            .map(|(_, started)| started)
            .collect();
        ending.iter().for_each(|started| started.stop());
        while Instant::now() < until && !ending.iter_mut().all(|started| started.ended().is_some()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        ending.into_iter().for_each(Started::kill);
    }
}

impl Stage for Spaces<'_> {
    fn kill(&mut self, role: Role) -> Result<(), LabError> {
        let mut process = self.processes.remove(&role.to_string()).expect("who dies was alive");
        process.kill();
        if let Role::Node(node) = role
            && let Some(number) = self.numbers.get(&node)
        {
            let client = self.clients.get_mut(number).expect("its number has a life");
            client.life.to = now().since(self.begun);
        }
        Ok(())
    }

    fn revive(&mut self, role: Role) -> Result<(), LabError> {
        let started = match role {
            Role::Node(node @ NodeId::Client(_)) => {
                let number = self.clients.len() as u32;
                return self.start_client(node, number, false);
            }
            Role::Node(node) => self.site.start_node(node, Life::Again)?,
            Role::Link(number) => {
                let link = self.site.links()[number - 1].clone();
                self.site.start_link(&link)?
            }
        };
        self.processes.insert(role.to_string(), started);
        Ok(())
    }

    fn is_ready(&mut self, role: Role) -> Result<bool, LabError> {
        Ok(self.processes[&role.to_string()].is_ready())
    }

    /// Also notices who died without being killed.
    fn is_done(&mut self) -> Result<bool, LabError> {
        let mut at_work = 0;
        for (role, process) in &mut self.processes {
            match process.ended() {
                None => at_work += usize::from(is_client(role)),
                Some(success) if success && is_client(role) => {}
                Some(_) => return Err(process.death()),
            }
        }
        Ok(at_work == 0)
    }
}

fn is_client(role: &str) -> bool {
    role.starts_with("client:")
}
