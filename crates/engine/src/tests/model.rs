//! A core in virtual time, and what it shows: plain waits for all misses, staged ones and tasks share them.

use crate::{
    Core, Cx, EdgePort, Engine, EngineOptions, Failure, Form, Handle, Messages, Service, ServiceOptions,
    Settings, TaskService, Work,
};
use base::Nanos;
use ring::arena::Producer;

/// Misses take `latency`, and one more at the same time `issue` more; executing a request or polling a task takes `work`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelCore {
    pub now: Nanos,
    pub latency: u64,
    pub issue: u64,
    pub work: u64,
}

impl Core for ModelCore {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn touched(&mut self, _: usize, n: usize) {
        if n > 0 {
            self.now = self.now.plus(Nanos(self.latency + (n as u64 - 1) * self.issue));
        }
    }

    fn worked(&mut self, work: Work, n: usize) {
        if work != Work::Admit {
            self.now = self.now.plus(Nanos(self.work * n as u64));
        }
    }
}

/// Two accesses, and an answer.
struct Walk;

impl Messages for Walk {
    type Request = u64;
    type Reply = u64;
}

impl Service for Walk {
    const TOUCHES: usize = 2;

    fn touch_key(request: &u64) -> u64 {
        *request
    }

    fn touch(&self, _: usize, _: u64) {}

    fn tick(&mut self, _: Nanos) {}

    fn execute(&mut self, request: &u64, _: &mut Producer) -> Option<u64> {
        Some(*request)
    }

    fn expire(&mut self, request: &u64, _: &mut Producer) -> Option<u64> {
        Some(*request)
    }
}

impl TaskService for Walk {
    type Output = u64;

    async fn handle(cx: Cx<Walk>, request: &u64) -> u64 {
        cx.touch(|_| ()).await;
        cx.touch(|_| *request).await
    }

    fn reply(&self, _: &u64, output: &u64, _: &mut Producer) -> Option<u64> {
        Some(*output)
    }

    fn failed(&self, request: &u64, _: Failure, _: &mut Producer) -> Option<u64> {
        Some(*request)
    }
}

const CORE: ModelCore = ModelCore { now: Nanos(1000), latency: 100, issue: 3, work: 7 };

/// How long `n` requests take on the model, and when the replies were written.
fn time(
    n: u64,
    settings: Settings,
    add: impl FnOnce(&mut Engine<ModelCore>) -> Handle<Walk>,
) -> (u64, Vec<u64>) {
    let mut engine = Engine::on(CORE, EngineOptions::default());
    let walk = add(&mut engine);
    let mut edge: EdgePort<Walk> = engine.open(walk, 64, 64).expect("the first port");
    (0..n).for_each(|i| assert!(edge.submit(CORE.now, i).is_ok()));
    edge.ring();
    engine.set_settings(walk, settings);
    assert_eq!(engine.pass().answered, n as usize);
    let stamps = std::iter::from_fn(|| edge.poll()).map(|reply| reply.at.0 - CORE.now.0).collect();
    (engine.now().0 - CORE.now.0, stamps)
}

#[test]
fn the_same_engine_runs_in_virtual_time() {
    let of = |form, group| Settings { form, group, ..Settings::default() };
    let staged = |settings| time(32, settings, |engine| engine.add(Walk, ServiceOptions::default()));
    let tasks = |settings| time(32, settings, |engine| engine.add_task(Walk, ServiceOptions::default()));
    let work = 32 * 7;
    // Every miss is waited for by itself.
    assert_eq!(staged(of(Form::Plain, 16)).0, 32 * 2 * 100 + work);
    // A group waits for each of its two steps once.
    let (shared, stamps) = staged(of(Form::Staged, 16));
    assert_eq!(shared, 2 * 2 * (100 + 15 * 3) + work);
    assert_eq!(stamps[..], [[0; 16], [shared / 2; 16]].concat(), "stamped with the beginning of their group");
    assert_eq!(staged(of(Form::Coroutine, 16)).0, shared);
    // A task is polled three times.
    assert_eq!(tasks(of(Form::Staged, 16)).0, 2 * 2 * (100 + 15 * 3) + 3 * work);
    assert_eq!(tasks(of(Form::Staged, 1)).0, 32 * 2 * 100 + 3 * work);
}
