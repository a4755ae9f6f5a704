//! Whatever goes wrong is one outcome of its own call, and the next call is as good as ever.

use crate::proto::picture::{Part, Stored, Upload};
use crate::rig::{Pair, Store, driven, plain, registers, request, threaded, upload, what};
use base::clock::Clock;
use codec::crossing::{Counts, Crossing, Shared};
use codec::decode::Decoder;
use codec::encode::Strategy;
use codec::memory::{Arena, CHUNK, Memory, Place};
use codec::place::Options;
use codec::typed::Message;
use fabric::server::UnitError;
use fabric::status::Code;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server with an accelerator and a unit for `turn`.
fn pair(options: Options) -> (Pair, Arc<Store>) {
    let store = Arc::new(Store::default());
    let mut server = plain(&store).accelerator(options).expect("memory");
    server.set_unit("turn", true).expect("a thread");
    (Pair::new(server), store)
}

/// A good call has a good outcome.
fn goes_on(pair: &mut Pair) {
    let reply = pair.call(&request(1, what::STORE, b"image")).expect("a good call");
    let arena = Arena::default();
    let stored = Stored::decode(&mut Decoder::default(), &reply, &arena).expect("a reply");
    assert_eq!(stored.sealed(), b"image".map(|byte| !byte));
    let figures = pair.server.accelerator_figures().expect("there is one");
    assert_eq!((figures.lanes.memory.held, figures.lanes.in_flight), (0, 0), "memory comes back");
}

fn code(pair: &mut Pair, what: u32) -> Code {
    let (code, _) = pair.call(&request(9, what, b"image")).expect_err("it fails");
    code
}

#[test]
fn handlers_that_fail_panic_or_say_too_much() {
    for options in [driven(), threaded(2)] {
        let (mut pair, _) = pair(options);
        goes_on(&mut pair);
        assert_eq!(code(&mut pair, what::FAIL), Code::Aborted);
        goes_on(&mut pair);
        assert_eq!(code(&mut pair, what::PANIC), Code::Internal);
        goes_on(&mut pair);
        assert_eq!(code(&mut pair, what::LONG), Code::ResourceExhausted);
        goes_on(&mut pair);
        assert_eq!(code(&mut pair, what::NO_KERNEL), Code::Unimplemented);
        goes_on(&mut pair);
    }
}

#[test]
fn a_view_of_what_lies_in_accelerator_memory_is_refused_loudly_and_bytes_brings_it() {
    let (mut pair, _) = pair(driven());
    // Its bytes are read where they are.
    assert!(pair.call(&request(1, what::READ, b"image")).is_ok());
    // The second lands where the first was moved to.
    goes_on(&mut pair);
    let live = pair.server.live_table::<Upload>().expect("it is decoded");
    assert_eq!(live.target(Upload::IMAGE), Place::Acc);
    let (code, text) = pair.call(&request(2, what::READ, b"image")).expect_err("a view cannot read there");
    assert_eq!(code, Code::Internal);
    assert!(text.contains("move it to the CPU"), "{text}");
    let by_bytes = pair.call(&request(3, what::BYTES, b"image")).expect("a good call");
    let arena = Arena::default();
    let stored = Stored::decode(&mut Decoder::default(), &by_bytes, &arena).expect("a reply");
    assert_eq!(stored.sum(), b"image");
    goes_on(&mut pair);
}

#[test]
fn requests_that_are_no_messages_or_take_too_much() {
    let (mut pair, store) = pair(driven());
    let (code, _) = pair.call(&[0x1a, 0xff]).expect_err("it is cut off");
    assert_eq!(code, Code::InvalidArgument);
    goes_on(&mut pair);
    // A message of two bytes each that takes an object each.
    let hostile = [0x22, 0].repeat(3 << 20);
    let (code, _) = pair.call(&hostile).expect_err("it takes too much");
    assert_eq!(code, Code::ResourceExhausted);
    goes_on(&mut pair);
    assert_eq!(store.order.lock().expect("no poison").len(), 2);
}

#[test]
fn a_kernel_that_refuses_its_input_is_the_calls_error_wherever_it_runs() {
    let (mut pair, _) = pair(driven());
    for there in [true, false, true] {
        pair.server.set_unit("turn", there).expect("a thread");
        let (code, text) = pair.call(&request(1, what::STORE, b"!corrupt")).expect_err("it is refused");
        assert_eq!((code, text.starts_with("turn: ")), (Code::InvalidArgument, true), "{text}");
        goes_on(&mut pair);
    }
}

#[test]
fn a_unit_that_dies_in_the_middle_leaves_its_work_to_the_host() {
    for options in [driven(), threaded(1)] {
        let (mut pair, store) = pair(options);
        goes_on(&mut pair);
        assert_eq!(store.ran(), (1, 0));
        let reply = pair.call(&request(2, what::STORE, b"!dies")).expect("the host does it");
        let arena = Arena::default();
        let stored = Stored::decode(&mut Decoder::default(), &reply, &arena).expect("a reply");
        assert_eq!(stored.sealed(), b"!dies".map(|byte| !byte));
        assert_eq!(store.ran(), (1, 1));
        let unit = &pair.server.accelerator_figures().expect("there is one").units[0];
        assert_eq!((unit.is_there, unit.tasks, unit.died), (false, 2, 1));
        goes_on(&mut pair);
        // It lives again when it is programmed.
        pair.server.set_unit("turn", true).expect("a thread");
        goes_on(&mut pair);
        assert_eq!(store.ran(), (2, 2));
    }
}

