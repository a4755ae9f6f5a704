//! Two replicas and a map. Either may be head; entries are placed by the head, and applied by each when it likes, in order.

use super::{Tuples, image, slices};
use crate::image::{Image, Space, Write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug)]
enum Step {
    /// The head places an entry: keys by number, with a length or a deletion.
    Place(Vec<(u8, Option<u16>)>),
    /// A replica applies the next entry.
    Apply(bool),
    /// The last entries are cut.
    Cut(usize),
    /// The other one is head from now on: what is under way is reserved there.
    TakeOver,
    /// A replica forgets what is volatile.
    Index(bool),
    /// A replica is a copy of the other from now on, in chunks of so many bytes, with entries laid between.
    Copy(bool, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![4 => 0u16..100, 2 => 0u16..2000, 1 => 0u16..16_500];
    let write = (0u8..40, prop::option::weighted(0.75, length));
    prop_oneof![
        8 => prop::collection::vec(write, 1..5).prop_map(Step::Place),
        12 => any::<bool>().prop_map(Step::Apply),
        1 => (1usize..4).prop_map(Step::Cut),
        1 => Just(Step::TakeOver),
        1 => any::<bool>().prop_map(Step::Index),
        1 => (any::<bool>(), 1000usize..70_000).prop_map(|(to, len)| Step::Copy(to, len)),
    ]
}

type Known = BTreeMap<(u8, Vec<u8>), (u64, Vec<u8>)>;

struct Entry {
    lsn: u64,
    tuples: Tuples,
    writes: Vec<(u8, Vec<u8>, Option<Vec<u8>>)>,
}

struct Pair {
    replicas: [Image; 2],
    /// What each has applied.
    known: [Known; 2],
    /// From the first that one of them has not applied.
    entries: VecDeque<Entry>,
    head: usize,
    lsn: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            replicas: [image(), image()],
            known: [Known::new(), Known::new()],
            entries: VecDeque::new(),
            head: 0,
            lsn: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Place(writes) => self.place(&writes),
            Step::Apply(which) => self.apply(usize::from(which)),
            Step::Cut(count) => self.cut(count),
            Step::TakeOver => self.take_over(),
            Step::Index(which) => self.index(usize::from(which)),
            Step::Copy(to, len) => self.copy(usize::from(to), len),
        }
        let keys = self.known[self.head].keys().map(|(_, key)| key);
        assert!(keys.clone().count() <= self.replicas[self.head].len());
        self.entries.retain(|entry| self.replicas.iter().any(|image| image.applied() < entry.lsn));
    }

    fn place(&mut self, writes: &[(u8, Option<u16>)]) {
        let head = &mut self.replicas[self.head];
        let under_way = self.entries.iter().filter(|entry| entry.lsn > head.applied());
        // As locks do: a key has one entry under way.
        let mut locked: BTreeSet<_> =
            under_way.flat_map(|entry| entry.writes.iter().map(|w| w.1.clone())).collect();
        let lsn = self.lsn + 1;
        let mut logged = Vec::new();
        for (number, len) in writes {
            let key = vec![*number; 1 + usize::from(*number) * 6];
            if locked.insert(key.clone()) {
                logged.push((number % 3, key, len.map(|len| vec![lsn as u8; usize::from(len)])));
            }
        }
        let writes: Vec<Write<'_>> = logged
            .iter()
            .map(|(space, key, value)| Write { space: Space(*space), key, value: value.as_deref() })
            .collect();
        let (held, mut tuples) = (head.held(), Tuples::new());
        match head.place(lsn, &writes, |offset, data| tuples.push((offset, data))) {
            Ok(()) => {
                let named: Vec<_> =
                    head.keys(slices(&tuples)).map(|(space, key)| (space.0, key.to_vec())).collect();
                let is_known =
                    |(space, key): &(u8, Vec<u8>)| logged.iter().any(|w| (w.0, &w.1) == (*space, key));
                assert!(named.iter().all(is_known));
                self.entries.push_back(Entry { lsn, tuples, writes: logged });
                self.lsn = lsn;
            }
            Err(_) => assert!(tuples.is_empty() && head.held() == held),
        }
    }

    fn apply(&mut self, which: usize) {
        let image = &mut self.replicas[which];
        let Some(entry) = self.entries.iter().find(|entry| entry.lsn > image.applied()) else { return };
        image.apply(entry.lsn, slices(&entry.tuples)).expect("the head's tuples");
        for (space, key, value) in &entry.writes {
            let at = (*space, key.clone());
            match value {
                Some(value) => self.known[which].insert(at, (entry.lsn, value.clone())),
                None => self.known[which].remove(&at),
            };
        }
    }

    /// Only what nobody has applied.
    fn cut(&mut self, count: usize) {
        let applied = self.replicas.iter().map(Image::applied).max().unwrap_or(0);
        for _ in 0..count {
            if self.lsn <= applied {
                return;
            }
            let entry = self.entries.pop_back().expect("what is not applied is kept");
            self.replicas[self.head].release(slices(&entry.tuples));
            self.lsn = entry.lsn - 1;
        }
    }

    /// The old head forgets what it placed, as one that is told to cut does. The new one has applied what the old one had: in a chain it did
    /// so before.
    fn take_over(&mut self) {
        let [old, new] = [self.head, 1 - self.head];
        while self.replicas[new].applied() < self.replicas[old].applied() {
            self.apply(new);
        }
        let applied = self.replicas.each_ref().map(Image::applied);
        for entry in self.entries.iter().filter(|entry| entry.lsn > applied[old]) {
            self.replicas[old].release(slices(&entry.tuples));
        }
        assert_eq!(self.replicas[old].held(), 0);
        for entry in self.entries.iter().filter(|entry| entry.lsn > applied[new]) {
            self.replicas[new].reserve(slices(&entry.tuples));
        }
        self.head = new;
    }

    fn index(&mut self, which: usize) {
        let image = &mut self.replicas[which];
        let (before, applied) = (image.digest(), image.applied());
        image.index(applied).expect("bytes that entries made");
        assert_eq!((image.digest(), image.applied()), (before, applied));
        if which == self.head {
            for entry in self.entries.iter().filter(|entry| entry.lsn > applied) {
                image.reserve(slices(&entry.tuples));
            }
        }
    }

    /// The other one applies what is under way between chunks; all of that is then laid over them.
    fn copy(&mut self, to: usize, len: usize) {
        let from = 1 - to;
        if to == self.head {
            self.take_over();
        }
        self.replicas[to].clear();
        let since = self.replicas[from].applied();
        let entries: Vec<(u64, Tuples)> = self.entries.iter().map(|e| (e.lsn, e.tuples.clone())).collect();
        let mut offset = 0;
        loop {
            let chunk = self.replicas[from].chunk(offset, len).to_vec();
            if chunk.is_empty() {
                break;
            }
            self.replicas[to].load(offset, &chunk).expect("of an image of this size");
            assert!(self.replicas[to].read(Space(0), b"any").is_none());
            offset += chunk.len() as u64;
            self.apply(from);
        }
        let until = self.replicas[from].applied();
        for (lsn, tuples) in entries.iter().filter(|(lsn, _)| *lsn > since && *lsn <= until) {
            self.replicas[to].apply(*lsn, slices(tuples)).expect("inside");
        }
        self.replicas[to].index(until).expect("whole");
        assert_eq!(self.replicas[to].digest(), self.replicas[from].digest());
        self.known[to] = self.known[from].clone();
    }

    fn check(&self) {
        for (image, known) in self.replicas.iter().zip(&self.known) {
            image.check();
            assert_eq!(image.len(), known.len());
            for space in 0..3 {
                let mut seen = Known::new();
                image.items(Space(space), |key, item| {
                    seen.insert((space, key.to_vec()), (item.version, item.value.to_vec()));
                    assert_eq!(image.read(Space(space), key), Some(item));
                });
                let wanted: Known = known
                    .iter()
                    .filter(|(key, _)| key.0 == space)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert_eq!(seen, wanted);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_have_the_items_of_a_map_and_the_same_bytes(steps in prop::collection::vec(step(), 1..150)) {
        let mut pair = Pair::new();
        for (number, step) in steps.into_iter().enumerate() {
            pair.step(step);
            if number % 16 == 0 {
                pair.check();
            }
        }
        while !pair.entries.is_empty() {
            pair.step(Step::Apply(false));
            pair.step(Step::Apply(true));
        }
        pair.check();
        let [a, b] = &pair.replicas;
        prop_assert_eq!((a.held(), b.held()), (0, 0));
        prop_assert_eq!(a.chunk(0, usize::MAX), b.chunk(0, usize::MAX));
        prop_assert_eq!(a.digest(), b.digest());
    }
}
