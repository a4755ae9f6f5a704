//! The tools as they are called, on files of their own.

use super::Tools;
use clap::Parser;
use std::fs;
use tempfile::TempDir;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    tool: Tools,
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn run(args: &[&str]) -> Result<(), String> {
    let cli = Cli::try_parse_from([&["rec"], args].concat()).map_err(|e| e.to_string())?;
    cli.tool.run().map_err(|e| e.to_string())
}

#[test]
fn a_log_is_made_imported_and_planned() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let [log, train, test, ids, model] =
        ["log", "train", "test", "ids", "model"].map(|name| path(&folder, name));
    run(&["synth", "--rows", "500", "--queries", "900", "--out", &log]).expect("made");
    let import = ["import", &log, "--min-count", "3", "--ids", &ids, "--split", "0.3", "--held-out", &test];
    run(&[&import[..], &["--out", &train]].concat()).expect("imported");
    let kept = fs::read_to_string(&ids).expect("written").lines().count() as u32;
    // A table with more rows than the log names, beside one that has no plan.
    let rows = (kept + 10).to_string();
    run(&["synth", "--rows", &rows, "--model", &model, "--tables", "2", "--dim", "8"]).expect("made");
    let budgets = ["--budgets", "1.5,2", "--model", &model];
    let plan = [&["plan", "--lists", &train, "--held-out", &test][..], &budgets].concat();
    let unnamed = run(&plan).expect_err("there are two");
    assert!(unnamed.contains("--table: t0, t1"), "{unnamed}");
    run(&[&plan[..], &["--table", "t1"]].concat()).expect("planned");
    let loaded = rec::load(model.as_ref(), &rec::LoadOptions::default()).expect("a model with a plan");
    assert!(matches!(loaded.tables()[0].access(), rec::Access::Rows(_)));
    let rec::Access::Planned(planned) = loaded.tables()[1].access() else { panic!("it is planned") };
    let (rows, most) = (planned.plan().arena_rows(), (kept + 10) * 2);
    assert!(rows > most * 3 / 4 && rows <= most, "the greatest budget's: {rows} of {most}");
    // New rows do not take an old plan; planning again repairs that.
    run(&[
        "synth",
        "--rows",
        "700",
        "--seed",
        "2",
        "--model",
        &path(&folder, "other"),
        "--tables",
        "2",
        "--dim",
        "8",
    ])
    .expect("made");
    fs::copy(path(&folder, "other/model.safetensors"), path(&folder, "model/model.safetensors"))
        .expect("copied");
    fs::write(
        path(&folder, "model/model.json"),
        r#"{"tables": [{"name": "t0"}, {"name": "t1", "plan": "t1.plan"}]}"#,
    )
    .expect("written");
    let stale = rec::load(model.as_ref(), &rec::LoadOptions::default()).err().expect("refused").to_string();
    assert!(stale.contains("memo plan of table \"t1\""), "{stale}");
    run(&[&plan[..], &["--table", "t1"]].concat()).expect("planned again");
    rec::load(model.as_ref(), &rec::LoadOptions::default()).expect("a model with a plan");
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let [log, out] = ["log", "out"].map(|name| path(&folder, name));
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
        (&["plan", "--lists", "x", "--table", "y"], "--model"),
        (&["synth", "--rows", "9"], "--out"),
        (&["synth", "--out", "y", "--dim", "8"], "--model"),
        (&["import", "x", "--out", "y", "--min-count", "0", "--ids", "z"], "0"),
        (&["import", "x", "--out", "y", "--min-count", "2"], "--ids"),
        (&["import", "x", "--out", "y", "--split", "0.2"], "--held-out"),
        (&["synth", "--rows", "0", "--out", "y"], "0"),
    ] {
        let refused = run(args).expect_err("refused");
        assert!(refused.contains(word), "{args:?}: {refused}");
    }
}
