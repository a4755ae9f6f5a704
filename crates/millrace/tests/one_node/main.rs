//! One process, one config file, services of every kind at the same time; and its end, at which all that was sent before is answered.
//!
//! Ports are the system's choice, or those that nobody used when the topology was printed. Nothing waits for a certain time.

mod checked;
mod grpc;
mod kept;
#[allow(dead_code)] // Its own tests run with `serve`.
#[path = "../../../serve/src/metrics/lint.rs"]
mod lint;
mod shards;
mod traces;

use fabric::channel::{CallOptions, Channel, Options};
use grpc::Grpc;
use protocol::chain::Transaction;
use rustix::process::{Pid, Signal, kill_process};
use serve::admin::token_file;
use serve::inc::{Client as CacheClient, Topology};
use serve::rpc::demo::proto::demo::EchoClient;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A query of a model with two tables.
const QUERY: &str = r#"{"inputs": [
    {"name": "dense", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 0.5]},
    {"name": "t0.values", "datatype": "INT64", "shape": [2], "data": [3, 5]},
    {"name": "t0.offsets", "datatype": "INT32", "shape": [1], "data": [0]},
    {"name": "t1.values", "datatype": "INT64", "shape": [1], "data": [7]},
    {"name": "t1.offsets", "datatype": "INT32", "shape": [1], "data": [0]}]}"#;

