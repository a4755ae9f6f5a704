//! Shards, resumption after every kind of cut, digests.

use super::*;
use std::fs::{self, OpenOptions};
use tempfile::TempDir;

fn run(shard: &str, out: &Path, resume: bool) -> Result<String, Failure> {
    let shard = shard.parse().expect("it is one");
    let file = "pcie-latency".to_string();
    Run { file, shard, out: Some(out.into()), resume, threads: Some(2) }.run()
}

fn digest(dirs: &[PathBuf]) -> String {
    let all = Gathered::of(dirs).expect("they are of one sweep");
    all.complete().expect("all runs are there");
    all.digest().to_string()
}

#[test]
fn any_number_of_shards_in_any_order_say_the_same() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (one, two, five) = (
        folder.path().join("one"),
        folder.path().join("two"),
        [folder.path().join("a"), folder.path().join("b")],
    );
    run("0/1", &one, false).expect("it runs");
    run("1/2", &two, false).expect("it runs");
    assert!(run("0/2", &folder.path().join("no/such"), false).is_ok(), "folders are made");
    let half = Gathered::of(std::slice::from_ref(&two)).expect("it is of a sweep");
    assert!(half.complete().is_err_and(|why| why.to_string().contains("6 of 12 runs are missing: 0, 2, 4")));
    run("0/2", &two, false).expect("it runs");
    for at in [4, 0, 3, 1, 2] {
        run(&format!("{at}/5"), &five[at % 2], false).expect("it runs");
    }
    let wanted = digest(std::slice::from_ref(&one));
    assert_eq!(digest(std::slice::from_ref(&two)), wanted);
    assert_eq!(digest(&five), wanted);
    // One file of each is the same file, and beside its shards it changes nothing.
    let merged = [folder.path().join("merged"), folder.path().join("merged-too")];
    Gathered::of(&five).and_then(|all| all.write(&merged[0])).expect("there is room");
    Gathered::of(&[two, one]).and_then(|all| all.write(&merged[1])).expect("there is room");
    let text = |dir: &PathBuf| fs::read_to_string(dir.join("rows.csv")).expect("it was written");
    assert_eq!(text(&merged[0]), text(&merged[1]));
    assert_eq!(digest(&merged), wanted);
}

#[test]
fn a_file_that_was_cut_anywhere_is_resumed() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let dir = folder.path().join("rows");
    run("0/1", &dir, false).expect("it runs");
    let wanted = digest(std::slice::from_ref(&dir));
    let file = dir.join("shard-0-of-1.csv");
    let whole = fs::read(&file).expect("it was written");
    assert!(run("0/1", &dir, false).is_err_and(|why| why.to_string().contains("--resume")));
    // Within the first line, at its end, within a run, at its end, at the end of a line of a run.
    let header = whole.iter().position(|byte| *byte == b'\n').expect("it has lines") + 1;
    let middle = whole.len() / 2;
    let line = middle + whole[middle..].iter().position(|byte| *byte == b'\n').expect("it has lines") + 1;
    for cut in [0, 3, header, header + 1, middle, line, whole.len() - 1, whole.len()] {
        fs::write(&file, &whole[..cut]).expect("there is room");
        run("0/1", &dir, true).unwrap_or_else(|why| panic!("cut at {cut}: {why}"));
        assert_eq!(digest(std::slice::from_ref(&dir)), wanted, "cut at {cut}");
    }
    // A power cut may leave zeros.
    let mut zeros = whole[..line].to_vec();
    zeros.resize(line + 100_000, 0);
    fs::write(&file, &zeros).expect("there is room");
    run("0/1", &dir, true).expect("it resumes");
    assert_eq!(digest(std::slice::from_ref(&dir)), wanted);
}

