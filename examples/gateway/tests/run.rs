//! `gateway run` on interfaces of a network namespace: it starts, reads registers again on SIGHUP, ends on SIGINT. Skipped where nobody may make namespaces; with
//! `MILLRACE_REQUIRE_LAB=1` it fails instead.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

/// Makes what the shipped config file names, then becomes the gateway.
const SCRIPT: &str = "set -e
for name in eth0 eth1; do
  ip link add $name type veth peer name to-$name
  ip link set $name up
  ip link set to-$name up
done
exec \"$0\" run --config \"$1\"";

#[test]
fn it_starts_reads_registers_again_and_ends() {
    let folder = std::env::temp_dir().join(format!("gateway-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (program, file) = (env!("CARGO_BIN_EXE_gateway"), folder.join("gateway.toml"));
    let key = folder.join("gateway.key");
    assert!(Command::new(program).arg("keygen").arg(&key).status().expect("it starts").success());
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.toml");
    let text = std::fs::read_to_string(shipped).expect("it is shipped");
    std::fs::write(&file, &text).expect("a file");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", SCRIPT, program]).arg(&file);
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = started else { return skip("unshare is not installed") };
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    if line.is_empty() {
        let mut errors = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
        child.wait().expect("it ends");
        let may_not = ["not permitted", "denied", "No space left", "ip: not found"];
        assert!(may_not.iter().any(|why| errors.contains(why)), "{errors}");
        return skip(errors.trim());
    }
    assert_eq!(line, "the gateway runs; route, nat, crypto: acc  acc  acc\n");
    let signal = |number| {
        // SAFETY: it sends a signal to a child that was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, number) }, 0);
    };
    let mut until = |said: &str| {
        let mut line = String::new();
        while !line.starts_with(said) {
            line.clear();
            assert!(out.read_line(&mut line).expect("text") > 0, "it ended before it said {said:?}");
        }
        line
    };
    std::fs::write(&file, text.replace("crypto = \"acc\"", "crypto = \"host\"")).expect("a file");
    signal(libc::SIGHUP);
    assert_eq!(until("registers read again"), "registers read again; route, nat, crypto: acc  acc  host\n");
    signal(libc::SIGINT);
    assert!(until("ended:").contains("packets in"));
    assert!(child.wait().expect("it ends").success());
    std::fs::remove_dir_all(&folder).expect("ours");
}

fn skip(why: &str) {
    assert!(std::env::var_os("MILLRACE_REQUIRE_LAB").is_none(), "the gateway must run here, but: {why}");
    // Not eprintln: the test harness would swallow it.
    writeln!(std::io::stderr(), "SKIPPED the gateway on interfaces: {why}").expect("stderr takes a line");
}
