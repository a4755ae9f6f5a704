//! The driver: asks an admin port, tells the brain, sets registers, writes the log. All that the placer has of clocks, sockets and files.
//!
//! A look is two requests, for metrics and registers; a decision one for each register that changes. Where a register refuses, those that were set before it
//! are put back, and the brain is told why. What cannot be logged is not done: the driver ends, and the node stays as it is.
//!
//! Bounds: a log of `max` bytes is put aside as `FILE.1`, and the next begins with a new brain, so that each can
//! be played by itself.

use super::brain::Brain;
use super::choice::Setting;
use super::log::{Decision, Line, Tuning};
use super::options::Options;
use super::predict::Predictor;
use crate::observed::{Difference, Figure, Load, MEMORY, Observation, ask};
use bench::probe::facts::ticks;
use protocol::planted::NoBugs;
use serve::trace::Port;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time that can stand still: that of a placer whose node is lent to another.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    before: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// One that runs from now on.
    pub fn start() -> Stopwatch {
        Stopwatch { before: Duration::ZERO, since: Some(Instant::now()) }
    }

    /// Stands still from now on.
    pub fn pause(&mut self) {
        self.before = self.elapsed();
        self.since = None;
    }

    /// Runs again.
    pub fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// How long it ran.
    pub fn elapsed(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn now_us(&self) -> u64 {
        self.elapsed().as_micros() as u64
    }
}

/// A log in a file.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    max: u64,
}

impl Log {
    /// A new file, of about `max` bytes at most. One that is there is replaced.
    ///
    /// # Errors
    /// The system's.
    pub fn new(path: PathBuf, max: u64) -> io::Result<Log> {
        let file = File::create(&path)?;
        Ok(Log { path, file, written: 0, max })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// What the system says, with the file's name.
    pub fn write(&mut self, line: &Line) -> Result<(), String> {
        self.add(line).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    fn add(&mut self, line: &Line) -> io::Result<()> {
        let text = line.text() + "\n";
        self.written += text.len() as u64;
        self.file.write_all(text.as_bytes())
    }

    /// Puts what is written aside, and begins anew.
    fn turn_over(&mut self) -> io::Result<()> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        std::fs::rename(&self.path, aside)?;
        (self.file, self.written) = (File::create(&self.path)?, 0);
        Ok(())
    }
}

/// All of this machine's processors: what other processes keep busy, a node does not see.
#[derive(Debug)]
struct Machine {
    /// None where the node is on another machine, or may not run on all of this one.
    processors: Option<f64>,
    /// Busy and all ticks of the last look.
    last: Option<(u64, u64)>,
}

impl Machine {
    fn of(port: Port, cores: f64) -> Machine {
        let processors = std::thread::available_parallelism().map_or(0.0, |count| count.get() as f64);
        let is_whole = port.is_local() && processors == cores;
        Machine { processors: is_whole.then_some(processors), last: None }
    }

    /// Cores that were busy since the last look, where that is known.
    fn busy_cores(&mut self) -> Option<f64> {
        let processors = self.processors?;
        let (busy, all) = ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let (busy_before, all_before) = self.last.replace((busy, all))?;
        let span = all.checked_sub(all_before).filter(|span| *span > 0)?;
        Some(processors * busy.saturating_sub(busy_before) as f64 / span as f64)
    }
}

/// A node that is looked after.
#[derive(Debug)]
pub struct Driver {
    port: Port,
    cores: f64,
    brain: Brain<NoBugs>,
    predictor: Predictor,
    difference: Difference,
    machine: Machine,
    watch: Stopwatch,
    log: Option<Log>,
    is_frozen: bool,
}

impl Driver {
    /// Of the node behind this port, which has so many cores.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn new(
        port: Port,
        cores: f64,
        options: Options,
        predictor: Predictor,
        log: Option<Log>,
    ) -> Result<Driver, String> {
        let mut driver = Driver {
            port,
            cores,
            brain: Brain::new(options, &[]),
            predictor,
            difference: Difference::default(),
            machine: Machine::of(port, cores),
            watch: Stopwatch::start(),
            log,
            is_frozen: false,
        };
        driver.log(&driver.setup())?;
        Ok(driver)
    }

    fn setup(&self) -> Line {
        Line::Setup {
            options: self.brain.options().clone(),
            made_us: self.brain.made_us(),
            platform: self.predictor.text().to_owned(),
            modelled: None,
        }
    }

    /// The port.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Where services are, as far as it knows, as full names of registers and their values.
    pub fn placement(&self) -> Vec<(String, String)> {
        let of = |name: &str, register: &str| match name {
            "" => register.to_owned(),
            name => format!("{name}.{register}"),
        };
        let all = self.brain.choices().flat_map(|(name, choice)| {
            choice.values().map(move |(register, value)| (of(name, register), value.to_owned()))
        });
        let memory = self.brain.limits().map(|(name, bytes)| (of(name, MEMORY), bytes.to_string()));
        all.chain(memory).collect()
    }

