//! Load balancers: which worker gets a request. State machines; what they know is how many requests each worker has.
//!
//! | balancer | picks | for |
//! |---|---|---|
//! | static | by connection | warm caches per connection, even connections |
//! | round-robin | each in turn (Dagger, item 25) | even service times |
//! | key-hash | by the request's key (object level) | data owned by one worker, no locks |
//! | two-choices | of two drawn at random, the one with fewer | uneven service times, many workers |
//! | shortest-queue | the one with fewest | uneven service times |
//!
//! Invariants:
//! 1. A pick is below the number of workers.
//! 2. The same connection (static) or key (key-hash) gets the same worker, as long as there are as many workers.
//! 3. Round-robin: over any span, of the requests that were taken, counts differ by at most one. A pick that found no room does
//!    not count; the next tries the same worker.
//! 4. Shortest-queue: nobody has fewer than who is picked.
//!
//! Sources: Dagger, section 3.4; Mitzenmacher, "The power of two choices in randomized load balancing" (2001).
//!
//! Cost: a few nanoseconds; shortest-queue one load per worker.

use base::Prng;
use base::prng::mix64;
use std::fmt;
use std::str::FromStr;

/// A balancer as registers have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Balancing {
    /// By connection.
    Static,
    /// Each worker in turn.
    RoundRobin,
    /// By the request's key; by connection for requests without one.
    KeyHash,
    /// The less loaded of two drawn at random.
    TwoChoices,
    /// The least loaded.
    ShortestQueue,
}

impl Balancing {
    /// All of them.
    pub const ALL: [Balancing; 5] = [
        Balancing::Static,
        Balancing::RoundRobin,
        Balancing::KeyHash,
        Balancing::TwoChoices,
        Balancing::ShortestQueue,
    ];

    /// As registers write it.
    pub fn name(self) -> &'static str {
        match self {
            Balancing::Static => "static",
            Balancing::RoundRobin => "round-robin",
            Balancing::KeyHash => "key-hash",
            Balancing::TwoChoices => "two-choices",
            Balancing::ShortestQueue => "shortest-queue",
        }
    }
}

impl fmt::Display for Balancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord(pub(super) String);

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of those", self.0)
    }
}

impl std::error::Error for UnknownWord {}

impl FromStr for Balancing {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Balancing, UnknownWord> {
        let found = Balancing::ALL.into_iter().find(|balancing| balancing.name() == word);
        found.ok_or_else(|| UnknownWord(word.to_string()))
    }
}

/// What is known of a request before it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection it came from; numbers given one after the other are spread evenly.
    pub connection: u32,
    /// The service it is for; [`Workers::services`](super::WorkersOptions::services) bounds it.
    pub service: u16,
    /// Its key's hash, if its method has a key and the balancer wants one.
    pub key: Option<u64>,
}

/// One service's balancer.
#[derive(Clone, Debug)]
pub struct Balancer {
    balancing: Balancing,
    /// The next in turn; for shortest-queue, who wins a tie.
    next: usize,
    prng: Prng,
}

impl Balancer {
    /// A balancer; `seed` is for those that draw.
    pub fn new(balancing: Balancing, seed: u64) -> Balancer {
        Balancer { balancing, next: 0, prng: Prng::new(seed) }
    }

    /// Another way from now on. Requests that were given to workers stay there.
    pub fn set(&mut self, balancing: Balancing) {
        self.balancing = balancing;
    }

    /// The way it balances now.
    pub fn balancing(&self) -> Balancing {
        self.balancing
    }

    /// Whether the way it balances now goes by keys.
    #[inline]
    pub fn asks_for_key(&self) -> bool {
        self.balancing == Balancing::KeyHash
    }

    /// The worker for a request; `outstanding` says how many requests each has, and is not empty.
    #[inline]
    pub fn pick(&mut self, route: &Route, outstanding: &[u32]) -> usize {
        let workers = outstanding.len();
        match self.balancing {
            Balancing::Static => route.connection as usize % workers,
            Balancing::KeyHash => match route.key {
                Some(key) => by_hash(key, workers),
                None => route.connection as usize % workers,
            },
            Balancing::RoundRobin => self.next % workers,
            Balancing::TwoChoices => self.of_two(outstanding),
            Balancing::ShortestQueue => self.shortest(outstanding),
        }
    }

