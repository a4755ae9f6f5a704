//! A checkpoint of an image with bytes of it overwritten: opened, it is what it was, or damage is told; never a panic, and never other items.
//!
//! `cargo +nightly fuzz run image_checkpoint`
#![no_main]

mod dress;

use dress::Input;
use libfuzzer_sys::fuzz_target;
use store::image::checkpoint::Checkpoint;
use store::image::{Config, Image};
use store::redo::media::{Media, Memory};

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let config = Config { bytes: 1 << 17, page: 1 << 14, items: 1000, hash_seed: 1 };
    let length = Checkpoint::<Memory>::medium_bytes(&config);
    let medium = Memory::new(length as usize);
    let Ok(mut checkpoint) = Checkpoint::create(medium, &config) else { return };
    let mut image = Image::new(&config).expect("a good configuration");
    for _ in 0..input.byte() % 3 {
        if checkpoint.begin(&mut image) {
            while checkpoint.is_under_way() {
                if checkpoint.step(&mut image, 1 << 14).is_err() {
                    return;
                }
            }
        }
    }
    let mut medium = checkpoint.into_media();
    while !input.is_empty() {
        let (high, middle, low) = (input.byte(), input.byte(), input.byte());
        // Headers and maps more often than blocks.
        let at = if high % 4 > 0 { 0 } else { u64::from(high) << 10 }
            | u64::from(middle) << 4
            | u64::from(low % 16);
        let over = input.bytes(1 + usize::from(low / 16));
        if over.is_empty() || at + over.len() as u64 > length {
            continue;
        }
        medium.write_at(at, over).expect("inside");
    }
    let Ok(opened) = Checkpoint::open(medium, &config) else { return };
    assert!(opened.redo_from <= opened.floor || !opened.damaged.is_empty());
    assert!(opened.damaged.iter().all(|at| *at < config.bytes));
    let mut image = opened.image;
    let _ = image.index(opened.redo_from);
});
