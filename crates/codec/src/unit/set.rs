//! Several units over one memory: the accelerator's equal blocks (RPCAcc has four), each programmed on its own.

use super::{AccMemory, Options, Outcome, Refused, Span, Task, TaskError, Unit};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Units by number, asked for by the type of their kernel.
pub struct Units {
    units: Vec<Unit>,
}

impl Units {
    /// `count` empty units, named `unit0` and so on.
    pub fn new(count: usize, memory: Arc<dyn AccMemory>, options: Options) -> Units {
        let unit = |n| Unit::new(&format!("unit{n}"), memory.clone(), options);
        Units { units: (0..count).map(unit).collect() }
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// True for a set without units.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Of the units programmed with this type the one with the fewest tasks, the first of equals.
    pub fn first_of(&mut self, kernel_type: &str) -> Option<&mut Unit> {
        let of_type = self.units.iter_mut().filter(|unit| unit.kernel_type() == Some(kernel_type));
        let with_tasks = of_type.map(|unit| (unit.running(), unit));
        with_tasks.min_by_key(|&(running, _)| running).map(|(_, unit)| unit)
    }

    /// Submits a task to that unit.
    ///
    /// # Errors
    /// As [`Unit::submit_task`], and [`Refused::NoKernel`] when no unit is programmed so.
    ///
    /// # Safety
    /// As [`Unit::submit_task`].
    pub unsafe fn submit_task(
        &mut self,
        kernel_type: &str,
        input: Span,
        output: Span,
    ) -> Result<Task, Refused> {
        let unit = self.first_of(kernel_type).ok_or(Refused::NoKernel)?;
        // SAFETY: the caller's promise, passed on.
        unsafe { unit.submit_task(input, output) }
    }

    /// As [`Unit::poll`], for a task of any of them.
    pub fn poll(&mut self, task: Task) -> Option<Outcome> {
        self.unit_of(task).map_or(Some(Err(TaskError::Unknown)), |unit| unit.poll(task))
    }

    /// As [`Unit::wait`], for a task of any of them.
    pub fn wait(&mut self, task: Task) -> Outcome {
        self.unit_of(task).map_or(Err(TaskError::Unknown), |unit| unit.wait(task))
    }

    fn unit_of(&mut self, task: Task) -> Option<&mut Unit> {
        self.units.iter_mut().find(|unit| unit.has(task))
    }
}

impl Index<usize> for Units {
    type Output = Unit;

    fn index(&self, number: usize) -> &Unit {
        &self.units[number]
    }
}

impl IndexMut<usize> for Units {
    fn index_mut(&mut self, number: usize) -> &mut Unit {
        &mut self.units[number]
    }
}
