//! Scores of queries by a model, as JSON: what `compare/rec/agree.py` holds against PyTorch.
//!
//! `cargo run --release -p millrace-rec --example infer -- MODEL QUERIES [FORMAT]`. `MODEL` is a folder or a safetensors file, `FORMAT` f32, f16, int8 or int4.
//! `QUERIES` is `{"len": 2, "dense": [...], "tables": [{"values": [...], "offsets": [0, 3, 4], "weights": [...]}, …]}`, weights if there are any.
//! What comes out is the list of scores; what was supposed of the model goes to the standard error.

use rec::{Bags, Batch, LoadOptions, Scratch, Tuning};
use serde::Deserialize;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queries {
    len: usize,
    dense: Vec<f32>,
    tables: Vec<Ids>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ids {
    values: Vec<u32>,
    offsets: Vec<u32>,
    weights: Option<Vec<f32>>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(scores) => {
            println!("{scores:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<Vec<f32>, Box<dyn Error>> {
    let (model, queries, format) = match args {
        [model, queries] => (model, queries, None),
        [model, queries, format] => (model, queries, Some(format.parse()?)),
        _ => return Err("usage: infer MODEL QUERIES [FORMAT]".into()),
    };
    let model = rec::load(Path::new(model), &LoadOptions { format, ..LoadOptions::default() })?;
    model.assumed.iter().for_each(|what| eprintln!("assumed: {what}"));
    let queries: Queries = serde_json::from_slice(&std::fs::read(queries)?)?;
    let tables = queries.tables.iter();
    let bags = tables.map(|ids| Bags::new(&ids.values, &ids.offsets, ids.weights.as_deref()));
    let bags = bags.collect::<Result<Vec<_>, _>>()?;
    let batch = Batch { len: queries.len, dense: &queries.dense, bags: &bags };
    let mut scores = Vec::new();
    model.infer(&batch, Tuning::default(), &mut Scratch::default(), &mut scores)?;
    Ok(scores)
}
