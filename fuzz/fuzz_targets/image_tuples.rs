//! Tuples and bytes from anywhere in an image: an error and nothing done, or an image whose invariants hold.
//!
//! The input is a list of commands: entries that the image places itself, the same with a tuple changed, tuples of any bytes, bytes loaded
//! anywhere, and a new index. `cargo +nightly fuzz run image_tuples`; `crates/store/src/image/tests` has what can be said of each in words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::image::{Config, Image, Space, Write};

const BYTES: u64 = 64 << 10;

/// Takes the input apart.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        Some(usize::from(self.byte()?) << 8 | usize::from(self.byte()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.byte()?);
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

type Tuples = Vec<(u64, Vec<u8>)>;

/// What an image decides on for a few writes.
fn placed(image: &mut Image, lsn: u64, input: &mut Input<'_>) -> Option<Tuples> {
    let (key, len) = ([input.byte()? % 16], input.number()? % 20_000);
    let value = vec![len as u8; len];
    let kept = input.byte()? % 4 > 0;
    let write = Write { space: Space(0), key: &key, value: kept.then_some(&value[..]) };
    let other = Write { space: Space(1), ..write };
    let mut tuples = Tuples::new();
    let _ = image.place(lsn, &[write, other], |offset, data| tuples.push((offset, data)));
    Some(tuples)
}

fn apply(image: &mut Image, lsn: u64, tuples: &Tuples) {
    let before = image.digest();
    let slices = tuples.iter().map(|(offset, data)| (*offset, &data[..]));
    let _ = image.keys(slices.clone()).count();
    if image.apply(lsn, slices).is_err() {
        assert_eq!(image.digest(), before, "a refused entry left something");
    }
}

fn command(image: &mut Image, lsn: u64, input: &mut Input<'_>) -> Option<()> {
    match input.byte()? % 5 {
        0 => {
            let tuples = placed(image, lsn, input)?;
            apply(image, lsn, &tuples);
        }
        1 => {
            let good = placed(image, lsn, input)?;
            let mut bad = good.clone();
            let (which, at, to) = (input.byte()?, input.number()?, input.byte()?);
            let count = bad.len().max(1);
            if let Some((offset, data)) = bad.get_mut(usize::from(which) % count) {
                match at % 4 {
                    0 => *offset = (at as u64 * 16) % (BYTES + 32),
                    1 => data.truncate(at / 4),
                    _ => {
                        let len = data.len().max(1);
                        data[at / 4 % len.min(32)] = to;
                    }
                }
            }
            apply(image, lsn, &bad);
            image.release(good.iter().map(|(offset, data)| (*offset, &data[..])));
        }
        2 => {
            let tuples = vec![(input.number()? as u64 * 2, input.bytes()?.to_vec())];
            image.reserve(tuples.iter().map(|(offset, data)| (*offset, &data[..])));
            image.release(tuples.iter().map(|(offset, data)| (*offset, &data[..])));
            apply(image, lsn, &tuples);
        }
        3 => {
            let (at, bytes) = (input.number()?, input.bytes()?);
            let _ = image.load(at as u64, bytes);
        }
        _ => {
            let _ = image.index(lsn);
        }
    }
    Some(())
}

fuzz_target!(|input: &[u8]| {
    let config = Config { bytes: BYTES, page: 16 << 10, items: 256, hash_seed: 0 };
    let mut image = Image::new(&config).expect("64 KiB");
    let mut input = Input(input);
    for lsn in 1..64 {
        if command(&mut image, lsn, &mut input).is_none() {
            break;
        }
        if image.is_indexed() {
            image.check();
        }
    }
});
