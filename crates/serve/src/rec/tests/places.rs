//! Where requests are read is a register: the same answers from each place, and none lost, doubled or out of order while it moves. An engine that is driven by
//! hand shows what happens in between.

use super::{Http, SCORES, Synthetic, connect, fill, inputs, scores, served, start_with};
use crate::engine_cores::{EngineCore, OnCore};
use crate::rec::counters::{Counters, Stages};
use crate::rec::edge::Edge;
use crate::rec::held::Held;
use crate::rec::inference::{Asked, IN_FLIGHT, Inference, Work};
use crate::rec::job::{Input, Ready, Reply, Scored};
use crate::rec::preprocess::{Preprocess, http};
use crate::rec::refusal::Refusal;
use crate::rec::registers::Registers;
use crate::rec::server::inference;
use crate::rec::shelf::{Model, Shelf};
use base::Nanos;
use base::trace::Tracer;
use engine::{Counters as Counted, EdgePort, HostPool, Progress};
use rec::RowFormat;
use ring::wait::WaitPolicy;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{Receiver, channel};

const PLACES: [&str; 3] = ["edge", "engine", "host"];
const PATH: &str = "/v2/models/tiny/infer";

#[test]
fn all_places_give_the_same_answers() {
    for place in PLACES {
        let server = start_with(Box::new(|| Ok(served(1))), &[("place.rec.preprocess", place)]);
        let (mut client, mut http) = (connect(&server), Http::to(&server));
        assert_eq!(scores(&mut client, fill).expect("scores").0, SCORES, "{place}");
        let (status, reply) = http.json("POST", PATH, &json!({ "inputs": inputs() }));
        assert_eq!((status, &reply["outputs"][0]["data"]), (200, &json!(SCORES)), "{place}: {reply}");
        // One that nobody else waits for.
        let large = format!("{}{}", " ".repeat(300_000), json!({ "inputs": inputs() }));
        let (status, _, reply) = http.ask("POST", PATH, "", large.as_bytes());
        let reply: Value = serde_json::from_slice(&reply).expect("JSON");
        assert_eq!((status, &reply["outputs"][0]["data"]), (200, &json!(SCORES)), "{place}: {reply}");
        assert_eq!(http.json("POST", PATH, &json!({ "inputs": [] })).0, 400, "{place}");
        let wrong = scores(&mut client, |request| request.set_model("other")).expect_err("refused");
        assert_eq!(wrong.code(), fabric::status::Code::NotFound, "{place}");
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = server.counters();
        assert_eq!((count(&counters.taken), count(&counters.requests), count(&counters.refused)), (5, 3, 2));
    }
}

#[test]
fn the_place_moves_under_load_and_every_request_has_its_own_answer_once() {
    const ASKS: u64 = 200;
    let server = start_with(Box::new(|| Ok(served(1))), &[("rec.host_threads", "3")]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = &server;
        let fabric = (0..3).map(|worker| {
            scope.spawn(move || {
                let mut client = connect(server);
                for ask in 0..ASKS {
                    let (item, user) = ((ask + worker) % 10, ask % 5);
                    let reply = scores(&mut client, |request| {
                        request.set_dense(&[ask as f32, worker as f32])?;
                        for (table, id) in [("item", item), ("user", user)] {
                            let mut bags = request.push_bags()?;
                            bags.set_table(table)?;
                            bags.set_values(&[id as i64])?;
                            bags.set_offsets(&[0])?;
                        }
                        Ok(())
                    });
                    // Row i of the first table is twice i, of the second twice i + 1.
                    let expected = (ask + worker + 10 * item + 100 * (user + 1)) as f32;
                    assert_eq!(reply.expect("an answer").0, [expected], "ask {ask} of {worker}");
                }
            })
        });
        let fabric: Vec<_> = fabric.collect();
        let web = scope.spawn(move || {
            let mut http = Http::to(server);
            for ask in 0..ASKS {
                let (status, reply) =
                    http.json("POST", PATH, &json!({ "id": ask.to_string(), "inputs": inputs() }));
                assert_eq!((status, &reply["id"]), (200, &json!(ask.to_string())), "{reply}");
                assert_eq!(reply["outputs"][0]["data"], json!(SCORES));
            }
        });
        scope.spawn(|| {
            // Whenever a few more were read.
            let taken = || server.counters().taken.load(Ordering::Relaxed);
            for place in PLACES.iter().cycle() {
                server.registers().set("place.rec.preprocess", place).expect("a place");
                let before = taken();
                while taken() < before + 3 {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
            }
        });
        let outcomes: Vec<_> = fabric.into_iter().chain([web]).map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("no panic"));
    });
    let counters = server.counters();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&counters.taken), count(&counters.requests)), (4 * ASKS, 4 * ASKS));
    assert_eq!((count(&counters.refused), count(&counters.panicked)), (0, 0));
}

/// An engine core without a thread.
struct Driver {
    core: Arc<EngineCore>,
    on_core: Arc<OnCore<Inference>>,
}

