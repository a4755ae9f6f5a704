//! Every kernel gives back what it was given, and refuses what was changed on its way.

use super::*;
use crate::unit::Kernel;
use base::Prng;
use proptest::prelude::*;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

const KEY: [u8; 32] = [0x5A; 32];

fn run(kernel: &mut dyn Kernel, input: &[u8], room: usize) -> Result<Vec<u8>, KernelError> {
    let mut output = vec![0xEE; room];
    let len = kernel.run(input, &mut output)?;
    output.truncate(len);
    Ok(output)
}

/// With as much room as the kernel says is always enough.
fn run_in_bound(kernel: &mut dyn Kernel, input: &[u8]) -> Result<Vec<u8>, KernelError> {
    let bound = kernel.output_bound(input.len());
    run(kernel, input, bound)
}

/// Each kernel with the one that undoes it.
fn pairs() -> Vec<(Box<dyn Kernel>, Box<dyn Kernel>)> {
    let seal = || Seal::new(SealingKey::new(&KEY, 1));
    let secure = Chain::new("compression", vec![Box::new(Lz4Compress), Box::new(seal())]);
    let opened = Chain::new("decompression", vec![Box::new(Open::new(&KEY)), Box::new(Lz4Decompress)]);
    vec![
        (Box::new(Lz4Compress), Box::new(Lz4Decompress)),
        (Box::new(ZstdCompress), Box::new(ZstdDecompress::new())),
        (Box::new(seal()), Box::new(Open::new(&KEY))),
        (Box::new(secure), Box::new(opened)),
        (Box::new(Chain::new("copy", Vec::new())), Box::new(Chain::new("copy", Vec::new()))),
    ]
}

/// Bytes that compress a little, well, or not at all.
fn bytes(seed: u64, len: usize, alphabet: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let mut out: Vec<u8> = Vec::with_capacity(len);
    while out.len() < len {
        if alphabet < 256 && !out.is_empty() && prng.chance(0.1) {
            let start = prng.below(out.len() as u64) as usize;
            let end = (start + 40).min(out.len());
            out.extend_from_within(start..end);
        }
        out.push(prng.below(alphabet) as u8);
    }
    out.truncate(len);
    out
}

