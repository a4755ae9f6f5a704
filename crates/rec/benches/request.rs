//! What preprocessing costs: from the bytes of a request to checked queries, on one core.
//!
//! `cargo bench -p millrace-rec --bench request [-- --rows N --batch N --memo RATIO]`: requests of the Open Inference Protocol for a model of eight tables, ids
//! as binary tensors, as tensors in JSON, and as texts (`table: feature; …`), with tables alone and with memo plans. Ids are asked in groups, by popularity,
//! about 70 in a query. Prints for each form bytes and ids of a query, and microseconds to read it and to make queries of it: the median of rounds that go
//! round all forms, and their quartiles. Keys of memo plans are made there too: that is where a server makes them.

use rec::memo::{Growth, Limits};
use rec::model::{Model, Synth};
use rec::request::{Request, Served, queries};
use rec::synth::Generator;
use serde_json::json;
use std::hint::black_box;
use std::time::Instant;

const TABLES: usize = 8;
/// Requests of each form, asked in turns.
const KEPT: usize = 64;
const ROUNDS: usize = 21;

struct Form {
    name: &'static str,
    requests: Vec<(Vec<u8>, Option<usize>)>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: f64| {
        let at = args.iter().position(|arg| arg == name);
        at.map_or(default, |at| args[at + 1].parse().expect("a number behind the flag"))
    };
    let (rows, batch) = (number("--rows", 500_000.0) as u32, number("--batch", 16.0) as usize);
    let memo = number("--memo", 1.5);
    let forms = forms(rows, batch);
    let per_query = (KEPT * batch) as f64;
    println!(
        "{TABLES} tables of {rows} rows, requests of {batch} queries; medians of {ROUNDS} rounds and their quartiles, us a query"
    );
    println!(
        "{:<10} {:<14} {:>7} {:>6} {:>8} {:>8} {:>15} {:>10}",
        "model", "form", "bytes", "ids", "read", "queries", "both", "ns an id"
    );
    for (name, budget) in [("rows", None), ("memo", Some(memo))] {
        let served = served(rows, budget);
        let mut times = vec![Vec::new(); forms.len()];
        for _ in 0..ROUNDS {
            for (form, times) in forms.iter().zip(&mut times) {
                times.push(round(form, &served, batch));
            }
        }
        for (form, times) in forms.iter().zip(times) {
            let ids: usize = form
                .requests
                .iter()
                .map(|(body, header)| {
                    let request = Request::parse(body, *header).expect("a request");
                    queries(&request, &served, batch).expect("queries").rows()
                })
                .sum();
            let bytes: usize = form.requests.iter().map(|(body, _)| body.len()).sum();
            let quantile = |of: fn(&(f64, f64)) -> f64, q: f64| {
                let mut all: Vec<f64> = times.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[((all.len() - 1) as f64 * q) as usize] / per_query
            };
            let both: fn(&(f64, f64)) -> f64 = |time| time.0 + time.1;
            let spread = format!(
                "{:.2} ({:.2}-{:.2})",
                quantile(both, 0.5),
                quantile(both, 0.25),
                quantile(both, 0.75)
            );
            println!(
                "{name:<10} {:<14} {:>7.0} {:>6.1} {:>8.2} {:>8.2} {spread:>15} {:>10.0}",
                form.name,
                bytes as f64 / per_query,
                ids as f64 / per_query,
                quantile(|time| time.0, 0.5),
                quantile(|time| time.1, 0.5),
                quantile(both, 0.5) * 1e3 * per_query / ids as f64,
            );
        }
    }
}

/// Microseconds to read all requests, and to make queries of them.
fn round(form: &Form, served: &Served, most: usize) -> (f64, f64) {
    let (mut read, mut made) = (0.0, 0.0);
    for (body, header) in &form.requests {
        let begin = Instant::now();
        let request = Request::parse(black_box(body), *header).expect("a request");
        let between = Instant::now();
        black_box(queries(&request, served, most).expect("queries"));
        let end = Instant::now();
        read += (between - begin).as_secs_f64() * 1e6;
        made += (end - between).as_secs_f64() * 1e6;
    }
    (read, made)
}

