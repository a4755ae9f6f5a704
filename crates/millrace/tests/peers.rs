//! Other people's clients and their own tests, against a node, against one that is the home of boxes, against proxies before both kinds of home, against a
//! node whose items lie in a chain of three replicas, which are killed meanwhile, and against one with both (`peers/over_chain.rs`).
//!
//! `MILLRACE_PYTHON` names a Python with pymemcache, meta-memcache, python-binary-memcached, pylibmc, pytest, grpcio-tools, grpcio-reflection,
//! grpcio-health-checking and tritonclient; `MILLRACE_GO_BIN` a folder with grpcurl and grpc-health-probe; what else is not Python's lies in `target/peers`
//! (`.ci/run` puts it there). What is not installed is skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

#[path = "peers/binary.rs"]
mod binary;
mod chained;
mod members;
#[path = "peers/over_chain.rs"]
mod over_chain;
mod proxied;
mod racked;
mod served;

use base::tls::testing::{Authority, Made};
use chained::{Up, until_all_serve};
use proxied::Proxied;
use serve::kv::durable::{Durability, DurableArgs};
use serve::kv::{Place, Server};
use served::{Served, skip, skip_without};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The interpreter, if it has all `modules`.
fn python(modules: &str) -> Option<Command> {
    let name = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let imports = Command::new(&name).args(["-c", &format!("import {modules}")]).output();
    if imports.is_ok_and(|output| output.status.success()) {
        return Some(Command::new(name));
    }
    skip(&format!("{name} cannot import {modules}; set MILLRACE_PYTHON to an interpreter that can"));
    None
}

/// What it said, once it has ended well.
fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it was found before");
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

fn memccapable_finds_every_command_at(address: SocketAddr) {
    let text = succeeded(Command::new("memccapable").args([
        // Seconds that it waits for one answer; its own 2 are few on a machine that is busy with other tests.
        "-t",
        "60",
        "-h",
        &address.ip().to_string(),
        "-p",
        &address.port().to_string(),
    ]));
    let passed = text.lines().filter(|line| line.contains("[pass]"));
    let (binary, ascii): (Vec<_>, Vec<_>) = passed.partition(|line| line.starts_with("binary "));
    assert!(ascii.len() >= 27 && binary.len() >= 27 && !text.contains("[FAIL]"), "{text}");
}

fn memccapable_is_there() -> bool {
    let is_there = Command::new("memccapable").arg("-h").output().is_ok();
    if !is_there {
        skip("memccapable is not installed (Debian: libmemcached-tools)");
    }
    is_there
}

#[test]
fn memccapable_finds_every_command() {
    if memccapable_is_there() {
        let served = Served::with(&[]);
        memccapable_finds_every_command_at(served.address());
        served.still_sound();
    }
}

#[test]
fn memccapable_finds_every_command_through_the_proxy() {
    if memccapable_is_there() {
        let proxied = Proxied::behind_three_boxes();
        memccapable_finds_every_command_at(proxied.address());
        proxied.end_with_all_boxes_used();
    }
}

#[test]
fn memccapable_finds_every_command_at_the_home_of_boxes_and_through_its_proxy() {
    if memccapable_is_there() {
        let rack = behind_boxes();
        memccapable_finds_every_command_at(rack.home());
        memccapable_finds_every_command_at(rack.address());
        ended_well(rack);
    }
}

/// A node before which boxes are, and a proxy.
fn behind_boxes() -> Proxied {
    Proxied::before_a_node(Ipv4Addr::LOCALHOST.into(), &[])
}

/// It answered all that was asked.
fn ended_well(rack: Proxied) {
    for address in [rack.home(), rack.address()] {
        served::Client::to(address).still_works();
    }
    let (proxy, _) = rack.end();
    assert_eq!((proxy["unanswered"], proxy["unknown_outcomes"], proxy["refused"]), (0, 0, 0), "{proxy:?}");
}

/// A node whose items lie in that chain.
fn over(up: &Up) -> Served {
    until_all_serve(up);
    let mut config = served::config(&[]);
    config.durable = DurableArgs {
        durability: Durability::Chain,
        chain: up.addresses().into_iter().map(Place::Replica).collect(),
        ..DurableArgs::default()
    };
    let node = Server::start(&config).expect("a node on a free port");
    Served { node, config }
}

