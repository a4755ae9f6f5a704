//! How a row of numbers is written: full, half, or as integers with a scale and a bias of their own.
//!
//! Layout of a row of dimension `d`, little endian, without gaps (rows follow each other at [`RowFormat::row_bytes`]):
//!
//! ```text
//!  f32   d × f32
//!  f16   d × IEEE half
//!  int8  d × u8, scale f32, bias f32          value = q · scale + bias
//!  int4  d/2 bytes, low nibble first, scale f32, bias f32
//! ```
//! Scale and bias stand behind the row, as in FBGEMM's fused row-wise formats, so that one row is one or two neighbouring lines.

use std::fmt;
use std::str::FromStr;

/// How the rows of a table are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFormat {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// Bytes with a scale and a bias for each row.
    Int8,
    /// Nibbles with a scale and a bias for each row.
    Int4,
}

impl RowFormat {
    /// All of them.
    pub const ALL: [RowFormat; 4] = [RowFormat::F32, RowFormat::F16, RowFormat::Int8, RowFormat::Int4];

    /// Bytes of a row of `dim` numbers.
    ///
    /// # Panics
    /// If `dim` is odd and the format packs pairs.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            RowFormat::F32 => dim * 4,
            RowFormat::F16 => dim * 2,
            RowFormat::Int8 => dim + 8,
            RowFormat::Int4 => {
                assert!(dim.is_multiple_of(2), "int4 rows have an even dimension, not {dim}");
                dim / 2 + 8
            }
        }
    }

    /// Writes `row` to `bytes`, which has [`RowFormat::row_bytes`].
    pub fn encode(self, row: &[f32], bytes: &mut [u8]) {
        debug_assert_eq!(bytes.len(), self.row_bytes(row.len()));
        match self {
            RowFormat::F32 => {
                bytes.chunks_exact_mut(4).zip(row).for_each(|(b, x)| b.copy_from_slice(&x.to_le_bytes()));
            }
            RowFormat::F16 => bytes
                .chunks_exact_mut(2)
                .zip(row)
                .for_each(|(b, &x)| b.copy_from_slice(&half::f16::from_f32(x).to_le_bytes())),
            RowFormat::Int8 => {
                let (codes, tail) = bytes.split_at_mut(row.len());
                let quantise = scaled(row, 255.0, tail);
                codes.iter_mut().zip(row).for_each(|(b, &x)| *b = quantise(x));
            }
            RowFormat::Int4 => {
                let (codes, tail) = bytes.split_at_mut(row.len() / 2);
                let quantise = scaled(row, 15.0, tail);
                let pairs = row.chunks_exact(2);
                codes.iter_mut().zip(pairs).for_each(|(b, x)| *b = quantise(x[0]) | quantise(x[1]) << 4);
            }
        }
    }

    /// Reads the row in `bytes` into `row`.
    pub fn decode(self, bytes: &[u8], row: &mut [f32]) {
        debug_assert_eq!(bytes.len(), self.row_bytes(row.len()));
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
        match self {
            RowFormat::F32 => bytes.chunks_exact(4).zip(row).for_each(|(b, x)| *x = number(b)),
            RowFormat::F16 => bytes
                .chunks_exact(2)
                .zip(row)
                .for_each(|(b, x)| *x = half::f16::from_le_bytes([b[0], b[1]]).to_f32()),
            RowFormat::Int8 => {
                let (codes, tail) = bytes.split_at(row.len());
                let (scale, bias) = (number(&tail[..4]), number(&tail[4..]));
                codes.iter().zip(row).for_each(|(&q, x)| *x = f32::from(q) * scale + bias);
            }
            RowFormat::Int4 => {
                let (codes, tail) = bytes.split_at(row.len() / 2);
                let (scale, bias) = (number(&tail[..4]), number(&tail[4..]));
                for (&q, x) in codes.iter().zip(row.chunks_exact_mut(2)) {
                    x[0] = f32::from(q & 15) * scale + bias;
                    x[1] = f32::from(q >> 4) * scale + bias;
                }
            }
        }
    }
}

