//! A server of a recommendation model: the same query over the fabric and over HTTP, whose scores must always be the same.

use crate::program::Program;
use crate::{PATIENCE, absorbed, for_seeds, found, rough};
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use faults::{Kind, Lie, Rates};
use serde_json::{Value, json};
use serve::rec::proto::millrace::RecommendClient;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A small model; two tables, two dense features.
const MODEL: [&str; 12] =
    ["--tables", "2", "--rows", "100", "--dim", "8", "--dense", "2", "--bottom", "8", "--top", "8"];
/// Queries that are asked, of which each has its scores.
const QUERIES: u64 = 7;

/// The ids of a query's bag, and its dense features. Every other one is long, so that it does not come in one piece.
fn query(number: u64) -> (Vec<i64>, [f32; 2]) {
    let length = if number.is_multiple_of(2) { 3 } else { 9_000 };
    ((0..length).map(|at| ((number * 31 + at * 7) % 100) as i64).collect(), [number as f32, 0.5])
}

/// Somebody who asks over the fabric.
struct Caller {
    address: Address,
    patience: Duration,
    open: Option<(Channel, RecommendClient)>,
}

impl Caller {
    fn connect(&self) -> Result<(Channel, RecommendClient), String> {
        let options = Options { timeout: self.patience, ..Options::default() };
        let channel = Channel::connect(&self.address, &options).map_err(|e| e.to_string())?;
        let client = RecommendClient::new(&channel).map_err(|e| format!("{e:?}"))?;
        Ok((channel, client))
    }

    fn scores(&mut self, number: u64) -> Result<Vec<f32>, String> {
        if self.open.is_none() {
            self.open = Some(self.connect()?);
        }
        let (channel, client) = self.open.as_mut().expect("it was opened");
        let (ids, dense) = query(number);
        let reply = client.infer(channel, &CallOptions::within(self.patience), |request| {
            request.set_dense(&dense)?;
            for table in ["t0", "t1"] {
                let mut bags = request.push_bags()?;
                bags.set_table(table)?;
                bags.set_values(&ids)?;
                bags.set_offsets(&[0])?;
            }
            Ok(())
        });
        match reply {
            Ok(reply) => Ok(reply.view().scores().to_vec()),
            Err(status) => {
                self.open = None;
                Err(format!("over the fabric: {status:?}"))
            }
        }
    }
}

/// Somebody who asks over HTTP, on one connection.
struct Browser {
    address: String,
    patience: Duration,
    open: Option<TcpStream>,
}

impl Browser {
    fn scores(&mut self, number: u64) -> Result<Vec<f32>, String> {
        let (ids, dense) = query(number);
        let tensor = |name: &str, datatype: &str, shape: Value, data: Value| json!({ "name": name, "datatype": datatype, "shape": shape, "data": data });
        let mut inputs = vec![tensor("dense", "FP32", json!([1, 2]), json!(dense))];
        for table in ["t0", "t1"] {
            inputs.push(tensor(&format!("{table}.values"), "INT64", json!([ids.len()]), json!(ids)));
            inputs.push(tensor(&format!("{table}.offsets"), "INT32", json!([1]), json!([0])));
        }
        let body = json!({ "inputs": inputs }).to_string();
        let answer = self.ask("POST", "/v2/models/synthetic/infer", &body);
        if answer.is_err() {
            self.open = None;
        }
        let (status, reply) = answer.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("HTTP hangs: {error}"),
            _ => format!("over HTTP: {error}"),
        })?;
        let data = reply["outputs"][0]["data"].as_array().cloned().unwrap_or_default();
        match status {
            200 => Ok(data.iter().filter_map(Value::as_f64).map(|score| score as f32).collect()),
            _ => Err(format!("HTTP answers {status}: {reply}")),
        }
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, Value)> {
        if self.open.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(self.patience))?;
            self.open = Some(stream);
        }
        let stream = self.open.as_mut().expect("it was opened");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
        loop {
            let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            if let Some(head) = head {
                let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
                let length: Option<usize> =
                    text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
                let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
                let (Some(length), Some(status)) = (length, status) else {
                    return Err(std::io::Error::other(format!("no answer: {text:?}")));
                };
                if bytes.len() > head + length {
                    return Err(std::io::Error::other("more than one answer"));
                }
                if bytes.len() == head + length {
                    return Ok((status, serde_json::from_slice(&bytes[head..]).unwrap_or(Value::Null)));
                }
            }
            match stream.read(&mut some)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes.extend_from_slice(&some[..count]),
            }
        }
    }
}

