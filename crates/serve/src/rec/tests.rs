//! A server and its clients in one process: both protocols, bad input, and a model that is swapped under load.

mod inference;
mod places;
mod repository;
mod wrong;

use super::synthetic::Synthetic;
use super::{Plan, Server, Source};
use crate::rec::proto::millrace::{
    DescribeRequest, InferReply, InferRequest, InferRequestMut, RecommendClient,
};
use crate::rec::registers::Registers;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::status::{Code, Status};
use rec::request::Served;
use rec::{
    Activation, Bags, Batch, Interaction, Layer, Mlp, Model, Pooling, RowFormat, Scratch, Sparse, Table,
    Tuning,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Two tables of ten and five rows, two dense features; `scale` makes models that score differently.
fn model(scale: f32) -> Model {
    let table = |rows, start: f32| {
        Table::from_rows(rows, 2, RowFormat::F32, |at, row| row.fill(start + at as f32)).expect("memory")
    };
    let layer = |weight: Vec<f32>, outputs: usize, inputs| {
        Mlp::new(vec![Layer { weight, bias: vec![0.0; outputs], inputs, activation: Activation::Identity }])
    };
    // The score: dense 0 + dense 1 + ten times the sum of table 0 + a hundred times that of table 1, times the scale.
    let bottom = layer(vec![1.0, 0.0, 0.0, 1.0], 2, 2);
    let top = [1.0, 1.0, 5.0, 5.0, 50.0, 50.0].map(|weight| weight * scale).to_vec();
    let sparse = |name, table| Sparse::new(name, table, Pooling::Sum);
    let tables = vec![sparse("item", table(10, 0.0)), sparse("user", table(5, 1.0))];
    Model::new(tables, bottom, layer(top, 1, 6), Interaction::Concat)
}

fn served(version: u32) -> Served {
    let mut model = model(version as f32);
    (model.name, model.version) = ("tiny".to_owned(), version.to_string());
    Served::new(model)
}

fn start_with(source: Source, settings: &[(&str, &str)]) -> Server {
    let registers = Registers::default();
    settings.iter().for_each(|(name, value)| registers.set(name, value).expect("a register"));
    Server::start(Plan {
        source,
        listen: vec!["tcp:127.0.0.1:0".parse().expect("an address")],
        http: Some(SocketAddr::from(([127, 0, 0, 1], 0)).into()),
        grpc: None,
        cores: None,
        registers: Arc::new(registers),
        rights: None,
    })
    .expect("a server")
}

fn start() -> Server {
    start_with(Box::new(|| Ok(served(1))), &[])
}

/// A connection over HTTP/1.1.
struct Http(TcpStream);

impl Http {
    fn to(server: &Server) -> Http {
        let stream = TcpStream::connect(server.http().expect("a port")).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        Http(stream)
    }

    /// Status, headers and body.
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        // A server that refuses at once need not read everything.
        let _ = self.0.write_all(&[head.as_bytes(), body].concat());
        let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
        loop {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            if let Some(end) = end {
                let head = String::from_utf8(bytes[..end].to_vec()).expect("text").to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |length| length.trim().parse().expect("a number"));
                if bytes.len() >= end + length {
                    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
                    return (status, head, bytes[end..].to_vec());
                }
            }
            match self.0.read(&mut some).expect("an answer") {
                0 => panic!("closed without an answer: {:?}", String::from_utf8_lossy(&bytes)),
                count => bytes.extend_from_slice(&some[..count]),
            }
        }
    }

    fn json(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, body) = self.ask(method, path, "", body.to_string().as_bytes());
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

fn tensor(name: &str, datatype: &str, shape: Value, data: Value) -> Value {
    json!({ "name": name, "datatype": datatype, "shape": shape, "data": data })
}

/// Two queries: items 1 and 2, no user; no item, user 4 twice.
fn inputs() -> Vec<Value> {
    vec![
        tensor("dense", "FP32", json!([2, 2]), json!([[0.5, 1], [2, 3]])),
        tensor("item.values", "INT64", json!([2]), json!([1, 2])),
        tensor("item.offsets", "INT32", json!([3]), json!([0, 2, 2])),
        tensor("t1.values", "INT64", json!([2]), json!([4, 4])),
        tensor("t1.offsets", "INT32", json!([2]), json!([0, 0])),
    ]
}

/// Their scores.
const SCORES: [f32; 2] = [1.5 + 30.0, 5.0 + 1000.0];

fn fill(request: &mut InferRequestMut<'_, '_>) -> Result<(), codec::memory::OutOfMemory> {
    request.set_dense(&[0.5, 1.0, 2.0, 3.0])?;
    let mut items = request.push_bags()?;
    items.set_table("t0")?;
    items.set_values(&[1, 2])?;
    items.set_offsets(&[0, 2])?;
    let mut users = request.push_bags()?;
    users.set_table("user")?;
    users.set_values(&[4, 4])?;
    users.set_offsets(&[0, 0, 2])
}