    /// How long it looked.
    pub fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Its time stands still: what the node does meanwhile is none of its business.
    pub fn pause(&mut self) {
        self.watch.pause();
    }

    /// Goes on, and takes the next look for the first.
    pub fn resume(&mut self) {
        self.watch.resume();
        self.difference.forget();
    }

    /// Decides nothing while it is so.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn freeze(&mut self, is_frozen: bool) -> Result<(), String> {
        if self.is_frozen == is_frozen {
            return Ok(());
        }
        self.is_frozen = is_frozen;
        self.brain.freeze(is_frozen);
        self.log(&Line::Frozen { is_frozen })
    }

    /// Goes by other limits from now on.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn tune(&mut self, tuning: &Tuning) -> Result<(), String> {
        self.brain.tune(tuning);
        self.log(&Line::Tuned(tuning.clone()))
    }

    /// Moves that are left, bytes that caches may have together, and what came divided by what was predicted, by service and figure.
    pub fn stands(&mut self) -> (usize, u64, Vec<(String, &'static str, f64)>) {
        let now_us = self.watch.now_us();
        (self.brain.moves_left(now_us), self.brain.promised(), self.brain.factors(now_us))
    }

    /// Looks once, and does what follows; what is to be told of it.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn look(&mut self) -> Result<Vec<Line>, String> {
        self.turn_over()?;
        let asked_us = self.watch.now_us();
        let reading = ask(self.port, asked_us);
        let now_us = self.watch.now_us();
        let reading = match reading {
            Ok(reading) => reading,
            Err(why) => {
                let missed = Line::Missed { now_us, why };
                self.log(&missed)?;
                return Ok(vec![missed]);
            }
        };
        let busy = self.machine.busy_cores();
        let Some(mut observation) = self.difference.add(reading, self.cores) else { return Ok(Vec::new()) };
        // Nothing of a node is decided by it, and logs are the shorter.
        observation.services.iter_mut().for_each(|service| service.load = Load::default());
        observation.others = Figure(busy.map_or(0.0, |busy| (busy - observation.cores_used.0).max(0.0)));
        self.take(now_us, observation)
    }

    fn take(&mut self, now_us: u64, observation: Observation) -> Result<Vec<Line>, String> {
        let mut lines = self.brain.observe(now_us, &observation, &self.predictor);
        self.log(&Line::Seen { now_us, observation })?;
        lines.iter().try_for_each(|line| self.log(line))?;
        let decisions: Vec<Decision> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Decision(decision) if !decision.is_dry_run => Some((**decision).clone()),
                _ => None,
            })
            .collect();
        for decision in decisions {
            let refused = self.obey(&decision).err();
            let now_us = self.watch.now_us();
            let told = self.brain.told(now_us, decision.number, refused.as_deref());
            lines.push(Line::Told { now_us, decision: decision.number, refused });
            self.log(lines.last().expect("added just now"))?;
            told.iter().try_for_each(|line| self.log(line))?;
            lines.extend(told);
        }
        Ok(lines)
    }

    /// Sets registers; where one refuses, those before it are put back.
    fn obey(&self, decision: &Decision) -> Result<(), String> {
        let set = |setting: &Setting, value: &str| {
            let name = match &*decision.service {
                "" => setting.register.clone(),
                service => format!("{service}.{}", setting.register),
            };
            self.port
                .put(&format!("/registers/{name}"), value, TIMEOUT)
                .map_err(|why| format!("{name}: {why}"))
        };
        for (n, setting) in decision.settings.iter().enumerate() {
            let Err(why) = set(setting, &setting.value) else { continue };
            // What said nothing before, as the other place of no share, needs not be put back.
            let had = |setting: &&Setting| !decision.from.value(&setting.register).is_empty();
            let before = decision.settings[..n].iter().rev().filter(had);
            let back = before.map(|setting| set(setting, decision.from.value(&setting.register)));
            return Err(match back.collect::<Result<(), String>>() {
                Ok(()) => why,
                Err(also) => format!("{why}; and what was set before it could not be put back: {also}"),
            });
        }
        Ok(())
    }

    fn log(&mut self, line: &Line) -> Result<(), String> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.write(line)
            .map_err(|why| format!("{why}: what cannot be logged is not done; the node stays as it is"))
    }

    /// Begins another log, with another brain, where this one is long enough.
    fn turn_over(&mut self) -> Result<(), String> {
        // What a cache has given another takes first: the next brain knows nothing of it.
        let is_due = |log: &&mut Log| log.written >= log.max && !self.brain.owes_memory();
        let Some(log) = self.log.as_mut().filter(is_due) else { return Ok(()) };
        log.turn_over().map_err(|error| format!("{}: {error}", log.path.display()))?;
        self.brain = Brain::new(self.brain.options().clone(), &self.brain.made_us());
        self.log(&self.setup())?;
        self.brain.freeze(self.is_frozen);
        if self.is_frozen { self.log(&Line::Frozen { is_frozen: true }) } else { Ok(()) }
    }
}
