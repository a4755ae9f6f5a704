//! Load: clients that keep so many operations under way or begin them at a rate, and what they see.

use crate::kernel::{ProgramId, ResourceId};
use crate::random::exponential;
use crate::rerun;
use crate::sim::{Mailbox, Sim};
use base::{Picos, Prng};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Operations in proportion to their weights. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Mix(Rc<[(f64, ProgramId)]>);

impl Mix {
    /// Of operations with weights.
    ///
    /// # Panics
    /// Without a positive weight.
    pub fn new(weighted: &[(f64, ProgramId)]) -> Mix {
        let sum: f64 = weighted.iter().map(|(weight, _)| *weight).sum();
        assert!(sum > 0.0 && weighted.iter().all(|(weight, _)| *weight >= 0.0), "weights must be positive");
        let mut below = 0.0;
        let cumulative = weighted.iter().map(|(weight, program)| {
            below += weight / sum;
            (below, *program)
        });
        Mix(cumulative.collect())
    }

    /// Of other mixes, each with its share.
    ///
    /// # Panics
    /// Without a positive share.
    pub fn of(shares: &[(f64, &Mix)]) -> Mix {
        let weighted = |(share, mix): &(f64, &Mix)| {
            let (share, all, mut before) = (*share, Rc::clone(&mix.0), 0.0);
            (0..all.len()).map(move |at| {
                let (below, program) = all[at];
                (share * (below - std::mem::replace(&mut before, below)), program)
            })
        };
        Mix::new(&shares.iter().flat_map(weighted).collect::<Vec<_>>())
    }

    pub(crate) fn draw(&self, prng: &mut Prng) -> ProgramId {
        if let [(_, only)] = *self.0 {
            return only;
        }
        let at = prng.unit_f64();
        let found = self.0.iter().find(|(below, _)| at < *below).or(self.0.last());
        found.expect("a mix has an operation").1
    }
}

impl From<ProgramId> for Mix {
    fn from(only: ProgramId) -> Mix {
        Mix([(1.0, only)].into())
    }
}

/// A closed loop: `window` operations of `mix` always under way.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What.
    pub mix: Mix,
    /// How many at once.
    pub window: u64,
    /// Arguments are drawn below this: addresses, shards.
    pub arguments: u64,
}

/// An open loop: operations of `mix` begin at random, so many per second, whatever became of those before.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// What.
    pub mix: Mix,
    /// Operations per second; exponential spans between them.
    pub rate: f64,
    /// Arguments are drawn below this.
    pub arguments: u64,
}

/// Operations of an open loop that may be under way at once; more are turned away and counted, for the machine is overloaded by far.
pub const MOST_UNDER_WAY: usize = 1 << 16;

/// Latencies are told apart up to a second, in picoseconds; what takes longer counts as a second.
const LONGEST: u64 = 1_000_000_000_000;

/// What clients saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Latencies in picoseconds.
    latencies: Histogram<u64>,
    over: Picos,
    /// Operations that an open loop could not begin.
    pub turned_away: u64,
    /// Operations that had ended after each part of the span, of [`BATCHES`] that are as long.
    ended: Vec<u64>,
}

/// Parts of a span whose rates are compared: enough for their spread, and each long beside what an operation takes.
pub(crate) const BATCHES: u64 = 10;
/// Student's t for 95 % with nine degrees of freedom.
const T95: f64 = 2.262;

