//! JPEG compression of raw images, and thumbnails of raw images or JPEGs.
//!
//! Shape of a raw image:
//! ```text
//! │ width: u32, little-endian │ height: u32 │ width × height × (red, green, blue), row by row, one byte each │
//! ```
//! A JPEG begins with bytes that would be a width beyond any that is allowed, so a thumbnail's input needs no other mark.
//!
//! Bounds: a raw image must be exactly as long as its header says, and is read where it is. A JPEG may have [`PIXELS`] pixels at
//! most, 48 MiB of colours and, if progressive, twice that of coefficients; its header is read before any of it is allocated.
//!
//! Sources: ITU-T T.81.

use super::Sink;
use crate::unit::{Kernel, KernelError};
use jpeg_encoder::{ColorType, Encoder};
use std::ops::Range;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The most pixels of a JPEG that is made smaller.
pub const PIXELS: usize = 16 << 20;
/// The longest side, of the format.
const SIDE: u32 = u16::MAX as u32;
const HEADER: usize = 8;
/// Bytes of a JPEG beside its pixels: markers, four tables of each kind.
const MARKERS: usize = 4096;
/// Bytes of a JPEG for each byte of the rawest image: one pixel wide, at the best quality, each coefficient of the longest code
/// and each byte of it stuffed.
const WORST: usize = 54;

/// What a raw image begins with.
pub fn header(width: u32, height: u32) -> [u8; HEADER] {
    (u64::from(width) | u64::from(height) << 32).to_le_bytes()
}

/// An image, with at least one pixel, three bytes each.
struct Image<'a> {
    width: u16,
    height: u16,
    pixels: &'a [u8],
}

impl Image<'_> {
    fn parse(input: &[u8]) -> Result<Image<'_>, KernelError> {
        let (header, pixels) = input.split_first_chunk::<HEADER>().ok_or(KernelError::Corrupt)?;
        let sides = u64::from_le_bytes(*header);
        let side = |side: u32| match side {
            0 => Err(KernelError::Corrupt),
            1..=SIDE => Ok(side as u16),
            _ => Err(KernelError::TooLarge),
        };
        let (width, height) = (side(sides as u32)?, side((sides >> 32) as u32)?);
        if pixels.len() as u64 != u64::from(width) * u64::from(height) * 3 {
            return Err(KernelError::Corrupt);
        }
        Ok(Image { width, height, pixels })
    }

    fn encode(&self, quality: u8, output: &mut [u8]) -> Result<usize, KernelError> {
        let mut sink = Sink::new(output);
        Encoder::new(&mut sink, quality)
            .encode(self.pixels, self.width, self.height, ColorType::Rgb)
            .expect("the pixels are as many as the sides say, and the sink takes everything");
        sink.finish()
    }

    /// Writes the image, each pixel the mean of those it covers, to `small`, and returns it. Sides of at most `side` pixels.
    fn shrink<'a>(&self, side: u16, small: &'a mut Vec<u8>) -> Image<'a> {
        let longest = self.width.max(self.height);
        let scaled = |length: u16| match longest > side {
            true => (u32::from(length) * u32::from(side) / u32::from(longest)).max(1) as u16,
            false => length,
        };
        let (width, height) = (scaled(self.width), scaled(self.height));
        small.clear();
        for y in 0..height {
            let rows = covered(y, height, self.height);
            for x in 0..width {
                small.extend(self.mean(covered(x, width, self.width), rows.clone()));
            }
        }
        Image { width, height, pixels: small }
    }

    fn mean(&self, columns: Range<usize>, rows: Range<usize>) -> [u8; 3] {
        let count = (columns.len() * rows.len()) as u64;
        let mut sum = [0u64; 3];
        for row in rows {
            let start = row * usize::from(self.width);
            let pixels = &self.pixels[(start + columns.start) * 3..(start + columns.end) * 3];
            for pixel in pixels.chunks_exact(3) {
                sum.iter_mut().zip(pixel).for_each(|(sum, &colour)| *sum += u64::from(colour));
            }
        }
        sum.map(|sum| ((sum + count / 2) / count) as u8)
    }
}

/// Which of `from` pixels the `n`th of `to` covers; at least one, since `to` is not more than `from`.
fn covered(n: u16, to: u16, from: u16) -> Range<usize> {
    let edge = |n: usize| n * usize::from(from) / usize::from(to);
    edge(n.into())..edge(usize::from(n) + 1)
}

/// Compresses a raw image.
#[derive(Clone, Copy, Debug)]
pub struct Jpeg {
    quality: u8,
}

impl Jpeg {
    /// Quality from 1 to 100; what is beyond is the nearest of them.
    pub fn new(quality: u8) -> Jpeg {
        Jpeg { quality: quality.clamp(1, 100) }
    }
}

impl Kernel for Jpeg {
    fn kernel_type(&self) -> &str {
        "jpeg"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        Image::parse(input)?.encode(self.quality, output)
    }

    /// True, and far away: only noise in an image one pixel wide comes near.
    fn output_bound(&self, input_len: usize) -> usize {
        input_len.saturating_mul(WORST).saturating_add(MARKERS)
    }
}

/// Makes a JPEG with sides of at most so many pixels; a smaller image keeps its size.
pub struct Thumbnail {
    side: u16,
    quality: u8,
    decoded: Vec<u8>,
    small: Vec<u8>,
}

impl Thumbnail {
    /// `side` pixels at most (1 at least), with a quality as of [`Jpeg::new`].
    pub fn new(side: u16, quality: u8) -> Thumbnail {
        Thumbnail {
            side: side.max(1),
            quality: quality.clamp(1, 100),
            decoded: Vec::new(),
            small: Vec::new(),
        }
    }
}

impl Kernel for Thumbnail {
    fn kernel_type(&self) -> &str {
        "thumbnail"
    }

    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, KernelError> {
        let image = match input {
            [0xFF, 0xD8, 0xFF, ..] => decode(input, &mut self.decoded)?,
            _ => Image::parse(input)?,
        };
        image.shrink(self.side, &mut self.small).encode(self.quality, output)
    }

    fn output_bound(&self, _: usize) -> usize {
        let side = usize::from(self.side).next_multiple_of(16);
        // Whole blocks: 64 coefficients for 64 pixels of each of three colours, as in `WORST` 432 bytes long.
        (side * side / 64 * 3 * 432).saturating_add(MARKERS)
    }
}

/// Reads a JPEG into `pixels`.
fn decode<'a>(input: &[u8], pixels: &'a mut Vec<u8>) -> Result<Image<'a>, KernelError> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(SIDE as usize)
        .set_max_height(SIDE as usize)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(input), options);
    decoder.decode_headers().map_err(|_| KernelError::Corrupt)?;
    let info = decoder.info().ok_or(KernelError::Corrupt)?;
    let (width, height) = (info.width, info.height);
    let count = usize::from(width) * usize::from(height);
    if count == 0 {
        return Err(KernelError::Corrupt);
    }
    if count > PIXELS {
        return Err(KernelError::TooLarge);
    }
    pixels.resize(count * 3, 0);
    decoder.decode_into(pixels).map_err(|_| KernelError::Corrupt)?;
    Ok(Image { width, height, pixels })
}
