//! Arbitrary bytes as query lists: refused at a line that is there, or written and read again as they were, in both styles.
//!
//! `cargo +nightly fuzz run rec_lists`
#![no_main]

use libfuzzer_sys::fuzz_target;
use rec::lists::{Lists, Style};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    for style in [Style::Weighted, Style::Plain] {
        match Lists::read(bytes, style) {
            Ok(lists) => {
                assert!(lists.iter().all(|(weight, ids)| weight > 0 && !ids.is_empty()));
                assert!(lists.iter().flat_map(|(_, ids)| ids).all(|&id| id < lists.features()));
                let mut text = Vec::new();
                lists.write(&mut text).expect("memory");
                assert_eq!(Lists::read(&text[..], Style::Weighted).as_ref(), Ok(&lists));
                let (rest, held_out) = lists.split(0.5, 1);
                assert_eq!(rest.len() + held_out.len(), lists.len());
                assert_eq!(held_out.repeats(&rest), 0);
            }
            Err(error) => assert!(error.line <= lines, "{error}"),
        }
    }
});