/// Has a suite pass at a node whose items lie in a chain, as often as it takes until each replica was killed in the middle of one and came back.
fn over_a_chain_whose_replicas_are_killed(mut suite: impl FnMut(SocketAddr)) {
    let up = Up::start(&["--replicas", "3", "--log-size", "8m", "--data-size", "8m", "--restart"]);
    let served = over(&up);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            for id in [1, 2, 3] {
                up.kill(id);
                until_all_serve(&up);
            }
        });
        while !killer.is_finished() {
            suite(served.address());
            served.client().ask("flush_all\r\n", "OK\r\n");
        }
    });
    served.still_sound();
    let chain = served.report().kv.chain.expect("it has one").counters;
    assert_eq!((chain.unanswered, chain.unknown), (0, 0), "{chain:?}");
    drop(served);
    up.end();
}

#[test]
fn memccapable_finds_every_command_over_a_chain_whose_replicas_are_killed() {
    if memccapable_is_there() {
        over_a_chain_whose_replicas_are_killed(memccapable_finds_every_command_at);
    }
}

/// Has a suite pass at a node whose items lie in a chain. No replica is killed: these suites have items that live a second, or wait so long and no longer.
fn over_a_chain(suite: impl FnOnce(SocketAddr)) {
    let up = Up::start(&["--replicas", "3", "--log-size", "8m", "--data-size", "8m"]);
    let served = over(&up);
    suite(served.address());
    served.still_sound();
    drop(served);
    up.end();
}

#[test]
fn pymemcache_passes_its_own_integration_tests_over_a_chain() {
    let Some(mut python) = python("pymemcache.test.conftest, pytest") else { return };
    over_a_chain(|address| pymemcache_passes_at(&mut python, address));
}

#[test]
fn a_meta_client_works_over_a_chain() {
    let Some(mut python) = python("meta_memcache") else { return };
    over_a_chain(|address| a_meta_client_works_at(&mut python, address, 60_000, "node"));
}

fn pymemcache_passes_at(python: &mut Command, address: SocketAddr) {
    // pytest finds the options of the suite beside it.
    let find = "import os, pymemcache.test as t; print(os.path.join(os.path.dirname(t.__file__), 'test_integration.py'))";
    let suite = succeeded(Command::new(python.get_program()).args(["-c", find]));
    python.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "integration", suite.trim()]).args([
        "--server",
        &address.ip().to_string(),
        "--port",
        &address.port().to_string(),
    ]);
    let mut output = python.output().expect("it was found before");
    // One test gives an item a life of a second, of which memcached too counts whole ones, and touches it in what is left of this one.
    for _ in 0..5 {
        let text = String::from_utf8_lossy(&output.stdout);
        let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAILED ")).collect();
        if failed.is_empty() || !failed.iter().all(|line| line.contains("::test_touch[")) {
            break;
        }
        eprintln!("pymemcache: once more, since an item ended before it was touched: {failed:?}");
        output = python.args(["-k", "test_touch"]).output().expect("as before");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(" passed") && !text.contains(" failed"), "{text}");
    eprintln!("pymemcache: {}", text.lines().rev().find(|line| line.contains(" passed")).unwrap_or_default());
}

#[test]
fn pymemcache_passes_its_own_integration_tests() {
    let Some(mut python) = python("pymemcache.test.conftest, pytest") else { return };
    let served = Served::with(&[]);
    pymemcache_passes_at(&mut python, served.address());
    served.still_sound();
}

#[test]
fn pymemcache_passes_its_own_integration_tests_through_the_proxy() {
    let Some(mut python) = python("pymemcache.test.conftest, pytest") else { return };
    let proxied = Proxied::behind_three_boxes();
    pymemcache_passes_at(&mut python, proxied.address());
    proxied.end_with_all_boxes_used();
}

#[test]
fn pymemcache_passes_its_own_integration_tests_at_the_home_of_boxes_and_through_its_proxy() {
    let Some(mut python) = python("pymemcache.test.conftest, pytest") else { return };
    let rack = behind_boxes();
    pymemcache_passes_at(&mut python, rack.home());
    let mut python = Command::new(python.get_program());
    pymemcache_passes_at(&mut python, rack.address());
    ended_well(rack);
}

fn a_meta_client_works_at(python: &mut Command, address: SocketAddr, large: usize, who: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/meta_client.py");
    let text = succeeded(python.args([script, &address.port().to_string(), &large.to_string(), who]));
    assert!(text.contains("meta client: all is well"), "{text}");
}

#[test]
fn a_meta_client_works() {
    let Some(mut python) = python("meta_memcache") else { return };
    let served = Served::with(&[]);
    a_meta_client_works_at(&mut python, served.address(), 768_000, "node");
    served.still_sound();
}

