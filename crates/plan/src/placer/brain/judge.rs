//! What became of a move: kept, or taken back and barred.
//!
//! What came is the mean of the observations from when the move settled, over `judge_us`; it is held against what was measured before. A move that was to
//! be better must not be worse by more than half the hysteresis; one that was to find something out must be better by as much, for a
//! choice that is no better is not worth what is not known of it; a size by all of it, for of that nothing was expected. Who stays at a size does not try the
//! one before again for a while. What is much worse at once is judged at once. What changed its load meanwhile says nothing.

use super::super::log::{Decision, Evaluation, Line, Reason, Verdict};
use super::super::planted::Planted;
use super::super::verdict::{Measured, gained};
use super::{Brain, Load, Running, of};
use crate::observed::{Observation, Service};
use protocol::planted::Bugs;

/// What is worse by so many times the hysteresis is worse, whatever may follow.
const MUCH_WORSE: f64 = 3.0;
/// Judgements that come to nothing are given up after so many times as long.
const GIVE_UP_FACTOR: u64 = 8;

impl<B: Bugs<Planted>> Brain<B> {
    /// Looks at the service that was moved.
    pub(super) fn judge(&mut self, now_us: u64, seen: &Observation, service: &Service) -> Vec<Line> {
        let (settle_us, judge_us) = (self.options.settle_us, self.options.judge_us);
        let Some((_, running)) = &mut self.running else { return Vec::new() };
        let Some(set_us) = running.set_us else { return self.give_up(now_us).into_iter().collect() };
        // All of what it says must be from after it settled.
        if seen.at_us.saturating_sub(seen.span_us) < set_us.saturating_add(settle_us) {
            return self.give_up(now_us).into_iter().collect();
        }
        add(running, seen.span_us, &of(service));
        let (came, span_us) = running.sum.expect("added just now");
        let is_other = running.load.differs(&Load::of(service), false);
        let so_far = gained(&came, &running.before, self.options.p99_max_ns);
        let is_plain = !running.is_final() && so_far < -MUCH_WORSE * self.options.hysteresis;
        if span_us < judge_us && !is_other && !is_plain {
            return Vec::new();
        }
        let (name, running) = self.running.take().expect("it is there");
        let gain = so_far;
        let half = self.options.hysteresis / 2.0;
        let least = match running.reason {
            Reason::Size => self.options.hysteresis,
            Reason::Try => half,
            Reason::Better | Reason::Back | Reason::Memory | Reason::Greedy | Reason::Fixed => -half,
        };
        let is_worse = gain < least;
        let verdict = match (is_other, is_worse && !running.is_final()) {
            (true, _) => Verdict::Void,
            (false, true) => Verdict::Back,
            (false, false) => Verdict::Kept,
        };
        let seat = self.seats.entry(name.clone()).or_default();
        seat.is_other_load = is_other;
        if is_other {
            (seat.observations, seat.steady_us) = (0, now_us);
        }
        seat.load = Some(Load::of(service));
        let mut lines = vec![Line::Evaluation(Box::new(Evaluation {
            decision: running.decision,
            now_us,
            service: name.clone(),
            to: running.to.clone(),
            expected: running.expected,
            before: running.before,
            came,
            misses: None,
            gain,
            verdict,
        }))];
        if verdict == Verdict::Kept && running.reason == Reason::Size {
            self.bar(&name, &running.from, now_us);
        }
        if verdict == Verdict::Back {
            self.bar(&name, &running.to, now_us);
            lines.push(self.back(now_us, seen, service, &running, came));
        }
        lines
    }

    /// Has a service go back to where it was; or a note, why it does not.
    fn back(
        &mut self,
        now_us: u64,
        seen: &Observation,
        service: &Service,
        moved: &Running,
        came: Measured,
    ) -> Line {
        let note = |what: String| Line::Note { now_us, service: service.name.clone(), what };
        if self.is_frozen {
            return note(format!("it would go back to {}, and is frozen", moved.from));
        }
        if self.budget.left(now_us) == 0 {
            return note(format!(
                "it would go back to {}, and the budget of this minute is spent",
                moved.from
            ));
        }
        let settings = moved.from.settings_from(&moved.to);
        let is_taken = settings.iter().all(|one| {
            service.register(&one.register).is_some_and(|register| register.number_of(&one.value).is_some())
        });
        let full = self.refused_as_full(service, &moved.from, seen);
        if let Some(full) = full {
            return note(format!("it would go back to {}, but {full}", moved.from));
        }
        if !is_taken {
            return note(format!(
                "it would go back to {}, and its registers do not take that any more",
                moved.from
            ));
        }
        self.spend(now_us, false);
        self.decisions += 1;
        let running = Running {
            decision: self.decisions,
            from: moved.to.clone(),
            to: moved.from.clone(),
            reason: Reason::Back,
            expected: None,
            before: came,
            load: Load::of(service),
            set_us: None,
            sum: None,
        };
        let decision = Decision {
            number: self.decisions,
            now_us,
            sequence: seen.sequence,
            service: service.name.clone(),
            reason: Reason::Back,
            why: format!("what came of decision {} was not worth staying", moved.decision),
            from: running.from.clone(),
            to: running.to.clone(),
            settings,
            seen: came,
            compared: Vec::new(),
            expected: None,
            memory: None,
            budget_left: self.budget.left(now_us),
            is_dry_run: self.options.is_dry_run,
        };
        self.begin(now_us, &service.name, running);
        Line::decision(decision)
    }

    /// A move is under way from now on, unless nothing is really moved.
    pub(super) fn begin(&mut self, now_us: u64, name: &str, running: Running) {
        let seat = self.seats.entry(name.to_owned()).or_default();
        seat.moved_us = Some(now_us);
        seat.is_other_load = false;
        seat.observations = 0;
        if !self.options.is_dry_run {
            self.running = Some((name.to_owned(), running));
        }
    }

    /// Gives up a move of which nothing is heard for long: others are not to wait for it.
    pub(super) fn give_up(&mut self, now_us: u64) -> Option<Line> {
        let (name, running) = self.running.as_ref()?;
        let since = self.seats.get(name).and_then(|seat| seat.moved_us).unwrap_or(now_us);
        let wait =
            self.options.settle_us.saturating_add(self.options.judge_us).saturating_mul(GIVE_UP_FACTOR);
        if now_us.saturating_sub(since) < wait {
            return None;
        }
        let what =
            format!("nothing could be said of decision {} in {:.1} s", running.decision, wait as f64 / 1e6);
        let service = name.clone();
        self.running = None;
        Some(Line::Note { now_us, service, what })
    }
}

/// Adds what was measured over a time to the mean of what came.
fn add(running: &mut Running, span_us: u64, now: &Measured) {
    let Some((was, over)) = running.sum else {
        running.sum = Some((*now, span_us));
        return;
    };
    let all = over.saturating_add(span_us).max(1);
    let mean = |was: f64, is: f64| was + (is - was) * (span_us as f64 / all as f64);
    let mean_known = |was: Option<f64>, is: Option<f64>| match (was, is) {
        (Some(was), Some(is)) => Some(mean(was, is)),
        (was, is) => is.or(was),
    };
    let sum = Measured {
        rate: mean(was.rate, now.rate),
        p50_ns: mean_known(was.p50_ns, now.p50_ns),
        p99_ns: mean_known(was.p99_ns, now.p99_ns),
        cores: mean(was.cores, now.cores),
    };
    running.sum = Some((sum, all));
}
