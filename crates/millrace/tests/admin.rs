//! Admin ports: what every server has there, held against those who read it: Prometheus' promtool and OpenMetrics' parser. What is not installed is skipped,
//! visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

#[allow(dead_code)] // Its own tests run with `serve`.
#[path = "../../serve/src/metrics/lint.rs"]
mod lint;
mod served;

use serde_json::Value;
use serve::inc::registers::Registers;
use serve::inc::topology::{Shape, Topology};
use served::http::{Answer, http};
use served::skip;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// How long a server may take until it is ready.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A server of any kind with an admin port; ended with the test.
struct Any {
    name: &'static str,
    process: Child,
    admin: String,
}

impl Any {
    /// Starts it, and waits for the line of standard output or error that has the port after `before`.
    fn start(name: &'static str, words: &[&str], before: &str) -> Any {
        let mut process = Command::new(PROGRAM)
            .args(words)
            .args(["--admin", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let (tell, told) = std::sync::mpsc::channel();
        let (out, err) = (process.stdout.take().expect("piped"), process.stderr.take().expect("piped"));
        for stream in [Box::new(out) as Box<dyn Read + Send>, Box::new(err)] {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // Read to the end: a server that cannot write is another one.
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
            });
        }
        drop(tell);
        let mut said = Vec::new();
        let admin = told.iter().find_map(|line| {
            let address = line.split_once(before).map(|(_, rest)| rest.to_owned());
            said.push(line);
            address
        });
        let admin = admin.unwrap_or_else(|| panic!("{name} says nowhere {before:?}: {said:?}"));
        let admin = admin.split(['/', '"']).next().expect("an address").to_owned();
        Any { name, process, admin }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let port = self.admin.rsplit(':').next().expect("a port");
        let address = format!("127.0.0.1:{port}").parse().expect("an address");
        let token = std::fs::read_to_string(serve::admin::token_file(address)).unwrap_or_default();
        let bearer = format!("Bearer {}", token.trim());
        let answer = http(&self.admin, &[("Authorization", &bearer)], (method, path, body));
        (answer.status, answer.body)
    }

    /// A page, by somebody who takes this type.
    fn accept(&self, path: &str, accept: &str) -> Answer {
        let answer = http(&self.admin, &[("Accept", accept)], ("GET", path, ""));
        assert_eq!(answer.status, 200, "{}: {answer:?}", self.name);
        answer
    }

    /// What every port does; both kinds of its metrics go to `judge`, too.
    fn hold(&self, judge: &Judge) {
        let name = self.name;
        let begun = std::time::Instant::now();
        loop {
            let (status, why) = self.ask("GET", "/readyz", "");
            match status {
                200 => break,
                503 if begun.elapsed() < PATIENCE => std::thread::sleep(std::time::Duration::from_millis(20)),
                _ => panic!("{name} is not ready: {status} {why}"),
            }
        }
        assert_eq!(self.ask("GET", "/healthz", ""), (200, "ok\n".to_owned()), "{name}");
        let (_, list) = self.ask("GET", "/", "");
        for route in ["GET /metrics", "PUT /registers/NAME", "GET /healthz", "GET /readyz"] {
            assert!(list.contains(route), "{name}: {route} in\n{list}");
        }
        let (status, metrics) = self.ask("GET", "/metrics", "");
        assert_eq!(status, 200, "{name}: {metrics}");
        lint::hold(&metrics);
        judge.promtool(name, &metrics);
        let open = self.accept("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        assert!(open.head.contains("application/openmetrics-text; version=1.0.0"), "{name}: {}", open.head);
        judge.openmetrics(name, &open.body);
        let page = self.accept("/", "text/html,application/xhtml+xml,*/*;q=0.8");
        assert!(
            page.head.contains("text/html") && page.head.contains("default-src 'none'"),
            "{name}: {}",
            page.head
        );
        for part in [
            "<!doctype html>",
            "are served",
            "href=\"/metrics\"",
            env!("CARGO_PKG_VERSION"),
            "prefers-color-scheme",
        ] {
            assert!(page.body.contains(part), "{name}: {part} in\n{}", page.body);
        }
        for family in ["process_cpu_seconds_total ", "process_open_fds ", "millrace_build_info{version="] {
            assert!(metrics.contains(family), "{name}: {family} in\n{metrics}");
        }
        assert!(metrics.contains(&format!("\nmillrace_{name}_")), "{name}'s own in\n{metrics}");
        let (_, registers) = self.ask("GET", "/registers", "");
        let registers: Value = serde_json::from_str(&registers).expect("JSON");
        let registers = registers.as_array().expect("a list");
        let of = |live: bool| registers.iter().find(|register| register["live"] == live);
        if let Some(fixed) = of(false) {
            let path = format!("/registers/{}", fixed["name"].as_str().expect("text"));
            let (status, why) = self.ask("PUT", &path, fixed["value"].as_str().expect("text"));
            assert!(status == 409 && why.contains("restart"), "{name}: {path}: {why}");
        }
        if let Some(live) = of(true) {
            let path = format!("/registers/{}", live["name"].as_str().expect("text"));
            assert_eq!(
                self.ask("PUT", &path, live["value"].as_str().expect("text")).0,
                200,
                "{name}: {path}"
            );
        }
        assert!(!registers.is_empty() && self.ask("GET", "/registers/no.such", "").0 == 404, "{name}");
    }
}

impl Drop for Any {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_server_has_the_same_port() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (http, judge) = ("http://", Judge::find(folder.path()));
    let node = Any::start("kv", &["up", "-p", "0", "-m", "64"], "registers on http://");
    node.hold(&judge);
    Any::start("place", &["place", &node.admin], "registers at http://").hold(&judge);
    drop(node);
    let dedicated = ["up", "-p", "0", "-m", "64", "--set", "engine.mode=dedicated"];
    Any::start("kv", &dedicated, "registers on http://").hold(&judge);

    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 1 };
    // Bound and given back: whoever takes one meanwhile makes this test fail, and none of ours does.
    let ports: Vec<_> =
        shape.nodes().iter().map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let at = |node| {
        let index = shape.nodes().iter().position(|known| *known == node).expect("a node");
        ports[index].local_addr().expect("bound")
    };
    let topology = Topology::two_levels(&shape, at, &Registers::default()).expect("it fits");
    topology.write(&folder.path().join("rack.toml")).expect("a file");
    drop(ports);
    let (rack, listen) = (path("rack.toml"), "127.0.0.1:0");
    let nodes = ["inc", "run", "--all", "--first", "--until-eof", "--topology", &rack];
    let inc = Any::start("inc", &nodes, "metrics at http://");
    inc.hold(&judge);
    Any::start("proxy", &["proxy", "--topology", &rack, "--listen", listen], "metrics at http://")
        .hold(&judge);
    drop(inc);

