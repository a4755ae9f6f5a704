//! Sweeps as processes: killed and resumed, through the templates for clusters, and the files that the documents show.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn good(out: Output) -> String {
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    String::from_utf8(out.stdout).expect("it is text")
}

fn millrace(words: &[&str]) -> Output {
    Command::new(MILLRACE).args(words).output().expect("the program runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is a name")
}

/// `repro diff` of two files in the folder.
fn diff(folder: &TempDir, files: [&str; 2], words: &[&str]) -> Output {
    let files = files.map(|name| folder.path().join(name));
    millrace(&[&["repro", "diff", text(&files[0]), text(&files[1])], words].concat())
}

/// The part of a line from `digest` on.
fn digest(dir: &Path) -> String {
    let line = good(millrace(&["sweep", "digest", text(dir)]));
    line[line.find("digest").expect("it says the digest")..].to_string()
}

/// Some hundred short runs.
fn many(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("many.toml");
    let sweep = "title = \"many\"\nexperiment = \"F4\"\nkeep = [\"SNIC ② | READ 64 B | PCIe1 packets\"]\n\
                 [design]\nkind = \"latin-hypercube\"\npoints = 150\n[[axis]]\nnumber = \"bluefield2-ib | pcie.latency\"\n";
    fs::write(&file, sweep).expect("there is room");
    file
}

#[test]
fn what_a_killed_process_did_is_kept() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (file, whole, cut) = (many(&folder), folder.path().join("whole"), folder.path().join("cut"));
    good(millrace(&["sweep", "run", text(&file), "--out", text(&whole)]));
    let rows = cut.join("shard-0-of-1.csv");
    for (size, signal) in [(1_000, "-KILL"), (4_000, "-INT")] {
        let mut child = Command::new(MILLRACE)
            .args(["sweep", "run", text(&file), "--out", text(&cut), "--resume", "--threads", "1"])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program runs");
        while fs::metadata(&rows).map_or(0, |of| of.len()) < size
            && child.try_wait().expect("it is ours").is_none()
        {
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        let _ = Command::new("kill").args([signal, &id]).status();
        child.wait().expect("it ends");
    }
    let out = good(millrace(&["sweep", "run", text(&file), "--out", text(&cut), "--resume"]));
    assert!(out.contains("150 of 150 runs of shard 0/1"), "{out}");
    assert_eq!(digest(&cut), digest(&whole));
    let object: serde_json::Value =
        serde_json::from_str(&good(millrace(&["sweep", "digest", text(&cut), "--json"]))).expect("an object");
    assert_eq!((&object["runs"], &object["is_complete"]), (&150.into(), &true.into()));
    let said = object["digest"].as_str().expect("text");
    assert!(digest(&cut).contains(said) && object["missing"] == serde_json::json!([]), "{object}");
    let points = good(millrace(&["sweep", "points", text(&file)]));
    assert_eq!(points.lines().count(), 151);
}

#[test]
fn the_templates_for_clusters_run() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (alone, slurm, pods) =
        (folder.path().join("alone"), folder.path().join("slurm"), folder.path().join("pods"));
    good(millrace(&["sweep", "run", "pcie-latency", "--out", text(&alone)]));
    let path =
        format!("{}:/usr/bin:/bin", Path::new(MILLRACE).parent().expect("it is in a folder").display());
    let yaml = fs::read_to_string(format!("{ROOT}/deploy/kubernetes-sweep.yaml")).expect("it is there");
    let value = |name: &str| {
        let line = yaml.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}"));
        line[line.find(name).expect("it was found") + name.len()..].to_string()
    };
    let shards = value("completions: ");
    assert_eq!(value("{ name: SHARDS, value: "), format!("\"{shards}\" }}"));
    assert_eq!(value("command: "), "[\"/bin/sh\", \"-c\"]");
    let args = value("args: ['");
    let command = args.trim_end_matches("']");
    for shard in 0..shards.parse().expect("it is a number") {
        let shard: u32 = shard;
        let sweep = |of: &mut Command, out: &Path| {
            of.env_clear()
                .env("PATH", &path)
                .env("SWEEP", "pcie-latency")
                .env("OUT", out)
                .env("SHARDS", &shards);
        };
        let mut task = Command::new("bash");
        sweep(&mut task, &slurm);
        let index = shard.to_string();
        task.arg(format!("{ROOT}/deploy/slurm-sweep.sbatch")).env("SLURM_ARRAY_TASK_ID", &index);
        good(task.output().expect("there is bash"));
        let mut pod = Command::new("/bin/sh");
        sweep(&mut pod, &pods);
        good(pod.args(["-c", command]).env("JOB_COMPLETION_INDEX", &index).output().expect("there is sh"));
    }
    assert_eq!((digest(&slurm), digest(&pods)), (digest(&alone), digest(&alone)));
    let merged = folder.path().join("merged");
    good(millrace(&["sweep", "merge", text(&slurm), "--out", text(&merged)]));
    assert!(merged.join("rows.csv").is_file() && digest(&merged) == digest(&alone));
}