/// Asks so often; every answer has the query's scores.
fn asks(
    rounds: u64,
    expected: &[Vec<f32>],
    may_close: bool,
    mut ask: impl FnMut(u64) -> Result<Vec<f32>, String>,
) -> Result<(), String> {
    for round in 0..rounds {
        let number = round % QUERIES;
        match ask(number) {
            Ok(scores) if scores == expected[number as usize] => {}
            Ok(scores) => return Err(format!("query {number} is answered {scores:?}, not {expected:?}")),
            // What was answered with a refusal has come whole.
            Err(why) if may_close && !why.contains("HTTP hangs") && !why.contains("HTTP answers") => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn scenario(seed: u64, rates: Rates<'_>, lie: Lie, patience: Duration) -> Result<String, String> {
    let mut listen = String::new();
    let program = Program::start(seed, |folder| {
        listen = match ["tcp", "unix", "shm"][(seed % 3) as usize] {
            "tcp" => "tcp:127.0.0.1:0".to_owned(),
            path => format!("{path}:{}", folder.join("s").display()),
        };
        let words = ["rec", "serve", "--http", "127.0.0.1:0", "--listen", &listen];
        words.into_iter().chain(MODEL).map(str::to_owned).collect()
    });
    let transport = listen.split(':').next().expect("it has one");
    let address = format!("{transport}:{}", program.word(&format!("{transport}:")));
    let address: Address = address.parse().map_err(|e| format!("{address}: {e:?}"))?;
    let web = program.word("http://");
    let may_close = rates.iter().any(|(kind, _)| *kind == Kind::Reset);
    let caller = || Caller { address: address.clone(), patience, open: None };
    let browser = || Browser { address: web.clone(), patience, open: None };
    // Whatever is opened once, for good; and what is right.
    let expected: Vec<_> = {
        let mut caller = caller();
        (0..QUERIES).map(|number| caller.scores(number)).collect::<Result<_, _>>()?
    };
    let mut web_too = browser();
    asks(QUERIES, &expected, false, |number| web_too.scores(number))?;
    drop(web_too);
    program.until_as_before(&program.descriptors())?;
    let before = program.descriptors();
    program.control.arm(rates, lie);
    let asked = std::thread::scope(|scope| {
        let expected = &expected;
        let threads = [
            scope.spawn(|| {
                let mut caller = caller();
                asks(30, expected, may_close, move |number| caller.scores(number))
            }),
            scope.spawn(|| {
                let mut browser = browser();
                asks(30, expected, may_close, move |number| browser.scores(number))
            }),
        ];
        let outcomes = threads.map(|thread| thread.join().expect("it does not panic"));
        outcomes.into_iter().collect::<Result<(), _>>()
    });
    program.control.disarm();
    let again = asked.and_then(|()| {
        let (mut caller, mut browser) = (caller(), browser());
        asks(QUERIES, &expected, false, |number| caller.scores(number))?;
        asks(QUERIES, &expected, false, |number| browser.scores(number))
    });
    let ended = again.and_then(|()| program.until_as_before(&before));
    ended.map_err(|why| program.because(&why))?;
    program.end()
}

#[test]
fn a_models_server_absorbs_what_a_kernel_may_do() {
    for_seeds(3, |seed| scenario(seed, absorbed(), Lie::No, PATIENCE));
}

#[test]
fn a_models_server_serves_on_when_connections_are_reset() {
    for_seeds(3, |seed| scenario(seed, rough(), Lie::No, PATIENCE));
}

/// The checks find bugs: each of these is the effect of one.
#[test]
fn planted_bugs_of_a_models_server_are_found() {
    let hung = Duration::from_secs(3);
    for lie in [Lie::ShortTakenForWhole, Lie::AgainCloses, Lie::NoDescriptorsEndsAccepting] {
        found(lie, |seed, lie| scenario(seed, absorbed(), lie, hung));
    }
}