impl Seen {
    /// Nothing yet, of a span that is `over` long.
    pub fn new(over: Picos) -> Seen {
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3).expect("three digits are few enough");
        Seen { latencies, over, turned_away: 0, ended: Vec::new() }
    }

    /// Counts an operation that took so long.
    pub fn record(&mut self, latency: Picos) {
        self.latencies.saturating_record(latency.0);
    }

    /// Operations that ended.
    pub fn count(&self) -> u64 {
        self.latencies.len()
    }

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.over.as_secs_f64()
    }

    /// Mean latency, in seconds.
    pub fn mean(&self) -> f64 {
        self.latencies.mean() / 1e12
    }

    /// A quantile (0 to 1) of latencies, in seconds.
    pub fn quantile(&self, of: f64) -> f64 {
        self.latencies.value_at_quantile(of) as f64 / 1e12
    }

    /// The share of operations that took no longer than so many seconds; to a thousandth of that time.
    pub fn within(&self, seconds: f64) -> f64 {
        if self.count() == 0 { 0.0 } else { self.latencies.quantile_below((seconds * 1e12) as u64) }
    }

    /// A part of the span is over.
    fn end_batch(&mut self) {
        self.ended.push(self.count());
    }

    /// Half of the 95 % confidence interval of the rate, as a share of it: by the spread of batch means. 1 where too little was seen.
    pub fn rate_error(&self) -> f64 {
        let before = std::iter::once(&0).chain(&self.ended);
        let batches: Vec<f64> =
            self.ended.iter().zip(before).map(|(end, begin)| (end - begin) as f64).collect();
        let (count, sum) = (batches.len() as f64, batches.iter().sum::<f64>());
        if batches.len() < BATCHES as usize || sum == 0.0 {
            return 1.0;
        }
        let mean = sum / count;
        let squares: f64 = batches.iter().map(|of| (of - mean).powi(2)).sum();
        T95 * (squares / (count - 1.0) / count).sqrt() / mean
    }

    /// Half of the 95 % confidence interval of a quantile, as a share of it, whatever the distribution: by order statistics.
    pub fn quantile_error(&self, of: f64) -> f64 {
        let (count, value) = (self.count() as f64, self.quantile(of));
        if count == 0.0 || value <= 0.0 {
            return 1.0;
        }
        let reach = 1.96 * (of * (1.0 - of) / count).sqrt();
        (self.quantile((of + reach).min(1.0)) - self.quantile((of - reach).max(0.0))) / 2.0 / value
    }

    /// As if each operation had been so many, in a span so many times as long as it was accounted for.
    #[must_use]
    pub(crate) fn times(&self, times: u64) -> Seen {
        let latencies = rerun::repeated(&self.latencies, times);
        let ended = self.ended.iter().map(|ended| ended * times).collect();
        Seen { latencies, over: self.over, turned_away: self.turned_away * times, ended }
    }

    /// This and what another saw of the same span: all operations of both.
    #[must_use]
    pub fn and(mut self, other: &Seen) -> Seen {
        self.latencies.add(&other.latencies).expect("histograms of ours are alike");
        self.turned_away += other.turned_away;
        self.ended.iter_mut().zip(&other.ended).for_each(|(ended, more)| *ended += more);
        self
    }
}

pub(crate) type Shared = Rc<RefCell<Seen>>;

/// Runs loops together, without account for `warm_up`, then for `span`; what each saw. All processes have ended then; accounts can be asked.
pub fn closed(sim: &Sim, seed: u64, loops: &[Loop], warm_up: Picos, span: Picos) -> Vec<Seen> {
    let what = || format!("closed {seed} {loops:?}");
    let mixes = || loops.iter().map(|of| &of.mix);
    let identity = identity(sim, mixes(), &[], (warm_up, span), what);
    if let Some(seen) = identity.as_deref().and_then(|identity| rerun::known(sim, identity)) {
        return seen;
    }
    let begin = sim.now().plus(rerun::warm_up(warm_up));
    let seen = loops.iter().enumerate().map(|(number, of)| {
        let seen: Shared = Rc::new(RefCell::new(Seen::new(span)));
        for client in 0..of.window {
            let prng = Prng::for_entity(seed, (number as u64) << 32 | client, 0);
            sim.spawn(client_loop(sim.clone(), of.clone(), prng, begin, Rc::clone(&seen)));
        }
        seen
    });
    measure(sim, seen.collect(), (begin, span), identity)
}

