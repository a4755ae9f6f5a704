//! One run: a seed played from beginning to end, and judged.

use super::bugs::{self, Bug};
use super::homes::Homes;
use super::nodes::Numbers;
use super::record::EXACT;
#[cfg(test)]
use super::replicas::Tally;
use super::script::Script;
use super::topology::Topology;
use super::trial::{Outcome, Summary, Trial, replay};
use super::world::{Violation, World};
use base::Picos;
use serve::process::panics;
use sim::Fingerprint;
use sim::check::Rules;
use sim::faults::Plan;
use sim::joint;
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
    pub planted: Option<Bug>,
    /// What homes are.
    pub homes: Homes,
    /// Clients call methods whose replies may be kept.
    pub replies: bool,
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
    /// As [`Case::marks`] says.
    pub marks: [u64; 2],
    /// Of replicas behind homes, where there were some.
    #[cfg(test)]
    pub tally: Tally,
    /// What the clients saw.
    pub history: joint::History,
    /// What happened, in lines, if that was wanted.
    pub trace: Vec<String>,
}

/// How exact the judge is.
pub const RULES: Rules = Rules { early: EXACT, late: EXACT, may_evict: false, most_configurations: 1 << 16 };

/// How late an item of a node goes.
const SECONDS: Picos = Picos::from_micros(1_100_000);

impl Case {
    /// One of this topology that is sound.
    pub fn plain(topology: &Arc<Topology>, ops: usize) -> Case {
        Case {
            seed: 1,
            topology: Arc::clone(topology),
            ops,
            plan: None,
            only: None,
            planted: None,
            homes: Homes::Bare,
            replies: false,
        }
    }

    /// How exact the judge is. The store of a node counts seconds, and looks at the clock every 50 ms: what lives shorter lives to the end of its second.
    fn rules(&self) -> Rules {
        match self.homes {
            Homes::Bare => RULES,
            Homes::Cache => Rules { late: SECONDS, ..RULES },
            // More of it is not known: what was under way when a home died, what a chain does not answer.
            Homes::Logged | Homes::Chained => Rules { late: SECONDS, most_configurations: 1 << 17, ..RULES },
        }
    }

    /// The script of it.
    pub fn script(&self) -> Script {
        let mut script = Script::draw(self.seed, &self.topology, self.ops, (self.homes, self.planted));
        if self.replies {
            script = script.with_methods(&self.topology);
        }
        if let Some(plan) = &self.plan {
            script.plan = plan.clone();
        }
        script
    }
}

impl Trial for Case {
    type Bug = Bug;
    type Played = Played;

    const BUGS: &'static [Bug] = bugs::ALL;

    fn marks(&self) -> [&'static str; 2] {
        match self.homes {
            _ if self.replies => ["replies were found kept", "replies were not stored"],
            Homes::Logged => ["homes went on with their logs", "snapshots were made"],
            Homes::Chained => ["homes went on with their chains", "writes had no answer"],
            Homes::Cache => ["homes went on with their memory", "memories and starts were refused"],
            Homes::Bare => ["keys were given to owners", "operations owners did"],
        }
    }

    fn bug_name(bug: Bug) -> &'static str {
        bug.name()
    }

    fn bugs(&self) -> &'static [Bug] {
        if self.replies { bugs::REPLIES } else { Bug::of(self.homes) }
    }

    fn seeded(&self, seed: u64, planted: Option<Bug>) -> Case {
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
            let report = joint::check(&world.record.judged(), &self.rules());
            gave_up = report.gave_up.len();
            let first = report.violations.first();
            violation = first.map(|finding| Violation { at: world.now(), text: finding.to_string() });
        }
        let (given, owned) = world.watch.ownership();
        let marks = match self.homes {
            _ if self.replies => world.replies.marks(),
            Homes::Logged | Homes::Chained => [world.served.recoveries, world.served.second_mark()],
            Homes::Cache => [world.served.memories.handed_over, world.served.memories.refused],
            Homes::Bare => [given, owned],
        };
        Played {
            marks,
            #[cfg(test)]
            tally: world.served.tally,
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
        if let Some(durability) = self.homes.durability() {
            text += &format!(" --durability {durability}");
        }
        if self.replies {
            text += " --replies";
        }
        replay::<Case>(text, self.ops, (self.planted, self.plan.as_ref(), self.only.as_deref()))
    }

    fn title(&self) -> String {
        let replies = if self.replies { ", methods with replies that are kept" } else { "" };
        match self.homes.durability() {
            None => format!("{}{replies}", self.topology),
            Some(durability) => format!("{}, durability {durability}{replies}", self.topology),
        }
    }

    fn legend(&self) -> String {
        let replicas = self.script().replicas;
        Numbers::of(&self.topology).legend() + &replicas.map_or(String::new(), |all| all.legend())
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
            marks: self.marks,
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
