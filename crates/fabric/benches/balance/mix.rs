//! What arrives: service times, connections, keys; the same sequence for every balancer, from a seed.

use base::Prng;
use fabric::workers::Route;

/// How long requests take, relative to each other.
#[derive(Clone, Copy, PartialEq)]
pub enum Times {
    /// One in 200 takes 100 times as long.
    RareLong,
    /// One in 10 takes 10 times as long.
    Bimodal,
    /// Exponential.
    Exponential,
}

/// Who sends.
#[derive(Clone, Copy, PartialEq)]
pub enum Senders {
    /// Every connection as often.
    Even,
    /// By Zipf's law, exponent 0.99.
    Skewed,
    /// As even, but a fifth of all requests comes in bursts of [`BURST`] from connection 0.
    Flood,
}

/// Connections.
pub const CONNECTIONS: usize = 64;
/// Keys, drawn by Zipf's law with exponent 0.99.
pub const KEYS: usize = 10_000;
/// Requests of a burst.
pub const BURST: u32 = 200;

/// One request that will come.
pub struct Arrival {
    /// After the one before.
    pub gap_ns: u64,
    pub service_ns: u64,
    pub route: Route,
}

/// The sequence.
pub struct Arrivals {
    prng: Prng,
    times: Times,
    senders: Senders,
    mean_service_ns: f64,
    mean_gap_ns: f64,
    connections: Vec<f64>,
    keys: Vec<f64>,
    left_of_burst: u32,
}

impl Arrivals {
    /// Requests that take `mean_service_ns` on average and keep `workers` busy for `load` of their time.
    pub fn new(
        times: Times,
        senders: Senders,
        mean_service_ns: f64,
        load: f64,
        workers: usize,
        seed: u64,
    ) -> Arrivals {
        Arrivals {
            prng: Prng::new(seed),
            times,
            senders,
            mean_service_ns,
            mean_gap_ns: mean_service_ns / (load * workers as f64),
            connections: cumulative(CONNECTIONS),
            keys: cumulative(KEYS),
            left_of_burst: 0,
        }
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.prng.unit_f64()).ln()
    }

    fn service(&mut self) -> f64 {
        let two = |prng: &mut Prng, share: f64, factor: f64| {
            let short = 1.0 / (1.0 - share + share * factor);
            if prng.chance(share) { factor * short } else { short }
        };
        match self.times {
            Times::RareLong => two(&mut self.prng, 0.005, 100.0),
            Times::Bimodal => two(&mut self.prng, 0.1, 10.0),
            Times::Exponential => self.exponential(),
        }
    }

    /// The gap to the next request, and its connection.
    fn sender(&mut self) -> (f64, u32) {
        if self.left_of_burst > 0 {
            self.left_of_burst -= 1;
            return (0.0, 0);
        }
        let even = |prng: &mut Prng| prng.below(CONNECTIONS as u64) as u32;
        match self.senders {
            Senders::Even => (self.exponential(), even(&mut self.prng)),
            Senders::Skewed => (self.exponential(), draw(&self.connections, &mut self.prng)),
            Senders::Flood => {
                // Of five requests one is of a burst: four arrivals apart from bursts for each of its requests.
                let apart = 4.0 * f64::from(BURST);
                if self.prng.chance(1.0 / (apart + 1.0)) {
                    self.left_of_burst = BURST - 1;
                    return (1.25 * self.exponential(), 0);
                }
                (1.25 * self.exponential(), 1 + self.prng.below(CONNECTIONS as u64 - 1) as u32)
            }
        }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let (gap, connection) = self.sender();
        let service = self.service();
        let key = draw(&self.keys, &mut self.prng);
        let route = Route { connection, service: 0, key: Some(u64::from(key)) };
        let (gap_ns, service_ns) = ((gap * self.mean_gap_ns) as u64, (service * self.mean_service_ns) as u64);
        Some(Arrival { gap_ns, service_ns, route })
    }
}

/// The shares of ranks by Zipf's law, summed up.
fn cumulative(ranks: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums: Vec<_> = (1..=ranks)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    sums.iter_mut().for_each(|share| *share /= sum);
    sums
}

fn draw(cumulative: &[f64], prng: &mut Prng) -> u32 {
    let at = prng.unit_f64();
    cumulative.partition_point(|&sum| sum < at).min(cumulative.len() - 1) as u32
}
