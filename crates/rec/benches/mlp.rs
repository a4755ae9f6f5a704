//! What an MLP costs with packed weights beside `matrixmultiply::sgemm` with bias and activation behind it.
//!
//! Samples of all sides follow each other within a repetition, and the ratio is taken within it, so that whatever the machine does hits them alike.
//! Weights are in whatever cache they fit, as in a server that runs one model.
//!
//! `cargo bench -p millrace-rec --bench mlp [-- --quick]`

use base::{Clock, Nanos, Prng, cpu};
use rec::Kernel;
use rec::{Activation, Layer, Mlp};

const SHAPES: [&[usize]; 4] =
    [&[13, 512, 256, 64], &[512, 256, 1], &[479, 1024, 1024, 512, 256, 1], &[13, 64, 16]];
const BATCHES: [usize; 5] = [1, 2, 4, 8, 16];

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let (repeats, time) = if quick { (5, Nanos::from_millis(1)) } else { (31, Nanos::from_millis(3)) };
    println!(
        "{}; {repeats} repetitions; ns per query, median; ratio to sgemm's, median [p10..p90]",
        cpu::model_name()
    );
    println!(
        "{:>24} {:>5} {:>9} {:>9} {:>9} {:>9}  sgemm/best",
        "layers", "batch", "sgemm", "portable", "avx2", "avx512"
    );
    for shape in SHAPES {
        for batch in BATCHES {
            compare(shape, batch, repeats, time);
        }
    }
}

fn compare(shape: &[usize], batch: usize, repeats: usize, time: Nanos) {
    let mut rng = Prng::new(1);
    let mut numbers =
        |len: usize| (0..len).map(|_| rng.below(2001) as f32 / 1e5 - 0.01).collect::<Vec<f32>>();
    let layers: Vec<Layer> = shape
        .windows(2)
        .map(|pair| Layer {
            weight: numbers(pair[0] * pair[1]),
            bias: numbers(pair[1]),
            inputs: pair[0],
            activation: Activation::Relu,
        })
        .collect();
    let x = numbers(batch * shape[0]);
    let kernels = Kernel::ALL;
    let mlps: Vec<_> = kernels
        .iter()
        .map(|&kernel| kernel.is_available().then(|| Mlp::with_kernel(layers.clone(), kernel)))
        .collect();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    // Medians of four sides, and of the ratio.
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); 5];
    for _ in 0..repeats {
        let gemm = sample(time, batch, || {
            a.clone_from(&x);
            sgemm(&layers, batch, &mut a, &mut b);
        });
        columns[0].push(gemm);
        let mut best = f64::INFINITY;
        for (mlp, column) in mlps.iter().zip(&mut columns[1..4]) {
            let Some(mlp) = mlp else { continue };
            let ns = sample(time, batch, || {
                a.clone_from(&x);
                mlp.forward(batch, &mut a, &mut b);
            });
            column.push(ns);
            best = best.min(ns);
        }
        columns[4].push(gemm / best);
    }
    let name = shape.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    print!("{name:>24} {batch:>5}");
    for column in &mut columns {
        column.sort_by(f64::total_cmp);
    }
    let at = |column: &[f64], part: f64| {
        column.get((column.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN)
    };
    columns[..4].iter().for_each(|column| print!(" {:>9.0}", at(column, 0.5)));
    println!("  {:.2} [{:.2}..{:.2}]", at(&columns[4], 0.5), at(&columns[4], 0.1), at(&columns[4], 0.9));
}

/// Nanoseconds per query of `work`, which is a batch.
fn sample(time: Nanos, batch: usize, mut work: impl FnMut()) -> f64 {
    let clock = Clock::shared();
    work();
    let (start, mut times) = (clock.now(), 0u64);
    loop {
        (0..4).for_each(|_| work());
        times += 4;
        let spent = Nanos(clock.now().0 - start.0);
        if spent > time {
            return spent.0 as f64 / (times * batch as u64) as f64;
        }
    }
}

/// The same layers by the library.
fn sgemm(layers: &[Layer], batch: usize, x: &mut Vec<f32>, y: &mut Vec<f32>) {
    for layer in layers {
        let (inputs, outputs) = (layer.inputs, layer.bias.len());
        y.clear();
        (0..batch).for_each(|_| y.extend_from_slice(&layer.bias));
        let (k, n) = (inputs as isize, outputs as isize);
        // SAFETY: x is batch × inputs, the weights outputs × inputs taken transposed, y batch × outputs; the strides say so.
        unsafe {
            matrixmultiply::sgemm(
                batch,
                inputs,
                outputs,
                1.0,
                x.as_ptr(),
                k,
                1,
                layer.weight.as_ptr(),
                1,
                k,
                1.0,
                y.as_mut_ptr(),
                n,
                1,
            );
        }
        y.iter_mut().for_each(|y| *y = layer.activation.apply(*y));
        std::mem::swap(x, y);
    }
}
