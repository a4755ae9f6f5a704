//! Workers as values against a model, and as threads while everything is changed.

use super::*;
use crate::frame::{Frame, Header, Kind};
use crate::port::Mode;
use crate::status::Code;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LONG: Option<Duration> = Some(Duration::from_secs(600));

fn route(connection: u32, key: u64) -> Route {
    Route { connection, service: 0, key: Some(key) }
}

fn request(tag: u32, len: usize) -> Packet {
    Packet::from_vec(tag, vec![tag as u8; len])
}

fn small() -> WorkersOptions {
    let ring = PortOptions { entries: 4, boxed_bytes: 2048, ..PortOptions::default() };
    WorkersOptions { ring, queue_entries: 4, lanes: 6, ..WorkersOptions::default() }
}

/// What a worker would do: takes one, answers with its own number before the bytes.
fn step(worker: &mut Worker, number: usize) -> bool {
    let Some((via, request)) = worker.take() else { return false };
    worker.answer(via, Packet::new(request.tag(), &[&[number as u8], request.bytes()]));
    worker.flush();
    true
}

/// Steps and collects until nothing is in flight; the workers' numbers by tag.
fn settle(front: &mut Workers, workers: &mut [Worker]) -> BTreeMap<u32, usize> {
    let (mut answers, mut idle) = (BTreeMap::new(), 0);
    while front.in_flight() > 0 && idle < 3 {
        let mut worked = false;
        for (number, worker) in workers.iter_mut().enumerate() {
            // Before each step: a worker whose answer finds no room sleeps until some are collected.
            front.collect(Nanos::ZERO, usize::MAX, |answer| {
                let again = answers.insert(answer.tag(), usize::from(answer.bytes()[0]));
                assert!(again.is_none(), "answered twice");
            });
            worked |= step(worker, number);
        }
        idle = if worked { 0 } else { idle + 1 };
    }
    answers
}

#[test]
fn every_balancer_and_provisioning_answers_everything() {
    let total = if cfg!(miri) { 30 } else { 200 };
    for (balancing, provisioning) in
        Balancing::ALL.into_iter().flat_map(|b| Provisioning::ALL.map(|p| (b, p)))
    {
        let options = WorkersOptions { balancing, provisioning, ..small() };
        let (mut front, mut workers) = Workers::without_threads(3, &options);
        let mut answers = BTreeMap::new();
        for tag in 0..total {
            let mut packet = request(tag, tag as usize % 150);
            while let Err(Full(back)) = front.submit(&route(tag % 5, u64::from(tag % 7)), packet) {
                answers.append(&mut settle(&mut front, &mut workers));
                packet = back;
            }
        }
        answers.append(&mut settle(&mut front, &mut workers));
        assert_eq!((answers.len(), front.in_flight()), (total as usize, 0), "{balancing} {provisioning}");
        assert!(front.outstanding().iter().all(|&n| n == 0) && front.lanes() <= 6);
        // Static and key-hash: one worker for each connection or key.
        let of = |fixed: fn(u32) -> u32| {
            answers.iter().map(|(&tag, &w)| (fixed(tag), w)).collect::<BTreeSet<_>>().len()
        };
        match (balancing, provisioning) {
            (_, Provisioning::Single) => {}
            (Balancing::Static, _) => assert_eq!(of(|tag| tag % 5), 5),
            (Balancing::KeyHash, _) => assert_eq!(of(|tag| tag % 7), 7),
            _ => assert_eq!(answers.values().collect::<BTreeSet<_>>().len(), 3, "all workers work"),
        }
    }
}

#[test]
fn lanes_have_their_turns() {
    let options = WorkersOptions { provisioning: Provisioning::PerConnection, ..small() };
    let (mut front, mut workers) = Workers::without_threads(1, &options);
    for (tag, connection) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        front.submit(&route(connection, 0), request(tag, 1)).expect("there is room");
    }
    front.flush();
    let mut order = Vec::new();
    while let Some((via, request)) = workers[0].take() {
        order.push(request.tag());
        workers[0].answer(via, request);
    }
    assert_eq!(
        order.iter().position(|&tag| tag == 3),
        Some(1),
        "the second connection is served second: {order:?}"
    );
}

