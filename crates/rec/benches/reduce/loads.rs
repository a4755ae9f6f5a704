//! What is asked: batches of bags, drawn before anything is timed.

use base::Prng;
use rec::Bags;

/// Rows that one slice of a bar gathers, about: a millisecond.
pub const SLICE: usize = 1 << 16;

/// Bags that are reduced in one call.
pub struct Batch {
    pub values: Vec<u32>,
    pub offsets: Vec<u32>,
}

impl Batch {
    /// No bags yet.
    pub fn new() -> Batch {
        Batch { values: Vec::new(), offsets: vec![0] }
    }

    pub fn end_bag(&mut self) {
        self.offsets.push(self.values.len() as u32);
    }

    pub fn bags(&self) -> Bags<'_> {
        Bags::new(&self.values, &self.offsets, None).expect("they were made so")
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// One slice: batches of [`SLICE`] rows together.
pub type Load = Vec<Batch>;

/// How long bags are.
#[derive(Clone, Copy, PartialEq)]
pub enum Lengths {
    /// All alike.
    Fixed(usize),
    /// Lognormal with this median, nine tenths below the second number, at least 1.
    Lognormal(f64, f64),
}

impl Lengths {
    fn draw(self, prng: &mut Prng) -> usize {
        match self {
            Lengths::Fixed(len) => len,
            Lengths::Lognormal(median, p90) => {
                // Box and Muller; 1.2816 is the normal distribution's 90 % point.
                let radius = (-2.0 * (1.0 - prng.unit_f64()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * prng.unit_f64()).cos();
                ((median * ((p90 / median).ln() / 1.2816 * normal).exp()).round() as usize).clamp(1, 1000)
            }
        }
    }
}

impl std::fmt::Display for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lengths::Fixed(len) => write!(f, "bags of {len}"),
            Lengths::Lognormal(median, p90) => write!(f, "bags of median {median}, 90 % below {p90}"),
        }
    }
}

/// `count` slices of ids that are uniform in `rows`: the worst case, nothing is asked twice soon.
pub fn uniform(count: usize, rows: u32, batch: usize, lengths: Lengths, seed: u64) -> Vec<Load> {
    let mut prng = Prng::new(seed);
    let slice = |_| {
        let mut load = Vec::new();
        let mut drawn = 0;
        while drawn < SLICE {
            let mut made = Batch::new();
            for _ in 0..batch {
                let len = lengths.draw(&mut prng);
                made.values.extend((0..len).map(|_| prng.below(rows.into()) as u32));
                made.end_bag();
            }
            drawn += made.values.len();
            load.push(made);
        }
        load
    };
    (0..count).map(slice).collect()
}
