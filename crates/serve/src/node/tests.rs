//! What config files and programs say, and every way in which they can be wrong.

use super::Node;
use super::file::{Said, registers, said};
use super::plan::Plan;
use crate::process::table::Source;
use std::path::Path;

fn read(text: &str) -> Result<Said, String> {
    said(&Source::of(Path::new("node.toml"), text)).map_err(|wrong| wrong.to_string())
}

fn plan(text: &str) -> Result<Plan, String> {
    match read(text)? {
        Said::Several(plan) => Ok(plan),
        Said::One(..) => Err("one server".to_owned()),
    }
}

const GOOD: &str = r#"[admin]
listen = 9211

[services.cache]
kind = "kv"
unix_mask = "770"
[services.cache.store]
memory = "256m"

[services.rank]
kind = "rec"
rows = "10k"
tables = 2
bottom = [16]
[services.rank.rec]
batch = 32

[services.demo]
kind = "rpc"
batch.mode = "fixed"

[services.front]
kind = "gateway"
to = "tcp:127.0.0.1:7000"

[services.one]
kind = "txn"
id = 1
peers = ["1=tcp:127.0.0.1:7411"]
controllers = "tcp:127.0.0.1:7400"
media = "memory"
no_key = true

[services.control]
kind = "chain-controller"
replicas = [1]
state = "/tmp/x"
no_key = true

[[listen]]
service = "cache"
address = "tcp:127.0.0.1:11211"
[[listen]]
service = "cache"
address = "udp:127.0.0.1:11211"
[[listen]]
service = "rank"
protocol = "http"
address = "127.0.0.1:8000"
[[listen]]
service = "demo"
address = "unix:/tmp/demo"
[[listen]]
service = "demo"
protocol = "grpc"
address = "127.0.0.1:50051"
[[listen]]
service = "front"
address = "127.0.0.1:50052"
[[listen]]
service = "one"
address = "tcp:127.0.0.1:7401"
[[listen]]
service = "control"
protocol = "chain"
address = "tcp:127.0.0.1:7400"
"#;

#[test]
fn a_file_says_all_of_a_node() {
    let plan = plan(GOOD).expect("a good file");
    assert_eq!(
        plan.lines(),
        [
            "cache: kv memcached at tcp:127.0.0.1:11211, memcached at udp:127.0.0.1:11211",
            "control: chain-controller chain at tcp:127.0.0.1:7400",
            "demo: rpc fabric at unix:/tmp/demo, grpc at tcp:127.0.0.1:50051",
            "front: gateway grpc at tcp:127.0.0.1:50052",
            "one: txn fabric at tcp:127.0.0.1:7401",
            "rank: rec http at tcp:127.0.0.1:8000",
            "admin: http://127.0.0.1:9211",
        ]
    );
    let value = |service: &str, name: &str| {
        let one = plan.services.iter().find(|one| one.name == service).expect(service);
        let all = one.service.registers();
        all.into_iter().find(|register| register.name == name).expect(name).value
    };
    assert_eq!(value("cache", "store.memory"), "256MiB");
    assert_eq!(value("rank", "rec.batch"), "32");
    assert_eq!(value("demo", "batch.mode"), "fixed");
    assert_eq!(plan.rights.rights, None);
    let guarded = self::plan(&format!("{GOOD}[rights]\nfile = 'rights.toml'\n")).expect("a good file");
    assert_eq!(guarded.rights.rights.as_deref(), Some(Path::new("rights.toml")));
}

#[test]
fn a_file_of_one_server_is_what_it_was() {
    let Ok(Said::One(config, admin)) =
        read("[listen]\ntcp = '127.0.0.1:0'\nadmin = 'localhost:0'\n[engine]\ngroup = 32\n")
    else {
        panic!("a good file")
    };
    assert_eq!((config.listen.tcp.len(), admin.map(|at| at.ip().is_loopback())), (1, Some(true)));
}

