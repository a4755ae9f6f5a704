//! The tools as they are called, on files of their own.

use super::Rec;
use clap::Parser;
use std::fs;
use std::path::PathBuf;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    rec: Rec,
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("millrace-rec-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        Folder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(args: &[&str]) -> Result<(), String> {
    let cli = Cli::try_parse_from([&["rec"], args].concat()).map_err(|e| e.to_string())?;
    cli.rec.run().map_err(|e| e.to_string())
}

#[test]
fn a_log_is_made_imported_and_planned() {
    let folder = Folder::new("tools");
    let [log, train, test, ids, plan] = ["log", "train", "test", "ids", "plan"].map(|name| folder.path(name));
    run(&["synth", "--rows", "500", "--queries", "900", "--out", &log]).expect("made");
    let import = ["import", &log, "--min-count", "3", "--ids", &ids, "--split", "0.3", "--held-out", &test];
    run(&[&import[..], &["--out", &train]].concat()).expect("imported");
    let budgets = ["--budgets", "1.5,2", "--out", &plan, "--table-hash", "abc"];
    run(&[&["plan", "--lists", &train, "--held-out", &test][..], &budgets].concat()).expect("planned");
    let kept = fs::read_to_string(&ids).expect("written").lines().count() as u32;
    let plan =
        rec::Plan::load(&fs::read(&plan).expect("written"), kept, 0xabc).expect("a plan for this table");
    assert!(plan.arena_rows() > kept * 3 / 2 && plan.arena_rows() <= kept * 2, "the greatest budget's");
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    let folder = Folder::new("wrong");
    let [log, out] = ["log", "out"].map(|name| folder.path(name));
    fs::write(&log, "1 5 2 5 2\n3 1 5\n1 2 9 4\n").expect("written");
    assert_eq!(run(&["plan", "--lists", &log]), Err(format!("{log}: line 3: id 9 is none of 1 to 5")));
    fs::write(&log, "# 5\n1 1 2\n").expect("written");
    let rare = run(&["import", &log, "--min-count", "2", "--ids", &out, "--out", &out]);
    assert_eq!(rare, Err("no id is asked 2 times; give --min-count less than 2".into()));
    assert!(!fs::exists(&out).expect("known"), "nothing is written then");
    let none = run(&["plan", "--lists", &out]).expect_err("there is no such file");
    assert!(none.starts_with(&out), "{none}");
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for (args, word) in [
        (&["plan", "--lists", "x", "--budgets", "0.5"][..], "from 1 to 1000"),
        (&["plan", "--lists", "x", "--budgets", "2,NaN"], "from 1 to 1000"),
        (&["plan", "--lists", "x", "--split", "1"], "between 0 and 1"),
        (&["plan", "--lists", "x", "--split", "0.1", "--held-out", "y"], "cannot be used with"),
        (&["plan", "--lists", "x", "--out", "y"], "--table-hash"),
        (&["import", "x", "--out", "y", "--min-count", "0", "--ids", "z"], "0"),
        (&["import", "x", "--out", "y", "--min-count", "2"], "--ids"),
        (&["import", "x", "--out", "y", "--split", "0.2"], "--held-out"),
        (&["synth", "--rows", "0", "--out", "y"], "0"),
    ] {
        let refused = run(args).expect_err("refused");
        assert!(refused.contains(word), "{args:?}: {refused}");
    }
}