fn millrace(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().expect("the program");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// The file of a node with everything.
fn config(folder: &TempDir) -> PathBuf {
    let topology = millrace(&["inc", "topology", "--free-ports", "--set", "coherence.patience=30000000"]);
    write(folder, "rack.toml", &topology);
    let text = include_str!("node.toml").replace("FOLDER", folder.path().to_str().expect("text"));
    write(folder, "node.toml", &text)
}

/// A running `millrace up --config`.
struct Node {
    process: Child,
    said: Vec<String>,
}

impl Node {
    fn start(config: &Path) -> Node {
        let mut process = Command::new(PROGRAM)
            .args(["up", "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut said = Vec::new();
        while said.last().is_none_or(|line: &String| !line.starts_with("admin: ")) {
            said.push(lines.next().unwrap_or_else(|| panic!("it ended after {said:?}")));
        }
        // Its last words are read, so that they do not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Node { process, said }
    }

    /// Where a service is found, behind `before`.
    fn at(&self, service: &str, before: &str) -> String {
        let line = self.said.iter().find_map(|line| line.strip_prefix(&format!("{service}: ")));
        let words = line.into_iter().flat_map(|line| line.split([' ', ',']));
        let found = words.filter_map(|word| word.strip_prefix(before)).next();
        found.unwrap_or_else(|| panic!("{service} {before}: {:?}", self.said)).to_owned()
    }

    fn get(&self, path: &str) -> (u16, String) {
        http(&self.at("admin", "http://"), "GET", path, "").read()
    }

    /// Sets a live register.
    fn set(&self, register: &str, value: &str) {
        let admin = self.at("admin", "http://");
        let token =
            std::fs::read_to_string(token_file(admin.parse().expect("an address"))).expect("its token");
        let header = format!("Authorization: Bearer {}\r\n", token.trim());
        let (status, told) =
            http_with(&admin, "PUT", &format!("/registers/{register}"), &header, value).read();
        assert_eq!(status, 200, "{told}");
    }

    /// Waits until `path` answers so.
    fn until(&self, path: &str, is_so: impl Fn(u16, &str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let (status, body) = self.get(path);
            if is_so(status, &body) {
                return body;
            }
            assert!(begun.elapsed() < PATIENCE, "{path}: {status} {body}");
            std::thread::yield_now();
        }
    }

    /// SIGTERM.
    fn stop(&self) {
        let id = Pid::from_raw(self.process.id() as i32).expect("a number");
        kill_process(id, Signal::TERM).expect("it is ours");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A request over HTTP that was sent.
struct Asked(TcpStream);

fn http(address: &str, method: &str, path: &str, body: &str) -> Asked {
    http_with(address, method, path, "", body)
}

/// With further headers, each with its end of line.
fn http_with(address: &str, method: &str, path: &str, headers: &str, body: &str) -> Asked {
    let mut stream = TcpStream::connect(address).expect("the port");
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {len}\r\n\r\n{body}"
    )
    .expect("it reads");
    Asked(stream)
}

impl Asked {
    fn read_whole(mut self) -> String {
        let mut answer = String::new();
        self.0.read_to_string(&mut answer).expect("text");
        answer
    }

    fn read(self) -> (u16, String) {
        let answer = self.read_whole();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}"));
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
    }
}

/// A sample's number.
fn sample(metrics: &str, beginning: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(beginning))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Every client once.
fn ask_all(node: &Node, folder: &TempDir, grpc: &mut Grpc) {
    let mut memcached = TcpStream::connect(node.at("cache", "tcp:")).expect("it listens");
    memcached.write_all(b"set a 0 0 1\r\n1\r\nget a\r\n").expect("sent");
    let mut stored = [0; 29];
    memcached.read_exact(&mut stored).expect("answered");
    assert_eq!(&stored, b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");

    let mut channel = channel(node);
    let echo = EchoClient::new(&channel).expect("it is served");
    let reply = echo.say(&mut channel, &CallOptions::default(), |request| request.set_text("rpc"));
    assert_eq!(reply.expect("answered").view().text(), "rpc");
    assert_eq!(grpc.say("grpc"), "grpc");

    let (status, scores) =
        http(&node.at("rank", "http://"), "POST", "/v2/models/synthetic/infer", QUERY).read();
    assert!(status == 200 && scores.contains("outputs"), "{status} {scores}");

    let address = format!("unix:{}", folder.path().join("c1").display()).parse().expect("an address");
    let mut bank = serve::txn::Client::connect(&[address], &Default::default()).expect("it serves");
    let outcome = bank.execute(Transaction::new().add("ann", 3).add("bob", 4)).expect("done");
    assert_eq!((outcome.sums, outcome.copies), (vec![3, 4], 2));

    let topology = Topology::read(&folder.path().join("rack.toml")).expect("it was printed");
    CacheClient::init(&topology, Some(1)).expect("a box").set(b"colour", b"blue").expect("done");
    let mut other = CacheClient::init(&topology, Some(2)).expect("a box");
    let items = [(); 2].map(|()| other.get(b"colour").expect("answered").expect("it is there"));
    assert!(items.iter().all(|item| item.value == b"blue") && items[1].from_box, "{items:?}");
}

fn channel(node: &Node) -> Channel {
    let address = format!("tcp:{}", node.at("demo", "tcp:")).parse().expect("an address");
    Channel::connect(&address, &Options { timeout: PATIENCE, ..Options::default() }).expect("it listens")
}

/// No listener for gRPC, and no admin port that anybody asks.
#[test]
fn clients_of_grpc_come_to_ports_of_the_fabric_and_hear_that_it_drains() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let service = |name: &str, rest: &str| {
        format!(
            "[services.{name}]\n{rest}\n[[listen]]\nservice = \"{name}\"\naddress = \"tcp:127.0.0.1:0\"\n"
        )
    };
    let rank = "kind = \"rec\"\ntables = 1\nrows = 10\ndim = 8\ndense = 1\nbottom = 8\ntop = 8";
    let text = format!("[admin]\nlisten = 0\n{}{}", service("demo", "kind = \"rpc\""), service("rank", rank));
    let mut node = Node::start(&write(&folder, "node.toml", &text));
    let mut demo = Grpc::connect(&node.at("demo", "tcp:"));
    assert_eq!(demo.say("here"), "here");
    let mut rank = Grpc::connect(&node.at("rank", "tcp:"));
    // 1: it serves, 2: it does not, 3: it is not known here.
    let mut watches =
        [("", 1), ("demo.Echo", 1), ("inference.GRPCInferenceService", 3)].map(|(service, stands)| {
            let mut watch = demo.watch(service);
            assert_eq!(demo.stands(&mut watch), stands, "{service}");
            watch
        });
    let mut of_rank = rank.watch("inference.GRPCInferenceService");
    assert_eq!(rank.stands(&mut of_rank), 1);
    node.stop();
    for watch in watches.iter_mut().take(2) {
        assert_eq!(demo.stands(watch), 2);
    }
    assert_eq!(rank.stands(&mut of_rank), 2);
    // UNAVAILABLE: ask another one.
    assert_eq!(rank.status(of_rank), "14");
    drop((demo, rank));
    assert_eq!(node.process.wait().expect("it is ours").code(), Some(0));
}

#[test]
fn services_of_every_kind_in_one_process_and_all_answered_at_its_end() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let config = config(&folder);
    let mut node = Node::start(&config);
    node.until("/readyz", |status, _| status == 200);
    let mut grpc = Grpc::connect(&node.at("demo", "grpc://"));
    ask_all(&node, &folder, &mut grpc);
    what_operators_see(&node);
    one_engine_for_all(&node);

    // All of these are under way when it is told to stop.
    let mut memcached = TcpStream::connect(node.at("cache", "tcp:")).expect("it listens");
    let mut channel = channel(&node);
    let echo = EchoClient::new(&channel).expect("it is served");
    let mut chat = echo.chat(&mut channel, &CallOptions::within(PATIENCE)).expect("started");
    chat.send(|request| request.set_text("before")).expect("taken");
    assert_eq!(chat.next().expect("more").expect("a reply").view().text(), "before");
    let mut talk = grpc.chat();
    assert_eq!(grpc.exchange(&mut talk, "before"), "before");
    let taken = "millrace_rec_requests_taken_total{service=\"rank\"}";
    let before = sample(&node.get("/metrics").1, taken).expect("it counts");
    let query = http(&node.at("rank", "http://"), "POST", "/v2/models/synthetic/infer", QUERY);
    node.until("/metrics", |_, metrics| sample(metrics, taken).is_some_and(|now| now > before));
    memcached.write_all(&b"get a\r\n".repeat(1000)).expect("sent");
    node.stop();

    let mut values = vec![0; 1000 * b"VALUE a 0 1\r\n1\r\nEND\r\n".len()];
    memcached.read_exact(&mut values).expect("all are answered");
    node.until("/readyz", |status, why| status == 503 && why.contains("draining"));
    chat.send(|request| request.set_text("after")).expect("taken");
    assert_eq!(chat.next().expect("more").expect("a reply").view().text(), "after");
    chat.finish().expect("taken");
    assert!(chat.next().is_none(), "it ended well");
    assert_eq!(grpc.exchange(&mut talk, "after"), "after");
    assert_eq!(grpc.end(talk), "0", "it ended well");
    drop(chat);
    drop((channel, grpc));
    assert_eq!(query.read().0, 200);
    assert_eq!(node.process.wait().expect("it is ours").code(), Some(0));
}

/// One page of metrics with the families of all, told apart; one list of registers; health.
fn what_operators_see(node: &Node) {
    let metrics = node.until("/metrics", |status, _| status == 200);
    lint::hold(&metrics);
    for beginning in [
        "millrace_kv_items{service=\"cache\"} 1",
        "millrace_rpc_calls_started_total{service=\"demo\",side=\"server\",method=\"/demo.Echo/Say\"} 2",
        "millrace_rpc_calls_started_total{service=\"demo\",side=\"client\",method=\"/demo.Echo/Say\"} 1",
        "millrace_gateway_connections{service=\"demo\"} 1",
        "millrace_rec_requests_total{service=\"rank\",outcome=\"answered\"} 1",
        "millrace_chain_epoch{service=\"ledger-1\",chain=\"1\",replica=\"1\"}",
        "millrace_chain_epoch{service=\"ledger-2\",chain=\"1\",replica=\"2\"}",
        "millrace_chain_controller_leads{service=\"keeper\",chain=\"1\",controller=\"0\"} 1",
        "millrace_inc_items{service=\"net\",node=\"home:1\"} 1",
        "millrace_register{service=\"cache\",name=\"store.memory\",unit=\"bytes\"} 16777216",
        "millrace_build_info{version=",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(beginning)), "{beginning} in\n{metrics}");
    }
    let registers: serde_json::Value = serde_json::from_str(&node.get("/registers").1).expect("JSON");
    let names: Vec<&str> =
        registers.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in [
        "cache.store.memory",
        "rank.rec.linger",
        "ledger-1.chain.lease",
        "net.coherence.lease",
        "demo.batch.mode",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(node.get("/healthz").0, 200);
}

/// Key-value, RPC and recommendation have one engine thread and one pool of host threads, and each has its own figures of what was done there.
fn one_engine_for_all(node: &Node) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.process.id())).expect("it runs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
    let mut shared: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| name.contains("engine") || name.starts_with("host-"))
        .collect();
    shared.sort_unstable();
    assert_eq!(shared, ["engine-0", "host-0"], "{names:?}");
    let metrics = node.get("/metrics").1;
    // `set` and `get`; what was asked of the others is theirs.
    for (beginning, count) in [
        ("millrace_kv_requests_executed_total{service=\"cache\"}", 2.0),
        ("millrace_kv_stage_seconds_count{service=\"cache\",stage=\"queue\"}", 2.0),
        ("millrace_kv_stage_seconds_count{service=\"cache\",stage=\"execute\"}", 2.0),
        ("millrace_rec_requests_total{service=\"rank\",outcome=\"answered\"}", 1.0),
    ] {
        assert_eq!(sample(&metrics, beginning), Some(count), "{beginning} in\n{metrics}");
    }
    let passes = |kind: &str| sample(&metrics, &format!("millrace_{kind}_engine_passes_total{{service="));
    assert!(passes("kv").is_some_and(|passes| (1.0..=2.0).contains(&passes)), "{metrics}");
    assert_eq!(passes("rec"), Some(1.0), "{metrics}");
}

#[test]
fn a_file_is_checked_and_its_registers_are_listed_without_serving() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let config = config(&folder);
    let file = config.to_str().expect("text");
    let said = millrace(&["up", "--config", file, "--check"]);
    assert!(
        said.contains("cache: kv memcached at tcp:127.0.0.1:0\n") && said.contains("net: cache\n"),
        "{said}"
    );
    let said = millrace(&["registers", "--config", file]);
    assert!(said.contains("cache.store.memory = 16MiB   (default 64MiB)\n"), "{said}");

    let wrong = std::fs::read_to_string(&config).expect("ours").replace("kind = \"rec\"", "kind = \"rce\"");
    let wrong = write(&folder, "wrong.toml", &wrong);
    let output = Command::new(PROGRAM).args(["up", "--config"]).arg(&wrong).output().expect("the program");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("wrong.toml:") && told.contains("did you mean \"rec\"?"), "{told}");
    let output =
        Command::new(PROGRAM).args(["up", "-m", "64", "--config", file]).output().expect("the program");
    assert!(String::from_utf8_lossy(&output.stderr).contains("has [services]"));
}
