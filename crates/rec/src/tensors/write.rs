//! Writing a safetensors file of f32 tensors.

use serde_json::json;
use std::io::{self, Write};

/// What gives a piece of a tensor's numbers: called until it gives none.
pub type Pieces<'a> = Box<dyn FnMut(&mut Vec<f32>) + 'a>;

/// Writes `tensors`, each its name, its shape and what gives its numbers, as F32 to `out`.
///
/// # Errors
/// Writing fails.
///
/// # Panics
/// If a tensor gives another number of numbers than its shape says.
pub fn write(out: &mut impl Write, tensors: Vec<(String, Vec<usize>, Pieces<'_>)>) -> io::Result<()> {
    let mut end = 0u64;
    let entries = tensors.iter().map(|(name, shape, _)| {
        let from = end;
        end += shape.iter().map(|&n| n as u64).product::<u64>() * 4;
        (name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [from, end]}))
    });
    let mut header = serde_json::Value::Object(entries.collect()).to_string().into_bytes();
    // Data on a multiple of 8, as the reference writes it.
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
    for (name, shape, mut pieces) in tensors {
        let mut len = 0;
        loop {
            numbers.clear();
            pieces(&mut numbers);
            if numbers.is_empty() {
                break;
            }
            len += numbers.len();
            bytes.clear();
            bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
            out.write_all(&bytes)?;
        }
        assert_eq!(len, shape.iter().product::<usize>(), "{name} gives the numbers of its shape");
    }
    Ok(())
}
