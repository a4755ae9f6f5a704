//! The host's half of a compute unit: hands out tasks, keeps their outcomes until they are asked for.
//!
//! A value without a thread: see `executor.rs`, its other half. What a unit's states are, and what holds, is told in `mod.rs`.
//!
//! Bounds: a fixed number of slots; a task holds one from its submission until its outcome is taken. The rings have room for
//! as many kernels again.

use super::descriptor::{AccMemory, Descriptor};
use super::executor::{Executor, Notification, Order};
use super::{Kernel, Outcome, ProgramError, Refused, Task, TaskError};
use ring::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a program can know of a unit's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// None was programmed, or it was taken away.
    Empty,
    /// The type of the one that the next task will find.
    Programmed(String),
    /// It panicked or was killed.
    Dead,
}

enum Slot {
    Free,
    Running { seq: u64 },
    Settled { seq: u64, outcome: Outcome },
}

/// The rings to an executor that lives, or whose end was not noticed yet.
struct Link {
    client: Client<Order, Notification>,
    stop: Arc<AtomicBool>,
}

pub(super) struct Host {
    unit: u32,
    link: Option<Link>,
    state: State,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots with an outcome that was not taken.
    settled: usize,
    next_seq: u64,
    #[cfg(test)]
    pub(super) planted: Option<Planted>,
}

/// Bugs that the checker must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// Tasks of a unit that died stay without an outcome.
    DeathForgetsTasks,
    /// The end of an executor is noticed after its ring was read, so results that came in between count as dead.
    DeathBeforeResults,
    /// Taking the kernel away takes the host's word for it, and no order.
    TakeAwayIsForgotten,
    /// The outcome of a task can be taken again.
    OutcomeStays,
    /// A killed unit goes on with what is in its ring.
    KillIsForgotten,
}

#[cfg(test)]
impl Planted {
    pub(super) const ALL: [Planted; 5] = [
        Planted::DeathForgetsTasks,
        Planted::DeathBeforeResults,
        Planted::TakeAwayIsForgotten,
        Planted::OutcomeStays,
        Planted::KillIsForgotten,
    ];
}