fn any_bytes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    (any::<u64>(), 0..longest, prop_oneof![Just(1), Just(4), Just(60), Just(256)])
        .prop_map(|(seed, len, alphabet)| bytes(seed, len, alphabet))
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn what_was_done_is_undone(input in any_bytes(300_000)) {
        for (mut there, mut back) in pairs() {
            let middle = run_in_bound(&mut *there, &input).expect("the bound is enough");
            let whole = run(&mut *back, &middle, input.len());
            prop_assert_eq!(whole.as_deref(), Ok(&input[..]), "{}", there.kernel_type());
            if !middle.is_empty() {
                let short = run(&mut *there, &input, middle.len() - 1);
                prop_assert_eq!(short, Err(KernelError::OutputTooSmall { needed: middle.len() }));
            }
            if !input.is_empty() {
                let short = run(&mut *back, &middle, input.len() - 1);
                let says_so = matches!(short, Err(KernelError::OutputTooSmall { needed }) if needed >= input.len());
                prop_assert!(says_so, "{} {short:?}", back.kernel_type());
            }
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn what_was_changed_is_refused(
        input in any_bytes(5_000),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
        more in 1usize..20,
    ) {
        for (mut there, mut back) in pairs().into_iter().filter(|(there, _)| there.kernel_type() != "copy") {
            let mut middle = run_in_bound(&mut *there, &input).expect("the bound is enough");
            let room = input.len() + 1000;
            let at = at.index(middle.len());
            prop_assert!(run(&mut *back, &middle[..at], room).is_err(), "{} cut at {at}", back.kernel_type());
            middle[at] ^= flip;
            let changed = run(&mut *back, &middle, room);
            // Some bits of a header may be either way: a larger window, say.
            let is_harmless = changed.is_err() || changed.as_ref() == Ok(&input);
            prop_assert!(is_harmless, "{} took a flip of {flip} at {at}", back.kernel_type());
            middle[at] ^= flip;
            middle.extend(vec![0; more]);
            prop_assert!(run(&mut *back, &middle, room).is_err(), "{} took a tail", back.kernel_type());
        }
    }

    #[test]
    fn noise_is_refused(input in any_bytes(2_000), kept in 0usize..30, noise in any::<u64>()) {
        for (mut there, mut back) in pairs().into_iter().filter(|(there, _)| there.kernel_type() != "copy") {
            // Noise after a true beginning goes further than noise alone.
            let mut middle = run_in_bound(&mut *there, &input).expect("the bound is enough");
            let kept = kept.min(middle.len());
            Prng::new(noise).fill(&mut middle[kept..]);
            let result = run(&mut *back, &middle, 1 << 16);
            prop_assert!(result.is_err() || result.as_ref() == Ok(&input), "{}", back.kernel_type());
        }
    }

    #[test]
    fn noisy_images_are_refused_or_read(
        (width, height) in (1u32..40, 1u32..40),
        seed in any::<u64>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut jpeg = run_in_bound(&mut Jpeg::new(80), &picture(width, height, seed)).expect("the bound is enough");
        for (at, byte) in flips {
            let at = at.index(jpeg.len());
            jpeg[at] = byte;
        }
        let mut thumbnail = Thumbnail::new(16, 70);
        let _ = run_in_bound(&mut thumbnail, &jpeg);
        let _ = run_in_bound(&mut thumbnail, &jpeg[..cut.index(jpeg.len())]);
    }
}

#[test]
fn bombs_stay_in_the_bound_and_in_their_room() {
    let zeros = vec![0; 3 << 20];
    for (mut there, mut back) in pairs() {
        let middle = run_in_bound(&mut *there, &zeros).expect("the bound is enough");
        assert!(back.output_bound(middle.len()) >= zeros.len(), "{}", back.kernel_type());
        let short = run(&mut *back, &middle, 1000);
        assert!(
            matches!(short, Err(KernelError::OutputTooSmall { needed: 1001.. })),
            "{}",
            back.kernel_type()
        );
    }
}

#[test]
fn a_window_beyond_the_bound_is_refused() {
    // Magic, a descriptor without a stated length, and a window of 2^(10 + 30) bytes.
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 30 << 3, 0x01, 0x00, 0x00];
    assert_eq!(run(&mut ZstdDecompress::new(), &frame, 10), Err(KernelError::TooLarge));
}

#[test]
fn another_key_opens_nothing() {
    let sealed = run_in_bound(&mut Seal::new(SealingKey::new(&KEY, 1)), b"a secret").expect("room");
    assert_eq!(run(&mut Open::new(&[1; 32]), &sealed, 100), Err(KernelError::Corrupt));
    assert_eq!(run(&mut Open::new(&KEY), &sealed, 100).as_deref(), Ok(&b"a secret"[..]));
}

#[test]
fn a_chain_ends_at_the_error_of_a_link() {
    let mut chain = Chain::new("chain", vec![Box::new(Lz4Decompress), Box::new(Crc32c)]);
    assert_eq!(run(&mut chain, b"no frame", 4), Err(KernelError::Corrupt));
    // A first guess at the length between two links that is too short is mended.
    let frame = run_in_bound(&mut Lz4Compress, &vec![7; 1 << 20]).expect("room");
    let sum = run(&mut chain, &frame, 4).expect("a checksum");
    assert_eq!(sum, crc32c::crc32c(&vec![7; 1 << 20]).to_le_bytes());
    let frame = run_in_bound(&mut Lz4Compress, &vec![7; 65 << 20]).expect("room");
    assert_eq!(run(&mut chain, &frame, 4), Err(KernelError::TooLarge));
}

/// A raw image with soft gradients and a little noise.
fn picture(width: u32, height: u32, seed: u64) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let mut image = image::header(width, height).to_vec();
    for y in 0..height {
        for x in 0..width {
            let soft = [x * 255 / width, y * 255 / height, (x + y) * 255 / (width + height)];
            image.extend(soft.map(|colour| (colour as u8).saturating_add(prng.below(4) as u8)));
        }
    }
    image
}

