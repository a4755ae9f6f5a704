//! One suite, run on every variant on the heap and over a mapping, and a property test against `VecDeque`.

use super::*;
use crate::mapping::tests::anonymous;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

const STEPS: u32 = if cfg!(miri) { 300 } else { 100_000 };

fn mapped<K: Kind, T: Plain>(capacity: u32) -> (K::Producer<T>, K::Consumer<T>) {
    let memory = anonymous(K::mapped_bytes::<T>(capacity) + 128);
    (K::map_producer(&memory, 128, capacity), K::map_consumer(&memory, 128, capacity))
}

fn a_full_ring_gives_the_item_back<P: Produce<u64>, C: Consume<u64>>((mut p, mut c): (P, C)) {
    let capacity = p.capacity();
    assert_eq!((c.capacity(), p.free()), (capacity, capacity));
    for lap in 0..5u64 {
        for i in 0..u64::from(capacity) {
            assert_eq!(p.try_push(lap * 100 + i), Ok(()));
        }
        assert_eq!(p.try_push(99), Err(Full(99)));
        assert_eq!(p.free(), 0);
        // A full ring published what waited.
        for i in 0..u64::from(capacity) {
            assert!(c.is_ready());
            assert_eq!(c.try_pop(), Some(lap * 100 + i));
        }
        assert!(!c.is_ready());
        assert_eq!(c.try_pop(), None);
        assert_eq!(p.free(), capacity);
    }
}

fn batches_stop_at_the_space<P: Produce<u64>, C: Consume<u64>>((mut p, mut c): (P, C)) {
    let capacity = p.capacity() as usize;
    let mut items = 0..;
    assert_eq!(p.push_all(&mut items), capacity);
    assert_eq!(items.next(), Some(capacity as u64), "no item is drawn that cannot be pushed");
    let mut seen = Vec::new();
    assert_eq!(c.drain(1, |item| seen.push(item)), 1);
    assert_eq!(c.drain(usize::MAX, |item| seen.push(item)), capacity - 1);
    assert_eq!(c.drain(usize::MAX, |_| panic!("empty")), 0);
    assert!(seen.into_iter().eq(0..capacity as u64));
    assert_eq!(p.push_all(&mut [1, 2].into_iter()), 2.min(capacity));
}

fn two_threads_see_every_item_in_order<P, C>((mut p, mut c): (P, C), batch: u32)
where
    P: Produce<u64>,
    C: Consume<u64>,
{
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..STEPS {
                while p.try_push(u64::from(i)).is_err() {
                    std::thread::yield_now();
                }
                if i % batch == 0 {
                    p.publish();
                }
            }
            p.publish();
        });
        let mut expected = 0;
        while expected < u64::from(STEPS) {
            let taken = c.drain(64, |item| {
                assert_eq!(item, expected);
                expected += 1;
            });
            if taken == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(c.try_pop(), None);
    });
}

fn items_written_and_read_where_they_lie_are_items<P: Produce<u64>, C: Consume<u64>>((mut p, mut c): (P, C)) {
    let (mut next, mut seen) = (0, 0);
    for lap in 1..20 {
        for n in 0..lap.min(p.free()) {
            // SAFETY: free() counted the slot, and the whole item is written.
            let fill = |place: *mut u64| unsafe { place.write(next) };
            if n % 3 == 2 {
                p.try_push(next).expect("a free slot");
            } else {
                // SAFETY: as above.
                unsafe { p.fill_granted(fill) };
            }
            next += 1;
        }
        p.publish();
        while seen < next {
            // One of the items taken ends a drain early; none is lost by that.
            let taken = c.drain_in_place(4, |place| {
                // SAFETY: the place is readable now.
                assert_eq!(unsafe { place.read() }, seen);
                seen += 1;
                seen % 5 != 0
            });
            assert!((1..=4).contains(&taken));
        }
        assert_eq!(c.drain_in_place(4, |_| panic!("empty")), 0);
    }
}

