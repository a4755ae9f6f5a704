//! Memory comes back, requests in flight end with the accelerator, and nobody waits for the dead.

use super::{BLOB, INNER, NAME, Planted, Rig, TEXTS, THIS, class, id, types};
use crate::crossing::{Counts, Crossing, Shared};
use crate::encode::tests::shapes::delimited;
use crate::memory::{CHUNK, Memory, Place};
use crate::object::dynamic::Value;
use crate::place::{Accelerator, Busy, Live, MoveError, Options};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

fn texts(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    (0..count).for_each(|index| delimited(4, &[b'a' + (index % 26) as u8; 100], &mut out));
    delimited(2, &[7; 3000], &mut out);
    out
}

/// A message longer than a chunk reads as it was written.
fn reads_right(planted: Option<Planted>) -> bool {
    let mut rig = Rig::with(types().table().clone(), |options| options.planted = planted);
    let message = rig.receive(class(), &texts(100));
    let texts = message.dynamic(types()).get(TEXTS).and_then(Value::as_list).expect("it is there");
    texts
        .iter()
        .enumerate()
        .all(|(index, text)| text.as_bytes().is_some_and(|text| *text == [b'a' + (index % 26) as u8; 100]))
}

#[test]
fn a_flush_that_is_forgotten_is_found() {
    assert!(reads_right(None));
    assert!(!reads_right(Some(Planted::FlushForgotten)));
}

/// A moved field is as it was, also after other messages took memory.
fn moved_stays(planted: Option<Planted>) -> bool {
    let mut rig = Rig::with(types().table().clone(), |options| options.planted = planted);
    let mut message = rig.receive(class(), &texts(1));
    rig.accelerator.move_field(&mut message, &[id(BLOB)], Place::Host).expect("room");
    let held = rig.host.occupancy().held;
    let mut others: Vec<_> = (0..20).map(|_| rig.receive(class(), &texts(50))).collect();
    let blob = message.dynamic(types()).get(BLOB).and_then(Value::as_bytes);
    let right = blob == Some(&[7; 3000]) && held == 2;
    others.clear();
    drop(message);
    right && rig.is_empty()
}

#[test]
fn an_arena_that_goes_back_too_early_is_found() {
    assert!(moved_stays(None));
    assert!(!moved_stays(Some(Planted::MovedArenaDropped)));
}

#[test]
fn a_full_memory_is_an_error_and_all_comes_back() {
    let host = Memory::host(8 * CHUNK).expect("memory");
    let mut rig = Rig::with(types().table().clone(), |options| {
        options.host = Arc::clone(&host);
        options.acc_bytes = 4 * CHUNK;
    });
    rig.host = host;
    assert!(rig.accelerator.receive(class(), texts(400)).is_err(), "40 KB of 32");
    assert!(rig.is_empty());
    let mut message = rig.receive(class(), &texts(1));
    let others: Vec<_> = (0..3).map(|_| rig.receive(class(), &texts(1))).collect();
    assert!(rig.accelerator.receive(class(), texts(1)).is_err(), "no chunk is left for the blob");
    let inner = rig.accelerator.move_field(&mut message, &[id(TEXTS)], Place::Acc);
    assert_eq!(inner, Err(MoveError::OutOfMemory));
    assert_eq!(rig.accelerator.move_field(&mut message, &[id(INNER)], Place::Acc), Err(MoveError::Absent));
    assert_eq!(message.place_of(&[id(TEXTS)]), Some(Place::Host), "it is as before");
    drop((others, message));
    assert!(rig.is_empty());
}

#[test]
fn the_ring_is_bounded_and_what_is_in_it_ends_with_the_accelerator() {
    let mut rig = Rig::with(types().table().clone(), |options| options.requests = 4);
    for _ in 0..4 {
        rig.accelerator.submit(class(), texts(60)).expect("room");
    }
    assert_eq!(rig.accelerator.submit(class(), vec![1, 2]), Err(Busy(vec![1, 2])));
    // They are taken, then begun.
    (0..2).for_each(|_| assert!(rig.accelerator.poll().is_none()));
    let Rig { accelerator, host } = rig;
    let acc = Arc::clone(accelerator.memory());
    assert!(host.occupancy().held > 0, "lanes are in the middle of messages");
    drop(accelerator);
    assert_eq!((host.occupancy().held, acc.occupancy().held), (0, 0));
}

