//! The Python package (`clients/python`): its clients of key-value servers and of RPC, which go by the library.

use super::served::skip;
use super::{Folder, ROOT, node, succeeded};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The interpreter, with the package and the library to be found.
fn python(folder: &Folder) -> Option<Command> {
    let name = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let is_new = Command::new(&name).args(["-c", "import tomllib"]).output();
    if !is_new.is_ok_and(|output| output.status.success()) {
        skip(&format!("{name} is no Python of 3.11 or later; set MILLRACE_PYTHON to one"));
        return None;
    }
    let mut command = Command::new(name);
    command.current_dir(format!("{ROOT}/clients/python")).env("PYTHONPATH", ".");
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("MILLRACE_LIB", folder.library());
    Some(command)
}

/// A folder with stubs of `demo.proto`; none where the interpreter has no protoc.
fn stubs(folder: &Folder) -> Option<String> {
    let stubs = folder.file("stubs");
    std::fs::create_dir_all(&stubs).expect("a folder");
    let out = [format!("--python_out={stubs}"), format!("--grpc_python_out={stubs}")];
    let proto = format!("-I{ROOT}/crates/serve/proto");
    let options = format!("-I{ROOT}/crates/codec/proto");
    let output = python(folder)?
        .args([
            "-m",
            "grpc_tools.protoc",
            &proto,
            &options,
            &out[0],
            &out[1],
            "demo.proto",
            "millrace/options.proto",
        ])
        .output()
        .expect("it was found before");
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("No module named"), "{why}");
        skip("no grpcio-tools in this Python, for stubs of gRPC: pip install grpcio-tools");
        return None;
    }
    Some(stubs)
}

#[test]
fn every_operation_and_every_call() {
    let folder = Folder::new();
    let Some(mut python) = python(&folder) else { return };
    let (by_rings, shm) = folder.shm(&[]);
    let rpc = folder.rpc();
    // Both of one server: what one test leaves, the next removes.
    python.env("MILLRACE_TEST_SERVERS", format!("{shm} {}", by_rings.address));
    python.env("MILLRACE_TEST_RPC", rpc.addresses.join(" "));
    let stubs = stubs(&folder);
    if let Some(stubs) = &stubs {
        // Our package has the options of .proto files as one of its modules then.
        python.env("MILLRACE_TEST_STUBS", stubs).env("PYTHONPATH", format!(".:{stubs}"));
    }
    let output =
        python.args(["-m", "unittest", "-v", "tests.test_server"]).output().expect("it was found before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    succeeded("test_server", &output);
    let skipped = said.lines().filter(|line| line.contains("... skipped")).count();
    assert_eq!(skipped, usize::from(stubs.is_none()), "{said}");
    by_rings.stop();
}

/// Counts until it is told that the server is another one, and says how each try ended.
const THROUGH_A_RESTART: &str = r#"
import sys, millrace
client = millrace.Client(sys.argv[1], timeout=60.0)
for line in sys.stdin:
    try:
        print(client.increment("n", initial=1), flush=True)
    except millrace.MillraceError as error:
        print(type(error).__name__, flush=True)
"#;

#[test]
fn a_server_that_is_killed_is_an_error_and_the_next_one_is_used() {
    let folder = Folder::new();
    let Some(mut python) = python(&folder) else { return };
    let (first, shm) = folder.shm(&[]);
    let mut client = python
        .args(["-c", THROUGH_A_RESTART, &shm])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was found before");
    let (mut input, mut said) =
        (client.stdin.take().expect("piped"), BufReader::new(client.stdout.take().expect("piped")));
    let mut again = || {
        writeln!(input).expect("it listens");
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        line.trim().to_owned()
    };
    assert_eq!((again(), again()), ("1".to_owned(), "2".to_owned()));
    first.signal(Signal::KILL);
    first.ended();
    assert_eq!((again(), again()), ("Unknown".to_owned(), "NotFound".to_owned()));
    let (second, _) = folder.shm(&[]);
    assert_eq!(again(), "1");
    drop(input);
    assert!(client.wait().expect("it is ours").success());
    second.stop();
}

#[test]
fn users_log_in() {
    let folder = Folder::new();
    let Some(mut python) = python(&folder) else { return };
    let users = folder.file("users");
    std::fs::write(&users, "ann:one\n").expect("a file");
    let server = node(&["-Y", &users]);
    let program = r#"
import sys, millrace
with millrace.Client(sys.argv[1], timeout=60.0, login=("ann", "one")) as client:
    client.set("k", b"v")
try:
    millrace.Client(sys.argv[1], timeout=60.0, login=("ann", "two"))
except millrace.Refused as error:
    print(error)
"#;
    let output = python.args(["-c", program, &server.address]).output().expect("it was found before");
    assert!(succeeded("login", &output).contains("see its -Y"));
    server.stop();
}
