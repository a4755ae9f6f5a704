//! The port as those see it who ask.

use super::health::Beat;
use super::*;
use base::registers::Kind::Count;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use tempfile::TempDir;

/// The status of an answer to this request.
fn ask(address: SocketAddr, method: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "{method} /thing HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn at(address: &str) -> PortAt {
    PortAt::from(parse_address(address).expect("an address"))
}

fn start() -> Admin {
    let routes =
        Routes::default().with("GET /thing", "a thing", get(async || "read").put(async || "written"));
    Admin::start(at("127.0.0.1:0"), routes).expect("it starts")
}

/// A page that has its own name lead here set registers, and one of another origin reloaded models.
#[test]
fn web_pages_may_not_ask_and_changes_need_the_token() {
    let admin = start();
    let at = admin.address();
    let port = at.port();
    let token = fs::read_to_string(admin.token()).expect("a file");
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(ask(at, "GET", &host), "200");
    assert_eq!(ask(at, "GET", "Host: localhost\r\n"), "200");
    assert_eq!(ask(at, "GET", &format!("Host: [::1]:{port}\r\n")), "200");
    assert_eq!(ask(at, "PUT", &format!("{host}{bearer}")), "200");
    for (method, headers, status) in [
        ("GET", "Host: evil.example\r\n".to_owned(), "403"),
        ("GET", format!("Host: evil.example:{port}\r\n"), "403"),
        ("GET", String::new(), "403"),
        ("GET", format!("{host}Origin: http://evil.example\r\n"), "403"),
        ("GET", format!("{host}Origin: null\r\n"), "403"),
        ("PUT", host.clone(), "401"),
        ("PUT", format!("{host}Authorization: Bearer 00112233445566778899aabbccddeeff\r\n"), "401"),
        ("PUT", format!("{host}Authorization: Bearer \r\n"), "401"),
        ("PUT", format!("Host: evil.example\r\n{bearer}"), "403"),
        ("PUT", format!("{host}{bearer}Origin: http://evil.example\r\n"), "403"),
    ] {
        assert_eq!(ask(at, method, &headers), status, "{method} {headers}");
    }
    assert_eq!(ask(at, "PUT", &format!("{host}{bearer}Origin: http://127.0.0.1:{port}\r\n")), "200");
    let file = admin.token().to_owned();
    assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o777, 0o600);
    drop(admin);
    assert!(!file.exists(), "it goes with the port");
}

