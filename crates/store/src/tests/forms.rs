//! Plain, staged and coroutine form give the same answers to the same operations.

use super::model::{Answer, Op, Source, Step, answer_of, perform};
use super::tiny;
use crate::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

async fn perform_async(store: &SharedStore, step: &Step) -> Answer {
    let key = store.with(|s| s.key(&step.key)).expect("1 to 250 bytes");
    match &step.op {
        Op::Get(how) => store.get(step.now, key, *how, answer_of).await,
        Op::Set(value, how) => {
            store.set(step.now, key, value, *how).await.map_or_else(Answer::Failed, Answer::Set)
        }
        Op::Delete(how) => {
            store.delete(step.now, key, *how).await.map_or_else(Answer::Failed, Answer::Delete)
        }
        Op::Arith(how) => store.arith(step.now, key, *how).await.map_or_else(Answer::Failed, Answer::Arith),
        Op::Touch(expiry) => Answer::Touched(store.touch(step.now, key, *expiry).await),
    }
}

/// Polls all futures round robin; they finish in order.
fn all<F: Future<Output = Answer>>(futures: Vec<F>) -> Vec<Answer> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut futures: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    while futures.iter().any(|(_, answer)| answer.is_none()) {
        for (future, answer) in futures.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(&mut cx) {
                *answer = Some(ready);
            }
        }
    }
    futures.into_iter().filter_map(|(_, answer)| answer).collect()
}

#[test]
fn the_three_forms_agree() {
    for mode in [Mode::Cache, Mode::Store] {
        for seed in 0..3 {
            let mut source = Source::new(seed);
            let (mut plain, mut staged) = (tiny(mode), tiny(mode));
            let shared = SharedStore::new(tiny(mode));
            for _ in 0..1500 {
                let batch: Vec<Step> = (0..16).map(|_| source.step()).collect();
                source.seen = plain.stats().version;
                let one: Vec<_> = batch.iter().map(|step| perform(&mut plain, step)).collect();
                let mut two = Vec::new();
                let by_key: Vec<_> = batch.iter().map(|s| (staged.key(&s.key).expect("a key"), s)).collect();
                staged.staged(&by_key, 8, |(key, _)| *key, |s, (_, step)| two.push(perform(s, step)));
                let three = all(batch.iter().map(|step| perform_async(&shared, step)).collect());
                assert_eq!(one, two);
                assert_eq!(one, three);
            }
            assert_eq!(plain.stats(), staged.stats());
            assert_eq!(plain.stats(), shared.with(|s| s.stats()));
            shared.with(|s| s.check());
        }
    }
}

#[test]
fn a_batch_of_gets_answers_in_order() {
    let mut store = tiny(Mode::Store);
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for name in names.iter().step_by(2) {
        let key = store.key(name.as_bytes()).expect("a key");
        store.set(1, key, name.as_bytes(), &SetHow::default()).expect("room");
    }
    let keys: Vec<_> = names.iter().map(|n| store.key(n.as_bytes()).expect("a key")).collect();
    let mut next = 0;
    store.get_batch(1, &keys, 7, &GetHow::PLAIN, |number, hit| {
        assert_eq!(number, next);
        assert_eq!(hit.map(|h| h.value()), (number % 2 == 0).then_some(names[number].as_bytes()));
        next += 1;
    });
    assert_eq!(next, 100);
}

#[test]
fn a_coroutine_yields_twice() {
    let shared = SharedStore::new(tiny(Mode::Cache));
    let key = shared.with(|s| s.key(b"k")).expect("a key");
    let mut get = pin!(shared.get(1, key, GetHow::PLAIN, |hit| hit.is_none()));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    assert_eq!(get.as_mut().poll(&mut cx), Poll::Ready(true));
}