fn connect(server: &Server) -> (Channel, RecommendClient) {
    let channel = Channel::connect(&server.addresses()[0], &Options::default()).expect("a connection");
    let client = RecommendClient::new(&channel).expect("the service");
    (channel, client)
}

fn scores(
    (channel, client): &mut (Channel, RecommendClient),
    fill: impl FnOnce(&mut InferRequestMut<'_, '_>) -> Result<(), codec::memory::OutOfMemory>,
) -> Result<(Vec<f32>, String), Status> {
    let options = CallOptions::within(Duration::from_secs(20));
    let reply = client.infer(channel, &options, fill)?;
    let view = reply.view();
    assert_eq!(view.scores().len(), (view.batch() * view.outputs()) as usize);
    assert!(view.stages().is_some_and(|stages| stages.together() >= view.batch()));
    Ok((view.scores().to_vec(), view.version().to_owned()))
}

#[test]
fn both_protocols_and_all_forms_give_the_model_s_scores() {
    let server = start();
    let mut client = connect(&server);
    assert_eq!(scores(&mut client, fill).expect("tensors"), (SCORES.to_vec(), "1".to_owned()));
    let people = scores(&mut client, |request| {
        let mut first = request.push_queries()?;
        first.push_features("item: 1")?;
        first.push_features("t0:2")?;
        first.set_dense(&[0.5, 1.0])?;
        let mut second = request.push_queries()?;
        second.push_features("user: 4")?;
        second.push_features(" user : 4 ")?;
        second.set_dense(&[2.0, 3.0])
    });
    assert_eq!(people.expect("features").0, SCORES);
    let weighted = scores(&mut client, |request| {
        fill(request)?;
        request.bags_mut(0).set_weights(&[2.0, 0.5])
    });
    assert_eq!(weighted.expect("weights").0, SCORES, "2 × row 1 + 0.5 × row 2 are row 1 + row 2");

    let mut http = Http::to(&server);
    let path = "/v2/models/tiny/infer";
    let (status, reply) = http.json("POST", path, &json!({ "id": "x", "inputs": inputs() }));
    assert_eq!((status, &reply["id"], &reply["model_version"]), (200, &json!("x"), &json!("1")), "{reply}");
    assert_eq!(reply["outputs"][0]["shape"], json!([2, 1]));
    assert_eq!(reply["outputs"][0]["data"], json!(SCORES));
    let features = tensor("features", "BYTES", json!([2]), json!(["item: 1; t0: 2", "user: 4; user: 4"]));
    let dense = inputs().swap_remove(0);
    let (status, reply) =
        http.json("POST", "/v2/models/tiny/versions/1/infer", &json!({ "inputs": [dense, features] }));
    assert_eq!((status, &reply["outputs"][0]["data"]), (200, &json!(SCORES)), "{reply}");
}

#[test]
fn binary_tensors_go_both_ways() {
    let server = start();
    let mut http = Http::to(&server);
    let mut object = json!({ "inputs": inputs(), "parameters": { "binary_data_output": true } });
    let mut binary = Vec::new();
    let data: [Vec<u8>; 2] = [
        [0.5f32, 1.0, 2.0, 3.0].iter().flat_map(|number| number.to_le_bytes()).collect(),
        [1i64, 2].iter().flat_map(|number| number.to_le_bytes()).collect(),
    ];
    for (at, data) in data.iter().enumerate() {
        let input = object["inputs"][at].as_object_mut().expect("an object");
        input.remove("data");
        input.insert("parameters".to_owned(), json!({ "binary_data_size": data.len() }));
        binary.extend_from_slice(data);
    }
    let json = object.to_string();
    let header = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let body = [json.as_bytes(), &binary].concat();
    let (status, head, reply) = http.ask("POST", "/v2/models/tiny/infer", &header, &body);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&reply));
    let length = head.lines().find_map(|line| line.strip_prefix("inference-header-content-length: "));
    let (_, scores) = reply.split_at(length.expect("a header").parse().expect("a number"));
    let scores: Vec<f32> =
        scores.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect();
    assert_eq!(scores, SCORES);
    // Cut short, or with a length that is none.
    let (status, _, _) = http.ask("POST", "/v2/models/tiny/infer", &header, &body[..body.len() - 1]);
    assert_eq!(status, 400);
    let (status, _, _) =
        http.ask("POST", "/v2/models/tiny/infer", "Inference-Header-Content-Length: 99999\r\n", &body);
    assert_eq!(status, 400);
}

