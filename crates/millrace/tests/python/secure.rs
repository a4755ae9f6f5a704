//! The Python client's TLS against a server of ours that asks for a certificate, said by the program and by the environment.

use super::{Peer, python};
use base::tls::testing::Authority;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// Calls the demonstration at the address of the last argument.
const CALL: &str = "\
import ssl, sys, time
from millrace.fabric import Connection, Lost
tls = None
if len(sys.argv) > 2:
    tls = ssl.create_default_context(cafile=sys.argv[1])
    tls.load_cert_chain(sys.argv[2], sys.argv[3])
try:
    connection = Connection(sys.argv[-1], 'demo.Echo', time.monotonic() + 60, tls)
    print(connection.call('Say', b'\\x0a\\x05hello', time.monotonic() + 60))
except Lost as cause:
    print('lost:', cause)
";

#[test]
fn python_believes_a_server_and_is_believed() {
    let Some(mut said) = python() else { return };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let (server, own) = (authority.issue("server"), authority.issue("shop"));
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let ca = text(&authority.file());
    let mut serving = Peer::start(
        Command::new(PROGRAM)
            .args(["rpc", "serve", "--listen", "tls:127.0.0.1:0", "--tls-cert", &text(&server.cert)])
            .args(["--tls-key", &text(&server.key), "--tls-client-ca", &ca])
            .stderr(Stdio::null()),
    );
    let line = serving.line();
    let address = line.split_whitespace().find(|word| word.starts_with("tls:")).expect("where it is");
    let address = address.trim_end_matches([',', '.']).to_owned();

    let own_files = [ca.clone(), text(&own.cert), text(&own.key)];
    let heard = |command: &mut Command| {
        let output = command.output().expect("it was found before");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let answer = "b'\\n\\x05hello'\n";
    assert_eq!(heard(said.args(["-c", CALL]).args(&own_files).arg(&address)), answer);
    let Some(mut from_environment) = python() else { return };
    let names = ["MILLRACE_TLS_CA", "MILLRACE_TLS_CERT", "MILLRACE_TLS_KEY"];
    from_environment.envs(names.into_iter().zip(&own_files));
    assert_eq!(heard(from_environment.args(["-c", CALL]).arg(&address)), answer);
    let Some(mut stranger) = python() else { return };
    stranger.env("MILLRACE_TLS_CA", text(&Authority::new(folder.path(), "other").file()));
    assert!(heard(stranger.args(["-c", CALL]).arg(&address)).contains("certificate verify failed"));
    let Some(mut nobody) = python() else { return };
    assert!(heard(nobody.args(["-c", CALL]).arg(&address)).contains("MILLRACE_TLS_CA"));
}