fn served(rows: u32, memo: Option<f64>) -> Served {
    // Rows are not read here.
    let shape = Synth { tables: TABLES, rows, dim: 2, bottom: vec![4], top: vec![4, 1], ..Synth::default() };
    let mut model = Model::synth(&shape).expect("memory");
    if let Some(budget) = memo {
        let log = rec::synth::lists(rows, 20_000, 1).expect("lists");
        let plan = Growth::new(&log, budget, Limits::default(), |_| ()).plan(budget);
        (0..TABLES).for_each(|table| model.plan(table, plan.clone()).expect("memory"));
    }
    Served::new(model)
}

fn forms(rows: u32, batch: usize) -> [Form; 3] {
    let mut generators: Vec<Generator> =
        (0..TABLES as u64).map(|table| Generator::new(rows, 1, table)).collect();
    let mut requests: [Vec<_>; 3] = Default::default();
    for _ in 0..KEPT {
        let mut bag = Vec::new();
        let bags: Vec<Vec<Vec<i64>>> = generators
            .iter_mut()
            .map(|generator| {
                (0..batch)
                    .map(|_| {
                        generator.bag(&mut bag);
                        bag.iter().map(|&id| i64::from(id)).collect()
                    })
                    .collect()
            })
            .collect();
        let dense = vec![0.5f32; 13 * batch];
        requests[0].push(tensors(&bags, &dense, batch, true));
        requests[1].push(tensors(&bags, &dense, batch, false));
        requests[2].push(texts(&bags, &dense, batch));
    }
    let [binary, json, texts] = requests;
    [("tensors", binary), ("JSON", json), ("texts", texts)].map(|(name, requests)| Form { name, requests })
}

fn tensors(bags: &[Vec<Vec<i64>>], dense: &[f32], batch: usize, is_binary: bool) -> (Vec<u8>, Option<usize>) {
    let mut data = Vec::new();
    let mut inputs = Vec::new();
    let mut put =
        |name: String, datatype: &str, shape: &[usize], plain: serde_json::Value, bytes: Vec<u8>| {
            let mut input = json!({ "name": name, "datatype": datatype, "shape": shape });
            if is_binary {
                input["parameters"] = json!({ "binary_data_size": bytes.len() });
                data.extend_from_slice(&bytes);
            } else {
                input["data"] = plain;
            }
            inputs.push(input);
        };
    let bytes = dense.iter().flat_map(|x| x.to_le_bytes()).collect();
    put("dense".into(), "FP32", &[batch, 13], json!(dense), bytes);
    for (table, bags) in bags.iter().enumerate() {
        let values = bags.concat();
        let mut offsets = vec![0i32];
        bags.iter().for_each(|bag| offsets.push(offsets[offsets.len() - 1] + bag.len() as i32));
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        put(format!("t{table}.values"), "INT64", &[values.len()], json!(values), bytes);
        let bytes = offsets.iter().flat_map(|x| x.to_le_bytes()).collect();
        put(format!("t{table}.offsets"), "INT32", &[offsets.len()], json!(offsets), bytes);
    }
    let mut body = json!({ "inputs": inputs }).to_string().into_bytes();
    let header = is_binary.then_some(body.len());
    body.extend_from_slice(&data);
    (body, header)
}

fn texts(bags: &[Vec<Vec<i64>>], dense: &[f32], batch: usize) -> (Vec<u8>, Option<usize>) {
    let text = |query: usize| {
        let tables = bags.iter().enumerate();
        let features =
            tables.flat_map(|(table, bags)| bags[query].iter().map(move |id| format!("t{table}: {id}")));
        features.collect::<Vec<_>>().join("; ")
    };
    let texts: Vec<String> = (0..batch).map(text).collect();
    let body = json!({ "inputs": [
        { "name": "dense", "datatype": "FP32", "shape": [batch, 13], "data": dense },
        { "name": "features", "datatype": "BYTES", "shape": [batch], "data": texts },
    ] });
    (body.to_string().into_bytes(), None)
}
