//! A multi-layer perceptron: `y = activation(W·x + b)`, layer after layer.

/// What follows a layer's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
}

/// One layer.
pub struct Layer {
    /// `outputs × inputs` numbers, row after row (PyTorch's `Linear.weight`).
    pub weight: Vec<f32>,
    /// A number for each output.
    pub bias: Vec<f32>,
    /// How many inputs there are.
    pub inputs: usize,
    /// What follows.
    pub activation: Activation,
}

/// Layers.
pub struct Mlp {
    layers: Vec<Layer>,
}

impl Mlp {
    /// An MLP of `layers`, each taking what the one before gives.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn new(layers: Vec<Layer>) -> Mlp {
        assert!(layers.iter().all(|layer| layer.weight.len() == layer.inputs * layer.bias.len()));
        assert!(layers.windows(2).all(|pair| pair[0].bias.len() == pair[1].inputs));
        Mlp { layers }
    }

    /// How many numbers a query has; 0 without layers.
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    /// How many numbers come out.
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias.len())
    }

    /// Applies all layers to `numbers`, `batch × inputs`, which becomes `batch × outputs`.
    pub fn forward(&self, batch: usize, numbers: &mut Vec<f32>, spare: &mut Vec<f32>) {
        for layer in &self.layers {
            spare.clear();
            for query in 0..batch {
                let input = &numbers[query * layer.inputs..][..layer.inputs];
                for (row, bias) in layer.weight.chunks_exact(layer.inputs).zip(&layer.bias) {
                    let sum = bias + row.iter().zip(input).map(|(w, x)| w * x).sum::<f32>();
                    spare.push(match layer.activation {
                        Activation::Identity => sum,
                        Activation::Relu => sum.max(0.0),
                        Activation::Sigmoid => 1.0 / (1.0 + (-sum).exp()),
                    });
                }
            }
            std::mem::swap(numbers, spare);
        }
    }
}
