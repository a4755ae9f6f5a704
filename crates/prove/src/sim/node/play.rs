//! One run: a seed played from beginning to end, and judged.

use super::super::trial::{Outcome, Summary, Trial, replay};
use super::super::world::Violation;
use super::script::Script;
use super::world::World;
use base::Picos;
use serve::kv::by_hand::Planted;
use serve::process::panics;
use sim::check::{Rules, check};
use sim::faults::Plan;
use sim::history::History;
use sim::kv::{Op, Ret};
use std::io::{self, Write};

/// How exact the judge is. The store counts seconds, as memcached does, and looks at the clock every 50 ms: an item ends when its last second begins, as the
/// node's clock has it, which is a little fast or slow.
const RULES: Rules = Rules {
    early: Picos::from_micros(1_080_000),
    late: Picos::from_micros(80_000),
    may_evict: false,
    most_configurations: 1 << 16,
};

/// What is played.
#[derive(Clone, Debug)]
pub struct Case {
    /// All random choices come from it.
    pub seed: u64,
    /// How many times clients do something.
    pub ops: usize,
    /// The faults, where not those that the seed draws.
    pub plan: Option<Plan>,
    /// Of what clients do, only these.
    pub only: Option<Vec<usize>>,
    /// What is wrong on purpose.
    pub planted: Option<Planted>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Played {
    summary: Summary,
    violation: Option<Violation>,
    history: History<Op, Ret>,
    trace: Vec<String>,
}

impl Case {
    /// One that is sound.
    pub fn plain(ops: usize) -> Case {
        Case { seed: 1, ops, plan: None, only: None, planted: None }
    }

    /// The script of it.
    pub fn script(&self) -> Script {
        let mut script = Script::draw(self.seed, self.ops, self.planted);
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

    fn marks(&self) -> [&'static str; 2] {
        ["nodes stopped under load", "registers were changed"]
    }

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
        let mut world = World::new(&script, self.only.as_deref(), traced);
        if let Err(panic) = panics::caught(|| world.run()) {
            world.broken(format!("the node panicked: {panic}"));
        }
        let history = world.take_history();
        let mut violation = world.violation.take();
        let mut gave_up = 0;
        if violation.is_none() {
            let report = check(&history, &Rules { may_evict: world.may_evict, ..RULES });
            gave_up = report.gave_up.len() as u64;
            let first = report.violations.first();
            violation = first.map(|finding| Violation { at: world.now(), text: finding.to_string() });
        }
        let summary = Summary {
            print: world.print.value(),
            violated: violation.is_some(),
            gave_up,
            events: world.events,
            operations: world.operations(),
            marks: world.marks,
        };
        Played { summary, violation, history, trace: world.trace.take().unwrap_or_default() }
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
        let head = format!("millrace sim --node --seed {}", self.seed);
        replay::<Case>(head, self.ops, (self.planted, self.plan.as_ref(), self.only.as_deref()))
    }

    fn title(&self) -> String {
        "a node".to_owned()
    }

    fn legend(&self) -> String {
        let script = self.script();
        let (clients, node) = (script.clients.len(), script.node());
        let services = script
            .services
            .iter()
            .map(|service| format!("{} edges, core {} of {}", service.edges, service.core, script.cores));
        let services: Vec<_> = services.collect();
        format!(
            "0 to {} are clients, {node} is the node, from {} on there are its edges; services: {}",
            clients - 1,
            node + 1,
            services.join("; ")
        )
    }
}

impl Outcome for Played {
    fn summary(&self) -> Summary {
        self.summary
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
