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

/// A byte of the input, which is shortened by it; 0 behind its end.
fn byte(input: &mut &[u8]) -> u8 {
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    *input = rest;
    *first
}

/// Names that `input` chooses, with small shapes.
fn arbitrary(input: &mut &[u8]) -> Vec<(String, Vec<usize>)> {
    let count = byte(input) % 12;
    let one = |_| {
        let name = NAMES[usize::from(byte(input)) % NAMES.len()];
        let sizes = [byte(input) % 24, byte(input) % 24].map(usize::from);
        (name.to_owned(), if name.ends_with("bias") { vec![sizes[0]] } else { sizes.to_vec() })
    };
    (0..count).map(one).collect()
}

/// A model's tensors by the reference's names, whose sizes `input` chooses.
fn fitting(input: &mut &[u8]) -> Vec<(String, Vec<usize>)> {
    let mut size = |most: u8| usize::from(byte(input) % most) + 1;
    let (tables, dim, dense, hidden) = (size(3), 2 * size(8), size(5), size(20));
    let width = if size(2) == 1 { dim + tables * (tables + 1) / 2 } else { dim * (tables + 1) };
    let mut all: Vec<_> = (0..tables).map(|at| (format!("emb_l.{at}.weight"), vec![size(9), dim])).collect();
    for (name, inputs, outputs) in
        [("bot_l.0", dense, hidden), ("bot_l.2", hidden, dim), ("top_l.0", width, 1)]
    {
        all.push((format!("{name}.weight"), vec![outputs, inputs]));
        all.push((format!("{name}.bias"), vec![outputs]));
    }
    all
}

/// A file of these tensors; a byte of it may be changed.
fn file(tensors: Vec<(String, Vec<usize>)>, input: &mut &[u8]) -> Vec<u8> {
    let (mut header, mut end) = (String::from("{"), 0);
    for (at, (name, shape)) in tensors.iter().enumerate() {
        // Integers are no weights: seldom.
        let (dtype, size) = match byte(input) {
            0..128 => ("F32", 4),
            128..192 => ("F16", 2),
            192..248 => ("BF16", 2),
            248.. => ("I64", 8),
        };
        let (from, comma) = (end, if at == 0 { "" } else { "," });
        end += shape.iter().product::<usize>() * size;
        header += &format!(
            r#"{comma}"{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{from},{end}]}}"#
        );
    }
    header.push('}');
    let fill = byte(input);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + end, fill);
    if byte(input) == 1 {
        let at = usize::from(byte(input)) << 3 | usize::from(byte(input));
        let len = bytes.len();
        bytes[at % len] = byte(input);
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let tensors = match kind & 0x21 {
        0 => file(arbitrary(&mut rest), &mut rest),
        0x20 => file(fitting(&mut rest), &mut rest),
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