/// A text, the line that is wrong, and part of what is told.
type Mistakes = Vec<(String, usize, &'static str)>;

/// Another service.
const SECOND: &str = "[services.b]\nkind = \"kv\"";

fn with(services: &str, rest: &str) -> String {
    format!(
        "[services.a]\nkind = \"kv\"\n{services}\n[[listen]]\nservice = \"a\"\naddress = \"127.0.0.1:1\"\n{rest}"
    )
}

fn wrong_names() -> Mistakes {
    vec![
        // Unknown keys, at each place.
        (
            "[servces.a]\nkind = \"kv\"\n[[listen]]\n".to_owned(),
            1,
            "the file has no key \"servces\"; did you mean \"services\"?",
        ),
        (
            with("strore = 1", ""),
            3,
            "[services.a] has no key \"strore\"; it knows auth_file, boxes, chain_at, data_dir, durability, enable_sasl, enable_shutdown, engine_core, home, home_first, home_listen, home_state, kind, no_key, protocol, tls_cert, tls_client_ca, tls_key, tls_min_version, txn_listen, unix_mask",
        ),
        (with("unix_maks = '700'", ""), 3, "did you mean \"unix_mask\"?"),
        (
            with("store.memroy = '1g'", ""),
            3,
            "there is no register \"store.memroy\"; did you mean \"store.memory\"?",
        ),
        (with("stroe.memory = '1g'", ""), 3, "did you mean \"store.memory\"?"),
        (with("", "protocl = 'memcached'"), 7, "has no key \"protocl\"; did you mean \"protocol\"?"),
        (with("[rights]\npath = 'r'", ""), 4, "[rights] has no key \"path\"; it knows file"),
        (with("[rights]", ""), 3, "[rights] needs file: who may do what"),
        (with("[admin]\nlisten = 1\nport = 2", ""), 5, "[admin] has no key \"port\"; it knows listen"),
        // Kinds.
        ("[services.a]\nkind = \"rce\"".to_owned(), 2, "there is no kind \"rce\"; did you mean \"rec\"?"),
        (
            "[services.a]\nkind = \"mail\"".to_owned(),
            2,
            "there is no kind \"mail\"; there are kv, rec, rpc, gateway, txn, chain-controller, cache, proxy",
        ),
        ("[services.a]\n".to_owned(), 1, "[services.a] needs kind: one of kv"),
        ("[services.a]\nkind = 1".to_owned(), 2, "services.a.kind must be a string"),
        // Twice.
        (with("[services.a]\nkind = \"kv\"", ""), 3, "duplicate key"),
        (
            with(SECOND, "[[listen]]\nservice = \"b\"\naddress = \"127.0.0.1:1\""),
            10,
            "tcp:127.0.0.1:1 is service \"a\"'s already",
        ),
        (
            with(SECOND, "[[listen]]\nservice = \"b\"\naddress = \"0.0.0.0:1\""),
            10,
            "is service \"a\"'s already",
        ),
        (with("[admin]\nlisten = 1", ""), 7, "tcp:127.0.0.1:1 is the admin port's already"),
    ]
}

fn wrong_listeners() -> Mistakes {
    vec![
        // Listeners.
        (with(SECOND, ""), 3, "nobody can reach service \"b\": add [[listen]] with service = \"b\""),
        (
            "[services.a]\nkind = \"kv\"\n[[listen]]\nservice = \"aa\"\naddress = \"127.0.0.1:1\"".to_owned(),
            4,
            "there is no service \"aa\"; did you mean \"a\"?",
        ),
        ("[[listen]]\nservice = \"a\"\naddress = \"127.0.0.1:1\"".to_owned(), 1, "the file needs services"),
        (
            with("", "protocol = \"http\""),
            7,
            "service \"a\" of kind kv does not speak \"http\"; it speaks memcached",
        ),
        (with("", "[[listen]]\nservice = \"a\""), 8, "needs address"),
        (with("", "[[listen]]\naddress = \"127.0.0.1:2\""), 8, "needs service"),
        (
            with("", "[[listen]]\nservice = \"a\"\naddress = \"nowhere\""),
            9,
            "\"nowhere\" is no address: write HOST:PORT, tcp:HOST:PORT",
        ),
        (with("", "[[listen]]\nservice = \"a\"\naddress = \"unix:\""), 9, "lacks its path"),
        (
            with("", "[[listen]]\nservice = \"a\"\naddress = \"memory:x\""),
            9,
            "over tcp:, tls:, udp:, unix: or shm:",
        ),
        ("listen = 3\n[services.a]\nkind = \"kv\"".to_owned(), 1, "listen must be a list of tables"),
    ]
}

fn wrong_engines() -> Mistakes {
    let two = |rest: &str| with("", &format!("[engine]\ncores = 2\n{rest}"));
    vec![
        (
            with("engine_core = 1", ""),
            3,
            "no engine core 1 for service \"a\": [engine] cores = 1, numbered from 0",
        ),
        (with("engine_core = 2", "[engine]\ncores = 2"), 3, "[engine] cores = 2"),
        (with("engine_core = '0'", ""), 3, "services.a.engine_core must be a number from 0"),
        (with("engine_core = -1", ""), 3, "services.a.engine_core must be a number from 0"),
        (with("engine_cor = 0", ""), 3, "did you mean \"engine_core\"?"),
        ("[services.a]\nkind = \"proxy\"\nengine_core = 0".to_owned(), 3, "has no key \"engine_core\""),
        (two("host_treads = 1"), 9, "[engine] has no key \"host_treads\"; did you mean \"host_threads\"?"),
        (with("", "[engine]\ncores = 0"), 8, "a node has 1 to 64 engine cores, and not 0"),
        (with("", "[engine]\ncores = 'two'"), 8, "engine.cores must be a number from 0"),
        (two("host_threads = 0"), 9, "a node has 1 to 64 host threads, and not 0"),
        (two("pin = 1"), 9, "engine.pin must be a list of numbers"),
        (two("pin = [0]"), 9, "pin says a processor for each engine core: 2 of them, and not 1"),
        (two("pin = [0, 4095]"), 9, "this process may not run on processor 4095; it may on ["),
    ]
}

fn wrong_values() -> Mistakes {
    vec![
        // Values.
        (with("store.memory = '1x'", ""), 3, "not \"1x\""),
        (with("engine.group = 99", ""), 3, "1 to 64"),
        (with("engine.group = [1]", ""), 3, "must be a number, a string or true/false"),
        (with("unix_mask = '9'", ""), 3, "unix_mask cannot be \"9\": an octal number"),
        (with("enable_shutdown = 'yes'", ""), 3, "must be true or false"),
        ("[services.a]\nkind = \"rec\"\nrows = 'many'".to_owned(), 3, "rows cannot be \"many\""),
        ("[services.a]\nkind = \"rec\"\nformat = 'f31'".to_owned(), 3, "format cannot be \"f31\""),
        ("[services.a]\nkind = \"rec\"\nrow_format = 'f16'".to_owned(), 1, "[services.a] needs model"),
        ("[services.a]\nkind = \"txn\"\nid = 1".to_owned(), 1, "[services.a] needs peers, controllers"),
        ("[services.a]\nkind = \"txn\"\nid = 0".to_owned(), 3, "id cannot be \"0\""),
        ("[services.a]\nkind = \"gateway\"\nto = 'x'".to_owned(), 3, "to cannot be \"x\""),
        (
            "[services.a]\nkind = \"cache\"\ntopology = '/nowhere/rack.toml'".to_owned(),
            3,
            "cannot read the topology",
        ),
        ("[services.a]\nkind = \"cache\"".to_owned(), 1, "[services.a] needs topology"),
        (
            "[services.a]\nkind = \"cache\"\ntopology = 'x'\n[services.a.coherence]\nlease = 1".to_owned(),
            4,
            "the topology file sets its registers",
        ),
        ("[services.\"a b\"]\nkind = \"kv\"".to_owned(), 1, "\"a b\" cannot name a service"),
        ("[admin]\nlisten = 'x'\n[services.a]\nkind = \"kv\"".to_owned(), 2, "neither a port nor ADDR:PORT"),
        ("[services".to_owned(), 1, "not valid TOML"),
    ]
}

#[test]
fn every_mistake_is_told_with_its_line_and_what_was_meant() {
    let mut missed = Vec::new();
    for (text, line, part) in [wrong_names(), wrong_listeners(), wrong_engines(), wrong_values()].concat() {
        let error = plan(&text).err().unwrap_or_else(|| "nothing is wrong".to_owned());
        let place = format!("node.toml:{line}: ");
        if !error.starts_with(&place) || !error.contains(part) {
            missed.push(format!("{place}{part}\nnot {error}\nin\n{text}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let error = registers(Path::new("/nowhere/node.toml")).err().expect("no file").to_string();
    assert!(error.contains("cannot read the config file /nowhere/node.toml"), "{error}");
}

#[test]
fn a_program_is_told_the_same() {
    let wrong = |builder: super::Builder| builder.start().err().expect("it is wrong").to_string();
    let kv = || Node::builder().kv("a", Default::default());
    assert!(wrong(kv()).contains("nobody can reach service \"a\""));
    assert!(wrong(Node::builder().listen("127.0.0.1:1")).contains("say first which service"));
    assert!(wrong(kv().listen_as("http", "127.0.0.1:1")).contains("does not speak \"http\""));
    assert!(wrong(kv().listen("127.0.0.1:1").kv("a", Default::default())).contains("two services \"a\""));
    assert!(wrong(kv().listen("127.0.0.1:1").admin("1")).contains("is service \"a\"'s already"));
    assert!(wrong(kv().on_engine_core(1)).contains("there is no engine core 1 for service \"a\""));
    assert!(wrong(Node::builder().engine_cores(0)).contains("1 to 64 engine cores, and not 0"));
    let pinned = Node::builder().engine_cores(2).pin_engine_cores(&[0]);
    assert!(wrong(pinned).contains("2 of them, and not 1"));
    assert!(wrong(Node::builder().on_engine_core(0)).contains("say first which service"));
}

#[test]
fn a_file_says_how_many_engine_cores_there_are_and_who_is_on_which() {
    let text = with("engine_core = 1", "[engine]\ncores = 2\nhost_threads = 3\n");
    let plan = plan(&text).expect("a good file");
    assert_eq!((plan.engine.cores, plan.engine.host_threads, &plan.engine.pin[..]), (2, Some(3), &[][..]));
    assert_eq!(plan.services[0].engine_core, 1);
    assert_eq!(plan.lines(), ["a: kv on engine-1 memcached at tcp:127.0.0.1:1"]);
}

#[test]
fn a_node_is_served_and_brought_to_its_end() {
    use crate::rpc::demo::Demo;
    use crate::rpc::demo::proto::demo::EchoServer;
    use std::io::{Read as _, Write as _};
    let node = Node::builder()
        .engine_cores(2)
        .kv("cache", Default::default())
        .listen("tcp:127.0.0.1:0")
        .on_engine_core(1)
        .service("demo", EchoServer::new(Demo::new()))
        .listen("tcp:127.0.0.1:0")
        .listen_as("grpc", "127.0.0.1:0")
        .admin("0")
        .start()
        .expect("a node");
    let at = |name: &str, before: &str| {
        let found = node.addresses(name).into_iter().find_map(|at| Some(at.strip_prefix(before)?.to_owned()));
        found.unwrap_or_else(|| panic!("{name} {before}: {:?}", node.addresses(name)))
    };
    let mut client = std::net::TcpStream::connect(at("cache", "tcp:")).expect("it listens");
    client.write_all(b"set a 0 0 1\r\n1\r\n").expect("sent");
    let mut stored = [0; 8];
    client.read_exact(&mut stored).expect("answered");
    assert_eq!(&stored, b"STORED\r\n");
    drop((at("demo", "tcp:"), at("demo", "grpc://")));
    let admin = node.admin().expect("a port");
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(admin).expect("the port");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a body")
    };
    let metrics = get("/metrics");
    crate::metrics::lint::hold(&metrics);
    for sample in [
        "millrace_kv_items{service=\"cache\"} 1",
        "millrace_gateway_connections{service=\"demo\"} 0",
        "millrace_register{service=\"cache\",name=\"store.memory\",unit=\"bytes\"}",
        "millrace_register{service=\"demo\",name=\"batch.mode\"",
    ] {
        assert!(metrics.contains(sample), "{sample} in\n{metrics}");
    }
    assert!(get("/registers/cache.store.memory").contains("\"name\":\"cache.store.memory\""));
    assert!(get("/registers/cache.store.memroy").contains("service cache: there is no register"));
    assert!(get("/registers/store.memory").contains("its name begins with its service's"));
    assert!(get("/services/cache/stats.json").contains("\"kv\""));
    assert!(get("/").contains("GET /services/demo/trace"));
    assert_eq!((get("/readyz"), get("/healthz")), ("ready\n".to_owned(), "ok\n".to_owned()));
    node.stop().expect("nothing failed");
    assert!(std::net::TcpStream::connect(admin).is_err());
}
