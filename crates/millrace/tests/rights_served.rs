//! Rights at all else that is served: the program with a file of rights, asked over the fabric, gRPC, HTTP, as a chain's client and at the admin port; the
//! file read anew at SIGHUP; and files that contradict themselves. Memcached clients: `rights.rs`.

mod chained;
mod served;

use bench::grpc::Grpc;
use chained::Up;
use rustix::process::{Pid, Signal, kill_process};
use served::http::http;
use served::{Client, PATIENCE};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A folder with a file of rights and one of tokens; it goes when dropped.
struct Folder(TempDir);

impl Folder {
    fn new(rights: &str) -> Folder {
        let folder = Folder(TempDir::with_prefix("millrace-").expect("a folder"));
        let mut tokens = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(folder.file("tokens"));
        writeln!(tokens.as_mut().expect("a file"), "ci:{TOKEN}").expect("a disk");
        folder.allow(rights);
        folder
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn allow(&self, rights: &str) {
        std::fs::write(self.file("rights.toml"), format!("tokens = 'tokens'\n{rights}")).expect("a file");
    }
}

/// A server that ends with this, and what it says.
struct Serving {
    process: Child,
    out: Box<dyn BufRead>,
    err: Box<dyn BufRead + Send>,
}

impl Serving {
    fn start(folder: &Folder, words: &[&str]) -> Serving {
        let mut command = Command::new(PROGRAM);
        command.args(words).args(["--rights", &folder.file("rights.toml"), "--log-level", "debug"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program");
        let out = Box::new(BufReader::new(process.stdout.take().expect("piped")));
        let err = Box::new(BufReader::new(process.stderr.take().expect("piped")));
        Serving { process, out, err }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        if self.out.read_line(&mut line).expect("text") == 0 {
            let mut said = String::new();
            let _ = self.err.read_to_string(&mut said);
            panic!("it ended: {said}");
        }
        line.trim().to_owned()
    }

    /// What stands behind `begin` in the first line of the log that has it.
    fn logged(&mut self, begin: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.err.read_line(&mut line).expect("text") > 0, "it ended without {begin}");
            if let Some((_, rest)) = line.split_once(begin) {
                return rest.trim().to_owned();
            }
        }
    }

    fn hang_up(&self) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::HUP).expect("it lives");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).stdin(Stdio::null()).output().expect("the program")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether `demo.Echo/Say` answers at an address of the fabric; else what is said.
