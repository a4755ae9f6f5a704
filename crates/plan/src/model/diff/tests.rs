//! Two runs made up by hand, over rows that a published result names.

use super::*;

/// A line as `repro --json` has it.
fn line(variant: &str, value: &str, more: &str) -> String {
    format!(
        "{{\"experiment\":\"F1\",\"variant\":\"{variant}\",\"point\":\"READ 64 B\",\"metric\":\"latency\",\"unit\":\"us\",\"value\":{value},\"ci95\":0{more}}}\n"
    )
}

const MADE: &str = ",\"model\":\"m1\",\"seed\":1,\"platforms\":[]";

fn saved(text: &str) -> Saved {
    Saved::parse(text, "a").expect("it is right")
}

fn between(before: &str, after: &str, above: f64) -> Difference {
    Difference::of(saved(before), saved(after), above)
}

#[test]
fn rows_come_go_and_move() {
    let before = [line("RNIC ①", "2.0", MADE), line("SNIC ①", "2.6", MADE), line("old", "1", MADE)].concat();
    let after =
        [line("RNIC ①", "2.01", MADE), line("SNIC ①", "3.9", MADE), line("new", "null", MADE)].concat();
    let all = between(&before, &after, 0.01);
    assert_eq!((all.counts(), all.less), ([1, 1, 1], 1));
    let changes: Vec<_> = all.moved.iter().map(|row| (&*row.at[1], row.change())).collect();
    assert_eq!(changes.len(), 3);
    assert!(
        changes.iter().any(|(name, by)| *name == "SNIC ①" && by.is_some_and(|by| (by - 0.5).abs() < 1e-9))
    );
    assert!(all.made().is_empty());
    // With a finer threshold the other one moved, too; a run beside itself has nothing, whatever the threshold.
    assert_eq!(between(&before, &after, 0.004).counts(), [2, 1, 1]);
    assert!(between(&after, &after, 0.0).moved.is_empty());
    let unit = between(&line("a", "1", ""), &line("a", "1", "").replace("us", "ms"), 1.0);
    assert_eq!((unit.counts(), unit.moved[0].change()), ([1, 0, 0], None));
}

#[test]
fn a_published_result_has_its_error_before_and_after() {
    let results = systems()
        .find(|system| system.name == "offpath")
        .expect("it is there")
        .results()
        .expect("it is right");
    // S-R1 is this ratio, 1.3 (Fig. 3).
    let of = |snic: &str| [line("RNIC ①", "2.0", MADE), line("SNIC ①", snic, MADE)].concat();
    let all = between(&of("2.6"), &of("3.9"), 0.01);
    let judged = all.judged(&results.all);
    let published = results.all.iter().find(|result| result.experiments() == ["F1", "F1"]);
    assert!(published.is_some() && !judged.is_empty(), "{judged:?}");
    for (_, [before, after]) in &judged {
        let (before, after) = (before.error().expect("a ratio"), after.error().expect("a ratio"));
        assert!(after > before, "{before} {after}");
    }
    assert!(between(&of("2.6"), &of("2.6"), 0.0).judged(&results.all).is_empty());
}

#[test]
fn another_model_seed_or_platform_is_said() {
    let other = ",\"model\":\"m2\",\"seed\":2,\"platforms\":[\"mine#1\"]";
    let all = between(&line("a", "1", MADE), &line("a", "1", other), 0.0);
    let said = all.made().join("; ");
    for part in
        ["model: m1 before, m2 after", "seed: 1 before, 2 after", "as they are shipped before, mine#1 after"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(between(&line("a", "1", ""), &line("a", "1", MADE), 0.0).made()[0].contains("not said before"));
}

#[test]
fn values_that_are_no_numbers_or_zero_are_compared_too() {
    let by = |before, after| change(before, after);
    assert_eq!([by(0.0, 0.0), by(f64::NAN, f64::NAN), by(-2.0, -1.0)], [0.0, 0.0, 0.5]);
    assert!(by(0.0, -1.0) == f64::NEG_INFINITY && by(1.0, f64::NAN).is_infinite());
    assert_eq!([percent("1%"), percent("0.5 %"), percent("0%")].map(Result::unwrap), [0.01, 0.005, 0.0]);
    assert!(["1", "x%", "-1%", "inf%"].iter().all(|text| percent(text).is_err()));
}

#[test]
fn a_foreign_file_is_refused_with_its_line() {
    let good = line("a", "1", MADE);
    let cases = [
        ("".to_owned(), "a has no rows"),
        ("run,row,rows,key\n".into(), "a:1: no row of a run"),
        (format!("{good}{{\"experiment\": 3}}\n"), "a:2: no row of a run"),
        (format!("{good}{}", line("b", "1", "")), "a:2: another model"),
    ];
    for (text, why) in cases {
        assert!(Saved::parse(&text, "a").is_err_and(|said| said.starts_with(why)), "{text}");
    }
    // Of two rows at one place the first counts, as where rows are held against results.
    let twice = saved(&(good.clone() + &line("a", "2", MADE)));
    assert_eq!(twice.rows.values().map(|said| said.value).collect::<Vec<_>>(), [1.0]);
}
