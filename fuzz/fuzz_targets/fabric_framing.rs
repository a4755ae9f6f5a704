//! Any bytes, in any pieces, through the deframer: no panic, no frame beyond the bounds, and the same frames however they are cut.

#![no_main]

use fabric::frame::{HEADER, MAX_FRAME};
use fabric::link::framing::{BadLength, Deframer};
use libfuzzer_sys::fuzz_target;

fn deframe(mut bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<BadLength>) {
    let (mut deframer, mut frames) = (Deframer::default(), Vec::new());
    while !bytes.is_empty() {
        let space = deframer.space().expect("one link is within the budget");
        let len = piece.min(bytes.len()).min(space.len());
        space[..len].copy_from_slice(&bytes[..len]);
        deframer.filled(len);
        bytes = &bytes[len..];
        loop {
            match deframer.pop() {
                Ok(Some(frame)) => {
                    assert!((HEADER..=MAX_FRAME).contains(&frame.len()));
                    frames.push(frame.to_vec());
                }
                Ok(None) => break,
                Err(bad) => return (frames, Some(bad)),
            }
        }
    }
    (frames, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, bytes)) = input.split_first() else { return };
    assert_eq!(deframe(bytes, 1 + usize::from(piece)), deframe(bytes, usize::MAX));
});
