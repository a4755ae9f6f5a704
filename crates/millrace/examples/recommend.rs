//! Recommendation inference from end to end on random data: a model is made and served within this process, asked over the fabric as people write
//! queries and over HTTP, loaded anew while it serves, and measured.
//!
//! `cargo run --release -p millrace --example recommend`
//!
//! Takes about ten seconds, 200 MB and no network but loopback. `millrace rec serve` and `millrace rec bench` are the same as commands.

use bench::rec::Bench;
use clap::Parser;
use fabric::channel::{CallOptions, Channel, Options};
use rec::RowFormat;
use rec::memo::{Growth, Limits};
use serve::rec::proto::millrace::RecommendClient;
use serve::rec::registers::Registers;
use serve::rec::{Plan, Server, Synthetic};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The benchmark's flags by themselves.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> Result<(), Box<dyn Error>> {
    let shape = Synthetic {
        tables: 8,
        rows: 50_000,
        dim: 64,
        format: RowFormat::F32,
        dense: 4,
        bottom: vec![64],
        top: vec![64],
        memo: Some(1.5),
        seed: 1,
    };
    println!("a random model: {} tables of {} rows of {} numbers", shape.tables, shape.rows, shape.dim);
    let log = rec::synth::lists(shape.rows, 20_000, shape.seed)?;
    let (log, tomorrow) = log.split(0.2, 1);
    let plan = Growth::new(&log, 1.5, Limits::default(), |_| ()).plan(1.5);
    let [seen, unseen] = [&log, &tomorrow].map(|lists| plan.accesses(lists).reduction() * 100.0);
    println!(
        "a memo plan of 1.5 times the rows saves {seen:.1} % of the accesses of its log, {unseen:.1} % of others"
    );
    let server = Server::start(Plan {
        source: Box::new(move || shape.model()),
        listen: vec!["tcp:127.0.0.1:0".parse()?],
        http: Some("127.0.0.1:0".parse::<std::net::SocketAddr>()?.into()),
        grpc: None,
        cores: None,
        registers: Arc::new(Registers::default()),
        rights: None,
    })?;
    let address = &server.addresses()[0];
    println!("serving at {address} and http://{}\n", server.http().ok_or("no port")?);

    let mut channel = Channel::connect(address, &Options::default())?;
    let client = RecommendClient::new(&channel)?;
    let options = CallOptions::within(Duration::from_secs(5));
    let reply = client.infer(&mut channel, &options, |request| {
        for (colour, number) in [("red", "17"), ("blue", "4711")] {
            let mut query = request.push_queries()?;
            query.push_features(&format!("t0: {colour}"))?;
            query.push_features(&format!("t1: {number}"))?;
            query.push_features("t7: size-42")?;
            query.set_dense(&[0.1, 0.2, 0.3, 0.4])?;
        }
        Ok(())
    })?;
    println!("over the fabric, as people write it: scores {:?}", reply.view().scores());

    let bags: Vec<String> = (0..8)
        .map(|table| {
            format!(
                r#"{{"name":"t{table}.values","shape":[3],"datatype":"INT64","data":[1,22,333]}},
                   {{"name":"t{table}.offsets","shape":[2],"datatype":"INT32","data":[0,2]}}"#
            )
        })
        .collect();
    let body = format!(
        r#"{{"inputs":[{{"name":"dense","shape":[2,4],"datatype":"FP32","data":[[0.1,0.2,0.3,0.4],[1,1,1,1]]}},{}]}}"#,
        bags.join(",")
    );
    println!("over HTTP: {}\n", post(&server, "/v2/models/synthetic/infer", &body)?);
    println!("loaded anew: {}\n", post(&server, "/v2/repository/models/synthetic/load", "")?);
    drop(server);

    let flags = "bench --local --tables 8 --rows 50k --memo 1.5 --batches 1,16 --duration 1500ms";
    Ok(Cli::parse_from(flags.split(' ')).bench.run()?)
}

/// Posts a body and returns the answer's.
fn post(server: &Server, path: &str, body: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(server.http().ok_or("no port")?)?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).ok_or("no answer")?)
}
