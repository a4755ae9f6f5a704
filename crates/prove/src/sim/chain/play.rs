//! One run: a seed played from beginning to end, and judged.

use super::super::trial::{Outcome, Summary, Trial, replay};
use super::super::world::Violation;
use super::script::Script;
use super::shape::Shape;
use super::world::World;
use protocol::chain::Planted;
use serve::process::panics;
use sim::Fingerprint;
use sim::faults::Plan;
use sim::txn::{self, Verdict, order, serial};
use std::io::{self, Write};
use std::sync::Arc;

/// Configurations that the search for any order looks at, for each set of connected keys.
const CONFIGURATIONS: usize = 1 << 12;

/// Spares where a planted bug needs some.
const SPARES: u32 = 3;

/// Clients that claim the chain where a planted bug needs some.
const HOMES: u32 = 2;

/// Whether a mistake shows only where an operator gives orders.
pub(super) fn is_about_orders(planted: Planted) -> bool {
    matches!(planted, Planted::ServeRemoved | Planted::SwitchTooSoon | Planted::TellTooSoon)
}

/// Whether a mistake shows only where somebody claims the chain.
pub(super) fn is_about_claims(planted: Planted) -> bool {
    matches!(planted, Planted::PassClaim | Planted::ForgetClaim | Planted::ReadDirtyClaim)
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Case {
    /// All random choices come from it.
    pub seed: u64,
    /// Who there is.
    pub shape: Shape,
    /// How many transactions the script has.
    pub ops: usize,
    /// The faults, where not those that the seed draws.
    pub plan: Option<Plan>,
    /// The transactions, where not all are done.
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
    /// The judges did not decide.
    pub gave_up: bool,
    /// How much happened.
    pub events: u64,
    /// Transactions that began, those of the liveness phases too.
    pub operations: u64,
    /// Entries that were committed.
    pub committed: u64,
    /// Configurations that there were.
    pub configurations: u64,
    /// What the clients saw.
    pub history: txn::History,
    /// What happened, in lines, if that was wanted.
    pub trace: Vec<String>,
}

impl Case {
    /// One of this shape that is sound.
    pub fn plain(shape: Shape, ops: usize) -> Case {
        Case { seed: 1, shape, ops, plan: None, only: None, planted: None }
    }

    /// The script of it.
    pub fn script(&self) -> Script {
        let mut script = Script::draw(self.seed, &self.shape, self.ops, self.planted);
        if let Some(plan) = &self.plan {
            script.plan = plan.clone();
        }
        script
    }
}

/// What the judges say: what is wrong, or whether they do not know.
fn judge(world: &World) -> (Option<String>, bool) {
    let history = world.record.history();
    match order::check(&history, world.record.settled()) {
        Verdict::Violation(text) => return (Some(text), false),
        Verdict::Undecided(_) => return (None, true),
        Verdict::Good => {}
    }
    // It takes what is right by the order of LSNs for right as well, or one of the two is wrong.
    match serial::check(&history, CONFIGURATIONS) {
        Verdict::Violation(text) => (Some(format!("right in the order of LSNs, but {text}")), false),
        Verdict::Good | Verdict::Undecided(_) => (None, false),
    }
}

impl Trial for Case {
    type Bug = Planted;
    type Played = Played;

    /// But the last, which one chain cannot show.
    const BUGS: &'static [Planted] = Planted::ALL.split_last().expect("there are some").1;

    fn marks(&self) -> [&'static str; 2] {
        ["entries were committed", "configurations"]
    }

    fn bug_name(bug: Planted) -> &'static str {
        bug.name()
    }

    fn seeded(&self, seed: u64, planted: Option<Planted>) -> Case {
        let spares = match planted {
            // Without orders there is nothing to find.
            Some(planted) if is_about_orders(planted) && self.shape.spares == 0 => SPARES,
            _ => self.shape.spares,
        };
        let homes = match planted {
            Some(planted) if is_about_claims(planted) && self.shape.homes == 0 => HOMES,
            _ => self.shape.homes,
        };
        Case { seed, planted, shape: Shape { spares, homes, ..self.shape }, ..self.clone() }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    /// A panic is a violation.
    fn play(&self, traced: bool) -> Played {
        let script = self.script();
        let mut world = World::new(self.shape, &Arc::new(script), self.only.as_deref(), traced);
        if let Err(panic) = panics::caught(|| world.run()) {
            world.broken(format!("a machine panicked: {panic}"));
        }
        let mut violation = world.violation.take();
        let mut gave_up = false;
        if violation.is_none() {
            let (text, undecided) = judge(&world);
            gave_up = undecided;
            violation = text.map(|text| Violation { at: world.now(), text });
        }
        Played {
            print: world.print,
            violation,
            gave_up,
            events: world.events,
            operations: world.record.len() as u64,
            committed: world.watch.committed().0,
            configurations: world.registry.stored,
            history: world.record.history(),
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
        let text = format!("millrace sim --chain={} --seed {}", self.shape, self.seed);
        replay::<Case>(text, self.ops, (self.planted, self.plan.as_ref(), self.only.as_deref()))
    }

    fn title(&self) -> String {
        format!("chain of {}", self.shape)
    }

    fn legend(&self) -> String {
        self.shape.legend()
    }
}

impl Outcome for Played {
    fn summary(&self) -> Summary {
        Summary {
            print: self.print.value(),
            violated: self.violation.is_some(),
            gave_up: self.gave_up.into(),
            events: self.events,
            operations: self.operations,
            marks: [self.committed, self.configurations],
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
