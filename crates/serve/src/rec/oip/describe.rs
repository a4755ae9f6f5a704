//! What the server and its model are, and what was counted: the same over HTTP and gRPC.

use super::proto::inference::DataType;
use crate::rec::counters::Counted;
use crate::rec::registers::{Id, Registers};
use rec::request::Served;
use std::sync::atomic::{AtomicU64, Ordering};

/// The server's name.
pub const NAME: &str = "millrace";
/// Its version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What it can beside the protocol itself.
pub const EXTENSIONS: [&str; 4] =
    ["binary_tensor_data", "model_configuration", "model_repository", "statistics"];
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

/// A tensor's type, as a model's configuration has it.
pub fn data_type(tensor: &Tensor) -> DataType {
    match tensor.datatype {
        "FP32" => DataType::TYPE_FP32,
        "INT32" => DataType::TYPE_INT32,
        _ => DataType::TYPE_INT64,
    }
}

/// How a model is configured.
pub struct Configuration {
    /// Queries that are computed together at most.
    pub batch: i32,
    /// For how long a query waits for others, in microseconds.
    pub delay: u64,
    /// How each table's rows are kept, by its name.
    pub formats: Vec<(String, String)>,
}

impl Configuration {
    /// Of a model, as registers stand.
    pub fn of(served: &Served, registers: &Registers) -> Configuration {
        let tables = served.model().tables().iter();
        Configuration {
            batch: registers.size(Id::Batch).try_into().unwrap_or(i32::MAX),
            delay: registers.read(Id::Linger),
            formats: tables.map(|table| (table.name.clone(), table.format().to_string())).collect(),
        }
    }
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
    /// Of a model, as they stand.
    pub fn of(counted: &Counted) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (requests, batches) = (read(&counted.requests), read(&counted.batches));
        Statistics {
            inferences: read(&counted.queries),
            executions: batches,
            success: (requests, read(&counted.total)),
            fail: (read(&counted.failed), 0),
            queue: (requests, read(&counted.queued)),
            compute_input: (read(&counted.taken), read(&counted.preprocess)),
            compute_infer: (batches, read(&counted.compute)),
            compute_output: (batches, read(&counted.reply)),
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