impl Driver {
    fn pass(&self) -> Progress {
        self.core.with_engine(|engine| engine.pass())
    }

    fn set_host(&self, pool: &HostPool) {
        self.core.with_engine(|engine| engine.set_host(pool.attach(IN_FLIGHT as u32, None)));
    }

    fn in_flight(&self) -> usize {
        self.core.with_engine(|engine| engine.in_flight())
    }

    fn counters(&self) -> Counted {
        self.on_core.ask(|_, counters| counters)
    }
}

/// The same, and its edges.
struct Rig {
    driver: Driver,
    edges: [Edge; 2],
    preprocess: Arc<Preprocess>,
}

type Answered = Receiver<Result<Scored, Refusal>>;

impl Rig {
    fn new(settings: &[(&str, &str)]) -> Rig {
        let preprocess = preprocess(settings);
        let held = Arc::new(Held::new(1 << 20));
        let (driver, ports) = driver(&preprocess);
        let edge = |number, port| Edge::new(number, port, &driver.on_core, &held, &preprocess);
        let [first, second] = ports;
        let edges = [edge(0, first), edge(1, second)];
        Rig { driver, edges, preprocess }
    }

    fn ask(&self, edge: usize) -> Answered {
        let body = json!({ "inputs": inputs() }).to_string().into();
        let input = Input::Http { body, header: None, model: "tiny".to_owned(), version: None };
        let (reply, answered) = reply();
        let edge = &self.edges[edge];
        edge.submit(input, reply, edge.hold());
        edge.ring();
        answered
    }

    /// Passes until it is answered.
    fn answer(&mut self, answered: &mut Answered) -> Result<Scored, Refusal> {
        loop {
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            self.driver.pass();
            std::thread::yield_now();
        }
    }
}

fn preprocess(settings: &[(&str, &str)]) -> Arc<Preprocess> {
    let registers = Registers::default();
    settings.iter().for_each(|(name, value)| registers.set(name, value).expect("a register"));
    let counters = Arc::<Counters>::default();
    let shelf = Arc::new(Shelf::new(Box::new(|| Ok(served(1))), &counters).expect("a model"));
    Arc::new(Preprocess { shelf, counters, registers: Arc::new(registers), tracer: Tracer::default() })
}

fn driver(preprocess: &Arc<Preprocess>) -> (Driver, [EdgePort<Inference>; 2]) {
    let core = EngineCore::by_hand();
    let (on_core, ports) = inference(preprocess, &core).expect("a place and ports");
    (Driver { core, on_core }, ports)
}

fn reply() -> (Reply, Answered) {
    let (answer, answered) = channel();
    (Reply::http(answer, None), answered)
}

#[test]
fn what_finds_no_slot_is_refused_and_holds_nothing() {
    let mut rig = Rig::new(&[("rec.ring", "2"), ("rec.held", "1m")]);
    for place in PLACES {
        rig.preprocess.registers.set("place.rec.preprocess", place).expect("a place");
        let pool = HostPool::new(1, WaitPolicy::BLOCK).expect("a thread");
        rig.driver.set_host(&pool);
        let (mut first, mut second, mut third) = (rig.ask(0), rig.ask(0), rig.ask(0));
        assert_eq!(
            third.try_recv().expect("at once").err(),
            Some(Refusal::Busy("rec.ring requests that wait"))
        );
        let mut other = rig.ask(1);
        for answered in [&mut first, &mut second, &mut other] {
            assert_eq!(rig.answer(answered).expect("scores").scores, SCORES, "{place}");
        }
        // Their tasks have ended, and the slots are free.
        rig.driver.pass();
        let mut again = rig.ask(0);
        assert_eq!(rig.answer(&mut again).expect("scores").scores, SCORES);
        rig.driver.pass();
        let edge = &rig.edges[0];
        assert_eq!(edge.held.take(&mut edge.hold(), 1 << 20), Ok(()), "all was given back");
    }
}

#[test]
fn who_is_ready_before_its_turn_waits_for_it() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("nobody panicked");
    let pool = gated(&gate);
    let mut rig = Rig::new(&[("place.rec.preprocess", "host"), ("rec.batch", "1")]);
    rig.driver.set_host(&pool);
    let mut first = rig.ask(0);
    rig.driver.pass();
    let mut later = Vec::new();
    for place in ["edge", "engine"] {
        rig.preprocess.registers.set("place.rec.preprocess", place).expect("a place");
        later.push(rig.ask(0));
        let mut other = rig.ask(1);
        assert_eq!(rig.answer(&mut other).expect("scores").scores, SCORES, "another edge waits for nobody");
    }
    assert!(
        later.iter_mut().all(|answered| answered.try_recv().is_err()),
        "they are ready, but not the first"
    );
    assert_eq!(rig.driver.in_flight(), 1, "and take up no task");
    drop(closed);
    for answered in std::iter::once(&mut first).chain(&mut later) {
        assert_eq!(rig.answer(answered).expect("scores").scores, SCORES);
    }
}

