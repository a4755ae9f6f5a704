//! The header of a safetensors file, believed only when it covers the data exactly.

use super::{Dtype, Tensor, TensorsError};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// What the header says of one tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Entries with their names, in the order of the file. A map would keep only the last of two with one name.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let entry = map
                        .next_value()
                        .map_err(|error| M::Error::custom(format!("tensor {name:?}: {error}")))?;
                    entries.push((name, entry));
                }
                Ok(Entries(entries))
            }
        }
        from.deserialize_map(Each)
    }
}

/// Tensors by name, of data that has `len` bytes from `start` in the file on.
pub(super) fn parse(header: &[u8], start: u64, len: u64) -> Result<Vec<Tensor>, TensorsError> {
    let Entries(mut entries) =
        serde_json::from_slice(header).map_err(|error| TensorsError::Header(error.to_string()))?;
    // By place: each begins where the one before it ended.
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, Entry { dtype, shape, data_offsets: [from, to] }) in entries {
        let wrong = |what: String| Err(TensorsError::Tensor(name.clone(), what));
        let Some(dtype) = dtype_of(&dtype) else { return wrong(format!("type {dtype:?} is not known")) };
        let numbers = shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        let bits = numbers.and_then(|numbers| numbers.checked_mul(dtype.bits()));
        if from != end {
            return wrong(format!(
                "begins at {from} of the data; expected {end}, the end of the tensor before it"
            ));
        }
        if to < from || to > len {
            return wrong(format!(
                "has offsets {from} to {to}; expected them to rise, within {len} bytes of data"
            ));
        }
        if bits != Some((to - from).saturating_mul(8)) {
            return wrong(format!("has {} bytes, which are not those of its shape {shape:?}", to - from));
        }
        end = to;
        let shape = shape.iter().map(|&n| usize::try_from(n)).collect::<Result<_, _>>();
        let Ok(shape) = shape else { return wrong("is too large for this machine".to_owned()) };
        tensors.push(Tensor { name, dtype, shape, start: start + from });
    }
    if end != len {
        return Err(TensorsError::Header(format!("tensors end at {end}, the data at {len}")));
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(TensorsError::Tensor(pair[0].name.clone(), "is there twice".to_owned()));
    }
    Ok(tensors)
}

fn dtype_of(name: &str) -> Option<Dtype> {
    Some(match name {
        "F32" => Dtype::F32,
        "F16" => Dtype::F16,
        "BF16" => Dtype::Bf16,
        "F4" => Dtype::Other(4),
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => Dtype::Other(8),
        "I16" | "U16" => Dtype::Other(16),
        "I32" | "U32" => Dtype::Other(32),
        "I64" | "U64" | "F64" | "C64" => Dtype::Other(64),
        _ => return None,
    })
}
