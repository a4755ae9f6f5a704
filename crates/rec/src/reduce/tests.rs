//! Every kernel against decode-then-add in double precision, which is promise 1 of the contract.

use super::*;
use proptest::prelude::*;
use std::task::{Context, Poll, Waker};

/// Bags with what is needed to make a table for them.
#[derive(Clone, Debug)]
struct Case {
    rows: u32,
    dim: usize,
    format: RowFormat,
    pooling: Pooling,
    prefetch: usize,
    seed: u64,
    lengths: Vec<usize>,
    weighted: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let dims = prop::sample::select(vec![16, 32, 64, 128, 2, 6, 8, 24, 40, 100, 136, 300]);
    let poolings = prop::sample::select(vec![Pooling::Sum, Pooling::Mean, Pooling::Max, Pooling::Min]);
    let lengths = prop::collection::vec(
        prop_oneof![3 => Just(0usize), 6 => 1..9usize, 1 => 30..70usize, 1 => 60..140usize],
        0..9,
    );
    let format = prop::sample::select(RowFormat::ALL.to_vec());
    (
        1..40u32,
        dims,
        format,
        poolings,
        prop::sample::select(vec![0, 1, 5, 64, 1 << 40]),
        any::<u64>(),
        lengths,
        any::<bool>(),
    )
        .prop_map(|(rows, dim, format, pooling, prefetch, seed, lengths, weighted)| Case {
            rows,
            dim,
            format,
            pooling,
            prefetch,
            seed,
            lengths,
            weighted,
        })
}

/// What a [`Case`] describes.
struct Made {
    table: Table,
    values: Vec<u32>,
    offsets: Vec<u32>,
    weights: Option<Vec<f32>>,
}

impl Case {
    fn make(&self) -> Made {
        let mut prng = base::Prng::new(self.seed);
        let mut number = move || (prng.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let table = Table::from_rows(self.rows, self.dim, self.format, |_, row| {
            // Rows of different magnitudes, and far from zero.
            let (size, middle) = (number() * 100.0, number() * 10.0);
            row.iter_mut().for_each(|x| *x = middle + size * number());
        });
        let mut offsets = vec![0];
        offsets.extend(self.lengths.iter().scan(0, |end, &len| {
            *end += len as u32;
            Some(*end)
        }));
        let total = *offsets.last().expect("there is a first") as usize;
        // The last row often: nothing lies behind it but slack.
        let mut id = || {
            if number() > 0.5 { self.rows - 1 } else { ((number() + 1.0) * 0.5 * self.rows as f32) as u32 }
        };
        let values = (0..total).map(|_| id().min(self.rows - 1)).collect();
        let weights = self.weighted.then(|| (0..total).map(|_| number() * 3.0).collect());
        Made { table: table.expect("memory"), values, offsets, weights }
    }
}

impl Made {
    fn bags(&self) -> Bags<'_> {
        Bags::new(&self.values, &self.offsets, self.weights.as_deref()).expect("bags")
    }

    /// Sums in double precision, and for each the magnitude that its error is relative to.
    fn expected(&self, pooling: Pooling) -> Vec<(f64, f64)> {
        let dim = self.table.dim();
        let mut row = vec![0.0f32; dim];
        let mut all = Vec::new();
        for span in self.offsets.windows(2).map(|pair| pair[0] as usize..pair[1] as usize) {
            let mut sums = vec![None; dim];
            let mut size = 0.0;
            for at in span.clone() {
                self.table.row(self.values[at], &mut row);
                let weight = self.weights.as_ref().map_or(1.0, |weights| f64::from(weights[at]));
                let most = row.iter().fold(0.0, |most, x| f64::max(most, f64::from(x.abs())));
                size += most * weight.abs().max(1.0);
                for (sum, &x) in sums.iter_mut().zip(&row) {
                    let x = f64::from(x);
                    *sum = Some(match (pooling, *sum) {
                        (Pooling::Sum | Pooling::Mean, sum) => sum.unwrap_or(0.0) + x * weight,
                        (_, None) => x,
                        (Pooling::Max, Some(sum)) => f64::max(sum, x),
                        (Pooling::Min, Some(sum)) => f64::min(sum, x),
                    });
                }
            }
            let count = if pooling == Pooling::Mean { span.len().max(1) as f64 } else { 1.0 };
            all.extend(sums.iter().map(|sum| (sum.unwrap_or(0.0) / count, size / count)));
        }
        all
    }
}

