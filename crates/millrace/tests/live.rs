//! The live page of an admin port, in a headless Chromium: its figures are those of `/metrics`, registers are set and set back, a killed box turns red, axe
//! finds nothing wrong at two widths in light and dark, and the page asks nobody but its port. The same of the page of a plan, whose numbers are moved.
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

/// What the page of a plan shows at a slider's end is what `--set` answers.
#[test]
fn the_page_of_a_plan_in_a_browser() {
    let (modules, chromium) = match browser() {
        Ok(found) => found,
        Err(why) => return skip(why),
    };
    let folder = Folder::new("sliders");
    let page = folder.path("plan.html");
    let plan = |more: &[&str]| {
        let words = ["plan", "-w", "key-value-cache", "-p", "this-host", "--top", "1", "--json"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = command.args(words).args(more).output().expect("it runs");
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |list: &serde_json::Value| -> Vec<f64> {
            list.as_array().into_iter().flatten().filter_map(|one| one["most"].as_f64()).collect()
        };
        of(&plan["alternatives"]).into_iter().chain(of(&plan["ranking"])).fold(0.0, f64::max)
    };
    let asked = plan(&["--report", &page]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/sliders.mjs");
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/live");
    let mut node = Command::new("node");
    let output = node
        .args([&script, &modules, Path::new(chromium), Path::new(&page), &pictures])
        .stderr(Stdio::inherit())
        .output()
        .expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("what it found");
    let (number, value) =
        (found["number"].as_str().expect("a name"), found["value"].as_str().expect("a text"));
    let moved = plan(&["--set", &format!("{number}={value}")]);
    // Values on the page have three digits.
    let near = |shown: &serde_json::Value, most: f64| {
        shown.as_f64().is_some_and(|shown| (shown / most - 1.0).abs() < 0.01)
    };
    assert!(near(&found["asked"], asked) && near(&found["most"], moved), "{found}: {asked} and {moved}");
    println!("{found}");
}
