//! Tensors by name in a safetensors file, read piece by piece and written.
//!
//! ```text
//!  header length u64 · header, JSON {"name": {"dtype", "shape", "data_offsets": [from, to]}, …, "__metadata__": {…}} · data
//! ```
//! The file is read, not mapped: a file that is cut while a model loads is an error then, and no signal later.
//! Numbers come as f32, whatever they are written as.
//!
//! Invariants (checked in [`Tensors::open`] before anything is believed): the header is at most [`MAX_HEADER`] bytes and inside the file; names are there once;
//! each tensor's bytes are its shape's product times its type's size, in arithmetic that cannot overflow; tensors cover the data exactly, without
//! gap or overlap.
//!
//! Bounds: memory for the header, and for one piece of a tensor at a time.
//!
//! Why not the `safetensors` crate: it wants the whole file in memory or mapped, and takes the last of two tensors with one name.
//!
//! Source: the format as in huggingface/safetensors, README.

mod header;
#[cfg(test)]
mod tests;
mod write;

pub use write::{Pieces, write};

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The longest header that is read: room for 100,000 tensors.
pub const MAX_HEADER: u64 = 16 << 20;

/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of a single.
    Bf16,
    /// Something of so many bits that is no weight.
    Other(u8),
}

impl Dtype {
    fn bits(self) -> u64 {
        match self {
            Dtype::F32 => 32,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::Other(bits) => bits.into(),
        }
    }
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// How its numbers are written.
    pub dtype: Dtype,
    /// How many there are in each dimension.
    pub shape: Vec<usize>,
    /// Where its bytes begin in the file.
    start: u64,
}

impl Tensor {
    /// Numbers in it.
    pub fn len(&self) -> usize {
        // Checked when the header was read: it does not overflow.
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a file has no tensors to read.
#[derive(Debug)]
pub enum TensorsError {
    /// Reading failed.
    Io(io::Error),
    /// The file has so many bytes, too few for a header length.
    Short(u64),
    /// The header would have so many bytes, which is more than the file has or than is read.
    HeaderLength(u64),
    /// The header is not what it should be.
    Header(String),
    /// A tensor is not what it should be, and what it should be.
    Tensor(String, String),
}

impl fmt::Display for TensorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorsError::Io(error) => write!(f, "reading tensors: {error}"),
            TensorsError::Short(len) => write!(f, "{len} bytes are no safetensors file; is it complete?"),
            TensorsError::HeaderLength(len) => write!(
                f,
                "the header would have {len} bytes, more than the file or than {MAX_HEADER}; is it a safetensors file, and complete?"
            ),
            TensorsError::Header(what) => {
                write!(f, "the safetensors header is wrong: {what}; write the file anew")
            }
            TensorsError::Tensor(name, what) => write!(f, "tensor {name:?}: {what}"),
        }
    }
}

impl std::error::Error for TensorsError {}

impl From<io::Error> for TensorsError {
    fn from(error: io::Error) -> TensorsError {
        TensorsError::Io(error)
    }
}

/// Where the bytes are.
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Source::File(file) => file.read_exact_at(out, at),
            Source::Memory(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..out.len()));
                out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// The tensors of one file.
pub struct Tensors {
    source: Source,
    /// By name.
    tensors: Vec<Tensor>,
}

impl Tensors {
    /// The tensors of the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is no safetensors file.
    pub fn open(path: &Path) -> Result<Tensors, TensorsError> {
        let file = base::files::open(path)?;
        let len = file.metadata()?.len();
        Tensors::new(Source::File(file), len)
    }

    /// The tensors of a file with these bytes.
    ///
    /// # Errors
    /// They are no safetensors file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Tensors, TensorsError> {
        let len = bytes.len() as u64;
        Tensors::new(Source::Memory(bytes), len)
    }

    fn new(source: Source, len: u64) -> Result<Tensors, TensorsError> {
        let Some(left) = len.checked_sub(8) else { return Err(TensorsError::Short(len)) };
        let mut word = [0; 8];
        source.read(0, &mut word)?;
        let header_len = u64::from_le_bytes(word);
        if header_len > left || header_len > MAX_HEADER {
            return Err(TensorsError::HeaderLength(header_len));
        }
        let mut header = vec![0; header_len as usize];
        source.read(8, &mut header)?;
        let tensors = header::parse(&header, 8 + header_len, left - header_len)?;
        Ok(Tensors { source, tensors })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter()
    }

    /// The one called `name`.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        let at = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[at])
    }

    /// Reads numbers of `tensor`, from `from` on, into `out`.
    ///
    /// # Errors
    /// Reading fails, the tensor has not so many numbers, holds no weights, or has one that is not finite (as f32).
    pub fn read(&self, tensor: &Tensor, from: usize, out: &mut [f32]) -> Result<(), TensorsError> {
        let wrong = |what: String| TensorsError::Tensor(tensor.name.clone(), what);
        if from.checked_add(out.len()).is_none_or(|end| end > tensor.len()) {
            return Err(wrong(format!("has {} numbers, not {} from {from} on", tensor.len(), out.len())));
        }
        let size = match tensor.dtype {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Other(bits) => {
                return Err(wrong(format!("has a type of {bits} bits; expected F32, F16 or BF16")));
            }
        };
        let mut bytes = vec![0; PIECE.min(out.len() * size)];
        let mut at = tensor.start + (from * size) as u64;
        for out in out.chunks_mut(PIECE / size) {
            let bytes = &mut bytes[..out.len() * size];
            self.source.read(at, bytes)?;
            at += bytes.len() as u64;
            let (pairs, fours) = (bytes.as_chunks::<2>().0, bytes.as_chunks::<4>().0);
            match tensor.dtype {
                Dtype::F16 => {
                    out.iter_mut().zip(pairs).for_each(|(x, &b)| *x = half::f16::from_le_bytes(b).to_f32())
                }
                Dtype::Bf16 => {
                    out.iter_mut().zip(pairs).for_each(|(x, &b)| *x = half::bf16::from_le_bytes(b).to_f32())
                }
                _ => out.iter_mut().zip(fours).for_each(|(x, &b)| *x = f32::from_le_bytes(b)),
            }
            if !out.iter().all(|x| x.is_finite()) {
                return Err(wrong(
                    "has a number that is not finite; the model cannot answer with it".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// All numbers of `tensor`.
    ///
    /// # Errors
    /// As [`Tensors::read`].
    pub fn numbers(&self, tensor: &Tensor) -> Result<Vec<f32>, TensorsError> {
        // Bounded by the file's own length: the data was found to be there.
        let mut numbers = vec![0.0; tensor.len()];
        self.read(tensor, 0, &mut numbers)?;
        Ok(numbers)
    }
}