#[test]
fn what_is_served_is_described() {
    let server = start();
    let mut http = Http::to(&server);
    for path in
        ["/v2/health/live", "/v2/health/ready", "/v2/models/tiny/ready", "/v2/models/tiny/versions/1/ready"]
    {
        assert_eq!(http.ask("GET", path, "", b"").0, 200, "{path}");
    }
    assert_eq!(http.json("GET", "/v2", &Value::Null).1["name"], "millrace");
    assert_eq!(http.ask("GET", "/v2/models/tiny/versions/2/ready", "", b"").0, 404);
    let (_, about) = http.json("GET", "/v2/models/tiny", &Value::Null);
    assert_eq!(
        (&about["versions"], &about["inputs"][3]["name"]),
        (&json!(["1"]), &json!("user.values")),
        "{about}"
    );
    let (mut channel, client) = connect(&server);
    let options = CallOptions::within(Duration::from_secs(20));
    let about = client.describe(&mut channel, &options, |_| Ok(())).expect("a description");
    let tables: Vec<(&str, u64)> =
        about.view().tables().iter().map(|table| (table.name(), table.rows())).collect();
    assert_eq!(tables, [("item", 10), ("user", 5)]);
    assert_eq!((about.view().dense(), about.view().outputs(), about.view().generation()), (2, 1, 1));
    let _: Option<DescribeRequest> = None;
}

#[test]
fn a_model_is_swapped_under_load_and_each_reply_is_of_one_model() {
    let next = Arc::new(AtomicU32::new(1));
    let of = Arc::clone(&next);
    let source: Source = Box::new(move || match of.load(Ordering::Relaxed) {
        0 => Err("its file is no model".to_owned()),
        version => Ok(served(version)),
    });
    let server = start_with(source, &[]);
    let stop = AtomicBool::new(false);
    let versions = std::thread::scope(|scope| {
        let work = || {
            let mut client = connect(&server);
            let mut seen = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let (scores, version) = scores(&mut client, fill).expect("no request fails");
                let scale: f32 = version.parse().expect("a number");
                assert_eq!(scores, SCORES.map(|score| score * scale), "version {version}");
                seen.push(version);
            }
            seen.dedup();
            seen
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        let mut http = Http::to(&server);
        let mut load = |version: u32| {
            next.store(version, Ordering::Relaxed);
            http.json("POST", "/v2/repository/models/tiny/load", &Value::Null)
        };
        for version in 2..20 {
            let (status, reply) = load(version);
            assert_eq!((status, &reply["version"]), (200, &json!(version.to_string())));
            let (status, reply) = load(0);
            let error = reply["error"].as_str().expect("an error");
            assert!(status == 400 && error.contains("its file is no model"), "{error}");
        }
        stop.store(true, Ordering::Relaxed);
        workers.map(|worker| worker.join().expect("no panic"))
    });
    for seen in versions {
        assert!(seen.is_sorted_by_key(|version| version.parse::<u32>().expect("a number")), "{seen:?}");
    }
    let (scores, version) = scores(&mut connect(&server), fill).expect("scores");
    assert_eq!((scores, &version[..]), (SCORES.map(|score| score * 19.0).to_vec(), "19"));
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&server.counters().loads), count(&server.counters().failed_loads)), (18, 18));
}

#[test]
fn what_is_under_way_at_the_end_is_answered() {
    // The engine waits for more: requests are under way while the server ends.
    let server = start_with(Box::new(|| Ok(served(1))), &[("rec.linger", "300000"), ("rec.batch", "4096")]);
    let (mut channel, client) = connect(&server);
    let address: SocketAddr = server.http().expect("a port");
    let http = std::thread::spawn(move || {
        let mut http = Http(TcpStream::connect(address).expect("a connection"));
        http.json("POST", "/v2/models/tiny/infer", &json!({ "inputs": inputs() })).0
    });
    let options = CallOptions::within(Duration::from_secs(20));
    let calls = std::thread::spawn(move || {
        client.infer(&mut channel, &options, fill).map(|reply| reply.view().scores().to_vec())
    });
    // Both are in a batch that waits, or on their way to it.
    while server.counters().taken.load(Ordering::Relaxed) < 2 {
        std::thread::yield_now();
    }
    drop(server);
    assert_eq!(calls.join().expect("no panic"), Ok(SCORES.to_vec()));
    assert_eq!(http.join().expect("no panic"), 200);
}