/// Blocks of a kind in a document.
fn fenced(document: &str, kind: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("{ROOT}/docs/{document}")).expect("it is there");
    let open = format!("```{kind}\n");
    let blocks =
        text.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_string());
    blocks.collect()
}

#[test]
fn the_files_that_the_documents_show_are_right() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let check = |name: &str, text_of: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text_of).expect("there is room");
        good(millrace(&["model", "check", text(&file)]))
    };
    let blocks = fenced("extend-model.md", "toml");
    assert!(check("platform.toml", &blocks[0]).contains("platform fast-nic of family"));
    assert!(
        check("machine.toml", &blocks[1])
            .contains("platform two-servers of parts clients (clients), tor (box)")
    );
    assert!(check("results.toml", &blocks[2]).contains("2 results of"));
    let sweeps = fenced("sweep.md", "toml");
    assert!(check("sweep.toml", &sweeps[0]).contains("sweep of F4"));
    let (file, out) = (folder.path().join("sweep.toml"), folder.path().join("rows"));
    assert!(good(millrace(&["sweep", "run", text(&file), "--out", text(&out)])).contains("digest"));
    // A platform that is wrong.
    let shipped =
        fs::read_to_string(format!("{ROOT}/crates/model/platforms/bluefield2-ib.toml")).expect("it is there");
    let file = folder.path().join("mine.toml");
    fs::write(&file, shipped.replacen("class = \"published\", ", "", 1)).expect("there is room");
    let wrong = millrace(&["model", "check", text(&file)]);
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("has no class"));
}

/// The one that the document shows, beside what was published, and in a sweep.
#[test]
fn an_experiment_that_is_a_file_runs() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let blocks = fenced("extend-model.md", "toml");
    let file = folder.path().join("kv-sizes.toml");
    fs::write(&file, &blocks[3]).expect("there is room");
    let checked = good(millrace(&["model", "check", text(&file)]));
    assert!(checked.contains("experiment KV-SIZES on bluefield2-ib"), "{checked}");
    let published = blocks[2].replace(
        "N1 | one NIC | 1 under way | latency",
        "KV-SIZES | A1 | GET.reply 64 B, 1 under way | latency",
    );
    fs::write(folder.path().join("kv-sizes.results.toml"), published).expect("there is room");
    let said = good(millrace(&["repro", "run", text(&file)]));
    assert!(
        said.starts_with(blocks[3].lines().nth(1).and_then(|line| line.split('"').nth(1)).expect("a title")),
        "{said}"
    );
    assert!(said.contains("calibration: 1 numbers, worst ") && said.contains("not run: N1"), "{said}");
    let swept = "title = \"s\"\nexperiment = \"kv-sizes.toml\"\nkeep = [\"A1 | * | unloaded latency\"]\n[[axis]]\n\
                 number = \"bluefield2-ib | network.latency\"\nvalues = [150, 400]\n";
    let (file, out) = (folder.path().join("of-file.toml"), folder.path().join("of-file"));
    fs::write(&file, swept).expect("there is room");
    assert!(
        good(millrace(&["sweep", "run", text(&file), "--out", text(&out)]))
            .contains("2 runs, 4 rows, digest")
    );
    assert!(
        good(millrace(&["model", "check", text(&file)])).contains("sweep of KV-SIZES over 1 numbers, 2 runs")
    );
}

#[test]
fn what_moved_between_two_runs_is_said() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    // A platform's file in place of the shipped one of its name.
    let shipped =
        fs::read_to_string(format!("{ROOT}/crates/model/platforms/bluefield2-ib.toml")).expect("it is there");
    let file = folder.path().join("mine.toml");
    fs::write(
        &file,
        shipped.replacen("value = 128, unit = \"B\"", "value = 256, unit = \"B\"", 1).replacen(
            "[128, 128]",
            "[128, 256]",
            1,
        ),
    )
    .expect("there is room");
    let rows = |name: &str, words: &[&str]| {
        let rows = good(millrace(&[&["repro", "run", "F4", "--json"], words].concat()));
        fs::write(folder.path().join(name), rows).expect("there is room");
    };
    rows("before.jsonl", &[]);
    rows("after.jsonl", &["--platform", text(&file)]);
    // Larger packets are fewer, and which platform it was is said.
    let moved = diff(&folder, ["before.jsonl", "after.jsonl"], &[]);
    assert_eq!(moved.status.code(), Some(1));
    let said = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(said.starts_with("platforms: as they are shipped before, bluefield2-ib#"), "{said}");
    assert!(said.contains("F4: bandwidth and packets on PCIe") && said.contains("PCIe1 packets"), "{said}");
    let same = diff(&folder, ["before.jsonl", "before.jsonl"], &["--above", "0%"]);
    assert!(good(same).contains("0 moved by more than 0 %, 0 by less; 0 came, 0 went"));
    let foreign = diff(&folder, ["before.jsonl", "mine.toml"], &["--json"]);
    assert_eq!(foreign.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("mine.toml:1: no row of a run"));
}