/// Writes scale and bias for `row` in `steps` to `tail`; what makes a code of a number.
fn scaled(row: &[f32], steps: f32, tail: &mut [u8]) -> impl Fn(f32) -> u8 + use<> {
    let least = row.iter().copied().fold(f32::INFINITY, f32::min);
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // A row of equal numbers is its bias alone.
    let scale = if most > least { (most - least) / steps } else { 0.0 };
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    tail[..4].copy_from_slice(&scale.to_le_bytes());
    tail[4..].copy_from_slice(&if row.is_empty() { 0.0 } else { least }.to_le_bytes());
    move |x| ((x - least) * inverse).round().clamp(0.0, steps) as u8
}

impl fmt::Display for RowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RowFormat::F32 => "f32",
            RowFormat::F16 => "f16",
            RowFormat::Int8 => "int8",
            RowFormat::Int4 => "int4",
        })
    }
}

impl FromStr for RowFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<RowFormat, String> {
        let format = RowFormat::ALL.into_iter().find(|format| format.to_string() == text);
        format.ok_or_else(|| format!("there is no row format {text:?}; use f32, f16, int8 or int4"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(format: RowFormat, row: &[f32]) -> Vec<f32> {
        let mut bytes = vec![0xA5; format.row_bytes(row.len())];
        format.encode(row, &mut bytes);
        let mut back = vec![f32::NAN; row.len()];
        format.decode(&bytes, &mut back);
        back
    }

    /// The largest error that the head of this file allows for a row.
    fn bound(format: RowFormat, row: &[f32], x: f32) -> f32 {
        let (least, most) =
            (row.iter().copied().fold(f32::MAX, f32::min), row.iter().copied().fold(f32::MIN, f32::max));
        let size = least.abs().max(most.abs());
        match format {
            RowFormat::F32 => 0.0,
            // Eleven bits; below the least normal number a fixed step.
            RowFormat::F16 => (x.abs() / 2048.0).max(1.0 / (1 << 25) as f32),
            RowFormat::Int8 => (most - least) / 255.0 / 2.0 + size * 4e-7,
            RowFormat::Int4 => (most - least) / 15.0 / 2.0 + size * 4e-7,
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_within_half_a_step(
            pairs in prop::collection::vec((-1000.0..1000.0f32, -1000.0..1000.0f32), 0..70),
            size in prop::sample::select(vec![1e-6f32, 1e-3, 1.0, 60.0]),
        ) {
            let row: Vec<f32> = pairs.iter().flat_map(|&(a, b)| [a * size, b * size]).collect();
            for format in RowFormat::ALL {
                for (&x, back) in row.iter().zip(through(format, &row)) {
                    let bound = bound(format, &row, x);
                    prop_assert!((back - x).abs() <= bound, "{format}: {x} came back as {back}, bound {bound}");
                }
            }
        }

        #[test]
        fn any_bytes_are_a_row_and_any_row_can_be_written(
            bytes in prop::collection::vec(any::<u8>(), 40),
            row in prop::collection::vec(any::<f32>(), 16),
        ) {
            for format in RowFormat::ALL {
                let mut back = [0.0; 16];
                format.decode(&bytes[..format.row_bytes(16).min(40)].repeat(2)[..format.row_bytes(16)], &mut back);
                through(format, &row);
            }
        }
    }

    #[test]
    fn ends_of_a_row_are_exact_and_equal_numbers_are_their_bias() {
        for format in [RowFormat::Int8, RowFormat::Int4] {
            let back = through(format, &[-1.0, 0.25, 2.0, 0.0]);
            assert_eq!((back[0], back[2]), (-1.0, 2.0), "{format}");
            assert_eq!(through(format, &[0.1; 6]), [0.1; 6], "{format}");
        }
    }

    #[test]
    fn bytes_lie_as_the_picture_says() {
        let mut bytes = [0; 10];
        RowFormat::Int4.encode(&[0.0, 15.0, 3.0, 7.0], &mut bytes);
        assert_eq!(bytes, [0xF0, 0x73, 0, 0, 0x80, 0x3F, 0, 0, 0, 0]);
        RowFormat::Int8.encode(&[0.0, 255.0], &mut bytes);
        assert_eq!(bytes, [0, 255, 0, 0, 0x80, 0x3F, 0, 0, 0, 0]);
        RowFormat::F16.encode(&[1.0, -2.0], &mut bytes[..4]);
        assert_eq!(bytes[..4], [0, 0x3C, 0, 0xC0]);
    }

    #[test]
    fn names_are_read_back() {
        for format in RowFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("int2".parse::<RowFormat>().expect_err("unknown").contains("int4"));
    }
}