#[test]
fn an_empty_field_lies_nowhere() {
    let mut rig = Rig::new(types().table().clone());
    let mut wire = Vec::new();
    delimited(7, b"", &mut wire);
    let mut message = rig.receive(class(), &wire);
    assert_eq!(message.place_of(&[id(THIS)]), None);
    assert_eq!(rig.accelerator.move_field(&mut message, &[id(THIS)], Place::Acc), Ok(false));
    assert_eq!(message.dynamic(types()).get(THIS).and_then(Value::as_bytes), Some(&[][..]));
}

/// A crossing on which the accelerator fails.
#[derive(Default)]
struct Broken(Shared);

impl Crossing for Broken {
    unsafe fn write(&self, _: NonNull<u8>, _: &[u8]) {
        // As a panic, without a message on the terminal.
        std::panic::resume_unwind(Box::new("broken"));
    }

    unsafe fn read(&self, from: NonNull<u8>, into: &mut [MaybeUninit<u8>]) {
        // SAFETY: the caller's promise.
        unsafe { self.0.read(from, into) }
    }

    fn doorbell(&self, bytes: usize) {
        self.0.doorbell(bytes);
    }

    fn notify(&self, bytes: usize) {
        self.0.notify(bytes);
    }

    fn give_back(&self, chunks: usize) {
        self.0.give_back(chunks);
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }
}

#[test]
#[cfg_attr(miri, ignore = "futexes of two threads; the other tests have one")]
fn calls_that_wait_for_a_dead_thread_panic_and_say_so() {
    let live = Arc::new(Live::new(types().table().clone()));
    let options = Options { acc_bytes: 64 * CHUNK, ..Options::default() };
    let mut accelerator =
        Accelerator::start_over(vec![live], options, Arc::new(Broken::default())).expect("a thread");
    let mut message = accelerator.message(class()).expect("room");
    message.dynamic_mut(types()).set(NAME, Value::Str("a name")).expect("such a field");
    let word =
        |panic: Box<dyn std::any::Any + Send>| panic.downcast_ref::<&str>().map(|word| (*word).to_owned());
    for _ in 0..2 {
        let panic = catch_unwind(AssertUnwindSafe(|| accelerator.receive(class(), texts(3)))).map(|_| ());
        assert_eq!(panic.map_err(word), Err(Some("the accelerator's thread has died".to_owned())));
    }
    let panic =
        catch_unwind(AssertUnwindSafe(|| accelerator.move_field(&mut message, &[id(NAME)], Place::Acc)));
    assert_eq!(panic.map_err(word), Err(Some("the accelerator's thread has died".to_owned())));
}

#[test]
#[cfg_attr(miri, ignore = "futexes of two threads; the other tests have one")]
fn a_thread_serves_messages_of_several_lanes() {
    let live = Arc::new(Live::new(types().table().clone()));
    let mut accelerator = Accelerator::start(live, Options::default()).expect("a thread");
    let mut tickets = Vec::new();
    let mut done = 0;
    for round in 0..300 {
        let wire = texts([1, 10, 400][round % 3]);
        loop {
            match accelerator.submit(class(), wire.clone()) {
                Ok(ticket) => break tickets.push(ticket),
                Err(Busy(_)) => {
                    if let Some((ticket, message)) = accelerator.poll() {
                        assert!(tickets.contains(&ticket));
                        assert_eq!(
                            message.expect("a good message").acc_bytes(&[id(BLOB)]).map(|s| s.len),
                            Some(3000)
                        );
                        done += 1;
                    }
                    std::thread::yield_now();
                }
            }
        }
    }
    while done < 300 {
        if let Some((_, message)) = accelerator.poll() {
            message.expect("a good message");
            done += 1;
        }
        std::thread::yield_now();
    }
    assert_eq!(accelerator.memory().occupancy().held, 0);
}