#[test]
fn rows_of_other_sweeps_models_and_processes_are_not_mixed_in() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let dir = folder.path().join("rows");
    run("0/2", &dir, false).expect("it runs");
    let (_, sweep) = load("pcie-latency").expect("it is shipped");
    let file = dir.join("shard-0-of-2.csv");
    let held = Journal::open(&file, &sweep, true).expect("nobody has it");
    assert!(run("0/2", &dir, true).is_err_and(|why| why.to_string().contains("another process")));
    drop(held);
    // Another model: every key is another.
    let text = fs::read_to_string(&file).expect("it was written");
    let key = text.lines().nth(1).and_then(|line| line.split(',').nth(3)).expect("it has a row").to_string();
    fs::write(&file, text.replace(&key, "0123456789abcdef")).expect("there is room");
    assert!(run("0/2", &dir, true).is_err_and(|why| why.to_string().contains("another version")));
    run("1/2", &dir, false).expect("it runs");
    assert!(
        Gathered::of(std::slice::from_ref(&dir))
            .is_err_and(|why| why.to_string().contains("another version"))
    );
    // Another sweep in the same folder.
    fs::write(dir.join("sweep.toml"), "title = \"another\"").expect("there is room");
    assert!(run("1/2", &dir, true).is_err_and(|why| why.to_string().contains("another sweep")));
}

#[test]
fn two_that_differ_in_a_run_are_told() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let dirs = [folder.path().join("a"), folder.path().join("b")];
    dirs.iter().for_each(|dir| assert!(run("0/1", dir, false).is_ok()));
    let file = dirs[1].join("shard-0-of-1.csv");
    let text = fs::read_to_string(&file).expect("it was written");
    let changed = text.replacen(",0\n", ",1\n", 1);
    assert!(text != changed, "its first row is another");
    fs::write(&file, changed).expect("there is room");
    assert!(Gathered::of(&dirs).is_err_and(|why| why.to_string().contains("differ in run")));
}

#[test]
fn a_full_disk_is_an_error_that_says_what_is_kept() {
    // Writes there fail as on a full disk; it is empty when read from its end on.
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (_, sweep) = load("pcie-latency").expect("it is shipped");
    let experiment = experiment(&sweep.experiment).expect("there is one");
    let path = folder.path().join("shard.csv");
    let mut journal = Journal::open(&path, &sweep, false).expect("there is room");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let good = journal.replace_file(full);
    let block = perform(&sweep, experiment, 0).expect("it runs");
    let said = journal.append(&block).expect_err("the disk is full");
    assert!(said.contains("No space left") && said.contains("--resume"), "{said}");
    assert_eq!(journal.runs(), 0);
    journal.replace_file(good);
    journal.append(&block).expect("there is room again");
    assert_eq!(journal.runs(), 1);
}

#[test]
fn a_point_that_cannot_be_run_is_an_error_that_names_it() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let run = |text: &str| {
        let file = folder.path().join("bad.toml");
        fs::write(&file, text).expect("there is room");
        let (file, out) = (file.display().to_string(), Some(folder.path().join("rows")));
        let result =
            Run { file, shard: "0/1".parse().expect("it is one"), out, resume: false, threads: None }.run();
        let _ = fs::remove_dir_all(folder.path().join("rows"));
        result.expect_err("it cannot run").to_string()
    };
    let axis = |number: &str, value: &str| {
        format!(
            "title = \"t\"\nexperiment = \"F4\"\n[[axis]]\nnumber = \"bluefield2-ib | {number}\"\nvalues = [{value}]\nbeyond = true\n"
        )
    };
    let zero = run(&axis("nic.shared_units", "0"));
    assert!(
        zero.starts_with("run 0 (nic.shared_units = 0, seed 1): ") && zero.contains("nic.shared_units is 0"),
        "{zero}"
    );
    let idle = run(&axis("kv.lookup", "2"));
    assert!(idle.contains("F4 does not read bluefield2-ib | kv.lookup"), "{idle}");
    let unknown = run(&axis("kv.lookup", "2").replace("F4", "F0"));
    assert!(unknown.contains("bad.toml: there is no experiment F0"), "{unknown}");
}