fn decoded(jpeg: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut decoder = JpegDecoder::new(ZCursor::new(jpeg));
    let pixels = decoder.decode().expect("a JPEG");
    let info = decoder.info().expect("just decoded");
    (info.width.into(), info.height.into(), pixels)
}

#[test]
fn an_image_survives_compression() {
    let image = picture(123, 77, 1);
    let jpeg = run_in_bound(&mut Jpeg::new(90), &image).expect("the bound is enough");
    let (width, height, pixels) = decoded(&jpeg);
    assert_eq!((width, height), (123, 77));
    let error: u64 = image[8..].iter().zip(&pixels).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    assert!(error / (123 * 77 * 3) < 4, "mean error {}", error as f64 / (123.0 * 77.0 * 3.0));
    assert!(jpeg.len() < image.len() / 4);
    let short = run(&mut Jpeg::new(90), &image, jpeg.len() - 1);
    assert_eq!(short, Err(KernelError::OutputTooSmall { needed: jpeg.len() }));
}

#[test]
fn the_worst_image_stays_in_the_bound() {
    for (width, height) in [(1, 1), (1, 2000), (2000, 1), (64, 64), (17, 9)] {
        let mut image = image::header(width, height).to_vec();
        image.extend(bytes(3, (width * height * 3) as usize, 256));
        for quality in [1, 89, 100] {
            run_in_bound(&mut Jpeg::new(quality), &image).expect("the bound is enough");
            run_in_bound(&mut Thumbnail::new(40, quality), &image).expect("the bound is enough");
        }
    }
}

#[test]
fn thumbnails_keep_the_shape_and_the_colours() {
    for (sides, expected) in
        [((200, 100), (50, 25)), ((100, 200), (25, 50)), ((30, 20), (30, 20)), ((3000, 2), (50, 1))]
    {
        let raw = picture(sides.0, sides.1, 2);
        let jpeg = run_in_bound(&mut Jpeg::new(95), &raw).expect("the bound is enough");
        for input in [&raw, &jpeg] {
            let small = run_in_bound(&mut Thumbnail::new(50, 95), input).expect("the bound is enough");
            let (width, height, pixels) = decoded(&small);
            assert_eq!((width, height), expected);
            let mean = |bytes: &[u8]| bytes.iter().map(|&b| u64::from(b)).sum::<u64>() / bytes.len() as u64;
            assert!(mean(&pixels).abs_diff(mean(&raw[8..])) < 6);
        }
    }
}

#[test]
fn hostile_images_are_refused_before_they_cost_anything() {
    let mut both: [Box<dyn Kernel>; 2] = [Box::new(Jpeg::new(80)), Box::new(Thumbnail::new(50, 80))];
    for kernel in &mut both {
        for (header, expected) in [
            (image::header(0, 5), KernelError::Corrupt),
            (image::header(5, 0), KernelError::Corrupt),
            (image::header(65_536, 1), KernelError::TooLarge),
            (image::header(u32::MAX, u32::MAX), KernelError::TooLarge),
            (image::header(65_535, 65_535), KernelError::Corrupt),
            (image::header(1, 2), KernelError::Corrupt),
        ] {
            let input = [&header[..], &[1, 2, 3]].concat();
            assert_eq!(run(kernel.as_mut(), &input, 5000), Err(expected), "{header:?}");
        }
        assert_eq!(run(kernel.as_mut(), &[1; 7], 5000), Err(KernelError::Corrupt));
    }
    // A true JPEG whose frame header claims 65500 by 65500 pixels.
    let mut jpeg = run_in_bound(&mut Jpeg::new(80), &picture(32, 32, 4)).expect("the bound is enough");
    let frame = jpeg.windows(2).position(|mark| mark == [0xFF, 0xC0]).expect("a baseline frame");
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xFF, 0xDC, 0xFF, 0xDC]);
    assert_eq!(run_in_bound(&mut both[1], &jpeg), Err(KernelError::TooLarge));
}
