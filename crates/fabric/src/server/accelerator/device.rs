//! The accelerator's own parts: its lanes, and a compute unit for each kernel that has one.

use crate::service::{Kernels, Near};
use crate::status::{Code, Status};
use codec::crossing::Crossing;
use codec::encode::Strategy;
use codec::memory::{Arena, Place};
use codec::place::{
    Accelerator, BytesTarget, Copies, FieldUnit, Figures, MoveError, Placed, RunError, TextField,
};
use codec::unit::{Options, ProgramError, Refused, Span, TaskError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A compute unit, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFigures {
    /// The kernel that it is for.
    pub kernel: String,
    /// It is programmed.
    pub is_there: bool,
    /// Tasks that were submitted to it.
    pub tasks: u64,
    /// Times that it died in the middle of one.
    pub died: u64,
}

/// Why a unit was not given or taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The server has no accelerator.
    NoAccelerator,
    /// The server has no kernel of that name.
    NoKernel,
    /// The unit was not programmed.
    Program(ProgramError),
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NoAccelerator => {
                f.write_str("this server has no accelerator: give it one, or set acc.on")
            }
            UnitError::NoKernel => f.write_str("this server has no kernel of that name"),
            UnitError::Program(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnitError {}

/// See the head of the file.
pub(super) struct Device<C> {
    pub(super) accelerator: Accelerator<C>,
    pub(super) strategy: Strategy,
    kernels: Kernels,
    /// By the kernels' numbers.
    units: Vec<Slot<C>>,
}

/// A unit, once there was one.
struct Slot<C> {
    unit: Option<FieldUnit<C>>,
    seen: Arc<Seen>,
}

/// What other threads see of a unit. Counters guard no data.
#[derive(Default)]
struct Seen {
    is_there: AtomicBool,
    tasks: AtomicU64,
    died: AtomicU64,
}

/// What other threads see of a server's accelerator.
pub(crate) struct Shown {
    lanes: Arc<dyn Fn() -> Figures + Send + Sync>,
    units: Vec<(String, Arc<Seen>)>,
    pub(super) is_on: AtomicBool,
    pub(super) is_dead: AtomicBool,
}

impl Shown {
    pub(crate) fn figures(&self) -> AcceleratorFigures {
        let units = self.units.iter().map(|(kernel, seen)| UnitFigures {
            kernel: kernel.clone(),
            is_there: seen.is_there.load(Relaxed),
            tasks: seen.tasks.load(Relaxed),
            died: seen.died.load(Relaxed),
        });
        AcceleratorFigures {
            lanes: (self.lanes)(),
            units: units.collect(),
            is_on: self.is_on.load(Relaxed) && !self.is_dead.load(Relaxed),
            is_dead: self.is_dead.load(Relaxed),
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().fmt(f)
    }
}

/// What an accelerator does now and did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceleratorFigures {
    /// Its lanes, its memory, and what crossed.
    pub lanes: Figures,
    /// Its compute units.
    pub units: Vec<UnitFigures>,
    /// Requests take their way through it now.
    pub is_on: bool,
    /// A thread of it has died.
    pub is_dead: bool,
}

impl<C: Crossing + Send + Sync + 'static> Device<C> {
    pub(super) fn new(accelerator: Accelerator<C>, kernels: Kernels) -> Device<C> {
        let units = (0..kernels.len()).map(|_| Slot { unit: None, seen: Arc::default() }).collect();
        Device { accelerator, strategy: Strategy::MemoryAffinity, kernels, units }
    }

    /// Gives the kernel of that name a unit, or takes it away.
    pub(super) fn set_unit(&mut self, kernel: &str, there: bool) -> Result<(), UnitError> {
        let number = self.kernels.number(kernel).ok_or(UnitError::NoKernel)?;
        self.set_unit_of(number, there).map_err(UnitError::Program)
    }

    /// The first `count` kernels have a unit and the others have none.
    pub(super) fn set_units(&mut self, count: usize) {
        for number in 0..self.units.len() {
            // One that gets no thread stays without: its work is done by the host.
            let _ = self.set_unit_of(number, number < count);
        }
    }

    fn set_unit_of(&mut self, number: usize, there: bool) -> Result<(), ProgramError> {
        if self.has_unit(number) == there {
            return Ok(());
        }
        let Device { accelerator, kernels, units, .. } = self;
        let slot = &mut units[number];
        if !there {
            slot.unit.as_mut().map_or(Ok(()), FieldUnit::take_away)?;
            slot.seen.is_there.store(false, Relaxed);
            return Ok(());
        }
        let new = || FieldUnit::new(&format!("unit{number}"), accelerator, Options::default());
        slot.unit.get_or_insert_with(new).program(kernels.make(number))?;
        slot.seen.is_there.store(true, Relaxed);
        Ok(())
    }

    /// What other threads see.
    pub(super) fn shown(&self) -> Shown {
        let units = self.kernels.names().zip(&self.units);
        Shown {
            lanes: self.accelerator.watch(),
            units: units.map(|(kernel, slot)| (kernel.to_owned(), Arc::clone(&slot.seen))).collect(),
            is_on: AtomicBool::new(true),
            is_dead: AtomicBool::new(false),
        }
    }
}

impl<C: Crossing + Send + Sync + 'static> Near for Device<C> {
    fn message(&self, layout_hash: u64, class: u32) -> Result<Placed, Status> {
        let schema = self.accelerator.lives().iter().position(|live| live.layout_hash() == layout_hash);
        let Some(schema) = schema else {
            return Err(Status::new(
                Code::Internal,
                "the reply is of a schema that no method takes a message of",
            ));
        };
        let message = self.accelerator.message_of(schema as u16, class);
        message.map_err(|error| Status::new(Code::ResourceExhausted, error.to_string()))
    }

    fn bring(
        &mut self,
        copies: &mut Copies<'_>,
        field: &TextField<'_>,
        to: Place,
    ) -> Result<bool, MoveError> {
        copies.bring(&mut self.accelerator, field, to)
    }

    fn has_unit(&self, kernel: usize) -> bool {
        let unit = self.units.get(kernel).and_then(|slot| slot.unit.as_ref());
        unit.is_some_and(|unit| unit.kernel_type().is_some())
    }

    unsafe fn run(
        &mut self,
        kernel: usize,
        input: Span,
        target: &mut BytesTarget<'_, '_>,
        results: &mut Vec<Arena>,
        room: u32,
    ) -> Result<usize, RunError> {
        let Device { accelerator, units, strategy, .. } = self;
        let Slot { unit: Some(unit), seen } = &mut units[kernel] else {
            return Err(RunError::Refused(Refused::NoKernel));
        };
        let arena = Arena::new(accelerator.memory());
        // SAFETY: the caller's promise; the arena is among the results then, or no field refers to it.
        let done = unsafe { unit.run_into(input, target, &arena, room) };
        seen.tasks.fetch_add(1, Relaxed);
        if done == Err(RunError::Task(TaskError::Died)) {
            seen.died.fetch_add(1, Relaxed);
            seen.is_there.store(false, Relaxed);
        }
        let len = done?;
        results.push(arena);
        if *strategy == Strategy::CpuOnly {
            // This serialiser reads host memory only.
            let memory = target.bring_to_host(accelerator).map_err(|_| RunError::OutOfMemory)?;
            results.extend(memory);
        }
        Ok(len)
    }
}