impl Host {
    /// A host for at most `tasks` tasks at once, with no executor yet.
    pub(super) fn new(unit: u32, tasks: u32) -> Host {
        Host {
            unit,
            link: None,
            state: State::Empty,
            slots: (0..tasks).map(|_| Slot::Free).collect(),
            free: (0..tasks).rev().collect(),
            settled: 0,
            next_seq: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// An executor for this host, which has none: [`Host::has_executor`].
    pub(super) fn attach(&mut self, memory: Arc<dyn AccMemory>) -> Executor {
        assert!(self.link.is_none(), "a unit has one executor");
        let (client, server) = ring::pair::pair(2 * (self.slots.len() as u32).next_power_of_two());
        let stop = Arc::new(AtomicBool::new(false));
        self.link = Some(Link { client, stop: stop.clone() });
        self.state = State::Empty;
        Executor::new(server, memory, stop)
    }

    pub(super) fn has_executor(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    pub(super) fn kernel_type(&self) -> Option<&str> {
        match (&self.state, &self.link) {
            (State::Programmed(kernel_type), Some(link)) if !link.client.is_abandoned() => Some(kernel_type),
            _ => None,
        }
    }

    /// Tasks without an outcome, as far as is known.
    pub(super) fn running(&self) -> usize {
        self.slots.len() - self.free.len() - self.settled
    }

    pub(super) fn program(&mut self, kernel: Option<Box<dyn Kernel>>) -> Result<(), ProgramError> {
        let link = self.link.as_mut().expect("an executor was attached");
        let state = match &kernel {
            Some(kernel) => State::Programmed(kernel.kernel_type().to_owned()),
            None => State::Empty,
        };
        #[cfg(test)]
        if self.planted == Some(Planted::TakeAwayIsForgotten) && kernel.is_none() {
            return Ok(());
        }
        link.client.try_send(Order::Program(kernel)).map_err(|_| ProgramError::Busy)?;
        link.client.flush();
        self.state = state;
        Ok(())
    }

    pub(super) fn submit(&mut self, descriptor: Descriptor) -> Result<Task, Refused> {
        self.collect();
        match &self.state {
            State::Empty => return Err(Refused::NoKernel),
            State::Dead => return Err(Refused::Dead),
            State::Programmed(_) => {}
        }
        let link = self.link.as_mut().expect("a programmed unit has an executor");
        let slot = *self.free.last().ok_or(Refused::Busy)?;
        link.client.try_send(Order::Task { slot, descriptor }).map_err(|_| Refused::Busy)?;
        link.client.flush();
        self.free.pop();
        let seq = self.next_seq;
        self.next_seq += 1;
        self.slots[slot as usize] = Slot::Running { seq };
        Ok(Task { unit: self.unit, slot, seq })
    }

    /// Reads the notifications, and settles what a dead executor left.
    pub(super) fn collect(&mut self) {
        let Some(link) = &mut self.link else { return };
        // Looked at before the ring: what an executor sent came before its end.
        let gone = link.client.is_abandoned();
        #[cfg(test)]
        let gone_first = gone && self.planted == Some(Planted::DeathBeforeResults);
        #[cfg(not(test))]
        let gone_first = false;
        let (slots, settled) = (&mut self.slots, &mut self.settled);
        link.client.drain(usize::MAX, |_, notification| {
            if let (Notification::Done { slot, outcome }, false) = (notification, gone_first) {
                settle(&mut slots[slot as usize], outcome.map(|len| len as usize));
                *settled += 1;
            }
        });
        if gone {
            self.bury();
        }
    }

    /// The executor is gone: every task without an outcome gets one.
    fn bury(&mut self) {
        self.link = None;
        self.state = State::Dead;
        #[cfg(test)]
        if self.planted == Some(Planted::DeathForgetsTasks) {
            return;
        }
        for slot in &mut self.slots {
            if matches!(slot, Slot::Running { .. }) {
                settle(slot, Err(TaskError::Died));
                self.settled += 1;
            }
        }
    }

    /// Tells the executor to end after the task that it runs, whose result is lost with all that wait.
    pub(super) fn kill(&mut self) {
        self.collect();
        let Some(link) = &self.link else { return };
        #[cfg(test)]
        if self.planted == Some(Planted::KillIsForgotten) {
            return;
        }
        link.stop.store(true, Ordering::Relaxed);
        self.state = State::Dead;
    }

    /// Whether the task was submitted here.
    pub(super) fn is_of_unit(&self, task: Task) -> bool {
        task.unit == self.unit
    }

    /// Whether [`Host::take`] would return something.
    pub(super) fn is_settled(&self, task: Task) -> bool {
        let slot = self.slots.get(task.slot as usize);
        !self.is_of_unit(task) || !matches!(slot, Some(Slot::Running { seq }) if *seq == task.seq)
    }

    /// The task's outcome, once.
    pub(super) fn take(&mut self, task: Task) -> Option<Outcome> {
        if !self.is_settled(task) {
            return None;
        }
        match self.slots.get(task.slot as usize) {
            Some(&Slot::Settled { seq, outcome }) if seq == task.seq && self.is_of_unit(task) => {
                self.release(task.slot);
                Some(outcome)
            }
            _ => Some(Err(TaskError::Unknown)),
        }
    }

    fn release(&mut self, slot: u32) {
        #[cfg(test)]
        if self.planted == Some(Planted::OutcomeStays) {
            return;
        }
        self.slots[slot as usize] = Slot::Free;
        self.settled -= 1;
        self.free.push(slot);
    }
}

fn settle(slot: &mut Slot, outcome: Outcome) {
    let Slot::Running { seq } = *slot else { panic!("a task has one outcome") };
    *slot = Slot::Settled { seq, outcome };
}