/// What a caller does to a ring in one step.
#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    PushAll(Vec<u64>),
    Publish,
    Pop,
    Drain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<u64>().prop_map(Step::Push),
        1 => proptest::collection::vec(any::<u64>(), 0..6).prop_map(Step::PushAll),
        1 => Just(Step::Publish),
        3 => Just(Step::Pop),
        1 => (0usize..6).prop_map(Step::Drain),
    ];
    proptest::collection::vec(step, 0..200)
}

fn agrees_with_a_deque<P: Produce<u64>, C: Consume<u64>>(
    (mut p, mut c): (P, C),
    steps: &[Step],
) -> Result<(), TestCaseError> {
    // The model: `shown` items surely visible, then those that may be, since a variant may publish early.
    let (mut model, mut shown) = (VecDeque::new(), 0usize);
    let capacity = p.capacity() as usize;
    for step in steps {
        match step {
            Step::Push(item) => {
                let pushed = p.try_push(*item);
                if pushed.is_ok() {
                    model.push_back(*item);
                    prop_assert!(model.len() <= capacity, "an overwrite");
                } else {
                    prop_assert_eq!(pushed, Err(Full(*item)));
                    shown = model.len();
                }
            }
            Step::PushAll(items) => {
                let pushed = p.push_all(&mut items.iter().copied());
                model.extend(&items[..pushed]);
                prop_assert!(model.len() <= capacity, "an overwrite");
                shown = model.len();
            }
            Step::Publish => {
                p.publish();
                shown = model.len();
            }
            Step::Pop => match c.try_pop() {
                Some(item) => {
                    prop_assert_eq!(Some(item), model.pop_front());
                    shown = shown.saturating_sub(1);
                }
                None => {
                    prop_assert_eq!(shown, 0, "published and not found");
                    // Contract 3: an empty ring's space is known.
                    prop_assert_eq!(p.free() as usize > 0, model.len() < capacity);
                }
            },
            Step::Drain(max) => {
                let mut seen = Vec::new();
                let taken = c.drain(*max, |item| seen.push(item));
                prop_assert_eq!(taken, seen.len());
                prop_assert!(taken <= *max && taken >= shown.min(*max));
                for item in seen {
                    prop_assert_eq!(Some(item), model.pop_front());
                }
                shown = shown.saturating_sub(taken);
            }
        }
    }
    Ok(())
}

/// An item that counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn leftovers_are_dropped_once<K: Kind>() {
    for (pushed, popped) in [(0, 0), (3, 0), (4, 4), (4, 1), (9, 6), (10, 7)] {
        let drops = Arc::new(AtomicUsize::new(0));
        let (mut p, mut c) = K::heap::<Counted>(4);
        let mut in_ring = 0;
        for n in 0..pushed {
            if in_ring == 4 || (n > 3 && in_ring > pushed - popped) {
                p.publish();
                drop(c.try_pop().expect("the ring is not empty"));
                in_ring -= 1;
            }
            p.try_push(Counted(drops.clone())).expect("there is space");
            in_ring += 1;
        }
        // Not published: the end's drop must do it.
        drop(p);
        assert!(c.is_abandoned());
        drop(c);
        assert_eq!(drops.load(Ordering::Relaxed), pushed);
    }
    // The other order, with the consumer gone first.
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut p, c) = K::heap::<Counted>(2);
    drop(c);
    assert!(p.is_abandoned());
    p.try_push(Counted(drops.clone())).expect("there is space");
    drop(p);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

fn suite<K: Kind>() {
    for capacity in [1, 2, 4, 64] {
        a_full_ring_gives_the_item_back(K::heap::<u64>(capacity));
        batches_stop_at_the_space(K::heap::<u64>(capacity));
        items_written_and_read_where_they_lie_are_items(K::heap::<u64>(capacity));
        if !cfg!(miri) {
            a_full_ring_gives_the_item_back(mapped::<K, u64>(capacity));
            batches_stop_at_the_space(mapped::<K, u64>(capacity));
            items_written_and_read_where_they_lie_are_items(mapped::<K, u64>(capacity));
        }
    }
    for batch in [1, 7] {
        two_threads_see_every_item_in_order(K::heap(16), batch);
        if !cfg!(miri) {
            two_threads_see_every_item_in_order(mapped::<K, u64>(16), batch);
        }
    }
    leftovers_are_dropped_once::<K>();
}

