//! One run: a seed played from beginning to end, and judged.

use super::indices;
use super::nodes::Numbers;
use super::record::EXACT;
use super::script::Script;
use super::topology::Topology;
use super::trial::{Outcome, Summary, Trial};
use super::world::{Violation, World};
use protocol::coherence::Planted;
use serve::process::panics;
use sim::Fingerprint;
use sim::check::{self, Rules};
use sim::faults::Plan;
use sim::history::History;
use sim::kv::{Op, Ret};
use std::io::{self, Write};
use std::sync::Arc;

/// What is played.
#[derive(Clone, Debug)]
pub struct Case {
    /// All random choices come from it.
    pub seed: u64,
    /// Who there is.
    pub topology: Arc<Topology>,
    /// How many operations the script has.
    pub ops: usize,
    /// The faults, where not those that the seed draws.
    pub plan: Option<Plan>,
    /// The operations, where not all are done.
    pub only: Option<Vec<usize>>,
    /// What is wrong on purpose.
    pub planted: Option<Planted>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Played {
    /// Of all that happened.
    pub print: Fingerprint,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// Keys of which the judge knows nothing: its search was bounded.
    pub gave_up: usize,
    /// How much happened.
    pub events: u64,
    /// Operations that began, those of the liveness phases too.
    pub operations: u64,
    /// Keys that were given to boxes.
    pub given: u64,
    /// Writes that boxes did as owners of their keys.
    pub owned: u64,
    /// What the clients saw.
    pub history: History<Op, Ret>,
    /// What happened, in lines, if that was wanted.
    pub trace: Vec<String>,
}

/// How exact the judge is.
pub const RULES: Rules = Rules { early: EXACT, late: EXACT, may_evict: false, most_configurations: 1 << 16 };

impl Case {
    /// One of this topology that is sound.
    pub fn plain(topology: &Arc<Topology>, ops: usize) -> Case {
        Case { seed: 1, topology: Arc::clone(topology), ops, plan: None, only: None, planted: None }
    }

    /// The script of it.
    pub fn script(&self) -> Script {
        let mut script = Script::draw(self.seed, &self.topology, self.ops, self.planted);
        if let Some(plan) = &self.plan {
            script.plan = plan.clone();
        }
        script
    }
}

impl Trial for Case {
    type Bug = Planted;
    type Played = Played;

    const BUGS: &'static [Planted] = Planted::ALL;
    const MARKS: [&'static str; 2] = ["keys were given to owners", "operations owners did"];

    fn bug_name(bug: Planted) -> &'static str {
        bug.name()
    }

    fn seeded(&self, seed: u64, planted: Option<Planted>) -> Case {
        Case { seed, planted, ..self.clone() }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    /// A panic is a violation.
    fn play(&self, traced: bool) -> Played {
        let script = self.script();
        let mut world = World::new(&self.topology, &script, self.only.as_deref(), traced);
        if let Err(panic) = panics::caught(|| world.run()) {
            world.broken(format!("a machine panicked: {panic}"), b"");
        }
        let history = world.record.history();
        let mut violation = world.violation.take();
        let mut gave_up = 0;
        if violation.is_none() {
            let report = check::check(&world.record.judged(), &RULES);
            gave_up = report.gave_up.len();
            let first = report.violations.first();
            violation = first.map(|finding| Violation { at: world.now(), text: finding.to_string() });
        }
        let (given, owned) = world.watch.ownership();
        Played {
            given,
            owned,
            print: world.print,
            violation,
            gave_up,
            events: world.events,
            operations: world.record.len() as u64,
            history,
            trace: world.trace.take().unwrap_or_default(),
        }
    }

    fn plan(&self) -> Plan {
        self.script().plan
    }

    fn with_plan(&self, plan: Plan) -> Case {
        Case { plan: Some(plan), ..self.clone() }
    }

    fn only(&self) -> Vec<usize> {
        self.only.clone().unwrap_or_else(|| (0..self.ops).collect())
    }

    fn with_only(&self, only: Vec<usize>) -> Case {
        Case { only: Some(only), ..self.clone() }
    }

    fn command(&self) -> String {
        let mut text = format!("millrace sim --seed {} --topology {}", self.seed, self.topology);
        if self.ops != super::OPS {
            text += &format!(" --ops {}", self.ops);
        }
        if let Some(planted) = self.planted {
            text += &format!(" --planted {}", planted.name());
        }
        if let Some(plan) = &self.plan {
            text += &format!(" --plan '{plan}'");
        }
        if let Some(only) = &self.only {
            text += &format!(" --only {}", indices::show(only));
        }
        text
    }

    fn title(&self) -> String {
        self.topology.to_string()
    }

    fn legend(&self) -> String {
        Numbers::of(&self.topology).legend()
    }
}

impl Outcome for Played {
    fn summary(&self) -> Summary {
        Summary {
            print: self.print.value(),
            violated: self.violation.is_some(),
            gave_up: self.gave_up as u64,
            events: self.events,
            operations: self.operations,
            marks: [self.given, self.owned],
        }
    }

    fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn trace(&self) -> &[String] {
        &self.trace
    }

    fn write_history(&self, mut out: &mut dyn Write) -> io::Result<()> {
        self.history.write(&mut out)
    }
}
