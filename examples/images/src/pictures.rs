//! Pictures to be sent, and what is expected of a sealed one: it opens with the key, is the JPEG that the same encoder makes of what was sent, and
//! decompresses to about that.

use crate::service::QUALITY;
use base::Prng;
use codec::unit::Kernel;
use codec::unit::kernels::image::header;
use codec::unit::kernels::{Jpeg, Open};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

/// The key of examples: nothing that matters may be sealed with it.
pub const KEY: [u8; 32] = *b"an example's key, known to all!!";

/// How near a decompressed picture is to the one that was sent: its peak signal-to-noise ratio, in dB. At this quality steep gradients with noise
/// have 20 and more; pictures that have nothing to do with each other have 8.
const NEAR_DB: f64 = 16.0;

/// A raw picture and its JPEG.
#[derive(Clone, Debug)]
pub struct Picture {
    pub raw: Vec<u8>,
    pub jpeg: Vec<u8>,
}

impl Picture {
    /// A gradient that no other picture has, with noise over it, `side` pixels wide and high.
    pub fn drawn(side: u32, random: &mut Prng) -> Picture {
        let mut raw = header(side, side).to_vec();
        let (slope, noise) = (1 + random.below(5) as u32, 1 + random.below(24));
        for y in 0..side {
            for x in 0..side {
                let base = [x * slope, y * slope, (x + y) / 2];
                raw.extend(base.map(|base| (base as u8).wrapping_add(random.below(noise) as u8)));
            }
        }
        let mut jpeg = vec![0; Jpeg::new(QUALITY).output_bound(raw.len())];
        let len = Jpeg::new(QUALITY).run(&raw, &mut jpeg).expect("the picture is one");
        jpeg.truncate(len);
        Picture { raw, jpeg }
    }

    /// Whether `sealed` is this picture, sealed with `key`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn is_in(&self, sealed: &[u8], key: &[u8; 32]) -> Result<(), String> {
        let mut opened = vec![0; sealed.len()];
        let len =
            Open::new(key).run(sealed, &mut opened).map_err(|error| format!("it does not open: {error}"))?;
        let jpeg = &opened[..len];
        let mut decoder = JpegDecoder::new(ZCursor::new(jpeg));
        let pixels = decoder.decode().map_err(|error| format!("it does not decompress: {error}"))?;
        let sent = &self.raw[8..];
        if pixels.len() != sent.len() {
            return Err(format!("it has {} bytes of pixels, {} were sent", pixels.len(), sent.len()));
        }
        let squares = pixels.iter().zip(sent).map(|(&one, &other)| f64::from(one.abs_diff(other)).powi(2));
        let mean = squares.sum::<f64>() / sent.len() as f64;
        let near = 10.0 * (255.0 * 255.0 / mean.max(1e-9)).log10();
        if near < NEAR_DB {
            return Err(format!("it is another picture: {near:.1} dB"));
        }
        if jpeg != self.jpeg {
            return Err("it is not the JPEG of what was sent".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::work;
    use codec::unit::kernels::SealingKey;

    fn sealed(picture: &Picture) -> Vec<u8> {
        let mut kernel = work(&SealingKey::new(&KEY, 7));
        let mut out = vec![0; kernel.output_bound(picture.raw.len())];
        let len = kernel.run(&picture.raw, &mut out).expect("a picture");
        out.truncate(len);
        out
    }

    #[test]
    fn a_sealed_picture_is_itself_and_no_other() {
        let mut random = Prng::new(1);
        let (one, other) = (Picture::drawn(24, &mut random), Picture::drawn(24, &mut random));
        let mut sealed = sealed(&one);
        assert_eq!(one.is_in(&sealed, &KEY), Ok(()));
        assert!(other.is_in(&sealed, &KEY).is_err(), "another picture");
        assert!(one.is_in(&sealed, &[1; 32]).expect_err("another key").contains("does not open"));
        *sealed.last_mut().expect("bytes") ^= 1;
        assert!(one.is_in(&sealed, &KEY).expect_err("a changed byte").contains("does not open"));
    }
}
