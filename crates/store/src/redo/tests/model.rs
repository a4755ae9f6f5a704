//! Random use, with a power cut or an error at every operation of the medium, against a model of what may be there afterwards.

use super::{HEADER, ID, LEN};
use crate::redo::media::{Class, Crashing, Fault, Media};
use crate::redo::{Judge, Log, Refused};
use base::Prng;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

#[derive(Clone, Debug)]
enum Act {
    Append {
        len: usize,
    },
    Begin,
    End,
    Sync,
    /// All but so many may go.
    Release {
        keep: u64,
    },
    /// So many of the last are cut.
    Cut {
        back: u64,
    },
    Restart {
        lsn: u64,
    },
    /// The process ends, and is started again.
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..400usize).prop_map(|len| Act::Append { len }),
        2 => Just(Act::Begin),
        2 => Just(Act::End),
        3 => Just(Act::Sync),
        2 => (0..4u64).prop_map(|keep| Act::Release { keep }),
        2 => (0..6u64).prop_map(|back| Act::Cut { back }),
        1 => (0..20u64).prop_map(|lsn| Act::Restart { lsn }),
        1 => Just(Act::Reopen),
    ]
}

/// A medium that can be looked at when opening the log over it failed.
#[derive(Clone)]
struct Shared(Rc<RefCell<Crashing>>);

impl Shared {
    fn new(medium: Crashing) -> Shared {
        Shared(Rc::new(RefCell::new(medium)))
    }

    /// Power fails and comes back.
    fn crash(&self, prng: &mut Prng) -> Shared {
        Shared::new(self.0.borrow().clone().crash(prng))
    }
}

impl Media for Shared {
    fn len(&self) -> u64 {
        self.0.borrow().len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.borrow().read_at(offset, out)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().write_at(offset, bytes)
    }

    fn persist(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.0.borrow_mut().persist(ranges)
    }

    fn class(&self) -> Class {
        self.0.borrow().class()
    }
}

/// What may be in the log.
#[derive(Clone, Debug, Default)]
struct Model {
    /// What was last appended with each number; the first byte of each payload, and its length.
    records: BTreeMap<u64, (u64, Vec<u8>)>,
    first: u64,
    last: u64,
    durable: u64,
    /// What may be there instead, as long as a cut or restart is not durable.
    before: Option<Box<Model>>,
    appended: u64,
}

impl Model {
    /// Whether a log that was found may be it. Nothing was damaged, so nothing may be missing.
    fn allows(&self, log: &Log<Shared>) -> Result<(), String> {
        let (here, before) = (self.allows_now(log), self.before.as_ref().map(|before| before.allows(log)));
        if before.is_some_and(|before| before.is_ok()) { Ok(()) } else { here }
    }

    /// The records of what was found, which it allows.
    fn records_of(&self, log: &Log<Shared>) -> &BTreeMap<u64, (u64, Vec<u8>)> {
        match &self.before {
            Some(before) if self.allows_now(log).is_err() => before.records_of(log),
            _ => &self.records,
        }
    }

    fn allows_now(&self, log: &Log<Shared>) -> Result<(), String> {
        if !(self.durable..=self.last).contains(&log.last()) || log.first() > self.first {
            return Err(format!("{}..={} found", log.first(), log.last()));
        }
        for lsn in log.first()..=log.last() {
            let found = log.read(lsn).map(|record| (record.epoch, record.payload));
            if found.as_ref() != self.records.get(&lsn) {
                return Err(format!("{lsn} is not what it was"));
            }
        }
        Ok(())
    }
}

struct Run {
    medium: Shared,
    log: Log<Shared>,
    model: Model,
}

/// The medium's operations go wrong.
struct Stop;

impl Run {
    fn new() -> Run {
        let medium = Shared::new(Crashing::new(LEN));
        let log = Log::create(medium.clone(), ID).expect("before any fault");
        Run { medium, log, model: Model { first: 1, ..Model::default() } }
    }

