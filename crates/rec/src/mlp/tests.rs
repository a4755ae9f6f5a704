use super::kernel;
use super::*;
use crate::kernel::Kernel;
use base::Prng;
use proptest::prelude::*;

fn numbers(rng: &mut Prng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0).collect()
}

fn layer(rng: &mut Prng, inputs: usize, outputs: usize, activation: Activation) -> Layer {
    Layer { weight: numbers(rng, inputs * outputs), bias: numbers(rng, outputs), inputs, activation }
}

/// Sums of `inputs` products of numbers up to 1, with a bias up to 1, differ by rounding alone.
fn is_close(inputs: usize, a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-5 * (1.0 + (inputs as f32).sqrt())
}

fn activation() -> impl Strategy<Value = Activation> {
    prop_oneof![Just(Activation::Identity), Just(Activation::Relu), Just(Activation::Sigmoid)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn packed_layers_equal_the_simple_loop(
        seed: u64, inputs in 1usize..80, outputs in 1usize..150, batch in 0usize..20, activation in activation()
    ) {
        let mut rng = Prng::new(seed);
        let layer = layer(&mut rng, inputs, outputs, activation);
        let x = numbers(&mut rng, batch * inputs);
        let want: Vec<f32> = x.chunks_exact(inputs).flat_map(|x| layer.apply(x)).collect();
        for kernel in Kernel::available() {
            let mlp = Mlp::with_kernel(vec![layer.clone()], kernel);
            // What a longer batch left behind must not be seen.
            let (mut have, mut spare) = (x.clone(), vec![f32::NAN; 4000]);
            mlp.forward(batch, &mut have, &mut spare);
            prop_assert_eq!(have.len(), want.len());
            for (have, want) in have.iter().zip(&want) {
                prop_assert!(is_close(inputs, *have, *want), "{kernel:?}: {have} for {want}");
            }
            prop_assert_eq!(mlp.layers().next(), Some(layer.clone()));
        }
    }

    #[test]
    fn dots_equal_the_simple_loop(seed: u64, len in 0usize..140) {
        let mut rng = Prng::new(seed);
        let vectors: [Vec<f32>; 5] = std::array::from_fn(|_| numbers(&mut rng, len));
        let [a, b @ ..] = &vectors;
        for kernel in Kernel::available() {
            let have = kernel::dots(kernel, a, b.each_ref().map(|b| b.as_slice()));
            for (b, have) in b.iter().zip(have) {
                let want: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                prop_assert!(is_close(len, have, want as f32), "{kernel:?}: {have} for {want}");
            }
        }
    }
}

#[test]
fn layers_follow_each_other() {
    let mut rng = Prng::new(7);
    let layers = vec![
        layer(&mut rng, 13, 512, Activation::Relu),
        layer(&mut rng, 512, 64, Activation::Relu),
        layer(&mut rng, 64, 1, Activation::Sigmoid),
    ];
    let x = numbers(&mut rng, 3 * 13);
    let want: Vec<f32> =
        x.chunks_exact(13).flat_map(|x| layers.iter().fold(x.to_vec(), |x, layer| layer.apply(&x))).collect();
    let mlp = Mlp::new(layers);
    assert_eq!((mlp.inputs(), mlp.outputs()), (13, 1));
    let (mut have, mut spare) = (x, Vec::new());
    mlp.forward(3, &mut have, &mut spare);
    assert!(have.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "{have:?} for {want:?}");
}
