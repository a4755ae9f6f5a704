//! Bodies: scores, errors, what the server and its model are.

use super::describe::{self, Configuration, Statistics};
use crate::gzip;
use crate::rec::counters::{Counters, Stages};
use crate::rec::job::Scored;
use crate::rec::refusal::Refusal;
use crate::rec::registers::Registers;
use crate::rec::shelf::{Indexed, Model};
use axum::body::Bytes;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use rec::request::Served;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// How long the JSON before binary data is.
pub const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

#[derive(Serialize)]
struct Answer<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    parameters: Times,
    outputs: [Output<'a>; 1],
}

/// Where time went, in nanoseconds.
#[derive(Serialize)]
struct Times {
    queue_ns: u64,
    parse_ns: u64,
    preprocess_ns: u64,
    wait_ns: u64,
    reduce_ns: u64,
    mlp_ns: u64,
    together: u32,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'static str,
    datatype: &'static str,
    shape: [usize; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Binary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a [f32]>,
}

#[derive(Serialize)]
struct Binary {
    binary_data_size: usize,
}

impl From<Stages> for Times {
    fn from(stages: Stages) -> Times {
        Times {
            queue_ns: stages.queue.0,
            parse_ns: stages.parse.0,
            preprocess_ns: stages.preprocess.0,
            wait_ns: stages.wait.0,
            reduce_ns: stages.reduce.0,
            mlp_ns: stages.mlp.0,
            together: stages.together,
        }
    }
}

/// Shorter bodies are not worth compressing: they fit into one packet.
const MIN_PACKED: usize = 1 << 10;

/// Scores, compressed for a client that takes that.
pub fn scored(scored: &Scored, takes_gzip: bool) -> Response {
    let Scored { served, scores, id, is_binary, stages } = scored;
    let outputs = served.model().outputs();
    let size = scores.len() * size_of::<f32>();
    let answer = Answer {
        model_name: &served.name,
        model_version: &served.version,
        id: id.as_deref(),
        parameters: Times::from(*stages),
        outputs: [Output {
            name: "scores",
            datatype: "FP32",
            shape: [scores.len() / outputs.max(1), outputs],
            parameters: is_binary.then_some(Binary { binary_data_size: size }),
            data: (!is_binary).then_some(scores),
        }],
    };
    let mut body = serde_json::to_vec(&answer).expect("texts and numbers");
    if !is_binary {
        return with_body([(header::CONTENT_TYPE, "application/json".to_owned())], body, takes_gzip);
    }
    let length = body.len().to_string();
    body.reserve_exact(size);
    scores.iter().for_each(|score| body.extend_from_slice(&score.to_le_bytes()));
    let content_type = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    with_body([content_type, (JSON_LENGTH, length)], body, takes_gzip)
}

fn with_body<const N: usize>(
    headers: [(HeaderName, String); N],
    body: Vec<u8>,
    takes_gzip: bool,
) -> Response {
    let packed = if takes_gzip && body.len() >= MIN_PACKED { gzip::packed(&body) } else { None };
    match packed {
        Some(packed) => (headers, [(header::CONTENT_ENCODING, "gzip")], Bytes::from(packed)).into_response(),
        None => (headers, Bytes::from(body)).into_response(),
    }
}

/// An error.
pub fn error(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "error": text }))).into_response()
}

/// A refusal.
pub fn refusal(why: &Refusal) -> Response {
    error(why.http(), &why.to_string())
}

/// What the server is.
pub fn server() -> Value {
    json!({ "name": describe::NAME, "version": describe::VERSION, "extensions": describe::EXTENSIONS })
}

/// What was counted of models.
pub fn statistics(models: &[Arc<Model>]) -> Value {
    let one = |model: &Arc<Model>| {
        let counted = Statistics::of(&model.counted);
        let stages = counted.stages();
        let stages = stages.map(|(name, (count, ns))| (name.to_owned(), json!({ "count": count, "ns": ns })));
        json!({
            "name": model.name,
            "version": model.version,
            "inference_count": counted.inferences,
            "execution_count": counted.executions,
            "inference_stats": stages.into_iter().collect::<serde_json::Map<String, Value>>(),
        })
    };
    json!({ "model_stats": models.iter().map(one).collect::<Vec<_>>() })
}

/// How a model is configured.
pub fn configuration(served: &Served, registers: &Registers) -> Value {
    let tensors = |all: Vec<describe::Tensor>| {
        let one = |tensor: describe::Tensor| {
            let dims: Vec<_> = tensor.shape.iter().map(|size| json!(size)).collect();
            json!({ "name": tensor.name, "data_type": describe::data_type(&tensor).name(), "dims": dims })
        };
        all.into_iter().map(one).collect::<Vec<_>>()
    };
    let Configuration { batch, delay, formats } = Configuration::of(served, registers);
    let formats = formats
        .into_iter()
        .map(|(table, format)| (format!("{table}.row_format"), json!({ "string_value": format })));
    json!({
        "name": served.name,
        "platform": describe::PLATFORM,
        "backend": describe::PLATFORM,
        "version_policy": { "specific": { "versions": served.version.parse::<u64>().into_iter().collect::<Vec<_>>() } },
        "max_batch_size": batch,
        "input": tensors(describe::inputs(served)),
        "output": tensors(describe::outputs(served)),
        "dynamic_batching": { "max_queue_delay_microseconds": delay, "preserve_ordering": true },
        "parameters": formats.collect::<serde_json::Map<String, Value>>(),
    })
}

/// The models of the repository.
pub fn index(index: Vec<Indexed>) -> Value {
    let one = |Indexed { name, version, state, reason }| json!({ "name": name, "version": version, "state": state, "reason": reason });
    index.into_iter().map(one).collect()
}

/// What the newest of these versions of a model takes and gives.
pub fn model(versions: &[Arc<Model>], counters: &Counters) -> Value {
    let tensors = |all: Vec<describe::Tensor>| {
        let one = |tensor: describe::Tensor| json!({ "name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape });
        all.into_iter().map(one).collect::<Vec<_>>()
    };
    let served = versions.last().expect("at least one was found");
    let model = served.model();
    json!({
        "name": served.name,
        "versions": versions.iter().map(|model| &model.version).collect::<Vec<_>>(),
        "platform": describe::PLATFORM,
        "inputs": tensors(describe::inputs(served)),
        "outputs": tensors(describe::outputs(served)),
        "parameters": {
            "generation": served.generation,
            "counters": counters.all().into_iter().map(|(name, value, _)| (name.to_owned(), value.into()))
                .collect::<serde_json::Map<String, Value>>(),
            "tables": model.tables().iter().map(|table| json!({
                "name": table.name, "rows": table.rows(), "dim": table.dim(), "format": table.format().to_string(),
            })).collect::<Vec<_>>(),
        },
    })
}
