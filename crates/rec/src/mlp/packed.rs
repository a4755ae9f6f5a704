//! A layer's weights in the order in which the kernels read them.
//!
//! ```text
//!  many outputs: panels of 16 outputs, in a panel input after input       few outputs (< 8): rows, as they were
//!   panel 0                          panel 1                               row 0: w[0][0] w[0][1] …
//!   w[0][0] w[1][0] … w[15][0]       w[16][0] …                            row 1: …
//!   w[0][1] w[1][1] … w[15][1]       …
//!   …
//! ```
//! A panel's line is one 512-bit register (two of 256), multiplied by one input of a query that is broadcast. A block of queries shares each line that was
//! loaded; several panels at once keep enough sums in flight to hide the latency of the multiply-add. The last panel is filled up with zeros.
//! With few outputs (the last layer has one) most of a panel would be padding: there each output is a dot product along the inputs.

use super::kernel::{self, PANEL};
use super::{Activation, Layer};
use crate::kernel::Kernel;

/// Fewer outputs than this are dot products.
const FEW: usize = 8;

/// A packed layer.
pub(super) struct Packed {
    inputs: usize,
    activation: Activation,
    /// Panels, or rows if there are few outputs.
    weights: Vec<f32>,
    /// One for each output; filled up to whole panels if the weights are.
    bias: Vec<f32>,
    outputs: usize,
}

impl Packed {
    pub(super) fn new(layer: &Layer) -> Packed {
        let (inputs, outputs) = (layer.inputs, layer.bias.len());
        assert!(inputs > 0 && outputs > 0, "a layer has inputs and outputs");
        assert_eq!(layer.weight.len(), inputs * outputs, "a weight for each pair of input and output");
        let mut bias = layer.bias.clone();
        let weights = if outputs < FEW {
            layer.weight.clone()
        } else {
            bias.resize(outputs.next_multiple_of(PANEL), 0.0);
            let mut weights = vec![0.0; bias.len() * inputs];
            for (output, row) in layer.weight.chunks_exact(inputs).enumerate() {
                let panel = &mut weights[output / PANEL * PANEL * inputs..];
                row.iter().enumerate().for_each(|(k, &w)| panel[k * PANEL + output % PANEL] = w);
            }
            weights
        };
        Packed { inputs, activation: layer.activation, weights, bias, outputs }
    }

    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The layer that was packed.
    pub(super) fn unpack(&self) -> Layer {
        let at = |output: usize, k: usize| match self.outputs < FEW {
            true => self.weights[output * self.inputs + k],
            false => self.weights[(output / PANEL * self.inputs + k) * PANEL + output % PANEL],
        };
        Layer {
            weight: (0..self.outputs)
                .flat_map(|output| (0..self.inputs).map(move |k| at(output, k)))
                .collect(),
            bias: self.bias[..self.outputs].to_vec(),
            inputs: self.inputs,
            activation: self.activation,
        }
    }

    /// Applies the layer to queries `x`, each `inputs` numbers, into `y`, each `outputs`.
    pub(super) fn apply(&self, kernel: Kernel, x: &[f32], y: &mut [f32]) {
        if self.outputs < FEW {
            for (x, y) in x.chunks_exact(self.inputs).zip(y.chunks_exact_mut(self.outputs)) {
                let rows = self.weights.chunks_exact(self.inputs).zip(&self.bias);
                for ((row, bias), y) in rows.zip(y) {
                    *y = self.activation.apply(bias + kernel::dot(kernel, row, x));
                }
            }
            return;
        }
        let relu = self.activation == Activation::Relu;
        kernel::panels(
            kernel,
            &kernel::Panels { weights: &self.weights, bias: &self.bias, inputs: self.inputs },
            relu,
            x,
            y,
        );
        if self.activation == Activation::Sigmoid {
            y.iter_mut().for_each(|y| *y = self.activation.apply(*y));
        }
    }
}
