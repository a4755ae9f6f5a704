//! Clients of the binary protocol: bmemcached, pylibmc (libmemcached), memjs, spymemcached. Each against a node, against one where clients log in with SASL,
//! and through the proxy before a node that is the home of boxes.

use super::served::{self, Served, skip, skip_without};
use super::{behind_boxes, ended_well, python, succeeded};
use serve::kv::Server;
use serve::memcached::login::LoginArgs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const USER: &str = "ann";
const PASSWORD: &str = "secret";

/// Where Debian has the mechanisms of Cyrus SASL; a library that came with a package of Python looks for them elsewhere.
const SASL_MECHANISMS: &str = "/usr/lib/x86_64-linux-gnu/sasl2";

/// What is installed there that is not Python's.
fn in_peers(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers")).join(path)
}

fn installed(path: &str) -> Option<PathBuf> {
    let path = in_peers(path);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("there is no {}: .ci/run installs it", path.display()));
    None
}

fn script(name: &str) -> String {
    format!("{}/tests/peers/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Has a client do all it can at servers of each kind; `command` starts it but for its arguments.
fn works(name: &str, command: impl Fn() -> Command) {
    let run = |address: SocketAddr, login: &[&str]| {
        let text = succeeded(command().arg(address.port().to_string()).args(login));
        assert!(text.contains(&format!("{name}: all is well")), "{text}");
    };
    let served = Served::with(&[]);
    run(served.address(), &[]);
    served.still_sound();

    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let users = folder.path().join("users");
    std::fs::write(&users, format!("{USER}:{PASSWORD}\n")).expect("a file");
    let mut config = served::config(&[]);
    config.login = LoginArgs { auth_file: Some(users), enable_sasl: true, protocol: None };
    let node = Server::start(&config).expect("a node on a free port");
    run(node.tcp()[0], &[USER, PASSWORD]);
    let net = node.report().net;
    assert!(net.auth_cmds > net.auth_errors, "it did log in: {net:?}");

    let rack = behind_boxes();
    run(rack.address(), &[]);
    ended_well(rack);
}

#[test]
fn bmemcached_works() {
    let Some(python) = python("bmemcached") else { return };
    works("bmemcached", || {
        let mut command = Command::new(python.get_program());
        command.arg(script("bmemcached_client.py"));
        command
    });
}

#[test]
fn pylibmc_works() {
    let Some(python) = python("pylibmc") else { return };
    works("pylibmc", || {
        let mut command = Command::new(python.get_program());
        command.arg(script("pylibmc_client.py")).env("SASL_PATH", SASL_MECHANISMS);
        command
    });
}

#[test]
fn memjs_works() {
    let Some(modules) = installed("npm/node_modules") else { return };
    if Command::new("node").arg("--version").output().is_err() {
        return skip("node is not installed");
    }
    works("memjs", || {
        let mut command = Command::new("node");
        command.arg(script("memjs_client.js")).env("NODE_PATH", &modules);
        command
    });
}

#[test]
fn spymemcached_works() {
    let jar = in_peers("java/spymemcached-2.12.3.jar");
    if !jar.exists() || Command::new("java").arg("-version").output().is_err() {
        return skip_without(
            "java",
            &format!("there is no java, or no {}: .ci/run installs both", jar.display()),
        );
    }
    works("spymemcached", || {
        let mut command = Command::new("java");
        command.arg("-cp").arg(&jar).arg(script("SpymemcachedClient.java"));
        command
    });
}
