//! Arbitrary bytes as a manifest and a safetensors file, and files that are right but for what the input changes: an error, or a model that infers.
//!
//! `cargo +nightly fuzz run rec_model`; `crates/rec/src/model/tests.rs` and `crates/rec/src/tensors/tests.rs` hold what is refused in `cargo test`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rec::manifest::Manifest;
use rec::model::load::build;
use rec::tensors::Tensors;
use rec::{Bags, Batch, LoadOptions, RowFormat, Scratch, Tuning};

const NAMES: [&str; 16] = [
    "emb_l.0.weight",
    "emb_l.1.weight",
    "emb_l.2.weight",
    "bot_l.0.weight",
    "bot_l.0.bias",
    "bot_l.2.weight",
    "bot_l.2.bias",
    "top_l.0.weight",
    "top_l.0.bias",
    "embedding_bags.t_0.weight",
    "embedding_bags.t_1.weight",
    "dense_arch.model._mlp.0._linear.weight",
    "dense_arch.model._mlp.0._linear.bias",
    "over_arch.model.0.weight",
    "over_arch.model.0.bias",
    "x",
];

/// A file of tensors with small shapes, of the names that `input` chooses; a byte of it may be changed.
fn file(input: &mut &[u8]) -> Vec<u8> {
    let mut byte = || {
        let (first, rest) = input.split_first().unwrap_or((&0, &[]));
        *input = rest;
        *first
    };
    let (mut header, mut end) = (String::from("{"), 0);
    for at in 0..byte() % 12 {
        let (name, one, other) = (NAMES[usize::from(byte()) % NAMES.len()], byte() % 24, byte() % 24);
        let (dtype, size) =
            [("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8)][usize::from(byte() >> 2 & 3) % 4];
        let (shape, count) = if name.ends_with("bias") {
            (format!("[{one}]"), usize::from(one))
        } else {
            (format!("[{one},{other}]"), usize::from(one) * usize::from(other))
        };
        let (from, comma) = (end, if at == 0 { "" } else { "," });
        end += count * size;
        header += &format!(
            r#"{comma}"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{end}]}}"#
        );
    }
    header.push('}');
    let fill = byte();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + end, fill);
    if byte() == 1 {
        let at = usize::from(byte()) << 3 | usize::from(byte());
        let len = bytes.len();
        bytes[at % len] = byte();
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let tensors = match kind & 1 {
        0 => file(&mut rest),
        _ => {
            let (len, bytes) = rest.split_at(rest.len().min(1));
            let at = len.first().map_or(0, |&len| usize::from(len)).min(bytes.len());
            rest = &bytes[..at];
            bytes[at..].to_vec()
        }
    };
    let Ok(tensors) = Tensors::from_bytes(tensors) else { return };
    // What is left is a manifest, if it is one.
    let manifest = if kind & 2 == 0 { Ok(Manifest::default()) } else { Manifest::parse(rest) };
    let Ok(manifest) = manifest else { return };
    let format = RowFormat::ALL.get(usize::from(kind >> 2 & 7)).copied();
    let options = LoadOptions { format, max_bytes: Some(1 << 20), ..LoadOptions::default() };
    let Ok(model) = build(&manifest, &tensors, &options) else { return };
    let last: Vec<[u32; 2]> = model.tables().iter().map(|table| [0, table.rows() - 1]).collect();
    let bags: Vec<_> = last.iter().map(|ids| Bags::new(ids, &[0, 2, 2], None).expect("bags")).collect();
    let dense = vec![0.5; model.dense() * 2];
    let (mut scratch, mut scores) = (Scratch::default(), Vec::new());
    model
        .infer(&Batch { len: 2, dense: &dense, bags: &bags }, Tuning::default(), &mut scratch, &mut scores)
        .expect("a batch of its own");
    assert_eq!(scores.len(), model.outputs() * 2);
});
