//! Compute units on fields of messages.

use super::{BLOB, PLAIN, Rig, THAT, class, id, types};
use crate::encode::Strategy;
use crate::encode::tests::shapes::delimited;
use crate::memory::Place;
use crate::object::dynamic::Value;
use crate::place::{FieldUnit, RunError, Work};
use crate::unit::{Kernel, KernelError, Options, Refused, TaskError};

/// Turns bytes round; those that begin with 0 are refused, with 255 they end the unit.
struct Reverse;

impl Kernel for Reverse {
    fn kernel_type(&self) -> &str {
        "reverse"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        match input[0] {
            0 => return Err(KernelError::Corrupt),
            255 => std::panic::resume_unwind(Box::new("asked to")),
            _ => {}
        }
        let needed = input.len();
        let output = output.get_mut(..needed).ok_or(KernelError::OutputTooSmall { needed })?;
        output.iter_mut().zip(input.iter().rev()).for_each(|(to, from)| *to = *from);
        Ok(needed)
    }

    fn output_bound(&self, input_len: usize) -> usize {
        input_len
    }
}

fn blob(bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    delimited(2, bytes, &mut wire);
    wire
}

#[test]
#[cfg_attr(miri, ignore = "a unit is a thread that sleeps on a futex")]
fn a_field_goes_through_a_unit_and_out_without_crossing() {
    let mut rig = Rig::new(types().table().clone());
    let mut unit = FieldUnit::new("unit", &rig.accelerator, Options::default());
    let input = rig.receive(class(), &blob(&[1, 2, 3]));
    let mut output = rig.accelerator.message(class()).expect("room");
    let (from, into) = ([id(BLOB)], [id(THAT)]);
    let run = |output: &mut _, input: &_, unit: &mut FieldUnit<_>| unit.run(input, &from, output, &into, 10);

    assert_eq!(run(&mut output, &input, &mut unit), Err(RunError::Refused(Refused::NoKernel)));
    unit.program(Reverse).expect("a thread");
    assert_eq!(unit.kernel_type(), Some("reverse"));
    let before = rig.counts();
    assert_eq!(run(&mut output, &input, &mut unit), Ok(3));
    let counts = rig.counts() - before;
    assert_eq!((counts.doorbells, counts.notifications, counts.transactions()), (1, 1, 2));
    assert!(output.is_in_acc(&into));
    let sent = rig.accelerator.send(&output, Strategy::MemoryAffinity, 0).expect("a good message");
    assert_eq!(sent, [8 << 3 | 2, 3, 3, 2, 1]);
    rig.accelerator.move_field(&mut output, &into, Place::Host).expect("room");
    assert_eq!(output.dynamic(types()).get(THAT).and_then(Value::as_bytes), Some(&[3, 2, 1][..]));

    let refused = rig.receive(class(), &blob(&[0]));
    assert_eq!(
        run(&mut output, &refused, &mut unit),
        Err(RunError::Task(TaskError::Kernel(KernelError::Corrupt)))
    );
    let absent = rig.receive(class(), &[]);
    assert_eq!(run(&mut output, &absent, &mut unit), Err(RunError::NotThere));
    unit.take_away().expect("room for an order");
    assert_eq!(unit.kernel_type(), None);
    unit.program(Reverse).expect("a thread");
    let deadly = rig.receive(class(), &blob(&[255]));
    assert_eq!(run(&mut output, &deadly, &mut unit), Err(RunError::Task(TaskError::Died)));
    assert_eq!(run(&mut output, &input, &mut unit), Err(RunError::Refused(Refused::Dead)));
    drop((input, output, refused, absent, deadly));
    assert!(rig.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "a unit is a thread that sleeps on a futex")]
fn a_task_holds_its_messages_until_it_is_over() {
    let mut rig = Rig::new(types().table().clone());
    let mut unit = FieldUnit::new("unit", &rig.accelerator, Options { tasks: 2, ..Options::default() });
    unit.program(Reverse).expect("a thread");
    let mut work = |bytes: &[u8]| Work {
        input: rig.receive(class(), &blob(bytes)),
        from: vec![id(BLOB)],
        output: rig.accelerator.message(class()).expect("room"),
        into: vec![id(PLAIN)],
        room: 5000,
    };
    let (first, second, third) = (work(&[1; 5000]), work(&[2; 5000]), work(&[3; 10]));
    let one = unit.submit(first).expect("room for a task");
    let two = unit.submit(second).expect("room for a task");
    let (refused, third) = unit.submit(third).expect_err("two are under way or not asked for");
    assert_eq!(refused, RunError::Refused(Refused::Busy));
    drop(third);
    let (done, Work { output, .. }) = unit.wait(two);
    assert_eq!(done, Ok(5000));
    assert_eq!(output.acc_bytes(&[id(PLAIN)]).map(|span| span.len), Some(5000));
    let taken = loop {
        if let Some((done, work)) = unit.poll(one) {
            assert_eq!(done, Ok(5000));
            break work;
        }
        std::thread::yield_now();
    };
    assert!(unit.poll(one).is_none(), "an outcome is taken once");
    drop((output, taken));
    assert!(rig.is_empty());
    // With a task under way: what it holds goes back after the unit's end.
    let work = Work {
        input: rig.receive(class(), &blob(&[1; 5000])),
        from: vec![id(BLOB)],
        output: rig.accelerator.message(class()).expect("room"),
        into: vec![id(PLAIN)],
        room: 5000,
    };
    unit.submit(work).expect("room for a task");
    drop(unit);
    assert!(rig.is_empty());
}