    let (clients, peer, state) = (path("clients"), path("peer"), path("state"));
    let controller_at = format!("unix:{}", path("controller"));
    let controller =
        ["chain", "controller", "--replicas", "1", "--state", &state, "--listen", &controller_at, "--no-key"];
    let controller = Any::start("chain_controller", &controller, "metrics at http://");
    controller.hold(&judge);
    let (listen_at, peers) = (format!("unix:{clients}"), format!("1=unix:{peer}"));
    let small = ["--log-size", "8m", "--data-size", "8m", "--media", "memory", "--no-key"];
    let words = ["chain", "replica", "--id", "1", "--peers", &peers, "--controllers", &controller_at];
    let words = [&words[..], &["--listen", &listen_at], &small].concat();
    Any::start("chain", &words, "metrics at http://").hold(&judge);
    drop(controller);

    let model = ["rec", "serve", "--tables", "2", "--rows", "100", "--dim", "8", "--http", listen];
    Any::start("rec", &[&model[..], &["-l", "tcp:127.0.0.1:0"]].concat(), "registers on http://")
        .hold(&judge);
    let address = format!("unix:{}", path("rpc"));
    let server = Any::start("rpc", &["rpc", "serve", "--listen", &address], http);
    server.hold(&judge);
    Any::start("gateway", &["rpc", "gateway", "--listen", listen, &address], "metrics at http://")
        .hold(&judge);
    drop(server);
}

/// Who else reads metrics: Prometheus' own checker, and its parser of OpenMetrics, where they are.
struct Judge {
    has_promtool: bool,
    python: Option<PathBuf>,
    folder: PathBuf,
}

impl Judge {
    /// With what is installed; what is not is skipped, visibly.
    fn find(folder: &Path) -> Judge {
        let works = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let has_promtool = works(Command::new("promtool").arg("--version"));
        if !has_promtool {
            skip("there is no promtool (Debian has it in prometheus)");
        }
        let python = PathBuf::from(std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned()));
        let has_parser =
            works(Command::new(&python).args(["-c", "import prometheus_client.openmetrics.parser"]));
        if !has_parser {
            skip("MILLRACE_PYTHON names no Python with prometheus_client");
        }
        Judge { has_promtool, python: has_parser.then_some(python), folder: folder.to_owned() }
    }

    /// A page in Prometheus' text.
    fn promtool(&self, name: &str, page: &str) {
        if self.has_promtool {
            let (is_good, said) = self.fed(Command::new("promtool").args(["check", "metrics"]), page);
            assert!(is_good && said.is_empty(), "{name}: promtool says {said}\nof\n{page}");
        }
    }

    /// A page in OpenMetrics.
    fn openmetrics(&self, name: &str, page: &str) {
        let script = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
families = list(read(sys.stdin.read()))
assert families and all(family.documentation for family in families), 'families without help'
assert any(family.samples for family in families if family.type == 'counter'), 'no counter'
assert any(family.unit == 'seconds' for family in families), 'no unit'";
        if let Some(python) = &self.python {
            let (is_good, said) = self.fed(Command::new(python).args(["-c", script]), page);
            assert!(is_good && said.is_empty(), "{name}: the parser of OpenMetrics says {said}\nof\n{page}");
        }
    }

    /// Whether the command is content with a page, and what it says.
    fn fed(&self, command: &mut Command, page: &str) -> (bool, String) {
        let file = self.folder.join("page");
        std::fs::write(&file, page).expect("a file");
        let output =
            command.stdin(std::fs::File::open(&file).expect("it is there")).output().expect("it was found");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Lines for people are as ever; lines for programs are JSON, all of them.
#[test]
fn a_server_logs_json() {
    let words = ["up", "-p", "0", "-m", "64", "--log-format", "json", "-v", "--admin", "0"];
    let mut process = Command::new(PROGRAM).args(words).stderr(Stdio::piped()).spawn().expect("the program");
    let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(line["service"] == "kv" && line["time"].is_string() && line["level"].is_string(), "{line}");
        said.push(line);
        if said.iter().any(|line| line["level"] == "debug") {
            break;
        }
    }
    process.kill().expect("it runs");
    process.wait().expect("it is ours");
    let serving =
        said.iter().find(|line| line["message"].as_str().is_some_and(|text| text.starts_with("serving ")));
    assert!(serving.is_some_and(|line| line["address"].is_string()), "{said:?}");
}
