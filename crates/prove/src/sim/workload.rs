//! Which operations a run has: shares of verbs, popular keys, lives, and who asks.

use super::homes::Homes;
use super::script::{Want, one_of};
use base::{Nanos, Prng};
use protocol::coherence::client::Call;
use protocol::coherence::{Compute, Config};
use protocol::wire::Verb;
use sim::random;
use sim::workload::Mix;

/// What operations are drawn from.
pub struct Workload<'a> {
    keys: &'a [Vec<u8>],
    popular: Mix<usize>,
    verbs: Mix<Verb>,
    longest_life: u64,
    /// Each key is wanted by one client more than by others, so that its box may own it.
    has_favourites: bool,
}

/// Shares of [`VERBS`]: reads; stores; conditions; counters; removal, life and room. NOOP stands for an eviction.
type Shares = [u64; 16];

const CROWDED: Shares = [70, 25, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
/// Over chains: what changes nothing, and flushes, beside what nobody knows of and what comes late.
const UNSURE: Shares = [60, 6, 10, 0, 8, 1, 3, 0, 4, 0, 0, 0, 0, 0, 8, 0];
const COUNTING: Shares = [15, 1, 1, 0, 1, 1, 50, 10, 6, 3, 4, 4, 0, 1, 1, 1];
const MIXES: [Shares; 4] = [
    [40, 12, 3, 3, 6, 4, 6, 2, 4, 3, 3, 2, 3, 4, 1, 3],
    [80, 8, 1, 1, 2, 1, 2, 0, 1, 1, 1, 1, 1, 1, 0, 1],
    [25, 5, 2, 1, 2, 2, 25, 5, 8, 8, 8, 8, 2, 2, 1, 2],
    [30, 40, 4, 4, 8, 6, 0, 0, 0, 0, 0, 0, 2, 6, 2, 4],
];
const VERBS: [Verb; 16] = [
    Verb::Get,
    Verb::Set,
    Verb::Add,
    Verb::Replace,
    Verb::Cas,
    Verb::Delete,
    Verb::Incr,
    Verb::Decr,
    Verb::CondPut,
    Verb::Min,
    Verb::Max,
    Verb::Or,
    Verb::Append,
    Verb::Touch,
    Verb::Flush,
    Verb::Noop,
];

/// Whether in a run of this seed much that a chain is asked has no good end, and is done later; and much changes nothing.
pub fn is_unsure(seed: u64, homes: Homes) -> bool {
    homes == Homes::Chained && random::stream(seed, 0, "unsure").below(3) == 0
}

/// The mix that a run of this seed must have, if it is not free.
pub fn mix_of(seed: u64, homes: Homes, is_crowded: bool) -> Option<Shares> {
    match (is_unsure(seed, homes), is_crowded) {
        (true, _) => Some(UNSURE),
        (false, true) => Some(CROWDED),
        (false, false) => None,
    }
}

impl<'a> Workload<'a> {
    /// Of operations on these keys: `mix` where one is prescribed.
    pub fn draw(
        random: &mut Prng,
        keys: &'a [Vec<u8>],
        config: &Config,
        mix: Option<Shares>,
    ) -> Workload<'a> {
        let has_favourites = config.compute == Compute::Own && random.below(4) > 0 && mix != Some(UNSURE);
        let shares = match (has_favourites, mix) {
            (true, _) => COUNTING,
            (false, Some(mix)) => mix,
            (false, None) => one_of(random, &MIXES),
        };
        let verbs: Vec<_> = shares.into_iter().zip(VERBS).collect();
        // Zipf's law with exponent 1 in whole numbers, or all alike.
        let skewed = random.below(2) == 0;
        let weight = |rank: usize| if skewed { 5040 / (rank as u64 + 1) } else { 1 };
        let popular: Vec<_> = (0..keys.len()).map(|rank| (weight(rank), rank)).collect();
        Workload {
            keys,
            popular: Mix::new(&popular),
            verbs: Mix::new(&verbs),
            longest_life: 2 * config.lease.0,
            has_favourites,
        }
    }

    /// Who wants it: `anybody`, or who likes this key.
    pub fn draw_client(&self, random: &mut Prng, want: &Want, anybody: u64, clients: u64) -> u64 {
        match want {
            Want::Call(call) if self.has_favourites && random.below(8) > 0 => {
                let key = self.keys.iter().position(|key| *key == call.key).expect("it is one of these");
                key as u64 % clients
            }
            _ => anybody,
        }
    }

    /// The `number`-th operation. What it stores is stored by no other.
    pub fn draw_want(&self, random: &mut Prng, number: usize) -> Want {
        let key = &self.keys[*self.popular.draw(random)];
        let verb = *self.verbs.draw(random);
        match verb {
            Verb::Flush => return Want::Flush,
            Verb::Noop => return Want::Evict(key.clone()),
            _ => {}
        }
        let mut call = Call::new(verb, key);
        let unique = 1000 * (number as u64 + 1);
        let text = if random.below(5) == 0 { format!("v{unique}") } else { unique.to_string() };
        match verb {
            Verb::Set | Verb::Add | Verb::Replace | Verb::Cas => call.value = text.into_bytes(),
            Verb::Incr | Verb::Decr => {
                call.operand = 1 + random.below(5);
                if random.below(2) == 0 {
                    call.value = unique.to_string().into_bytes();
                }
            }
            Verb::Min | Verb::Max | Verb::CondPut => call.operand = unique + random.below(3) * 20_000,
            Verb::Or => call.operand = random.below(1 << 12),
            Verb::Append => {
                call.value = (1 + number % 9).to_string().into_bytes();
                call.operand = 9;
            }
            _ => {}
        }
        let likely_to_die = if verb == Verb::Touch { 3 } else { 1 };
        if random.below(4) < likely_to_die {
            call.life = Nanos(1_000_000 + random.below(self.longest_life));
        }
        call.no_cache = random.below(20) == 0;
        Want::Call(call)
    }
}