/// 256 requests of which half had been sent refused everybody, and bodies were counted only when they were whole.
#[test]
fn who_does_not_finish_sending_holds_bytes_and_no_place() {
    let server = start_with(
        Box::new(|| Ok(served(1))),
        &[("rec.in_flight", "2"), ("rec.held", "1m"), ("rec.body_timeout", "600000000")],
    );
    let begin = |bytes: usize| {
        let mut http = Http::to(&server);
        let head =
            "POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n";
        // A body that is refused need not be read to its end.
        let _ = http.0.write_all(&[head.as_bytes(), &vec![b' '; bytes]].concat());
        http
    };
    let mut polite = Http::to(&server);
    let mut ask = || polite.json("POST", "/v2/models/tiny/infer", &json!({ "inputs": inputs() })).0;
    let half: Vec<_> = (0..50).map(|_| begin(100)).collect();
    assert_eq!(ask(), 200);
    // A mebibyte is full: of what still comes, who has the most makes room, and is told so when more of it comes. None of them is as large as those that
    // take turns, which are given up after a second as well.
    let mut large: Vec<_> = (0..8).map(|_| begin(200_000)).collect();
    // Which of them it is is not known: all are looked at until one is answered.
    let refused = (0..1000).find_map(|_| {
        assert_eq!(ask(), 200);
        large.iter_mut().find_map(|http| {
            let _ = http.0.write_all(b" ");
            http.0.set_read_timeout(Some(Duration::from_millis(10))).expect("a time");
            let mut some = [0; 64];
            let count = http.0.read(&mut some).ok()?;
            Some(String::from_utf8_lossy(&some[..count]).into_owned())
        })
    });
    assert!(refused.as_deref().is_some_and(|answer| answer.contains(" 503 ")), "{refused:?}");
    assert_eq!(ask(), 200);
    drop((half, large));
}

/// Without an end to its turn, one client that stops sending keeps out all large bodies until `rec.body_timeout`.
#[test]
fn a_large_body_that_stops_coming_loses_its_turn() {
    let one_at_a_time = [("rec.body", "1m"), ("rec.held", "2m"), ("rec.body_timeout", "600000000")];
    let server = start_with(Box::new(|| Ok(served(1))), &one_at_a_time);
    let mut stopped = Http::to(&server);
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
    stopped.0.write_all(&[head.as_bytes(), &[b' '; 600_000]].concat()).expect("it is read");
    let padded = |bytes| format!("{}{}", " ".repeat(bytes), json!({ "inputs": inputs() })).into_bytes();
    let mut large = Http::to(&server);
    let (status, ..) = large.ask("POST", "/v2/models/tiny/infer", "", &padded(800_000));
    assert_eq!(status, 200);
    let mut answer = [0; 12];
    stopped.0.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn models_are_not_loaded_for_web_pages() {
    let server = start();
    let mut http = Http::to(&server);
    let mut load = |headers: &str| http.ask("POST", "/v2/repository/models/tiny/load", headers, b"").0;
    assert_eq!(load("Origin: http://evil.example\r\n"), 403);
    assert_eq!(load("Origin: null\r\n"), 403);
    assert_eq!(load(""), 200);
}

#[test]
fn batches_of_many_requests_score_as_each_alone() {
    let synthetic = Synthetic {
        tables: 3,
        rows: 50,
        dim: 16,
        format: RowFormat::F32,
        dense: 4,
        bottom: vec![8],
        top: vec![8],
        memo: Some(1.5),
        seed: 7,
    };
    let of = synthetic.clone();
    let server = start_with(Box::new(move || of.model()), &[("rec.linger", "2000")]);
    let alone = synthetic.model().expect("a model");
    std::thread::scope(|scope| {
        for client in 0..4u32 {
            let (server, alone) = (&server, &alone);
            scope.spawn(move || {
                let mut client_side = connect(server);
                for round in 0..20 {
                    let count = (client + round) % 4;
                    let ids: Vec<u32> = (0..count).map(|at| (client * 17 + round * 5 + at) % 50).collect();
                    let weights: Vec<f32> = ids.iter().map(|&id| id as f32 * 0.1).collect();
                    let is_weighted = client == 1 && count > 0;
                    let dense = [0.1, client as f32, 0.3, round as f32 * 0.1];
                    let offsets = [0, count];
                    let own = Bags::new(&ids, &offsets, is_weighted.then_some(&weights[..])).expect("bags");
                    let (mut scratch, mut want) = (Scratch::default(), Vec::new());
                    let batch = Batch { len: 1, dense: &dense, bags: &[own, own, own] };
                    alone.model().infer(&batch, Tuning::default(), &mut scratch, &mut want).expect("a batch");
                    let (have, _) = scores(&mut client_side, |request| {
                        request.set_dense(&dense)?;
                        for table in ["t2", "t0", "t1"] {
                            let mut bags = request.push_bags()?;
                            bags.set_table(table)?;
                            bags.set_values(&ids.iter().map(|&id| i64::from(id)).collect::<Vec<_>>())?;
                            bags.set_offsets(&[0])?;
                            if is_weighted {
                                bags.set_weights(&weights)?;
                            }
                        }
                        Ok(())
                    })
                    .expect("scores");
                    assert!((have[0] - want[0]).abs() <= 1e-5, "{have:?} {want:?}");
                }
            });
        }
    });
    let _: Option<(InferReply, InferRequest)> = None;
}