#[test]
fn what_finds_no_room_comes_back() {
    for provisioning in Provisioning::ALL {
        let options = WorkersOptions { provisioning, ..small() };
        let (mut front, mut workers) = Workers::without_threads(1, &options);
        for tag in 0..4 {
            front.submit(&route(0, 0), request(tag, 1)).expect("there is room");
        }
        assert_eq!(front.submit(&route(0, 0), request(9, 1)), Err(Full(request(9, 1))));
        assert_eq!(settle(&mut front, &mut workers).len(), 4);
        // Bytes are bounded as well; one long request alone passes.
        front.submit(&route(0, 0), request(1, 10_000)).expect("alone");
        assert!(front.submit(&route(0, 0), request(2, 500)).is_err());
        assert_eq!(settle(&mut front, &mut workers).len(), 1, "{provisioning}");
        front.submit(&route(0, 0), request(2, 500)).expect("there is room again");
    }
}

/// Closing a lane that owes answers loses them.
#[test]
fn lost_answers_would_be_found() {
    let answers = |planted| {
        let options = WorkersOptions { provisioning: Provisioning::PerConnection, ..small() };
        let (mut front, mut workers) = Workers::without_threads(2, &options);
        front.ways.planted = planted;
        for tag in 0..8 {
            front.submit(&route(tag % 2, 0), request(tag, 1)).expect("there is room");
        }
        front.set_provisioning(Provisioning::PerCore);
        settle(&mut front, &mut workers).len()
    };
    assert_eq!(answers(false), 8);
    assert_eq!(answers(true), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Submit { connection: u32, key: u64, len: usize },
    Work(usize),
    Collect(usize),
    Balance(usize),
    Provision(usize),
    Ring(u32, bool),
    Close(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        10 => (0u32..4, 0u64..9, prop_oneof![0usize..120, Just(900)])
            .prop_map(|(connection, key, len)| Step::Submit { connection, key, len }),
        8 => (0usize..3).prop_map(Step::Work),
        4 => (1usize..9).prop_map(Step::Collect),
        1 => (0usize..5).prop_map(Step::Balance),
        1 => (0usize..3).prop_map(Step::Provision),
        1 => (1u32..20, any::<bool>()).prop_map(|(entries, bell)| Step::Ring(entries, bell)),
        1 => (0u32..4).prop_map(Step::Close),
    ];
    proptest::collection::vec(one, 0..if cfg!(miri) { 60 } else { 300 })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_request_is_answered_once_whatever_is_changed(steps in steps()) {
        let (mut front, mut workers) = Workers::without_threads(3, &small());
        let (mut submitted, mut answered, mut tag, mut now) = (BTreeSet::new(), BTreeSet::new(), 0, Nanos::ZERO);
        for one in steps {
            match one {
                Step::Submit { connection, key, len } => {
                    tag += 1;
                    if front.submit(&route(connection, key), request(tag, len)).is_ok() {
                        submitted.insert(tag);
                    }
                }
                // With room for the answer, or the worker would sleep until there is some.
                Step::Work(number) => {
                    front.collect(now, usize::MAX, |answer| assert!(answered.insert(answer.tag())));
                    step(&mut workers[number], number);
                }
                Step::Collect(max) => {
                    now = now.plus(Nanos(700));
                    front.collect(now, max, |answer| assert!(answered.insert(answer.tag())));
                }
                Step::Balance(at) => front.set_balancing(0, Balancing::ALL[at]),
                Step::Provision(at) => front.set_provisioning(Provisioning::ALL[at]),
                Step::Ring(entries, bell) => {
                    let mode = if bell { Mode::Doorbell { batch: 3 } } else { Mode::Inline };
                    front.set_ring(PortOptions { mode, entries, boxed_bytes: 2048 });
                }
                Step::Close(connection) => front.close_connection(connection),
            }
            prop_assert_eq!(front.in_flight(), submitted.len() - answered.len());
            prop_assert!(front.lanes() <= 6);
        }
        answered.extend(settle(&mut front, &mut workers).into_keys());
        prop_assert_eq!(answered, submitted);
        prop_assert!(front.outstanding().iter().all(|&n| n == 0));
        front.set_provisioning(Provisioning::PerCore);
        prop_assert_eq!(front.lanes(), 0);
    }
}

/// Answers with the request's bytes, or panics if they begin with 13.
struct Echo;

impl Execute for Echo {
    fn worker(&self, _: usize) -> Box<dyn Work> {
        Box::new(Echo)
    }
}

impl Work for Echo {
    fn execute(&mut self, request: &Packet) -> Packet {
        assert!(request.bytes().first() != Some(&13), "as the test asks for");
        Packet::new(0, &[request.bytes()])
    }
}

#[test]
#[cfg_attr(miri, ignore = "descriptors are beyond Miri")]
fn threads_answer_each_request_once_while_everything_changes() {
    let options = WorkersOptions { wait: WaitPolicy::BLOCK, ..small() };
    let mut front = Workers::new(3, &options, Arc::new(Echo)).expect("threads");
    let total = 30_000u32;
    let (mut next, mut seen, mut now) = (0, vec![false; total as usize], Nanos::ZERO);
    let mut left = total;
    let mut refused = None;
    while left > 0 {
        while next < total || refused.is_some() {
            let packet = refused.take().unwrap_or_else(|| {
                next += 1;
                request(next - 1, (next as usize * 7) % 130)
            });
            // Bytes that are 13 ask for a panic; those are elsewhere.
            let packet = if packet.bytes().first() == Some(&13) { request(packet.tag(), 0) } else { packet };
            if let Err(Full(packet)) = front.submit(&route(packet.tag() % 9, u64::from(packet.tag())), packet)
            {
                refused = Some(packet);
                break;
            }
        }
        if next % 128 == 0 || refused.is_some() {
            front.set_balancing(0, Balancing::ALL[left as usize / 5 % 5]);
        }
        if left.is_multiple_of(97) {
            front.set_provisioning(Provisioning::ALL[left as usize % 3]);
            front.close_connection(left % 9);
        }
        if left.is_multiple_of(101) {
            let mode = [Mode::Inline, Mode::Coherent, Mode::Doorbell { batch: 2 }][left as usize % 3];
            front.set_ring(PortOptions { mode, entries: 1 << (left % 5), boxed_bytes: 2048 });
            let spin = WaitPolicy { spin: 4, pause: 4, monitor: 0, block: true };
            front.set_wait([WaitPolicy::BLOCK, spin][left as usize % 2]);
        }
        now = now.plus(Nanos(2_000));
        left -= front.collect(now, 64, |answer| {
            let first = !std::mem::replace(&mut seen[answer.tag() as usize], true);
            assert!(first, "{} was answered twice", answer.tag());
        }) as u32;
        if left > 0 && front.in_flight() > 0 {
            assert_eq!(front.wait(WaitPolicy::BLOCK, LONG, || false), Outcome::Ready);
        }
    }
    assert_eq!(front.in_flight(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "descriptors are beyond Miri")]
fn a_handler_that_panics_ends_its_call_and_nothing_else() {
    let mut front = Workers::new(1, &small(), Arc::new(Echo)).expect("a thread");
    let header = Header::new(Kind::Request, 77).emit();
    let bad = [&[13], &header[1..]].concat();
    for (tag, bytes) in [(1, &bad[..]), (2, &header[..])] {
        front.submit(&route(0, 0), Packet::new(tag, &[bytes])).expect("there is room");
    }
    let mut answers = Vec::new();
    while answers.len() < 2 {
        assert_eq!(front.wait(WaitPolicy::BLOCK, LONG, || false), Outcome::Ready);
        front.collect(Nanos::ZERO, 9, |answer| answers.push(answer));
    }
    let failed = Frame::parse(answers[0].bytes()).expect("a frame").header;
    assert_eq!((answers[0].tag(), failed.kind, failed.method), (1, Kind::Reply, Code::Internal as u16));
    assert_eq!((answers[1].tag(), answers[1].bytes()), (2, &header[..]));
}

#[test]
#[cfg_attr(miri, ignore = "descriptors are beyond Miri")]
fn stopping_needs_nobody_to_collect() {
    for provisioning in Provisioning::ALL {
        let options = WorkersOptions { provisioning, wait: WaitPolicy::BLOCK, ..small() };
        let mut front = Workers::new(2, &options, Arc::new(Echo)).expect("threads");
        let mut tag = 0;
        while front.submit(&route(tag, 0), request(tag, 100)).is_ok() {
            tag += 1;
        }
        drop(front);
    }
    let options = WorkersOptions { cores: vec![usize::MAX], ..small() };
    assert!(Workers::new(2, &options, Arc::new(Echo)).is_err(), "no such core");
}