#[test]
fn the_slot_ring_conforms() {
    suite::<InSlot>();
}

#[test]
fn the_index_ring_conforms() {
    suite::<Index>();
}

#[test]
fn the_hybrid_ring_conforms() {
    suite::<Hybrid>();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_ring_agrees_with_a_deque(steps in steps(), order in 0u32..4) {
        let capacity = 1 << order;
        agrees_with_a_deque(InSlot::heap(capacity), &steps)?;
        agrees_with_a_deque(Index::heap(capacity), &steps)?;
        agrees_with_a_deque(Hybrid::heap(capacity), &steps)?;
        if !cfg!(miri) {
            agrees_with_a_deque(mapped::<Hybrid, u64>(capacity), &steps)?;
            agrees_with_a_deque(mapped::<Index, u64>(capacity), &steps)?;
        }
    }
}

#[test]
fn positions_wrap_at_32_bits() {
    // The first 2^32 positions in no time: both ends start just before the wrap.
    let start = u32::MAX - 5;
    let (mut p, mut c) = lane::Lane::<u32>::heap(4);
    c.publish_consumed(start);
    for position in (0..20).map(|n| start.wrapping_add(n)) {
        assert!(!c.is_ready(position));
        assert_eq!(p.free(position), 4);
        // SAFETY: the slot is free, as just asserted.
        unsafe { p.write(position, position) };
        p.mark(position);
        assert_eq!(p.free(position.wrapping_add(1)), 3);
        assert!(c.is_ready(position));
        // SAFETY: ready, and taken once.
        assert_eq!(unsafe { c.take(position) }, position);
        c.publish_consumed(position.wrapping_add(1));
    }
}

#[test]
fn a_count_that_lies_gives_no_space_and_no_items() {
    if cfg!(miri) {
        return; // mappings are beyond Miri
    }
    let memory = anonymous(4096);
    let mut p = InSlot::map_producer::<u64>(&memory, 0, 4);
    for i in 0..4 {
        p.try_push(i).expect("there is space");
    }
    // A consumer that claims to be ahead of us, or far behind.
    for lie in [5u32, 1 << 31, u32::MAX] {
        // SAFETY: the first word of the mapping, nobody else looks.
        unsafe { memory.at::<AtomicUsize>(0, 1).cast::<u32>().write_volatile(lie) };
        assert_eq!(p.try_push(9), Err(Full(9)));
    }
    let mut c = Index::map_consumer::<u64>(&anonymous(4096), 0, 4);
    assert_eq!(c.try_pop(), None);
    let memory = anonymous(4096);
    let mut c2 = Index::map_consumer::<u64>(&memory, 0, 4);
    // SAFETY: as above; a tail beyond the ring.
    unsafe { memory.at::<AtomicUsize>(0, 1).cast::<u32>().write_volatile(5) };
    assert_eq!(c2.try_pop(), None);
}

#[test]
fn items_need_not_be_static_nor_sync() {
    // Compiles: a borrowed item, and one that is Send and not Sync.
    let text = String::from("borrowed");
    let (mut p, mut c) = Hybrid::heap::<(&str, std::cell::Cell<u8>)>(2);
    p.try_push((&text, std::cell::Cell::new(1))).expect("there is space");
    p.publish();
    assert_eq!(c.try_pop().map(|(s, _)| s), Some("borrowed"));
}

#[test]
#[should_panic(expected = "power of two")]
fn an_odd_capacity_is_refused() {
    let _ = Index::heap::<u8>(3);
}
