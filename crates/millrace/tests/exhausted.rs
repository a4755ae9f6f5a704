//! A server that has no descriptors left is still one that can be looked at.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A port that is gone leaves its connections in the backlog for ever: that is a failure, and not a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ended with the test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn page(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Clients took all descriptors, the admin port's thread panicked, and the process lived on without it.
#[test]
fn the_admin_port_answers_when_clients_have_taken_all_descriptors() {
    let script = "ulimit -n 96; exec \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, "sh", PROGRAM, "up", "-p", "0", "-m", "64", "--admin", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell and the program");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let node = Node(child);
    let (mut memcached, mut admin) = (None, None);
    for line in lines.map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("clients on ") {
            memcached = memcached.or_else(|| address.split(' ').next().map(|text| text.replace("TCP ", "")));
        }
        if let Some((_, address)) = line.split_once("registers on http://") {
            admin = Some(address.trim_end_matches('/').to_owned());
        }
        if memcached.is_some() && admin.is_some() {
            break;
        }
    }
    let (memcached, admin) = (memcached.expect("where it serves"), admin.expect("the admin port"));
    let mut held: Vec<_> = (0..200).map(|_| TcpStream::connect(&memcached)).collect();
    assert!(held.iter().filter(|stream| stream.is_ok()).count() > 96, "more than it has descriptors");
    // Those for whom there is none are told so; they do not wait until another goes.
    let last = held.last_mut().expect("some").as_mut().expect("it is connected");
    last.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut words = String::new();
    last.read_to_string(&mut words).expect("words and the end");
    assert_eq!(words, "ERROR Too many open connections\r\n");
    for _ in 0..20 {
        let answer = page(&admin).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(held);
    assert!(page(&admin).expect("it answers").starts_with("HTTP/1.1 200"));
    drop(node);
}