    fn act(&mut self, act: &Act) -> Result<(), Stop> {
        let (log, model) = (&mut self.log, &mut self.model);
        match *act {
            Act::Append { len } => {
                model.appended += 1;
                // Appended anew after a cut, it is another one.
                let (lsn, epoch) = (log.last() + 1, model.appended);
                let payload = vec![epoch as u8; len];
                match log.append(lsn, epoch, &[&payload]) {
                    Ok(()) => {
                        model.records.insert(lsn, (epoch, payload));
                        model.last = lsn;
                    }
                    Err(Refused::Full) => assert!(log.room() < (HEADER + len + 7) as u64),
                    Err(Refused::Broken(_)) => return Err(Stop),
                }
            }
            Act::Begin => drop(log.begin_sync().map_err(|_| Stop)?),
            Act::End => model.durable = log.end_sync().map_err(|_| Stop)?,
            Act::Sync => {
                model.durable = log.sync().map_err(|_| Stop)?;
                assert_eq!(model.durable, model.last);
            }
            Act::Release { keep } => {
                log.release((log.durable() + 1).saturating_sub(keep));
                model.first = log.first();
            }
            Act::Cut { back } => {
                let lsn = log.last().saturating_sub(back).max(log.first() - 1);
                let before = Box::new(model.clone());
                log.cut(lsn).map_err(|_| Stop)?;
                (model.last, model.durable, model.before) = (lsn, model.durable.min(lsn), Some(before));
            }
            Act::Restart { lsn } => {
                let before = Some(Box::new(model.clone()));
                log.restart(lsn, 9).map_err(|_| Stop)?;
                let (first, last, durable, appended) = (lsn + 1, lsn, lsn, model.appended);
                *model = Model { records: BTreeMap::new(), first, last, durable, before, appended };
            }
            Act::Reopen => return self.reopen(),
        }
        if log.is_settled() {
            model.before = None;
        }
        assert_eq!((log.first(), log.last(), log.durable()), (model.first, model.last, model.durable));
        Ok(())
    }

    /// Opens what is on the medium as it is.
    fn reopen(&mut self) -> Result<(), Stop> {
        let (log, recovery) = Log::open(self.medium.clone(), ID, Judge::Proof).map_err(|_| Stop)?;
        assert_eq!(recovery.damaged, []);
        assert!(log.incarnation() > self.log.incarnation());
        self.model.allows(&log).expect("a process that ends loses nothing");
        self.take(log);
        Ok(())
    }

    /// What was found is how it is from now on.
    fn take(&mut self, log: Log<Shared>) {
        let (first, last) = (log.first(), log.last());
        let records = self
            .model
            .records_of(&log)
            .clone()
            .into_iter()
            .filter(|(lsn, _)| (first..=last).contains(lsn))
            .collect();
        self.model =
            Model { records, first, last, durable: last, before: None, appended: self.model.appended };
        self.log = log;
    }

    /// Power fails and comes back.
    fn crash(&mut self, prng: &mut Prng) -> Result<(), String> {
        self.medium = self.medium.crash(prng);
        // One time in two it fails again while the log is opened.
        if prng.below(2) == 0 {
            self.medium.0.borrow_mut().inject(prng.below(8), Fault::PowerCut);
            drop(Log::open(self.medium.clone(), ID, Judge::Proof));
            self.medium = self.medium.crash(prng);
        }
        let (log, recovery) = Log::open(self.medium.clone(), ID, Judge::Proof).map_err(|e| e.to_string())?;
        if !recovery.damaged.is_empty() {
            return Err(format!("{:?} damaged", recovery.damaged));
        }
        if log.incarnation() <= self.log.incarnation() {
            return Err("the same life twice".to_string());
        }
        self.model.allows(&log)?;
        self.take(log);
        Ok(())
    }
}

/// Does it all, with a fault at that operation; then power fails, and it goes on without faults.
fn run(acts: &[Act], fault: Option<(u64, Fault)>, seed: u64) -> Result<u64, String> {
    let mut run = Run::new();
    if let Some((operation, fault)) = fault {
        run.medium.0.borrow_mut().inject(operation, fault);
    }
    let stopped = acts.iter().position(|act| run.act(act).is_err());
    let operations = run.medium.0.borrow().operations();
    let mut prng = Prng::new(seed);
    if fault.is_some_and(|(_, fault)| fault != Fault::PowerCut) {
        // The process is started again on a machine that goes on: what it then says to be durable must be. Or power fails while it starts.
        let fails = prng.below(2) == 0;
        if fails {
            let mut medium = run.medium.0.borrow_mut();
            let operation = medium.operations() + prng.below(6);
            medium.inject(operation, Fault::PowerCut);
        }
        if run.reopen().is_err() && stopped.is_some() && !fails {
            return Err("a log that failed once must open".to_string());
        }
    }
    run.crash(&mut prng)?;
    for act in &acts[stopped.unwrap_or(acts.len())..] {
        drop(run.act(act));
    }
    drop(run.act(&Act::Sync));
    run.crash(&mut prng)?;
    Ok(operations)
}

/// All operations, all faults.
fn enumerate(acts: &[Act], seed: u64) -> Result<(), String> {
    let operations = run(acts, None, seed)?;
    for operation in 0..operations {
        for fault in [Fault::PowerCut, Fault::Error, Fault::Full] {
            let told = |why| format!("{fault:?} at operation {operation}: {why}");
            run(acts, Some((operation, fault)), seed ^ operation).map_err(told)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_durable_is_there_and_nothing_else(acts in prop::collection::vec(act(), 1..50), seed: u64) {
        let result = enumerate(&acts, seed);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