fn says(address: &str) -> Result<(), String> {
    let output = run(&["rpc", "call", address, "demo.Echo/Say", "-d", r#"{"text":"x"}"#]);
    if output.status.success() { Ok(()) } else { Err(stderr(&output)) }
}

/// The same at a port of gRPC.
fn says_grpc(address: SocketAddr, token: Option<&str>, method: &str) -> Result<(), String> {
    let grpc = Grpc::connect(address).expect("it listens");
    let mut grpc = match token {
        Some(token) => grpc.authorized(&format!("Bearer {token}")),
        None => grpc,
    };
    grpc.call(method, b"", None, PATIENCE).map(drop)
}

#[test]
fn calls_of_the_fabric_and_of_grpc_want_a_right_to_their_method() {
    let me = rustix::process::getuid().as_raw();
    let rights = format!(
        "[[allow]]\nwho = ['uid:{me}', 'token:ci']\ncall = ['demo.Echo/Say', 'millrace.Reflection/*']\n[[allow]]\nwho = 'anybody'\ncall = 'grpc.health.v1.Health/*'\n"
    );
    let folder = Folder::new(&rights);
    let unix = format!("unix:{}", folder.file("socket"));
    let mut serving =
        Serving::start(&folder, &["rpc", "serve", "--listen", &unix, "--listen", "tcp:127.0.0.1:0"]);
    assert_eq!(serving.line(), unix);
    let tcp = serving.line();
    assert_eq!(says(&unix), Ok(()));
    let refused = says(&tcp).expect_err("it is anybody");
    assert!(refused.contains("no right to call"), "{refused}");
    let port: SocketAddr = tcp.trim_start_matches("tcp:").parse().expect("an address");
    let say = "/demo.Echo/Say";
    assert_eq!(says_grpc(port, Some(TOKEN), say), Ok(()));
    for token in [None, Some("fedcba9876543210fedcba9876543210")] {
        let refused = says_grpc(port, token, say).expect_err("nobody");
        assert!(refused.starts_with("status 7: no right to call demo.Echo/Say"), "{refused}");
    }
    let refused = says_grpc(port, Some(TOKEN), "/demo.Echo/Wait").expect_err("another method");
    assert!(refused.starts_with("status 7"), "{refused}");
    assert_eq!(says_grpc(port, None, "/grpc.health.v1.Health/Check"), Ok(()));
    let refused = says_grpc(port, None, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    assert!(refused.expect_err("what there is").starts_with("status 7"));

    // A gateway of its own: its server knows it by its user, its clients are known by their tokens.
    let beyond = Folder::new("[[allow]]\nwho = 'token:ci'\ncall = 'demo.Echo/*'\n");
    let mut gateway = Serving::start(&beyond, &["rpc", "gateway", "--listen", "127.0.0.1:0", &unix]);
    let line = gateway.line();
    let port = line.split(' ').nth(2).and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    assert_eq!(says_grpc(port, Some(TOKEN), say), Ok(()));
    assert!(says_grpc(port, None, say).expect_err("nobody").starts_with("status 7"));
    let refused =
        says_grpc(port, Some(TOKEN), "/demo.Echo/Fail").expect_err("the server allows the gateway less");
    assert!(refused.starts_with("status 7"), "{refused}");
}

#[test]
fn a_model_is_for_those_who_may_have_it_answer() {
    let rights = "[[allow]]\nwho = 'token:ci'\ninfer = 'synthetic'\ncall = 'inference.GRPCInferenceService/*'\n\
        [[allow]]\nwho = 'anybody'\ninfer = 'other'\ncall = 'inference.GRPCInferenceService/*'\n";
    let folder = Folder::new(rights);
    let words = ["rec", "serve", "--rows", "10", "--listen", "tcp:127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut serving = Serving::start(&folder, &words);
    let (fabric, url) = (serving.line(), serving.line());
    let at = url.trim_start_matches("http://");
    let bearer = format!("Bearer {TOKEN}");
    let ask = |method, path, token: bool| {
        let headers: &[_] = if token { &[("Authorization", &*bearer)] } else { &[] };
        http(at, headers, (method, path, "")).status
    };
    let model = "/v2/models/synthetic";
    for (method, path, with_token, without) in [
        ("GET", model, 200, 403),
        ("GET", "/v2/models/synthetic/ready", 200, 403),
        ("POST", "/v2/models/synthetic/infer", 400, 403),
        ("GET", "/v2/models/synthetic/versions/1/stats", 200, 403),
        ("GET", "/v2/models/other", 404, 404),
        ("GET", "/v2/models/third", 403, 403),
        ("GET", "/v2/health/live", 200, 200),
        ("POST", "/v2/repository/models/synthetic/load", 403, 403),
        ("POST", "/v2/repository/models/synthetic/unload", 403, 403),
        ("GET", "/v2/models/synthetic/config", 200, 403),
        ("GET", "/v2/models/stats", 403, 403),
        ("GET", "/metrics", 403, 403),
    ] {
        assert_eq!(
            (ask(method, path, true), ask(method, path, false)),
            (with_token, without),
            "{method} {path}"
        );
    }
    let port: SocketAddr = fabric.trim_start_matches("tcp:").parse().expect("an address");
    // ModelReadyRequest { name: "synthetic" }, and one without a name.
    let named = [&[10, 9], &b"synthetic"[..]].concat();
    let ready = "/inference.GRPCInferenceService/ModelReady";
    let call = |token: Option<&str>, path: &str, message: &[u8]| {
        let grpc = Grpc::connect(port).expect("it listens");
        let mut grpc = if token.is_some() { grpc.authorized(&bearer) } else { grpc };
        grpc.call(path, message, None, PATIENCE).map(drop)
    };
    assert_eq!(call(Some(TOKEN), ready, &named), Ok(()));
    for message in [&named[..], b""] {
        let refused = call(None, ready, message).expect_err("another model");
        assert!(refused.starts_with("status 7: no right to ask model synthetic"), "{refused}");
    }
    // Which models are served is for operators to say, though their methods may be called.
    let changed = [&[18, 9], &b"synthetic"[..]].concat();
    for method in ["RepositoryModelLoad", "RepositoryModelUnload"] {
        let path = format!("/inference.GRPCInferenceService/{method}");
        let refused = call(Some(TOKEN), &path, &changed).expect_err("no operator");
        assert!(refused.starts_with("status 7"), "{refused}");
    }
    let refused = stderr(&run(&["rpc", "call", &fabric, "millrace.Recommend/Describe"]));
    assert!(refused.contains("no right to call"), "{refused}");
}

#[test]
fn operators_are_those_whom_the_file_names_and_the_file_is_read_anew() {
    let folder = Folder::new("[[allow]]\nwho = 'token:ci'\nadmin = 'read'\nread = 'a'\n");
    let config = folder.file("node.toml");
    let text = "[services.cache]\nkind = 'kv'\n[admin]\nlisten = '127.0.0.1:0'\n[[listen]]\nservice = 'cache'\naddress = 'tcp:127.0.0.1:0'\n";
    std::fs::write(&config, text).expect("a file");
    let mut serving = Serving::start(&folder, &["up", "--config", &config]);
    let cache = serving.line();
    let admin = serving.logged("metrics and registers on http://");
    let (at, file) = (admin.trim_end_matches('/').to_owned(), serving.logged("wants the token in "));
    let own = std::fs::read_to_string(file).expect("a token");
    let ask = |token: Option<&str>, (method, path, body): (&str, &str, &str)| {
        let value = token.map(|token| format!("bearer {}", token.trim()));
        let headers: Vec<_> = value.iter().map(|value| ("Authorization", &**value)).collect();
        http(&at, &headers, (method, path, body))
    };
    let (look, change) = (("GET", "/registers", ""), ("PUT", "/registers/cache.net.pipeline", "7"));
    assert_eq!(ask(None, look).status, 403);
    assert_eq!(ask(Some(TOKEN), look).status, 200);
    assert_eq!((ask(Some(TOKEN), change).status, ask(None, change).status), (403, 403));
    assert_eq!((ask(Some(&own), look).status, ask(Some(&own), change).status), (200, 200));
    let said = ask(Some("fedcba9876543210"), look);
    assert!(said.status == 403 && said.body.contains("admin = \"read\""), "{}", said.body);
    let metrics = ask(Some(&own), ("GET", "/metrics", "")).body;
    let refused = r#"millrace_rights_refused_total{right="admin",identity="anybody"} 3"#;
    assert!(metrics.contains(refused), "{metrics}");

    let port = cache.split("tcp:").nth(1).and_then(|rest| rest.split([' ', ',']).next());
    let mut client = Client::to(port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{cache}")));
    let no_read = "CLIENT_ERROR no right to read this key\r\n";
    client.ask("get a\r\n", no_read);
    folder.allow("[[allow]]\nwho = 'anybody'\nservices = 'cache'\nread = 'a'\n");
    serving.hang_up();
    serving.logged("1 rules of ");
    client.ask("get a\r\n", "END\r\n");
    assert_eq!(ask(Some(TOKEN), look).status, 403);
    // One that is wrong changes nothing.
    folder.allow("[[allow]]\nwho = 'anybody'\nservices = 'cahce'\nread = 'a'\n");
    serving.hang_up();
    let wrong = serving.logged("rights.toml");
    assert!(
        wrong.starts_with(":4: there is no service \"cahce\"; did you mean \"cache\"?")
            && wrong.ends_with("stay"),
        "{wrong}"
    );
    client.ask("get a\r\n", "END\r\n");
}

#[test]
fn each_key_of_a_transaction_wants_its_right() {
    let rights = "[[allow]]\nwho = 'anybody'\ncall = 'millrace.Txn/*'\nread = ['a', 'b']\nwrite = 'a'\n";
    let folder = Folder::new(rights);
    let chain = Up::start(&["--media", "memory", "--rights", &folder.file("rights.toml")]);
    let all = chain.list();
    let txn = |text: &str| {
        let begun = Instant::now();
        // It would wait so long for whoever does not answer.
        let output = run(&["txn", "--timeout", "600s", "--connect", &all, text]);
        assert!(begun.elapsed() < PATIENCE, "{text} waited");
        (output.status.success(), format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output)))
    };
    for allowed in ["put ann 10", "if-at-least ann 4; add ann -4; get bob"] {
        let (is_done, said) = txn(allowed);
        assert!(is_done, "{allowed}: {said}");
    }
    for (refused, what) in [
        ("put bob 1", "write key bob"),
        ("get carl", "read key carl"),
        ("if-at-least carl 1; put ann 0", "read key carl"),
        ("put ann 0; add bob 1", "write key bob"),
    ] {
        let (is_done, said) = txn(refused);
        assert!(!is_done && said.contains(&format!("no right to {what}")), "{refused}: {said}");
    }
    let (_, said) = txn("get ann; get bob");
    assert!(said.contains('6'), "nothing that was refused was done: {said}");
}

#[test]
fn a_file_that_contradicts_itself_is_named_with_its_line_before_anything_is_served() {
    let folder = Folder::new("[[allow]]\nwho = 'cn:shop'\nread = 'a'\n");
    let file = folder.file("rights.toml");
    let said = stderr(&run(&["up", "-p", "0", "--rights", &file]));
    assert!(said.contains(&format!("{file}:3: nobody could prove to be cn:shop")), "{said}");
    folder.allow("[[allow]]\nwho = 'token:cd'\nread = 'a'\n");
    let said = stderr(&run(&["rpc", "serve", "--listen", "tcp:127.0.0.1:0", "--rights", &file]));
    assert!(said.contains(":3: there is no \"cd\" in the file of tokens"), "{said}");
    let said = stderr(&run(&["up", "-p", "0", "--rights", "/nowhere/rights"]));
    assert!(said.contains("/nowhere/rights"), "{said}");
    // What does not look at rights is not served with them.
    folder.allow("");
    let topology = folder.file("rack.toml");
    let made = run(&["inc", "topology"]);
    std::fs::write(&topology, &made.stdout).expect("a file");
    let said = stderr(&run(&["inc", "run", "--topology", &topology, "--all", "--first", "--rights", &file]));
    assert!(said.contains("do not look at rights"), "{said}");
}