/// Three thousand connections that were held took the process's descriptors, and nobody else was answered.
#[test]
fn idle_connections_make_room() {
    let admin = start();
    let held: Vec<_> = (0..3 * LIMITS.connections)
        .map(|_| {
            let mut stream = TcpStream::connect(admin.address()).expect("it listens");
            // Whether it is closed by now or not.
            let _ = stream.write_all(b"GET /thing HTTP/1.1\r\nHos");
            stream
        })
        .collect();
    assert_eq!(ask(admin.address(), "GET", "Host: localhost\r\n"), "200");
    let closed = held.iter().filter(|stream| {
        stream.set_nonblocking(true).expect("a socket");
        // With bytes of ours that nobody read the end is an error.
        !matches!((&mut &**stream).read(&mut [0; 16]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(closed.count() >= LIMITS.connections, "the oldest were closed");
}

base::registers! {
    listed by "the manual lists them";
    Rate "pump.rate" Count, 1, 64, 16, live, "Litres a minute.";
    Size "pump.size" Count, 1, 64, 16, start, "Litres.";
}

#[derive(Default)]
struct Pump(base::registers::Registers<Id>);

impl Tuned for Pump {
    type Id = Id;

    fn registers(&self) -> &base::registers::Registers<Id> {
        &self.0
    }

    fn refuses(&self, name: &str, text: &str) -> Option<String> {
        (name == "pump.rate" && text == "13").then(|| "it rattles at that; set 12 or 14".to_owned())
    }
}

crate::families! { "millrace_pump_";
    LITRES counter "litres" count [] "Litres pumped.";
}

/// Status and body.
fn whole(admin: &Admin, request: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin.address()).expect("it listens");
    let token = fs::read_to_string(admin.token()).expect("a file");
    let (token, len) = (token.trim(), body.len());
    let head = format!(
        "Host: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {len}"
    );
    write!(stream, "{request} HTTP/1.1\r\n{head}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
}

#[test]
fn every_port_has_metrics_registers_and_health() {
    let serves = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (says, beat) = (Arc::clone(&serves), Beat::default());
    let woken = beat.clone();
    let lives = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let alive = Arc::clone(&lives);
    let routes = Routes::default()
        .registers(Arc::new(Pump::default()))
        .metrics(|page| page.add(LITRES, &[], 7u64))
        .ready(move || {
            says.load(std::sync::atomic::Ordering::Relaxed).then_some(()).ok_or("it starts".to_owned())
        })
        .alive(move || {
            alive.load(std::sync::atomic::Ordering::Relaxed).then_some(()).ok_or("it ran dry".to_owned())
        })
        .loops([beat.pulse("pump").woken_by(move || woken.turn())]);
    let admin = Admin::start(at("0"), routes).expect("it starts");
    let (status, list) = whole(&admin, "GET /", "");
    assert!(status == 200 && COMMON.iter().all(|(request, _)| list.contains(request)), "{list}");
    let (status, metrics) = whole(&admin, "GET /metrics", "");
    assert!(status == 200 && metrics.contains("millrace_pump_litres_total 7\n"), "{metrics}");
    assert!(metrics.contains("millrace_register{name=\"pump.size\",unit=\"count\"} 16"), "{metrics}");
    crate::metrics::lint::hold(&metrics);
    assert_eq!(whole(&admin, "GET /readyz", ""), (503, "it starts\n".into()));
    serves.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(whole(&admin, "GET /readyz", ""), (200, "ready\n".into()));
    assert_eq!(whole(&admin, "GET /healthz", ""), (200, "ok\n".into()));
    lives.store(false, std::sync::atomic::Ordering::Relaxed);
    let over = r#"{"status":"ended","why":"it ran dry"}"#;
    assert_eq!(whole(&admin, "GET /healthz", ""), (503, over.into()));
    let (status, row) = whole(&admin, "PUT /registers/pump.rate", "8");
    assert!(status == 200 && row.contains("\"number\":8"), "{row}");
    let (status, why) = whole(&admin, "PUT /registers/pump.size", "8");
    assert!(status == 409 && why.contains("start"), "{why}");
    assert_eq!(whole(&admin, "PUT /registers/pump.rate", "65").0, 400);
    let refused = (409, "register pump.rate: it rattles at that; set 12 or 14\n".to_owned());
    assert_eq!(whole(&admin, "PUT /registers/pump.rate", "13"), refused);
    let (status, why) = whole(&admin, "GET /registers/pump.rat", "");
    assert!(status == 404 && why.contains("pump.rate"), "{why}");
}

/// A loop that stalls with what the port asks for in its hands is named all the same.
#[test]
fn a_thread_that_stalls_is_named() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let turning = Beat::default();
    let woken = turning.clone();
    let routes = Routes::default()
        .metrics(move |_| assert!(held.lock().expect("one asks").recv().is_err(), "nothing is sent"))
        .loops([Beat::default().pulse("stuck"), turning.pulse("fine").woken_by(move || woken.turn())]);
    let admin = Admin::start(at("127.0.0.1:0"), routes).expect("it starts");
    let mut waits = TcpStream::connect(admin.address()).expect("it listens");
    write!(waits, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let (status, body) = whole(&admin, "GET /healthz", "");
    assert_eq!((status, &*body), (503, r#"{"status":"stalled","threads":["stuck"]}"#));
    drop(hold);
}

#[test]
fn an_address_is_a_port_or_more() {
    let read = |text| parse_address(text).map(|address| address.to_string());
    assert_eq!(read("9211"), Ok("127.0.0.1:9211".into()));
    assert_eq!(read("localhost:1"), Ok("127.0.0.1:1".into()));
    assert_eq!(read("[::1]:2"), Ok("[::1]:2".into()));
    assert!(read("nowhere").is_err_and(|why| why.contains("9211")));
}

/// By https with a certificate; who speaks plainly is told so, and who is not believed is not asked.
#[test]
fn a_port_with_a_certificate_speaks_https() {
    use ::client::web::{Tls, Web};
    use base::tls::testing::Authority;
    use base::tls::{ServerFiles, ServerTls};
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("server");
    let files = ServerFiles { cert: made.cert, key: made.key, ..ServerFiles::default() };
    let tls = Some(ServerTls::new(&files, &[b"http/1.1"]).expect("good files"));
    let admin = Admin::start(PortAt { tls, ..at("127.0.0.1:0") }, Routes::default()).expect("it starts");
    assert_eq!(admin.url(), format!("https://{}", admin.address()));
    let page = |authority: &Authority| {
        let tls = Tls::new(&fs::read(authority.file()).expect("there"), None).expect("a good file");
        Web::with_tls(Duration::from_secs(20), 1 << 16, Some(&tls)).get(&format!("{}/healthz", admin.url()))
    };
    let believed = page(&authority).expect("it answers");
    assert!(believed.is_there, "{believed:?}");
    page(&Authority::new(folder.path(), "other")).expect_err("it is not believed");
    let plain =
        Web::new(Duration::from_secs(20), 1 << 16).get(&format!("http://{}/healthz", admin.address()));
    let plain = plain.expect("words");
    assert_eq!(
        (&plain.status[..], &plain.text[..]),
        ("400 Bad Request", "this port speaks TLS: ask https://\n")
    );
}