#[test]
fn an_accelerator_without_memory_refuses_what_must_lie_there_and_does_the_rest() {
    let (mut pair, store) = pair(Options { acc_bytes: 4 * CHUNK, ..driven() });
    goes_on(&mut pair);
    // Image and result do not fit, so the host does it; the image is where it came, for this class its place is there now.
    let image = vec![b'x'; 9000];
    let (code, text) =
        pair.call(&request(2, what::STORE, &[&image[..], &image].concat())).expect_err("no room");
    assert_eq!(code, Code::ResourceExhausted, "{text}");
    let live = Arc::clone(pair.server.live_table::<Upload>().expect("it is decoded"));
    live.set_target(Upload::IMAGE, Place::Host);
    let before = store.ran();
    assert!(pair.call(&request(3, what::STORE, &[&image[..], &image].concat())).is_ok());
    assert_eq!(store.ran(), (before.0, before.1 + 1), "it was done by the host");
    goes_on(&mut pair);
}

#[test]
fn host_memory_that_is_full_is_the_calls_error() {
    let host = Memory::host(4 * CHUNK).expect("memory");
    let (mut pair, _) = pair(Options { host: Arc::clone(&host), ..driven() });
    let (code, _) = pair.call(&request(1, what::BYTES, &[b'x'; 40_000])).expect_err("there is no room");
    assert_eq!(code, Code::ResourceExhausted);
    goes_on(&mut pair);
    assert_eq!(host.occupancy().held, 0);
}

#[test]
fn a_sub_message_of_request_and_reply_goes_through_a_unit() {
    for strategy in Strategy::ALL {
        let store = Arc::new(Store::default());
        let server = plain(&store).accelerator(driven()).expect("memory").registers(registers(strategy, 1));
        let mut pair = Pair::new(server);
        for _ in 0..3 {
            let body = upload(|message| {
                message.set_what(what::PART);
                message.part_mut()?.set_data(b"part")
            });
            let reply = pair.call(&body).expect("a good call");
            let arena = Arena::default();
            let stored = Stored::decode(&mut Decoder::default(), &reply, &arena).expect("a reply");
            assert_eq!(stored.part().expect("it is there").data(), b"part".map(|byte| !byte), "{strategy:?}");
        }
        assert_eq!(store.ran(), (3, 0));
        let live = pair.server.live_table::<Upload>().expect("it is decoded");
        assert_eq!(live.target(Part::DATA), Place::Acc);
    }
}

#[test]
fn connections_that_end_leave_nothing_behind() {
    let (mut pair, store) = pair(driven());
    for id in 0..20 {
        pair.start("Store", id, &request(id, what::STORE, &[b'x'; 20_000]));
    }
    pair.server.poll(Clock::shared().now());
    assert!(pair.server.accelerator_figures().expect("there is one").lanes.in_flight > 0);
    let Pair { mut server, channel } = pair;
    drop(channel);
    let figures = |server: &fabric::server::Server| server.accelerator_figures().expect("there is one").lanes;
    while server.connections(Clock::shared().now()).count() > 0 || figures(&server).in_flight > 0 {
        server.poll(Clock::shared().now());
    }
    assert_eq!(figures(&server).memory.held, 0);
    assert!(store.order.lock().expect("no poison").len() <= 20);
    goes_on(&mut Pair::new(server));
}

/// A crossing on which lanes fail, from the moment it is told so.
#[derive(Default)]
struct Breaks(Shared, AtomicBool);

impl Crossing for Breaks {
    unsafe fn write(&self, to: NonNull<u8>, bytes: &[u8]) {
        if self.1.load(Ordering::Relaxed) {
            // As a panic, without a message on the terminal.
            std::panic::resume_unwind(Box::new("broken"));
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.write(to, bytes) }
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
fn lanes_that_die_end_their_calls_and_the_server_goes_on_without() {
    let store = Arc::new(Store::default());
    let crossing = Arc::new(Breaks::default());
    let server = plain(&store).accelerator_over(threaded(1), Arc::clone(&crossing)).expect("a thread");
    let mut pair = Pair::new(server);
    goes_on(&mut pair);
    crossing.1.store(true, Ordering::Relaxed);
    for id in 0..5 {
        pair.start("Store", id, &request(id, what::STORE, b"image"));
    }
    let outcomes = pair.outcomes(5);
    assert_eq!(outcomes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // What came after the death was handled by the host.
    let died = outcomes.iter().take_while(|(_, outcome)| outcome.is_err()).count();
    assert!(died >= 1 && outcomes[died..].iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
    let (code, text) = outcomes[0].1.clone().expect_err("its lane has died");
    assert_eq!((code, text.contains("accelerator")), (Code::Internal, true), "{text}");
    let figures = pair.server.accelerator_figures().expect("there was one");
    assert_eq!((figures.is_dead, figures.is_on), (true, false));
    assert!(pair.call(&request(9, what::STORE, b"image")).is_ok(), "the host does it all");
}

#[test]
fn units_and_accelerators_that_there_are_not() {
    let store = Arc::new(Store::default());
    let mut server = plain(&store);
    assert_eq!(server.set_unit("turn", true), Err(UnitError::NoAccelerator));
    assert!(server.accelerator_figures().is_none());
    let mut server = plain(&store).accelerator(driven()).expect("memory");
    assert_eq!(server.set_unit("fly", true), Err(UnitError::NoKernel));
    let nothing = fabric::server::Server::new(fabric::server::Options::default()).accelerator(driven());
    let error = nothing.map(drop).expect_err("it serves reflection alone");
    assert!(error.to_string().contains("no method"), "{error}");
}
