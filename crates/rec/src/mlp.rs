//! A multi-layer perceptron: `y = activation(W·x + b)`, layer after layer, for batches of 1 to 16 queries.
//!
//! Why not a GEMM library: its packing of the weights is done anew at each call and costs as much as the product when the batch is small; and bias and
//! activation are further passes. Here weights are packed once (`packed`), a pass over them serves a block of queries, and bias and
//! activation happen in registers (`kernel`).
//!
//! Cost: `cargo bench -p millrace-rec --bench mlp` prints it beside `matrixmultiply`.

pub mod kernel;
mod packed;
#[cfg(test)]
mod tests;

use crate::kernel::Kernel;
use packed::Packed;
use serde::{Deserialize, Serialize};

/// What follows a layer's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Nothing.
    Identity,
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
}

impl Activation {
    /// Of one number.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        }
    }
}

/// One layer, as it is read and written.
#[derive(Clone, Debug, PartialEq)]
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

impl Layer {
    /// Applies the layer to one query by definition; what kernels are held against.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(self.inputs).zip(&self.bias);
        rows.map(|(row, bias)| {
            let sum = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>();
            self.activation.apply((f64::from(*bias) + sum) as f32)
        })
        .collect()
    }
}

/// Layers, packed.
pub struct Mlp {
    layers: Vec<Packed>,
    kernel: Kernel,
}

impl Mlp {
    /// An MLP of `layers`, each taking what the one before gives, for the best instructions of this machine.
    ///
    /// # Panics
    /// If shapes do not fit, or a layer has no inputs or no outputs.
    pub fn new(layers: Vec<Layer>) -> Mlp {
        Mlp::with_kernel(layers, Kernel::best())
    }

    /// As [`Mlp::new`], for `kernel`, to compare.
    ///
    /// # Panics
    /// As [`Mlp::new`]; and if this machine has no such instructions.
    pub fn with_kernel(layers: Vec<Layer>, kernel: Kernel) -> Mlp {
        assert!(kernel.is_available(), "this machine has no {kernel:?}");
        assert!(layers.windows(2).all(|pair| pair[0].bias.len() == pair[1].inputs), "layers fit together");
        Mlp { layers: layers.iter().map(Packed::new).collect(), kernel }
    }

    /// How many numbers a query has; 0 without layers.
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, Packed::inputs)
    }

    /// How many numbers come out.
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, Packed::outputs)
    }

    /// The layers as they were given.
    pub fn layers(&self) -> impl Iterator<Item = Layer> + '_ {
        self.layers.iter().map(Packed::unpack)
    }

    /// Applies all layers to `numbers`, `batch × inputs`, which becomes `batch × outputs`.
    ///
    /// # Panics
    /// If `numbers` has another length.
    pub fn forward(&self, batch: usize, numbers: &mut Vec<f32>, spare: &mut Vec<f32>) {
        for layer in &self.layers {
            assert_eq!(numbers.len(), batch * layer.inputs(), "a query has the layer's inputs");
            // No clearing between layers: every number is written by the kernel.
            spare.resize(batch * layer.outputs(), 0.0);
            layer.apply(self.kernel, numbers, spare);
            std::mem::swap(numbers, spare);
        }
    }
}
