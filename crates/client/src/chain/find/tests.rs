//! Sources against servers of one page within the test.

use super::*;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Answers requests with these pages, each at its path, until the test ends; where it is.
fn pages(pages: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens").to_string();
    let serve = move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            // The head alone says which page is wanted; a body is left unread.
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(count @ 1..) => request.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, text) = pages
                .iter()
                .find(|(known, _)| *known == path)
                .map_or(("404 Not Found", "nothing here"), |(_, text)| ("200 OK", *text));
            let length = text.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            // Whoever went away does not want it.
            let _ = stream.write_all(format!("{head}{text}").as_bytes());
        }
    };
    std::thread::spawn(serve);
    address
}

fn found(sources: Vec<Source>, chain: Option<u32>) -> Result<Vec<String>, String> {
    let finder = Finder { sources, chain, timeout: Duration::from_secs(30) };
    finder.addresses().map(|all| all.iter().map(ToString::to_string).collect())
}

const CHAIN: &str = r#"{"chain":7,"epoch":5,"replicas":[{"replica":2,"address":"tcp:h:2","part":"serving"},
    {"replica":1,"address":"tcp:h:1","part":"out"}]}"#;

#[test]
fn a_controller_says_where_replicas_are() {
    let address = pages(&[("/chain", CHAIN), ("/empty/chain", r#"{"chain":7,"epoch":0,"replicas":[]}"#)]);
    let at = |place: String, chain| found(vec![Source::Controller(place)], chain);
    assert_eq!(at(address.clone(), Some(7)), Ok(vec!["tcp:h:2".to_owned(), "tcp:h:1".to_owned()]));
    assert!(at(format!("http://{address}/"), None).is_ok());
    for (place, words) in [
        (format!("http://{address}/empty"), "no replica has said yet"),
        (format!("http://{address}/other"), "404 Not Found for /chain: is this a chain controller's"),
        ("tcp:127.0.0.1:7400".to_owned(), "write HOST:PORT, as its --admin says"),
    ] {
        let error = at(place, None).expect_err(words);
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
    assert!(at(address, Some(8)).expect_err("another").contains("about chain 7, and not about 8"));
}

#[test]
fn etcd_says_where_replicas_are() {
    // What a gateway answers to a range that has one key: the directory above, of a chain 1.
    let one = CHAIN.replace("\"chain\":7", "\"chain\":1");
    let range = format!(r#"{{"kvs":[{{"value":"{}","mod_revision":"3"}}]}}"#, crate::etcd::encode(&one));
    let range: &'static str = Box::leak(range.into_boxed_str());
    let known: &'static [(&str, &str)] = Box::leak(vec![("/v3/kv/range", range)].into_boxed_slice());
    let etcd = |address: String| Source::Etcd {
        endpoints: vec![format!("http://{address}")],
        access: Access::default(),
    };
    assert_eq!(found(vec![etcd(pages(known))], None).map(|all| all.len()), Ok(2));
    let none = found(vec![etcd(pages(&[("/v3/kv/range", "{}")]))], Some(9)).expect_err("none");
    assert!(none.contains("etcd has no /millrace/chain/9/directory"), "{none}");
}

#[test]
fn what_one_source_lacks_another_has() {
    let nowhere = Source::File("no-such-cluster.toml".into());
    let replicas = |all: &[&str]| {
        Source::Replicas(all.iter().map(|address| address.parse().expect("an address")).collect())
    };
    let all = vec![nowhere.clone(), replicas(&["tcp:h:1", "tcp:h:2"]), replicas(&["tcp:h:2", "tcp:h:3"])];
    assert_eq!(found(all, None), Ok(["tcp:h:1", "tcp:h:2", "tcp:h:3"].map(str::to_owned).to_vec()));
    assert!(found(vec![nowhere], None).expect_err("none").contains("no-such-cluster.toml"));
    assert!(found(vec![], None).expect_err("none").contains("no replica is named"));
}

#[test]
fn a_password_is_not_shown() {
    let access = Access { login: Some(("ann".to_owned(), "secret".to_owned())), tls: None };
    let shown = format!("{:?}", Source::Etcd { endpoints: Vec::new(), access });
    assert!(shown.contains("ann") && !shown.contains("secret"), "{shown}");
}
