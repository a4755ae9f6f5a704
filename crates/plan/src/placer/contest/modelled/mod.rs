//! `millrace place contest --on PLATFORM`: the same contest in virtual time on a machine of the model: a key-value store at one of the places that the
//! machine's parts give.
//!
//! ```text
//!   phase after phase of the script, look after look (half a second of virtual time):
//!     requests at the place where the service is (`node`) ─▶ observation ─▶ brain ─▶ decision ─▶ requests go there from now on
//! ```
//! A service may be at two places, so the placer and the guideline may split it. Fixed placements are one place each.
//!
//! The brain is the one that moves services of nodes. Its predictor is made of the platform as it is, and once more of one whose numbers are off: the first
//! says what the brain is worth, the second what it is worth to somebody who knows a machine no better than that.
//!
//! Every policy has a machine of its own and the same requests. The same seed has the same table on every machine.

mod node;

use super::clients::ClientFigures;
use super::script::{KV_RATES, Load, script};
use super::{Contest, EVERY, Figures, Outcome};
use crate::parallel;
use crate::placer::brain::Brain;
use crate::placer::choice::Choice;
use crate::placer::drive::Log;
use crate::placer::log::Line;
use crate::placer::of_model::{Modelled, OfModel, off};
use crate::placer::options::{Options, Policy};
use crate::placer::planted::Planted;
use model::Platform;
use model::alternative::Setting;
use model::load::Seen;
use model::plan::Limits;
use model::plan::graph::Graph;
use model::plan::mixture::alone;
use model::workload::{Workload, shipped};
use node::{At, Node, Place, setting};
use protocol::planted::{Bugs, NoBugs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Machines of `--on all`.
pub(super) const ALL: [&str; 4] = ["bluefield2-ib", "cxl-type2", "u280-ddr4", "rack-of-bluefield2"];
/// Whose requests are asked; the script says sizes, shares and skew.
const LIKE: &str = "key-value-cache";
/// The highest rate of a phase, as a part of what the machine's best place serves of its requests; the lowest is a quarter of it.
const RATE_MAX: f64 = 0.9;
/// The limit, if none is said, in times of what a request of them takes at the quickest place without others.
const LIMIT: f64 = 10.0;

/// A machine, and what all policies on it are asked.
#[derive(Clone, Debug)]
struct Stage {
    platform: Platform,
    /// Its file as it is written, and a folder for logs.
    text: String,
    logs: Option<PathBuf>,
    like: Workload,
    script: Vec<Load>,
    seed: u64,
    /// In seconds.
    slo: f64,
    places: Vec<Place>,
    /// Looks of a phase that do not count, of placements that are moved and of others; and those that do.
    settle: u64,
    warm_up: u64,
    measure: u64,
}

/// A policy.
#[derive(Clone, Debug)]
struct Player {
    name: String,
    /// Who moves it, and whether predictions are of a machine whose numbers are off; nobody, if none.
    policy: Option<(Policy, bool)>,
    /// Where it begins.
    at: At,
}

/// What came, on each of the machines that `--on` names.
///
/// # Errors
/// A machine cannot serve a key-value store, or at one place only.
pub(super) fn run(args: &Contest) -> Result<Vec<Outcome>, String> {
    let names: Vec<String> = match &args.on[..] {
        [all] if all == "all" => ALL.map(str::to_owned).into(),
        names => names.to_vec(),
    };
    let stage = |name: &String| Stage::of(name, args);
    let stages = names.iter().map(stage).collect::<Result<Vec<_>, _>>()?;
    let of =
        |stage: &Stage| stage.players().into_iter().map(|player| (stage.clone(), player)).collect::<Vec<_>>();
    let jobs: Vec<_> = stages.iter().flat_map(of).collect();
    let what = format!("contest in virtual time on {}", names.join(", "));
    let mut all = parallel::map(jobs, &what, |(stage, player)| stage.play(&player, NoBugs)).into_iter();
    let outcome = |stage: Stage| {
        let players = stage.players();
        let figures = all.by_ref().take(players.len()).collect::<Result<Vec<_>, String>>()?;
        let policies = players.into_iter().map(|player| player.name).zip(figures).collect();
        Ok(stage.outcome(policies))
    };
    stages.into_iter().map(outcome).collect()
}

/// A platform's ways to serve a workload, and what they take.
fn graph(platform: &Platform, workload: &Workload) -> Result<(Setting, Graph), String> {
    let setting = setting(platform, workload, 1)?;
    let graph = Graph::of(&setting, workload, &Limits::default());
    Ok((setting, graph))
}

/// A workload like this one under a load: what stores anything is a SET, all else a GET.
fn under(load: &Load, like: &Workload) -> Workload {
    let mut workload = like.clone();
    workload.skew = load.kv_skew;
    let sets = load.kv_sets_percent as f64 / 100.0;
    for class in &mut workload.classes {
        if class.store > 0 {
            class.share = sets;
            class.request = class.request - class.store + load.kv_value;
            class.store = load.kv_value;
        } else {
            (class.share, class.reply) = (1.0 - sets, load.kv_value);
        }
    }
    workload.working_set = workload.keys * load.kv_value;
    workload
}

impl Stage {
    /// On the machine of a shipped platform or of a file.
    fn of(name: &str, args: &Contest) -> Result<Stage, String> {
        let (text, file) = crate::model::platform_text(name).map_err(|why| why.to_string())?;
        let platform = Platform::parse(&text, &file).map_err(|why| why.to_string())?;
        Stage::new((&platform, text), args)
    }

    fn new((platform, text): (&Platform, String), args: &Contest) -> Result<Stage, String> {
        let like = shipped::shipped(LIKE).expect("it is shipped").map_err(|why| why.to_string())?;
        let (all, graph) = graph(platform, &like)?;
        let quickest = graph.ways.iter().map(|way| way.unloaded).fold(f64::INFINITY, f64::min);
        let mut places: Vec<Place> =
            all.alternatives.iter().map(|way| (way.name.clone(), way.place.is_host())).collect();
        let mut script = script(args.seed, args.changes, args.load);
        for load in &mut script {
            let (here, graph) = self::graph(platform, &under(load, &like))?;
            let most = (0..graph.ways.len()).map(|way| alone(&graph, way)).fold(0.0, f64::max);
            // Rates of a node's script are parts of what the machine could serve.
            load.kv_rate = (RATE_MAX * most * load.kv_rate as f64 / KV_RATES.1).round() as u64;
            // What not every load can be served at is no place to choose.
            let here: BTreeSet<String> = here.alternatives.into_iter().map(|way| way.name).collect();
            places.retain(|(name, _)| here.contains(name));
        }
        if places.len() < 2 {
            return Err(format!(
                "{} serves a key-value store at one place only, so there is nothing to choose: try {}, or a platform of several parts (millrace model platforms)",
                platform.name,
                ALL.join(", ")
            ));
        }
        let looks = |time: Duration| (time.as_secs_f64() / EVERY.as_secs_f64()).ceil().max(1.0) as u64;
        let [settle, warm_up, measure] = [args.settle, args.warm_up, args.measure].map(looks);
        let slo = args.slo.map_or(LIMIT * quickest, |slo| slo.as_secs_f64());
        let (platform, seed, logs) = (platform.unread(), args.seed, args.logs.clone());
        Ok(Stage { platform, text, logs, like, script, seed, slo, places, settle, warm_up, measure })
    }

    /// Where a service is that nobody has moved: on the host.
    fn start(&self) -> usize {
        self.places.iter().position(|(_, is_host)| *is_host).unwrap_or(0)
    }

    /// Those that move, then `leave`, then every place.
    fn players(&self) -> Vec<Player> {
        let player = |name: &str, policy, at| Player { name: name.to_owned(), policy, at: At::one(at) };
        let moving = [Policy::Model, Policy::Greedy].into_iter().flat_map(|policy| {
            let name = policy.to_string();
            let exact = player(&name, Some((policy.clone(), false)), self.start());
            [exact, player(&format!("{name}, numbers off"), Some((policy, true)), self.start())]
        });
        let leave = player("leave", None, self.start());
        let fixed = self.places.iter().enumerate().map(|(at, (name, _))| player(name, None, at));
        moving.chain([leave]).chain(fixed).collect()
    }

    /// A policy's figures, phase by phase; whoever moves it may make a mistake.
    fn play<B: Bugs<Planted>>(&self, player: &Player, bugs: B) -> Result<Vec<Figures>, String> {
        let mut placer = match &player.policy {
            Some((policy, is_off)) => Some(Placer::new(self, &player.name, (policy.clone(), *is_off), bugs)?),
            None => None,
        };
        let mut at = player.at;
        let mut all = Vec::new();
        for (phase, load) in self.script.iter().enumerate() {
            let asked = (under(load, &self.like), load.kv_rate as f64);
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(phase as u64);
            let mut node = Node::start(&self.platform, asked, &self.places, at, seed)?;
            all.push(self.phase(&mut node, placer.as_mut())?);
            at = node.at();
            let lost = node.end();
            all.last_mut().into_iter().flat_map(|of| &mut of.services).for_each(|of| of.lost = lost);
        }
        Ok(all)
    }

    fn phase<B: Bugs<Planted>>(
        &self,
        node: &mut Node,
        mut placer: Option<&mut Placer<B>>,
    ) -> Result<Figures, String> {
        let settle = if placer.is_some() { self.settle } else { self.warm_up };
        let (mut asked, mut answered, mut within, mut cores, mut moves) = (0, 0, 0.0, 0.0, 0);
        let mut all = Seen::new(model::Picos::ZERO);
        for look in 0..settle + self.measure {
            let of = node.look();
            if look >= settle {
                asked += of.asked;
                answered += of.seen.count();
                within += of.seen.count() as f64 * of.seen.within(self.slo);
                cores += of.cores / self.measure as f64;
                all = all.and(&of.seen);
            }
            let Some(placer) = placer.as_mut() else { continue };
            if let Some(to) = placer.look(node, &of)? {
                node.go(&to);
                moves += 1;
            }
        }
        let seconds = node.span() * self.measure as f64;
        let service = ClientFigures {
            service: "store",
            asked: asked as f64 / seconds,
            answered: answered as f64 / seconds,
            within: within / seconds,
            p99_us: all.quantile(0.99) * 1e6,
            lost: 0,
        };
        let placement = node.at().name(&self.places);
        Ok(Figures { services: vec![service], cores, moves, placement })
    }

    fn outcome(self, policies: Vec<(String, Vec<Figures>)>) -> Outcome {
        let hosts = self.places.iter().filter(|(_, is_host)| *is_host).map(|(name, _)| name.clone());
        Outcome {
            platform: Some(self.platform.name),
            counts: super::IN_TIME,
            slo_us: self.slo * 1e6,
            seed: self.seed,
            script: self.script,
            fixed: self.places.len(),
            hosts: hosts.collect(),
            policies,
            environment: bench::report::environment::facts(),
        }
    }
}

/// A brain and what it is told.
struct Placer<B> {
    brain: Brain<B>,
    predictor: OfModel,
    looks: u64,
    log: Option<Log>,
}

impl<B: Bugs<Planted>> Placer<B> {
    fn new(
        stage: &Stage,
        name: &str,
        (policy, is_off): (Policy, bool),
        bugs: B,
    ) -> Result<Placer<B>, String> {
        let options = Options { policy, p99_max_ns: Some(stage.slo * 1e9), ..Options::default() };
        let modelled = Modelled { workload: LIKE.to_owned(), off: is_off.then_some(stage.seed) };
        let known = modelled.off.map_or_else(|| stage.platform.unread(), |seed| off(&stage.platform, seed));
        let predictor = OfModel::new(&known, &stage.like).map_err(|why| why.to_string())?;
        let log = stage.logs.as_deref().map(|folder| log(folder, &stage.platform.name, name)).transpose()?;
        let mut placer =
            Placer { brain: Brain::with_bugs(options.clone(), &[], bugs), predictor, looks: 0, log };
        let (platform, modelled) = (stage.text.clone(), Some(modelled));
        placer.write(&Line::Setup { options, made_us: Vec::new(), platform, modelled })?;
        Ok(placer)
    }

    fn write(&mut self, line: &Line) -> Result<(), String> {
        self.log.as_mut().map_or(Ok(()), |log| log.write(line))
    }

    /// Where the service is to go now, if anywhere.
    fn look(&mut self, node: &Node, look: &node::Look) -> Result<Option<Choice>, String> {
        let every_us = EVERY.as_micros() as u64;
        self.looks += 1;
        let now_us = self.looks * every_us;
        let seen = node.observation((self.looks, now_us, every_us), look);
        let lines = self.brain.observe(now_us, &seen, &self.predictor);
        self.write(&Line::Seen { now_us, observation: seen })?;
        lines.iter().try_for_each(|line| self.write(line))?;
        let mut to = None;
        for line in lines {
            let Line::Decision(decision) = line else { continue };
            self.brain.told(now_us, decision.number, None);
            self.write(&Line::Told { now_us, decision: decision.number, refused: None })?;
            to = Some(decision.to);
        }
        Ok(to)
    }
}

/// The log of a policy on a machine: `bluefield2-ib-model.log`, `bluefield2-ib-greedy-off.log`.
fn log(folder: &Path, platform: &str, policy: &str) -> Result<Log, String> {
    let path = folder.join(format!("{platform}-{}.log", policy.replace(", numbers off", "-off")));
    Log::new(path.clone(), u64::MAX).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