/// Runs open loops together, as [`closed`] does.
pub fn open(sim: &Sim, seed: u64, loops: &[Arrivals], warm_up: Picos, span: Picos) -> Vec<Seen> {
    let what = || format!("open {seed} {loops:?}");
    let mixes = || loops.iter().map(|of| &of.mix);
    let identity = identity(sim, mixes(), &[], (warm_up, span), what);
    if let Some(seen) = identity.as_deref().and_then(|identity| rerun::known(sim, identity)) {
        return seen;
    }
    let begin = sim.now().plus(rerun::warm_up(warm_up));
    let seen = loops.iter().enumerate().map(|(number, of)| {
        let seen: Shared = Rc::new(RefCell::new(Seen::new(span)));
        let prng = Prng::for_entity(seed, (number as u64) << 32, 1);
        let all = (of.rate, of.arguments);
        let opened = Opened::new(of.mix.clone(), all, MOST_UNDER_WAY, Rc::clone(&seen));
        opened.begin.set(begin);
        sim.spawn(arrive(sim.clone(), opened, prng));
        seen
    });
    measure(sim, seen.collect(), (begin, span), identity)
}

/// Everything that decides what such a run gives, if anybody asks for it: what its programs do, and `what` is done with them.
pub(crate) fn identity<'a>(
    sim: &Sim,
    mixes: impl Iterator<Item = &'a Mix>,
    served: &[ResourceId],
    spans: (Picos, Picos),
    what: impl FnOnce() -> String,
) -> Option<String> {
    if !rerun::is_on() {
        return None;
    }
    let programs: Vec<ProgramId> = mixes.flat_map(|mix| mix.0.iter().map(|(_, program)| *program)).collect();
    let kernel = sim.with(|kernel| kernel.identity(&programs, served))?;
    Some(format!("{} {spans:?} {kernel}", what()))
}

pub(crate) fn measure(
    sim: &Sim,
    seen: Vec<Shared>,
    (begin, span): (Picos, Picos),
    identity: Option<String>,
) -> Vec<Seen> {
    let times =
        rerun::account(sim, begin, span, || {}, || seen.iter().for_each(|of| of.borrow_mut().end_batch()));
    let seen: Vec<Seen> = seen.iter().map(|seen| whole(seen, times)).collect();
    if let Some(identity) = identity {
        rerun::keep(sim, identity, &seen);
    }
    seen
}

/// What was seen, where an accounted second stands for so many.
pub fn whole(seen: &RefCell<Seen>, times: u64) -> Seen {
    if times == 1 { seen.borrow().clone() } else { seen.borrow().times(times) }
}

async fn client_loop(sim: Sim, of: Loop, mut prng: Prng, begin: Picos, seen: Shared) {
    loop {
        let started = sim.now();
        let program = of.mix.draw(&mut prng);
        sim.perform(program, prng.below(of.arguments)).await;
        if sim.now() >= begin {
            seen.borrow_mut().record(sim.now().since(started));
        }
    }
}

/// A request's program and argument.
type Order = (ProgramId, u64);

/// An open loop, as its processes share it.
struct Opened {
    /// Where operations go now.
    mix: RefCell<Mix>,
    /// Per second.
    rate: f64,
    arguments: u64,
    /// Under way at once at most; more are turned away.
    most: usize,
    /// What ends before does not count.
    begin: Cell<Picos>,
    is_over: Cell<bool>,
    begun: Cell<u64>,
    ended: Cell<u64>,
    seen: Shared,
    idle: RefCell<Vec<Mailbox<Order>>>,
}

impl Opened {
    fn new(mix: Mix, (rate, arguments): (f64, u64), most: usize, seen: Shared) -> Rc<Opened> {
        let (begin, mix, is_over) = (Cell::default(), RefCell::new(mix), Cell::default());
        let (begun, ended, idle) = (Cell::default(), Cell::default(), RefCell::default());
        Rc::new(Opened { mix, rate, arguments, most, begin, is_over, begun, ended, seen, idle })
    }
}

/// An open loop whose operations can be sent another way while it runs; those that have begun end where they are.
pub struct Steered {
    sim: Sim,
    of: Rc<Opened>,
}

impl std::fmt::Debug for Steered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steered").field("sim", &self.sim).field("lost", &self.lost()).finish_non_exhaustive()
    }
}

