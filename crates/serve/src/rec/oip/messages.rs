//! Messages of the Open Inference Protocol over gRPC: requests as tensors, scores as answers.
//!
//! Bounds: as many inputs as over HTTP; a message's length is the fabric's to bound.

use super::proto::inference as proto;
use crate::rec::counters::Stages;
use codec::memory::OutOfMemory;
use proto::model_infer_request::InferInputTensorView;
use proto::{ModelInferRequestView, ModelInferResponseMut};
use rec::request::{Data, MOST_INPUTS, Numbers, Request, RequestError, Served, Tensor, What, Wrong};

/// The tensors of a request.
///
/// # Errors
/// Some have no data, or others than their shape says.
pub fn tensors(request: ModelInferRequestView<'_>) -> Result<Request<'_>, RequestError> {
    let (inputs, raw) = (request.inputs(), request.raw_input_contents());
    let malformed = |why: String| Err(RequestError::Malformed(why));
    if inputs.len() > MOST_INPUTS {
        return malformed(format!("there are {} inputs; at most {MOST_INPUTS} may be", inputs.len()));
    }
    if !raw.is_empty() && raw.len() != inputs.len() {
        let (have, want) = (raw.len(), inputs.len());
        return malformed(format!("raw_input_contents has data of {have} tensors, inputs has {want}"));
    }
    let mut raw = raw.iter();
    let inputs = inputs.iter().map(|input| tensor(input, raw.next()));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = request.outputs().iter().find(|output| output.name() != "scores") {
        return Err(Wrong::of(other.name(), What::Missing("the name of an output: scores")).into());
    }
    let id = Some(request.id().to_owned()).filter(|id| !id.is_empty());
    Ok(Request { id, inputs, is_binary: !request.raw_input_contents().is_empty() })
}

fn tensor<'b>(input: InferInputTensorView<'b>, raw: Option<&'b [u8]>) -> Result<Tensor<'b>, Wrong> {
    let (name, datatype) = (input.name(), input.datatype());
    let wrong = |why: &str| Wrong::of(name, What::Data(why.to_owned()));
    let shape: Result<Vec<u64>, _> = input.shape().iter().map(|&size| u64::try_from(size)).collect();
    let shape = shape.map_err(|_| wrong("a size in its shape is less than 0"))?;
    let data = match (raw, input.contents()) {
        (Some(_), Some(_)) => return Err(wrong("it has contents, and raw contents")),
        (Some(raw), None) => Data::Binary(raw),
        (None, None) => return Err(wrong("it has no data")),
        (None, Some(contents)) => Data::Json(match datatype {
            "INT64" => Numbers::Whole(contents.int64_contents().to_vec()),
            "INT32" => Numbers::Whole(contents.int_contents().iter().map(|&one| one.into()).collect()),
            "FP32" => Numbers::Real(contents.fp32_contents().iter().map(|&one| one.into()).collect()),
            "BYTES" => {
                let texts = contents.bytes_contents().iter().map(|text| String::from_utf8(text.to_vec()));
                Numbers::Texts(texts.collect::<Result<_, _>>().map_err(|_| wrong("expected texts in UTF-8"))?)
            }
            _ => return Err(wrong("contents may be INT64, INT32, FP32 or BYTES")),
        }),
    };
    Tensor::new(name.to_owned(), datatype.to_owned(), &shape, data)
}

/// Writes scores, and the request's id; as bytes, if its own tensors were.
///
/// # Errors
/// No memory.
pub fn response(
    served: &Served,
    scores: &[f32],
    stages: &Stages,
    (id, is_binary): (&str, bool),
    to: &mut ModelInferResponseMut<'_, '_>,
) -> Result<(), OutOfMemory> {
    let outputs = served.model().outputs();
    to.set_model_name(&served.name)?;
    to.set_model_version(&served.version)?;
    to.set_id(id)?;
    for (name, value) in [
        ("queue_ns", stages.queue.0),
        ("parse_ns", stages.parse.0),
        ("preprocess_ns", stages.preprocess.0),
        ("wait_ns", stages.wait.0),
        ("reduce_ns", stages.reduce.0),
        ("mlp_ns", stages.mlp.0),
        ("together", stages.together.into()),
    ] {
        to.parameters_mut().message_mut(name)?.set_int64_param(value as i64);
    }
    let mut output = to.push_outputs()?;
    output.set_name("scores")?;
    output.set_datatype("FP32")?;
    output.set_shape(&[(scores.len() / outputs.max(1)) as i64, outputs as i64])?;
    if !is_binary {
        return output.contents_mut()?.set_fp32_contents(scores);
    }
    let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
    to.push_raw_output_contents(&bytes)
}
