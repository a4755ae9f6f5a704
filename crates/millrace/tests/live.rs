//! Pages in a headless Chromium. The live page of an admin port: its figures are those of `/metrics`, registers are set and set back, a killed box
//! turns red. The page of a plan, whose numbers are moved. The page that each command writes. Of all: axe finds nothing wrong at two widths in light
//! and dark, and they ask nobody.
//!
//! What that wants: `browser/mod.rs`. Without it it is skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

mod browser;
mod members;
mod served;

use members::{Cluster, Text, wait_for, within};
use served::{Served, skip};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// One after the other: servers of one take ports that members of another were told.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn the_live_page_in_a_browser() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut node = match browser::node("live.mjs") {
        Ok(node) => node,
        Err(why) => return skip(why),
    };
    let mut text = Text::new().rack();
    text.text = text.text.replace("box = 2\n", "box = 1\n");
    let cluster = Cluster::of(TempDir::with_prefix("millrace-").expect("a folder"), &text);
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
    let mut node = node
        .args([format!("http://{admin}"), token])
        .arg(browser::pictures())
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut node = match browser::node("sliders.mjs") {
        Ok(node) => node,
        Err(why) => return skip(why),
    };
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let page = within(&folder, "plan.html");
    let plan = |more: &[&str]| {
        let words = ["plan", "-w", "key-value-cache", "-p", "this-host", "--top", "1", "--json"];
        let mut command = Command::new(PROGRAM);
        let output = command.args(words).args(more).output().expect("it runs");
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |list: &serde_json::Value| -> Vec<f64> {
            list.as_array().into_iter().flatten().filter_map(|one| one["most"].as_f64()).collect()
        };
        of(&plan["alternatives"]).into_iter().chain(of(&plan["ranking"])).fold(0.0, f64::max)
    };
    let asked = plan(&["--report", &page]);
    node.arg(&page).arg(browser::pictures());
    let found = browser::says(node);
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

/// What a page is called here, the command that writes it, and settings by which it is quick. `{kv}` and `{other}` are servers of memcached's protocol,
/// `{rpc}` is one of the fabric, `{lab}` a name.
const PAGES: [(&str, &str, &str); 17] = [
    ("bench", "bench", "{kv} -k 1000 -d 200ms --warmup 10ms"),
    ("bench-two", "bench", "{kv} --vs {other} -k 1000 --slice 50ms --pairs 2"),
    ("bench-sizes", "bench", "{kv} -k 1k,2k --slice 50ms --pairs 2"),
    ("demo-kv", "demo kv", "--duration 2s"),
    (
        "lab-bench",
        "lab bench",
        "--name {lab} --modes no-box,xdp --keys 300 --copies 200 --rounds 1 --slice 60ms --windows 1",
    ),
    ("lab-sweep", "lab sweep", "--sizes 64,128 --skews 0.9,1.1 --keys 500 --seeds 1"),
    ("place-contest", "place contest", "--changes 1 --settle 100ms --measure 100ms --fixed 1 --load 0.05"),
    ("place-modelled", "place contest", "--on cxl-type2 --changes 1"),
    ("plan", "plan", "-w key-value-cache -p bluefield2-ib --top 1"),
    ("plan-machines", "plan", "-w key-value-cache -p bluefield2-ib -p this-host --top 1"),
    ("rec-bench", "rec bench", "--local --tables 2 --rows 1k --dim 16 --batches 1,4 -d 200ms --warmup 10ms"),
    ("repro", "repro run", "P-E1"),
    ("rpc-bench", "rpc bench", "{rpc} -d 200ms --warmup 10ms"),
    ("rpc-matrix", "rpc bench", "--transports memory,tcp --windows 1,8 --batch 1,4 --rounds 2 --slice 10ms"),
    ("soak", "soak", "--mode both -d 1s"),
    (
        "txn-bench",
        "txn bench",
        "--workloads 0-1 --values 64 --keys 200 --replicas 2 --media memory --rounds 1 --slice 50ms",
    ),
    ("validate", "model validate", "--system rpcacc --quick"),
];

/// Commands whose pages are looked at where they are made (`demo.rs`), or are written as another's.
const OTHERS: [&str; 3] = ["demo", "tour", "repro all"];

/// Why a command cannot run here.
fn hindrance(name: &str) -> Option<&'static str> {
    let has_spaces = || {
        let works = Command::new("unshare").args(["--net", "ip", "link"]).output();
        works.is_ok_and(|output| output.status.success())
    };
    match name {
        "lab-bench" if !has_spaces() => Some("it needs root, iproute2 and network namespaces"),
        "rpc-matrix" if base::cpu::allowed_cores().len() < 2 => Some("a matrix needs two cores"),
        _ => None,
    }
}

#[test]
fn every_page_in_a_browser() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(why) = browser::node("pages.mjs") {
        return skip(why);
    }
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let servers = [Served::with(&[]), Served::with(&[])];
    let mut rpc = Command::new(PROGRAM)
        .args(["rpc", "serve", "--until-eof", "--listen", "tcp:127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut at = String::new();
    BufReader::new(rpc.stdout.take().expect("piped")).read_line(&mut at).expect("its address");
    let lab = format!("p{}", std::process::id());
    let mut pages: Vec<PathBuf> = Vec::new();
    for (name, command, settings) in PAGES {
        if let Some(why) = hindrance(name) {
            eprintln!("SKIPPED: the page of {name}: {why}");
            continue;
        }
        let [kv, other] = [0, 1].map(|one: usize| servers[one].address().to_string());
        let settings = settings.replace("{kv}", &kv).replace("{other}", &other);
        let settings = settings.replace("{rpc}", at.trim()).replace("{lab}", &lab);
        let page = within(&folder, &format!("{name}.html"));
        let words = command.split(' ').chain(settings.split(' ')).chain(["--report", &page]);
        let output = Command::new(PROGRAM).args(words).output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        pages.push(page.into());
    }
    drop(rpc.stdin.take());
    rpc.wait().expect("it is ours");
    browser::look_at(&pages).expect("they were there");
}

/// A command that is given a page of its own is looked at, or this fails.
#[test]
fn every_command_that_writes_a_page_is_looked_at() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let manuals = within(&folder, "man");
    let output = Command::new(PROGRAM).args(["man", "--dir", &manuals]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let writes =
        |path: &PathBuf| std::fs::read_to_string(path).expect("a page").contains("\n\\fB\\-\\-report\\fR");
    let all = std::fs::read_dir(&manuals).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<String> = all
        .filter(writes)
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let looked_at = PAGES.iter().map(|(_, command, _)| *command).chain(OTHERS);
    let mut looked_at: Vec<String> =
        looked_at.map(|command| format!("millrace-{}", command.replace(' ', "-"))).collect();
    looked_at.sort();
    looked_at.dedup();
    found.sort();
    assert_eq!(found, looked_at);
}