fn agrees(out: &[f32], expected: &[(f64, f64)], by: &str) -> Result<(), TestCaseError> {
    for (at, (&sum, &(want, size))) in out.iter().zip(expected).enumerate() {
        let off = (f64::from(sum) - want).abs();
        prop_assert!(off <= 1e-5 * size, "{by}: number {at} is {sum}, should be {want}, magnitude {size}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 600 }))]

    #[test]
    fn every_kernel_is_decode_then_add(case in case()) {
        let made = case.make();
        let bags = made.bags();
        let expected = made.expected(case.pooling);
        let tuning = Tuning { prefetch: case.prefetch };
        for kernel in Kernel::available() {
            // Numbers that must not be left anywhere.
            let mut out = vec![f32::NAN; expected.len()];
            reduce_with(kernel, &made.table, &bags, case.pooling, tuning, &mut out).expect("ids are rows");
            agrees(&out, &expected, &kernel.to_string())?;
        }
    }

    #[test]
    fn touching_is_the_same_to_the_bit_and_yields_once_for_64_rows(case in case()) {
        let made = case.make();
        let bags = made.bags();
        let mut whole = vec![f32::NAN; bags.len() * case.dim];
        reduce(&made.table, &bags, case.pooling, Tuning::default(), &mut whole).expect("ids are rows");
        let mut out = vec![f32::NAN; whole.len()];
        let mut yields = 0;
        {
            let mut future = std::pin::pin!(reduce_touching(&made.table, &bags, case.pooling, &mut out));
            let mut cx = Context::from_waker(Waker::noop());
            loop {
                match future.as_mut().poll(&mut cx) {
                    Poll::Ready(done) => break done.expect("ids are rows"),
                    Poll::Pending => yields += 1,
                }
            }
        }
        prop_assert_eq!(yields, made.values.len().div_ceil(TOUCHES));
        // A scaled sum adds its biases piece by piece, so that order, and so rounding, differs there.
        agrees(&out, &made.expected(case.pooling), "touching")?;
        if matches!(case.format, RowFormat::F32 | RowFormat::F16) {
            prop_assert_eq!(out, whole);
        }
    }
}

#[test]
fn an_id_that_is_no_row_is_refused_and_nothing_is_written() {
    let table = Table::zeroed(5, 16, RowFormat::F32).expect("memory");
    let bags = Bags::new(&[1, 5], &[0, 2], None).expect("bags");
    let mut out = [7.0; 16];
    let refused = Err(BagsError::Id { at: 1, id: 5, rows: 5 });
    for kernel in Kernel::available() {
        assert_eq!(reduce_with(kernel, &table, &bags, Pooling::Sum, Tuning::default(), &mut out), refused);
    }
    assert_eq!(out, [7.0; 16]);
}

#[test]
fn the_greatest_and_the_least_pass_over_what_is_no_number_and_a_sum_does_not() {
    let rows = [[f32::NAN; 40], [2.0; 40], [-3.0; 40], [f32::NAN; 40]];
    let table = Table::from_rows(4, 40, RowFormat::F32, |at, row| row.copy_from_slice(&rows[at as usize]));
    let table = table.expect("memory");
    let bags = Bags::new(&[0, 1, 2, 3, 3], &[0, 4, 5], None).expect("bags");
    for kernel in Kernel::available() {
        let reduced = |pooling| {
            let mut out = [0.0; 80];
            reduce_with(kernel, &table, &bags, pooling, Tuning::default(), &mut out).expect("ids are rows");
            // Of what is no number the bits may be any.
            let alike = |x: &f32| x.to_bits() == out[0].to_bits() || (x.is_nan() && out[0].is_nan());
            assert!(out[..40].iter().all(alike), "all lanes alike");
            (out[0], out[40])
        };
        assert_eq!(reduced(Pooling::Max), (2.0, f32::NEG_INFINITY), "{kernel}");
        assert_eq!(reduced(Pooling::Min), (-3.0, f32::INFINITY), "{kernel}");
        assert!(reduced(Pooling::Sum).0.is_nan(), "{kernel}");
    }
}

#[test]
fn the_best_kernel_is_one_of_the_available() {
    assert!(Kernel::best().is_available() && Kernel::Portable.is_available());
    assert_eq!(Kernel::available().last(), Some(Kernel::best()));
}