#[test]
fn a_meta_client_works_through_the_proxy() {
    let Some(mut python) = python("meta_memcache") else { return };
    let proxied = Proxied::behind_three_boxes();
    a_meta_client_works_at(&mut python, proxied.address(), 64_000, "proxy");
    proxied.end_with_all_boxes_used();
}

#[test]
fn a_meta_client_works_at_the_home_of_boxes_and_through_its_proxy() {
    let Some(mut python) = python("meta_memcache") else { return };
    let rack = behind_boxes();
    // Versions of a home have more bits than this client reads.
    a_meta_client_works_at(&mut python, rack.home(), 768_000, "proxy");
    served::Client::to(rack.home()).ask("flush_all\r\n", "OK\r\n");
    let mut python = Command::new(python.get_program());
    a_meta_client_works_at(&mut python, rack.address(), 768_000, "proxy");
    ended_well(rack);
}

/// A child of the program whose first lines of output tell where it is; it ends when dropped.
struct Running {
    child: Child,
    lines: Vec<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        Running::with_lines(arguments, 1)
    }

    /// One that says so much.
    fn with_lines(arguments: &[&str], count: usize) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("the program");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines().take(count);
        let lines = said.map(|line| line.expect("a line")).collect();
        Running { child, lines }
    }

    fn line(&self) -> &str {
        self.lines.first().expect("its first line")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the client needs.
const GRPC: &str = "grpc, grpc_tools, grpc_reflection.v1alpha, grpc_health.v1";

/// Has the gRPC client of the demonstration's service find all as it should be.
fn grpcio_is_content_with(python: &mut Command, address: &str, authority: Option<&Path>) {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let root = env!("CARGO_MANIFEST_DIR");
    write_options(folder.path());
    python.arg(format!("{root}/tests/peers/grpc_client.py")).arg(address);
    let text = succeeded(python.arg(format!("{root}/../serve/proto")).arg(folder.path()).args(authority));
    assert!(text.contains("everything as it should be"), "{text}");
}

/// An unmodified gRPC client calls a fabric service: unary, streams, statuses, deadlines, cancellation, compression, bad input; reflection and health.
#[test]
fn grpcio_calls_a_fabric_service_through_the_gateway() {
    let Some(mut python) = python(GRPC) else { return };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let socket = format!("shm:{}", folder.path().join("grpc").display());
    let _server = Running::start(&["rpc", "serve", "--listen", &socket]);
    let gateway = Running::start(&["rpc", "gateway", "--listen", "127.0.0.1:0", &socket]);
    let address = gateway.line().split_whitespace().nth(2).expect("gRPC on ADDRESS for …");
    grpcio_is_content_with(&mut python, address, None);
}

/// The same client, of the port where the fabric's own clients come.
#[test]
fn grpcio_calls_a_fabric_server_at_its_own_port() {
    let Some(mut python) = python(GRPC) else { return };
    let server = Running::start(&["rpc", "serve", "--listen", "tcp:127.0.0.1:0"]);
    let address = server.line().trim().strip_prefix("tcp:").expect("where it is");
    let call = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let called = succeeded(command.args([
            "rpc",
            "call",
            server.line().trim(),
            "Echo/Say",
            "-d",
            "{\"text\": \"both\"}",
        ]));
        assert!(called.contains("both"), "{called}");
    };
    call();
    grpcio_is_content_with(&mut python, address, None);
    call();
}

/// The same over TLS: its connection is handed over after the handshake.
#[test]
fn grpcio_calls_a_fabric_server_at_its_own_port_over_tls() {
    let Some(mut python) = python(GRPC) else { return };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let Made { cert, key } = authority.issue("server");
    let [cert, key] = [&cert, &key].map(|file| file.to_str().expect("text"));
    let listen = ["rpc", "serve", "--listen", "tls:127.0.0.1:0"];
    let server = Running::start(&[&listen[..], &["--tls-cert", cert, "--tls-key", key]].concat());
    let address = server.line().trim().strip_prefix("tls:").expect("where it is");
    grpcio_is_content_with(&mut python, address, Some(&authority.file()));
}

