//! The client library from C, Python and Go, against servers: key-value servers over shared memory and sockets, and a server of RPC.
//!
//! What needs a compiler, an interpreter or Go that is not there skips visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

mod c;
mod go;
mod python;
#[path = "../served/mod.rs"]
mod served;

use base::tls::testing::{Authority, Made};
use served::node::Node;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A folder of a test, with the library as it is installed, and what its servers need.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        // Cargo puts it beside the tests of whoever depends on it.
        let library = std::env::current_exe().expect("it runs").with_file_name("libmillrace.so");
        for name in ["libmillrace.so", client_c_soname()] {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).expect("a new name");
        }
        Folder(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> String {
        self.path().join(name).to_str().expect("a name of ours").to_owned()
    }

    fn library(&self) -> String {
        self.file("libmillrace.so")
    }

    /// A key-value server that gives rings, with these flags.
    fn shm(&self, flags: &[&str]) -> (Node, String) {
        let socket = self.file("m.shm");
        let node = node(&[&["--shm", &socket], flags].concat());
        (node, format!("shm:{socket}"))
    }

    /// One that speaks TLS, and the file of its authority.
    fn tls(&self) -> (Node, String, String) {
        let authority = Authority::new(self.path(), "ca");
        let Made { cert, key, .. } = authority.issue("server");
        let text = |path: &Path| path.to_str().expect("a name of ours").to_owned();
        let node = node(&["--tls-cert", &text(&cert), "--tls-key", &text(&key)]);
        let (_, at) = node.said.split_once("with TLS on ").unwrap_or_else(|| panic!("it said {}", node.said));
        // Its certificate is for the name.
        let port = at.lines().next().and_then(|at| at.rsplit(':').next()).expect("a port").to_owned();
        (node, format!("tls:localhost:{port}"), text(&authority.file()))
    }

    /// A server of RPC over shared memory, TCP and a Unix socket.
    fn rpc(&self) -> Rpc {
        Rpc::start(&[&format!("shm:{}", self.file("r.shm")), "tcp:127.0.0.1:0"])
    }
}

/// The name by which programs that are linked with it find the library.
fn client_c_soname() -> &'static str {
    const { assert!(env!("CARGO_PKG_VERSION").as_bytes()[0] == b'0', "the name has no minor version any more") };
    concat!("libmillrace.so.", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"))
}

fn node(flags: &[&str]) -> Node {
    Node::start(&[&["up", "-p", "0", "--admin", "0"], flags].concat())
}

/// A running `millrace rpc serve`, which ends with its standard input.
struct Rpc {
    process: Child,
    addresses: Vec<String>,
}

impl Rpc {
    fn start(listen: &[&str]) -> Rpc {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["rpc", "serve", "--until-eof"]);
        listen.iter().for_each(|address| {
            command.args(["--listen", address]);
        });
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let addresses =
            lines.take(listen.len()).map(|line| line.expect("an address").trim().to_owned()).collect();
        Rpc { process, addresses }
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// What a program wrote, which went well.
fn succeeded(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}{err}", output.status);
    out
}
