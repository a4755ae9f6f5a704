//! What the server and its model are, and what was counted: the same over HTTP and gRPC.

use crate::rec::counters::Counters;
use rec::request::Served;
use std::sync::atomic::{AtomicU64, Ordering};

/// The server's name.
pub const NAME: &str = "millrace";
/// Its version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What it can beside the protocol itself.
pub const EXTENSIONS: [&str; 3] = ["binary_tensor_data", "model_repository", "statistics"];
/// What kind of model it serves.
pub const PLATFORM: &str = "millrace_dlrm";

/// A tensor that the model takes or gives.
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its type, as the protocol has it.
    pub datatype: &'static str,
    /// Its shape; -1: any size.
    pub shape: Vec<i64>,
}

impl Tensor {
    fn of(name: impl Into<String>, datatype: &'static str, shape: &[i64]) -> Tensor {
        Tensor { name: name.into(), datatype, shape: shape.to_vec() }
    }
}

/// What the model takes.
pub fn inputs(served: &Served) -> Vec<Tensor> {
    let mut inputs = Vec::new();
    if served.model().dense() > 0 {
        inputs.push(Tensor::of("dense", "FP32", &[-1, served.model().dense() as i64]));
    }
    for name in served.names() {
        inputs.push(Tensor::of(format!("{name}.values"), "INT64", &[-1]));
        inputs.push(Tensor::of(format!("{name}.offsets"), "INT32", &[-1]));
    }
    inputs
}

/// What the model gives.
pub fn outputs(served: &Served) -> Vec<Tensor> {
    vec![Tensor::of("scores", "FP32", &[-1, served.model().outputs() as i64])]
}

/// How many, and their time together in nanoseconds.
pub type CountAndTime = (u64, u64);

/// What was counted, in the words of the protocol's statistics.
pub struct Statistics {
    /// Queries.
    pub inferences: u64,
    /// Batches.
    pub executions: u64,
    /// Requests that were answered with scores.
    pub success: CountAndTime,
    /// Others; their time is not counted.
    pub fail: CountAndTime,
    /// Of those with scores, what was waiting.
    pub queue: CountAndTime,
    /// Reading and checking.
    pub compute_input: CountAndTime,
    /// Of batches.
    pub compute_infer: CountAndTime,
    /// Of batches.
    pub compute_output: CountAndTime,
}

impl Statistics {
    /// As they stand.
    pub fn of(counters: &Counters) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (requests, batches) = (read(&counters.requests), read(&counters.batches));
        let failed = [&counters.refused, &counters.expired, &counters.panicked, &counters.given_up];
        Statistics {
            inferences: read(&counters.queries),
            executions: batches,
            success: (requests, read(&counters.total)),
            fail: (failed.into_iter().map(read).sum(), 0),
            queue: (requests, read(&counters.queued)),
            compute_input: (read(&counters.taken), read(&counters.preprocess_busy)),
            compute_infer: (batches, read(&counters.reduce) + read(&counters.mlp)),
            compute_output: (batches, read(&counters.reply)),
        }
    }

    /// Those of stages, by name.
    pub fn stages(&self) -> [(&'static str, CountAndTime); 6] {
        [
            ("success", self.success),
            ("fail", self.fail),
            ("queue", self.queue),
            ("compute_input", self.compute_input),
            ("compute_infer", self.compute_infer),
            ("compute_output", self.compute_output),
        ]
    }
}