impl Steered {
    /// Begins one: so many operations of `mix` per second at random, with arguments below `arguments`, `most` of them under way at once. What comes beyond
    /// these is turned away.
    pub fn new(sim: Sim, mix: Mix, (rate, arguments): (f64, u64), most: usize, seed: u64) -> Steered {
        let seen = Rc::new(RefCell::new(Seen::new(Picos::ZERO)));
        let of = Opened::new(mix, (rate, arguments), most, seen);
        sim.spawn(arrive(sim.clone(), Rc::clone(&of), Prng::for_entity(seed, 0, 1)));
        Steered { sim, of }
    }

    /// What comes from now on is of this mix.
    pub fn go(&self, mix: Mix) {
        self.of.mix.replace(mix);
    }

    /// Runs for a span; what was seen in it. Accounts of the kernel are of this span.
    pub fn run(&self, span: Picos) -> Seen {
        self.of.seen.replace(Seen::new(span));
        self.sim.with(|kernel| kernel.reset_usage());
        self.sim.run_until(self.sim.now().plus(span));
        self.of.seen.borrow().clone()
    }

    /// How many have begun so far.
    pub fn begun(&self) -> u64 {
        self.of.begun.get()
    }

    /// Ends it: nothing more begins, and what is under way has this long to end. How many operations did not: lost.
    pub fn end(self, patience: Picos) -> u64 {
        self.of.is_over.set(true);
        self.sim.run_until(self.sim.now().plus(patience));
        self.sim.end_processes();
        self.lost()
    }

    fn lost(&self) -> u64 {
        self.of.begun.get() - self.of.ended.get()
    }
}

/// Begins operations; each is done by a process that is idle, or by a new one.
async fn arrive(sim: Sim, of: Rc<Opened>, mut prng: Prng) {
    let between = crate::platform::picos(1.0 / of.rate);
    let mut performers = 0;
    loop {
        sim.sleep(exponential(&mut prng, between)).await;
        if of.is_over.get() {
            return;
        }
        let order = (of.mix.borrow().draw(&mut prng), prng.below(of.arguments));
        let free = of.idle.borrow_mut().pop();
        match free {
            Some(performer) => performer.send(order),
            None if performers == of.most => {
                of.seen.borrow_mut().turned_away += 1;
                continue;
            }
            None => {
                performers += 1;
                let orders = Mailbox::new(&sim);
                orders.send(order);
                sim.spawn(performer(sim.clone(), orders, Rc::clone(&of)));
            }
        }
        of.begun.set(of.begun.get() + 1);
    }
}

