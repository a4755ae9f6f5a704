//! The body of an infer request: a JSON object, and behind it, if the header `Inference-Header-Content-Length` says where the object ends, the data of
//! tensors in binary, in the order of the inputs.
//!
//! Sources: the Open Inference Protocol's HTTP form and its binary tensor data extension (Triton's `extension_binary_data.md`).
//!
//! Bounds: at most [`MOST_INPUTS`] inputs of [`MOST_DIMENSIONS`]; the body's length is the edge's to bound.

use super::RequestError;
use super::numbers::Numbers;
use super::wrong::{What, Wrong};
use serde::Deserialize;

/// Inputs of a request.
pub const MOST_INPUTS: usize = 1 << 14;
/// Dimensions of an input.
pub const MOST_DIMENSIONS: usize = 8;

/// A request, read.
#[derive(Debug)]
pub struct Request<'b> {
    /// To be given back with the answer.
    pub id: Option<String>,
    /// Its tensors.
    pub inputs: Vec<Tensor<'b>>,
    /// The scores are wanted in binary.
    pub is_binary: bool,
}

/// A tensor, with as much data as its shape says.
#[derive(Debug)]
pub struct Tensor<'b> {
    /// Its name.
    pub name: String,
    /// `INT64`, …
    pub datatype: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its data.
    pub data: Data<'b>,
}

/// A tensor's data.
#[derive(Debug)]
pub enum Data<'b> {
    /// From JSON, or as numbers of another form.
    Json(Numbers),
    /// Little endian.
    Binary(&'b [u8]),
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parameters: Option<Parameters>,
    inputs: Vec<Input>,
    #[serde(default)]
    outputs: Option<Vec<Output>>,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    shape: Vec<u64>,
    datatype: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    #[serde(default)]
    data: Option<Numbers>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Option<Parameters>,
}

/// Those that mean something here; others are left alone.
#[derive(Default, Deserialize)]
struct Parameters {
    #[serde(default)]
    binary_data_size: Option<u64>,
    #[serde(default)]
    binary_data: Option<bool>,
    #[serde(default)]
    binary_data_output: Option<bool>,
}

impl<'b> Request<'b> {
    /// Reads `body`, whose JSON is `header` bytes long, or all of it.
    ///
    /// # Errors
    /// It is no such thing.
    pub fn parse(body: &'b [u8], header: Option<usize>) -> Result<Request<'b>, RequestError> {
        let (json, mut rest) = match header {
            None => (body, &[][..]),
            Some(length) => body.split_at_checked(length).ok_or_else(|| {
                let have = body.len();
                RequestError::Malformed(format!(
                    "header Inference-Header-Content-Length is {length}, but the body has {have} bytes"
                ))
            })?,
        };
        let object: Object = serde_json::from_slice(json).map_err(|error| {
            RequestError::Malformed(format!("the body is no infer request in JSON: {error}"))
        })?;
        if object.inputs.len() > MOST_INPUTS {
            let have = object.inputs.len();
            return Err(RequestError::Malformed(format!(
                "there are {have} inputs; at most {MOST_INPUTS} may be"
            )));
        }
        let inputs = object.inputs.into_iter().map(|input| Tensor::take(input, &mut rest));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        if !rest.is_empty() {
            let why =
                format!("{} bytes of binary data belong to no input (see binary_data_size)", rest.len());
            return Err(RequestError::Malformed(why));
        }
        let mut is_binary = object.parameters.and_then(|p| p.binary_data_output).unwrap_or(false);
        for output in object.outputs.into_iter().flatten() {
            if output.name != "scores" {
                return Err(Wrong::of(&output.name, What::Missing("the name of an output: scores")).into());
            }
            is_binary = output.parameters.and_then(|p| p.binary_data).unwrap_or(is_binary);
        }
        Ok(Request { id: object.id, inputs, is_binary })
    }
}

impl<'b> Tensor<'b> {
    /// Of a shape, with its data.
    ///
    /// # Errors
    /// The data are not as many as the shape says.
    pub fn new(name: String, datatype: String, shape: &[u64], data: Data<'b>) -> Result<Tensor<'b>, Wrong> {
        let wrong = |what| Err(Wrong::of(&name, what));
        let sizes = shape.iter().map(|&size| usize::try_from(size).ok());
        let count = sizes.into_iter().try_fold(1usize, |product, size| product.checked_mul(size?));
        let count = match count {
            Some(count) if shape.len() <= MOST_DIMENSIONS => count,
            _ => {
                return wrong(What::Data(format!(
                    "the shape {:?} is too large",
                    &shape[..shape.len().min(8)]
                )));
            }
        };
        match &data {
            Data::Binary(bytes) => {
                let width = match &datatype[..] {
                    "BYTES" => None,
                    "BOOL" | "INT8" | "UINT8" => Some(1),
                    "INT16" | "UINT16" | "FP16" | "BF16" => Some(2),
                    "INT32" | "UINT32" | "FP32" => Some(4),
                    _ => Some(8),
                };
                let have = bytes.len();
                if width.is_some_and(|width| count.checked_mul(width) != Some(have)) {
                    return wrong(What::Data(format!("{have} bytes are no {datatype} of shape {shape:?}")));
                }
            }
            Data::Json(numbers) if numbers.len() != count => {
                let have = numbers.len();
                return wrong(What::Data(format!("the shape says {count} elements, the data are {have}")));
            }
            Data::Json(_) => {}
        }
        let shape = shape.iter().map(|&size| size as usize).collect();
        Ok(Tensor { name, datatype, shape, data })
    }

    /// With its data from the object, or from the beginning of `rest`, which is shortened by them.
    fn take(input: Input, rest: &mut &'b [u8]) -> Result<Tensor<'b>, Wrong> {
        let wrong = |what| Err(Wrong::of(&input.name, what));
        let data = match (input.parameters.and_then(|p| p.binary_data_size), input.data) {
            (Some(size), None) => {
                let split = usize::try_from(size).ok().and_then(|size| rest.split_at_checked(size));
                let Some((own, behind)) = split else {
                    return wrong(What::Data(format!(
                        "binary_data_size is {size}, but {} bytes are left",
                        rest.len()
                    )));
                };
                *rest = behind;
                Data::Binary(own)
            }
            (None, Some(numbers)) => Data::Json(numbers),
            (Some(_), Some(_)) => return wrong(What::Data("it has data in JSON and in binary".to_owned())),
            (None, None) => return wrong(What::Data("it has no data".to_owned())),
        };
        Tensor::new(input.name, input.datatype, &input.shape, data)
    }
}
