//! The live page of an admin port, in a headless Chromium: its figures are those of `/metrics`, registers are set and set back, a killed box turns red, axe
//! finds nothing wrong at two widths in light and dark, and the page asks nobody but its port.
//!
//! Wants node, Chromium (Debian: `chromium`) and the packages puppeteer-core and axe-core (npm) in the folder that `MILLRACE_NODE_MODULES` names,
//! `target/peers/npm/node_modules` otherwise. Without them it is skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure. Pictures are left in
//! `target/live`.

mod members;
mod served;

use members::{Cluster, Folder, Text, wait_for};
use served::skip;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Node's packages and a Chromium, if there are both.
fn browser() -> Result<(PathBuf, &'static str), &'static str> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let named = std::env::var_os("MILLRACE_NODE_MODULES").map(PathBuf::from);
    let modules = named.unwrap_or_else(|| target.join("peers/npm/node_modules"));
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs("node") {
        return Err("there is no node (Debian: npm)");
    }
    if !modules.join("puppeteer-core").is_dir() || !modules.join("axe-core").is_dir() {
        return Err(
            "there is no puppeteer-core or axe-core: npm install --prefix target/peers/npm puppeteer-core axe-core",
        );
    }
    let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let found = chromium.into_iter().find(|program| Path::new(program).exists());
    Ok((modules, found.ok_or("there is no Chromium (Debian: chromium)")?))
}

#[test]
fn the_live_page_in_a_browser() {
    let (modules, chromium) = match browser() {
        Ok(found) => found,
        Err(why) => return skip(why),
    };
    let mut text = Text::new().rack();
    text.text = text.text.replace("box = 2\n", "box = 1\n");
    let cluster = Cluster::of(Folder::new("live"), &text);
    let mut rack = cluster.rack();
    let file = &cluster.file;
    let mut client = wait_for("the rack", || {
        client::Cluster::builder().cluster(file).tor(1).connect().map_err(|error| error.to_string())
    });
    for key in 0..20_u32 {
        wait_for("the home", || {
            client.set(&key.to_le_bytes(), b"value").map(drop).map_err(|error| error.to_string())
        });
    }
    let admins: Vec<&str> = text.text.lines().filter_map(|line| line.strip_prefix("admin = ")).collect();
    let admin: SocketAddr = admins[2].trim_matches('"').parse().expect("the home's");
    let token = wait_for("the token", || serve::admin::token_for(admin));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/drive.mjs");
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/live");
    let mut node = Command::new("node")
        .args([script.as_path(), &modules, Path::new(chromium)])
        .args([format!("http://{admin}"), token])
        .arg(&pictures)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node");
    let mut said = BufReader::new(node.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Somebody reads all the while, by way of box 1, until it is gone.
        scope.spawn(|| {
            let mut key = 0_u32;
            while !stop.load(Relaxed) && client.get(&(key % 20).to_le_bytes()).is_ok() {
                key += 1;
            }
        });
        let killed = said.next();
        stop.store(true, Relaxed);
        if killed.as_deref() == Some("kill") {
            rack.remove(0).kill();
            writeln!(node.stdin.take().expect("piped"), "killed").expect("it listens");
        }
        let found = said.next();
        assert!(node.wait().expect("it ends").success(), "{killed:?}, {found:?}");
        println!("{}", found.expect("what it found"));
    });
}