    /// The worker that was picked took the request.
    #[inline]
    pub fn took(&mut self, worker: usize) {
        self.next = worker + 1;
    }

    #[inline]
    fn of_two(&mut self, outstanding: &[u32]) -> usize {
        let workers = outstanding.len() as u64;
        let a = self.prng.below(workers) as usize;
        // One of the others, each as likely.
        let b = (a + 1 + self.prng.below((workers - 1).max(1)) as usize) % workers as usize;
        if outstanding[b] < outstanding[a] { b } else { a }
    }

    #[inline]
    fn shortest(&self, outstanding: &[u32]) -> usize {
        let workers = outstanding.len();
        let in_turn = (0..workers).map(|nth| (self.next + nth) % workers);
        in_turn.min_by_key(|&worker| outstanding[worker]).unwrap_or(0)
    }
}

/// The worker that a hash is mapped to.
#[inline]
pub(super) fn by_hash(hash: u64, workers: usize) -> usize {
    ((u128::from(mix64(hash)) * workers as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(connection: u32, key: Option<u64>) -> Route {
        Route { connection, service: 0, key }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn picks_are_workers_and_the_fixed_ways_are_fixed(
            outstanding in proptest::collection::vec(0u32..9, 1..65), connection: u32, key: Option<u64>, seed: u64,
        ) {
            for balancing in Balancing::ALL {
                let mut balancer = Balancer::new(balancing, seed);
                let first = balancer.pick(&route(connection, key), &outstanding);
                prop_assert!(first < outstanding.len());
                balancer.took(first);
                let mut others = outstanding.clone();
                others.reverse();
                if matches!(balancing, Balancing::Static | Balancing::KeyHash) {
                    prop_assert_eq!(balancer.pick(&route(connection, key), &others), first);
                }
            }
        }

        #[test]
        fn keys_decide_and_not_connections(key: u64, one: u32, other: u32, workers in 1usize..65) {
            let mut balancer = Balancer::new(Balancing::KeyHash, 1);
            let idle = vec![0; workers];
            let [a, b] = [one, other].map(|connection| balancer.pick(&route(connection, Some(key)), &idle));
            prop_assert_eq!(a, b);
        }

        #[test]
        fn round_robin_counts_differ_by_at_most_one(workers in 1usize..20, room in proptest::collection::vec(any::<bool>(), 0..200)) {
            let mut balancer = Balancer::new(Balancing::RoundRobin, 1);
            let mut counts = vec![0u32; workers];
            for has_room in room {
                let worker = balancer.pick(&route(7, None), &counts);
                if has_room {
                    counts[worker] += 1;
                    balancer.took(worker);
                }
                let most = counts.iter().max().expect("a worker");
                prop_assert!(most - counts.iter().min().expect("a worker") <= 1);
            }
        }

        #[test]
        fn the_shortest_queue_is_shortest_and_two_choices_avoid_the_longest(
            outstanding in proptest::collection::vec(0u32..100, 2..20), seed: u64,
        ) {
            let mut shortest = Balancer::new(Balancing::ShortestQueue, seed);
            let picked = shortest.pick(&route(1, None), &outstanding);
            prop_assert_eq!(Some(&outstanding[picked]), outstanding.iter().min());
            let mut two = Balancer::new(Balancing::TwoChoices, seed);
            let longest = *outstanding.iter().max().expect("a worker");
            if outstanding.iter().filter(|&&n| n == longest).count() == 1 {
                prop_assert!((0..50).all(|_| outstanding[two.pick(&route(1, None), &outstanding)] < longest));
            }
        }
    }

    #[test]
    fn idle_workers_share_the_requests_of_the_shortest_queue() {
        let mut balancer = Balancer::new(Balancing::ShortestQueue, 1);
        let mut counts = [0; 4];
        for _ in 0..8 {
            let worker = balancer.pick(&route(1, None), &[0; 4]);
            counts[worker] += 1;
            balancer.took(worker);
        }
        assert_eq!(counts, [2; 4]);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for balancing in Balancing::ALL {
            assert_eq!(balancing.to_string().parse(), Ok(balancing));
        }
        assert!("fair".parse::<Balancing>().is_err());
    }
}
