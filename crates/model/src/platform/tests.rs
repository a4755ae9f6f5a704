use super::audit::Audit;
use super::*;

const GOOD: &str = r#"
name = "toy"
title = "A toy"
family = "toys"

[nic]
rate = { value = 200, unit = "Mpps", class = "published", source = "a paper, §1", range = [190, 220] }

[cpu]
clock = { value = 2.5, unit = "GHz", class = "datasheet", source = "the vendor", range = [2.5, 2.5] }
[cpu.post]
value = 500
unit = "cycles"
class = "assumed"
source = "like others"
range = [100, 1_000]
"#;

#[test]
fn numbers_are_read_in_the_unit_that_is_needed() {
    let toy = Platform::parse(GOOD, "toy.toml").expect("it is right");
    assert_eq!(toy.numbers().count(), 3);
    assert_eq!(toy.cycles("cpu.post", "cpu.clock"), Ok(Picos::from_nanos(200)));
    assert_eq!(toy.service("nic.rate", 4), Ok(Picos::from_nanos(20)));
    assert_eq!(toy.were_read(), ["cpu.clock", "cpu.post", "nic.rate"]);
    assert_eq!(transfer(64, 512e9), Picos(1000));
    let wrong = toy.span("nic.rate").map_err(|error| error.to_string());
    assert!(wrong.is_err_and(|why| why.contains("line 7") && why.contains("ps, ns, us")));
    let missing = toy.span("nic.depth").map_err(|error| error.to_string());
    assert!(missing.is_err_and(|why| why.contains("no number nic.depth")));
}

#[test]
fn a_wrong_file_is_refused_with_line_and_reason() {
    let cases = [
        (r#""Mpps", class"#, r#""Mpp", class"#, 7, "is no unit"),
        (r#"class = "published", "#, "", 7, "number nic.rate has no class"),
        (r#", range = [190, 220]"#, "", 7, "no range"),
        ("[190, 220]", "[210, 220]", 7, "not in its range"),
        ("[190, 220]", "[220, 190]", 7, "least, most"),
        (r#""published""#, r#""heard""#, 7, "is no class"),
        ("value = 500", "valve = 500", 12, "not valve"),
        ("value = 500", "value = \"500\"", 12, "decimal number"),
        ("name = \"toy\"\n", "", 1, "name"),
        ("[cpu]", "[cpu", 9, ""),
        ("source = \"like others\"", "source = \"\"", 15, "text in quotes"),
    ];
    for (from, to, line, why) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        match Platform::parse(&text, "toy.toml") {
            Err(LoadError::File { line: at, why: said, .. }) => {
                assert!(at == line && said.contains(why), "{to}: line {at}: {said}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
}

#[test]
fn an_audit_says_what_an_answer_rests_on() {
    let toy = Platform::parse(GOOD, "toy.toml").expect("it is right");
    // A latency: 200 ns of posting, 5 ns of the NIC.
    let latency =
        |p: &Platform| Ok((p.cycles("cpu.post", "cpu.clock")?.0 + p.service("nic.rate", 1)?.0) as f64);
    let audit = Audit::of(&toy, latency).expect("all numbers are there");
    assert_eq!(audit.answer, 205_000.0);
    let names: Vec<_> = audit.swings.iter().map(|swing| swing.number.as_str()).collect();
    assert_eq!(names, ["cpu.post", "nic.rate", "cpu.clock"]);
    assert!((audit.swings[0].high - 200.0 / 205.0).abs() < 1e-9);
    assert!(audit.doubtful() > 0.99 && audit.share(Class::Datasheet) == 0.0);
}

#[test]
fn a_file_may_complete_a_shipped_one() {
    let text = GOOD.replacen("[nic]", "base = \"bluefield2-ib\"\n[nic]", 1);
    let toy = Platform::parse(&text, "toy.toml").expect("it is right");
    assert!(toy.has("pcie.latency") && !toy.has("nic.depth"));
    assert_eq!(toy.number("nic.rate").map(|number| number.value), Ok(200.0));
    let wrong = Platform::parse(&text.replacen("bluefield2-ib", "nobody's", 1), "toy.toml");
    match wrong {
        Err(LoadError::File { line: 6, why, .. }) => {
            assert!(why.contains("no shipped platform nobody's"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_count_of_nothing_is_refused_with_its_line() {
    let toy = |cores: &str| {
        let number = format!(
            "cores = {{ value = {cores}, unit = \"count\", class = \"assumed\", source = \"a test\", range = [RANGE, 8] }}"
        );
        let text = GOOD.replacen("[nic]", &format!("[soc]\n{number}\n[host]\n{number}\n[nic]"), 1);
        Platform::parse(&text.replace("RANGE", if cores == "4" { "0" } else { cores }), "toy.toml")
    };
    let head = 1 + GOOD.lines().position(|line| line == "[nic]").expect("it is there");
    let said = |platform: Result<Platform, LoadError>| platform.expect_err("it is wrong").to_string();
    // A machine may have no SoC; a host without cores serves nothing.
    assert_eq!(
        said(toy("0")),
        format!("toy.toml:{}: host.cores is 0: what is made of it needs at least 1", head + 3)
    );
    assert!(said(toy("4")).contains("host.cores: its range begins at 0"));
    let two = toy("2").expect("it is right");
    assert_eq!(
        (two.count("host.cores"), two.with("soc.cores", 0.0).count_or_none("soc.cores")),
        (Ok(2), Ok(0))
    );
    assert!(
        two.with("host.cores", 0.0)
            .count("host.cores")
            .is_err_and(|why| why.to_string().contains("host.cores is 0"))
    );
}