#[test]
fn nobody_waits_for_a_task_that_is_ended_and_it_holds_nothing() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("nobody panicked");
    let pool = gated(&gate);
    let rig = Rig::new(&[("place.rec.preprocess", "host"), ("rec.held", "1m"), ("rec.linger", "1000000")]);
    rig.driver.set_host(&pool);
    let (mut first, mut leader) = (rig.ask(0), rig.ask(1));
    rig.driver.pass();
    rig.preprocess.registers.set("place.rec.preprocess", "edge").expect("a place");
    let mut behind = rig.ask(0);
    rig.driver.pass();
    assert_eq!(rig.driver.in_flight(), 2, "those on the host thread");
    rig.preprocess.registers.set("rec.deadline", "1").expect("a register");
    // Until it has passed for both.
    while rig.driver.in_flight() > 0 {
        rig.driver.pass();
    }
    assert_eq!(rig.driver.counters().expired, 2);
    assert_eq!(Refusal::Late.http(), 504);
    assert_eq!(Refusal::Late.status().code(), fabric::status::Code::DeadlineExceeded);
    for late in [&mut first, &mut leader] {
        assert_eq!(late.try_recv().expect("an answer").err(), Some(Refusal::Late), "at once");
    }
    assert_eq!(rig.preprocess.counters.expired.load(Ordering::Relaxed), 2);
    assert_eq!(behind.try_recv().expect("an answer").expect("scores").scores, SCORES);
    // Then nobody has the results of the host thread, and one that leads is ended.
    drop(closed);
    drop(pool);
    rig.preprocess.registers.set("rec.deadline", "0").expect("a register");
    rig.driver.pass();
    leader = rig.ask(1);
    rig.driver.pass();
    assert_eq!(leader.try_recv().err(), Some(TryRecvError::Empty), "it leads, and waits for more");
    rig.preprocess.registers.set("rec.deadline", "1").expect("a register");
    while rig.driver.in_flight() > 0 {
        rig.driver.pass();
    }
    assert_eq!(leader.try_recv().expect("an answer").expect("scores").scores, SCORES);
    let edge = &rig.edges[0];
    assert_eq!(edge.held.take(&mut edge.hold(), 1 << 20), Ok(()), "all was given back");
}

/// A host thread that does nothing while somebody holds the gate.
fn gated(gate: &Arc<Mutex<()>>) -> HostPool {
    let pool = HostPool::watched(1, WaitPolicy::BLOCK, |_| {
        let gate = Arc::clone(gate);
        move || drop(gate.lock())
    });
    pool.expect("a thread")
}

/// Queries of the small model, said to be of `served`.
fn ready(preprocess: &Preprocess, served: &Arc<Model>) -> (Work, Answered) {
    let body = json!({ "inputs": inputs() }).to_string();
    let own = preprocess.shelf.find("tiny", None).expect("it is served");
    let (queries, ..) = http(body.as_bytes(), None, &own, 16, || ()).expect("queries");
    let (reply, answered) = reply();
    let hold = Held::new(1 << 20).hold(1 << 20);
    let (served, stages) = (Arc::clone(served), Stages::default());
    (Work::Ready(Box::new(Ready { served, queries, reply, at: Nanos::ZERO, stages, hold })), answered)
}

#[test]
fn a_panic_of_the_model_is_the_answer_to_its_batch_and_to_no_other() {
    let preprocess = preprocess(&[]);
    let (driver, [mut port, _other]) = driver(&preprocess);
    let own = preprocess.shelf.find("tiny", None).expect("it is served");
    // It has a table more than the queries: whoever reads that goes beyond their end.
    let wide = Synthetic {
        tables: 3,
        rows: 50,
        dim: 16,
        format: RowFormat::F32,
        dense: 2,
        bottom: vec![8],
        top: vec![8],
        memo: None,
        seed: 7,
    };
    let shelf = Shelf::new(Box::new(move || wide.model()), &preprocess.counters).expect("a model");
    let wide = shelf.find("", None).expect("the only one");
    let mut submit = |of: &Arc<Model>| {
        let (work, answered) = ready(&preprocess, of);
        assert!(port.submit(Nanos::ZERO, Asked::new(0, work)).is_ok());
        port.ring();
        answered
    };
    let mut answers = [&own, &wide, &wide, &own].map(&mut submit);
    while driver.pass().more {}
    let said = answers
        .each_mut()
        .map(|answered| answered.try_recv().expect("an answer").map(|scored| scored.scores));
    let panicked = Err(Refusal::Internal("the model panicked"));
    assert_eq!(said, [Ok(SCORES.to_vec()), panicked.clone(), panicked, Ok(SCORES.to_vec())]);
    let counters = &preprocess.counters;
    assert_eq!(counters.panicked.load(Ordering::Relaxed), 2);
    assert_eq!(wide.counted.failed.load(Ordering::Relaxed), 2);
    assert_eq!((driver.in_flight(), driver.counters().panicked), (0, 0));
}