/// A program of Go's modules that is on the path, or where `MILLRACE_GO_BIN` says.
fn go_tool(name: &str) -> Option<Command> {
    let folder = std::env::var_os("MILLRACE_GO_BIN");
    let path = folder.map_or_else(|| Path::new(name).to_owned(), |folder| Path::new(&folder).join(name));
    if Command::new(&path).arg("-version").output().is_ok() {
        return Some(Command::new(path));
    }
    skip_without(
        "go",
        &format!("{name} is not there; .ci/run installs it, MILLRACE_GO_BIN names its folder"),
    );
    None
}

/// What people and Kubernetes probe with, against a server that has never seen them: no .proto file, no flags of ours.
#[test]
fn grpcurl_and_a_probe_of_kubernetes_are_content() {
    let (Some(mut grpcurl), Some(mut probe)) = (go_tool("grpcurl"), go_tool("grpc-health-probe")) else {
        return;
    };
    let server = Running::start(&["rpc", "serve", "--listen", "tcp:127.0.0.1:0"]);
    let address = server.line().trim().strip_prefix("tcp:").expect("where it is").to_owned();
    let ask =
        |arguments: &[&str]| succeeded(Command::new(grpcurl.get_program()).arg("-plaintext").args(arguments));
    let list = ask(&[&address, "list"]);
    for service in ["demo.Echo", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(list.lines().any(|line| line == service), "{list}");
    }
    let described = ask(&[&address, "describe", "demo.Echo"]);
    assert!(described.contains("rpc Say ( .demo.SayRequest ) returns ( .demo.SayReply )"), "{described}");
    let said = ask(&["-d", "{\"text\": \"hello\"}", &address, "demo.Echo/Say"]);
    assert!(said.contains("\"text\": \"hello\""), "{said}");
    let counted = ask(&["-d", "{\"to\": 3}", &address, "demo.Echo/Count"]);
    assert_eq!(counted.matches("\"value\"").count(), 3, "{counted}");
    let failed = grpcurl.args([
        "-plaintext",
        "-d",
        "{\"code\": 5, \"message\": \"50% größe\"}",
        &address,
        "demo.Echo/Fail",
    ]);
    let failed = failed.output().expect("it was found before");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && said.contains("NotFound") && said.contains("50% größe"), "{said}");
    for service in ["", "demo.Echo"] {
        let text =
            succeeded(Command::new(probe.get_program()).args(["-addr", &address, "-service", service]));
        assert!(text.contains("SERVING"), "{text}");
    }
    let unknown =
        probe.args(["-addr", &address, "-service", "demo.None"]).output().expect("it was found before");
    assert!(!unknown.status.success());
}

/// Triton's clients, over gRPC at the fabric's own port and over HTTP.
#[test]
fn triton_clients_ask_a_model() {
    let Some(mut python) = python("numpy, tritonclient.grpc, tritonclient.http, grpc_health.v1") else {
        return;
    };
    let model =
        ["--tables", "2", "--rows", "1000", "--dim", "8", "--dense", "3", "--bottom", "8", "--top", "8"];
    let listen = ["rec", "serve", "--listen", "tcp:127.0.0.1:0", "--http", "127.0.0.1:0"];
    let server = Running::with_lines(&[&listen[..], &model].concat(), 2);
    let [fabric, http] = ["tcp:", "http://"].map(|scheme| {
        server.lines.iter().find_map(|line| line.trim().strip_prefix(scheme)).expect("where it is")
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/triton_client.py");
    let text = succeeded(python.args([script, fabric, http]));
    assert!(text.contains("the model answers as it should"), "{text}");
}

/// The file with our options, where stock protoc finds it.
fn write_options(folder: &Path) {
    let printed =
        Command::new(env!("CARGO_BIN_EXE_millrace")).args(["rpc", "options"]).output().expect("it runs");
    assert!(printed.status.success(), "{printed:?}");
    std::fs::create_dir_all(folder.join("millrace")).expect("a folder");
    std::fs::write(folder.join("millrace/options.proto"), printed.stdout).expect("a file");
}

/// The same client, of a node that serves gRPC beside other things.
#[test]
fn grpcio_calls_a_node() {
    let Some(mut python) = python(GRPC) else { return };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let file = folder.path().join("node.toml");
    let text = "[services.demo]\nkind = \"rpc\"\n[[listen]]\nservice = \"demo\"\nprotocol = \"grpc\"\naddress = \"127.0.0.1:0\"\n";
    std::fs::write(&file, text).expect("a file");
    let node = Running::start(&["up", "--config", file.to_str().expect("text")]);
    let address = node.line().trim().strip_prefix("demo: rpc at grpc://").expect("where it is");
    grpcio_is_content_with(&mut python, address, None);
}