async fn performer(sim: Sim, orders: Mailbox<Order>, of: Rc<Opened>) {
    loop {
        let (program, argument) = orders.receive().await;
        let started = sim.now();
        sim.perform(program, argument).await;
        of.ended.set(of.ended.get() + 1);
        if sim.now() >= of.begin.get() {
            of.seen.borrow_mut().record(sim.now().since(started));
        }
        of.idle.borrow_mut().push(orders.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, Service, Step};
    use crate::queueing;

    fn station(service: Service) -> (Sim, ProgramId) {
        let mut kernel = Kernel::new(1);
        let at = kernel.resource("station", 1);
        let program = kernel.program("visit", [Step::Use { at, service, units: 1, after: Picos::ZERO }]);
        (Sim::new(kernel), program)
    }

    #[test]
    fn arrivals_at_random_wait_as_m_d_1_says() {
        let (sim, visit) = station(Service::Fixed(Picos::from_nanos(100)));
        let arrivals = Arrivals { mix: visit.into(), rate: 7e6, arguments: 1 };
        let seen = &open(&sim, 3, &[arrivals], Picos::from_micros(100), Picos::from_micros(40_000))[0];
        let wanted = 100e-9 + queueing::mg1_wait(0.7, 100e-9, 0.0);
        assert!((seen.mean() / wanted - 1.0).abs() < 0.03, "{} and not {wanted}", seen.mean());
        assert!((seen.rate() / 7e6 - 1.0).abs() < 0.01 && seen.turned_away == 0);
    }

    #[test]
    fn overload_is_bounded_and_counted() {
        let (sim, visit) = station(Service::Fixed(Picos::from_micros(10)));
        let arrivals = Arrivals { mix: visit.into(), rate: 100e6, arguments: 1 };
        let seen = &open(&sim, 3, &[arrivals], Picos::ZERO, Picos::from_micros(2_000))[0];
        assert!(seen.turned_away > 100_000);
        assert_eq!(seen.count(), 199);
    }

    #[test]
    fn a_mix_is_drawn_by_its_weights() {
        let mut kernel = Kernel::new(1);
        let wait = |k: &mut Kernel, ns| k.program("wait", [Step::Wait(Picos::from_nanos(ns))]);
        let (a, b) = (wait(&mut kernel, 100), wait(&mut kernel, 500));
        let one = Loop { mix: Mix::new(&[(3.0, a), (1.0, b)]), window: 1, arguments: 1 };
        let sim = Sim::new(kernel);
        let seen = &closed(&sim, 5, &[one], Picos::ZERO, Picos::from_micros(10_000))[0];
        assert!((seen.mean() / 200e-9 - 1.0).abs() < 0.05, "{}", seen.mean());
    }

    #[test]
    fn a_share_is_within_a_time() {
        let mut seen = Seen::new(Picos::from_micros(1));
        assert_eq!(seen.within(1.0), 0.0);
        (1..=10).for_each(|nanos| seen.record(Picos::from_nanos(nanos * 100)));
        assert_eq!([50e-9, 350e-9, 2e-6].map(|limit| seen.within(limit)), [0.0, 0.3, 1.0]);
    }

    /// Two stations, and operations that go to the other one after a while; what is under way then ends at the first.
    #[test]
    fn operations_can_be_sent_another_way_and_none_is_lost() {
        let mut kernel = Kernel::new(1);
        let mut at = |name: &str, ns| {
            let at = kernel.resource(name, 1);
            let service = Service::Fixed(Picos::from_nanos(ns));
            (at, kernel.program(name, [Step::Use { at, service, units: 1, after: Picos::ZERO }]))
        };
        let (slow, fast) = (at("slow", 2000), at("fast", 100));
        let sim = Sim::new(kernel);
        let of = Steered::new(sim.clone(), slow.1.into(), (1e6, 1), 16, 3);
        let span = Picos::from_micros(1000);
        of.run(span);
        let first = of.run(span);
        // Full: one after the other, 16 of them in line; what comes beyond is turned away.
        assert!((498..=500).contains(&first.count()) && (400..600).contains(&first.turned_away), "{first:?}");
        assert!((first.mean() / 32e-6 - 1.0).abs() < 0.05, "{}", first.mean());
        of.go(fast.1.into());
        let second = of.run(span);
        let left = sim.with(|kernel| kernel.usage(slow.0).busy);
        assert!(
            (25_000_000..=32_000_000).contains(&left.0),
            "16 of them at most are still at the slow one: {left:?}"
        );
        assert!(second.turned_away < 40 && (950..1100).contains(&second.count()), "{second:?}");
        assert_eq!(of.run(span).turned_away, 0);
        // Both: one in five still goes to the slow one, which keeps up with that.
        of.go(Mix::of(&[(0.8, &fast.1.into()), (0.2, &slow.1.into())]));
        let both = of.run(span);
        let busy = sim.with(|kernel| kernel.usage(slow.0).busy.as_secs_f64()) / span.as_secs_f64();
        assert!((0.3..0.5).contains(&busy) && both.turned_away == 0, "{busy} {both:?}");
        assert_eq!(of.end(span), 0);
    }

    #[test]
    fn what_does_not_end_is_lost() {
        let (sim, visit) = station(Service::Fixed(Picos::from_micros(10)));
        let of = Steered::new(sim, visit.into(), (1e6, 1), 8, 3);
        of.run(Picos::from_micros(100));
        assert_eq!(of.end(Picos::from_micros(20)), 6, "two of eight end in 20 us");
    }
}
