//! What `deploy` has for operators is of this program: dashboards and alerts name metrics and labels that there are, each alert has its page in the
//! runbooks and each page its alert, and config files in manifests are files that the program reads.

mod served;

use serde_json::Value;
use served::skip;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// What Prometheus adds to all series, nodes to those of a service, and histograms to their buckets.
const ADDED_LABELS: [&str; 4] = ["instance", "job", "service", "le"];

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names of series, each with its labels.
fn series() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(PROGRAM).args(["metrics", "--json"]).output().expect("the program");
    let families: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut series = BTreeMap::new();
    for family in families {
        let text = |key: &str| family[key].as_str().expect("text").to_owned();
        let labels = family["labels"].as_array().expect("a list").iter();
        let labels: Vec<String> = labels.map(|label| label.as_str().expect("text").to_owned()).collect();
        let ends: &[&str] = if text("type") == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        series.extend(ends.iter().map(|end| (format!("{}{end}", text("name")), labels.clone())));
    }
    series
}

/// What is wrong with the names in an expression.
fn findings(expression: &str, series: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find(is_word) {
        let word = &rest[at..];
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        rest = after;
        if !name.starts_with("millrace_") && !name.starts_with("process_") {
            continue;
        }
        let Some(labels) = series.get(name) else {
            found.push(format!("there is no series {name}"));
            continue;
        };
        let selector = after
            .strip_prefix('{')
            .and_then(|inside| inside.split_once('}'))
            .map_or("", |(inside, _)| inside);
        for matcher in selector.split(',').filter(|matcher| !matcher.is_empty()) {
            let label = matcher.trim().split(['=', '!']).next().unwrap_or_default();
            if !ADDED_LABELS.contains(&label) && !labels.iter().any(|known| known == label) {
                found.push(format!("{name} has no label {label:?}"));
            }
        }
        // Its values are no names.
        rest = after
            .strip_prefix('{')
            .and_then(|inside| inside.split_once('}'))
            .map_or(after, |(_, behind)| behind);
    }
    found
}

#[test]
fn a_name_that_there_is_not_is_found() {
    let series = series();
    let good = "sum by (le) (rate(millrace_kv_stage_seconds_bucket{stage=\"queue\",instance=~\"$instance\"}[5m])) / process_max_fds";
    assert_eq!(findings(good, &series), Vec::<String>::new());
    for (expression, why) in [
        ("millrace_kv_itemz", "no series millrace_kv_itemz"),
        ("rate(millrace_kv_stage_seconds[5m])", "no series millrace_kv_stage_seconds"),
        ("millrace_kv_items{colour=\"red\"}", "no label \"colour\""),
    ] {
        let found = findings(expression, &series);
        assert!(matches!(&found[..], [one] if one.contains(why)), "{expression}: {found:?}");
    }
}

#[test]
fn dashboards_show_what_there_is() {
    let series = series();
    let mut dashboards = 0;
    for entry in fs::read_dir(root("deploy/grafana")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        let board: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(board["uid"].as_str(), path.file_stem().and_then(|name| name.to_str()));
        let panels = board["panels"].as_array().expect("a list");
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{path:?}: a number twice");
        let shown = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let expressions: Vec<&str> = shown.map(|target| target["expr"].as_str().expect("text")).collect();
        let chosen = board["templating"]["list"][1]["query"]["query"].as_str().expect("what is chosen from");
        for expression in expressions.iter().copied().chain([chosen]) {
            let found = findings(expression, &series);
            assert!(found.is_empty(), "{path:?}: {expression}: {found:?}");
        }
        assert!(expressions.len() > 5, "{path:?}");
        dashboards += 1;
    }
    assert_eq!(dashboards, 4);
}

#[test]
fn alerts_are_of_what_there_is_and_have_their_pages() {
    let (rules, series) = (read("deploy/prometheus/alerts.yml"), series());
    let found = findings(&rules, &series);
    assert!(found.is_empty(), "{found:?}");
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let runbooks = read("docs/runbooks.md");
    // For people a histogram has one name.
    let named = series
        .iter()
        .filter_map(|(name, labels)| Some((name.strip_suffix("_bucket")?.to_owned(), labels.clone())));
    let families: BTreeMap<_, _> = named.chain(series.clone()).collect();
    let pages: BTreeSet<&str> =
        runbooks.lines().filter_map(|line| line.strip_prefix("## Millrace")).collect();
    let called: BTreeSet<&str> =
        alerts.iter().map(|alert| alert.strip_prefix("Millrace").expect("its name")).collect();
    assert_eq!(called, pages, "an alert and a page each");
    for alert in &alerts {
        let link = format!("runbook: docs/runbooks.md#{}", alert.to_lowercase());
        assert!(rules.lines().any(|line| line.trim() == link), "{link}");
    }
    let found = findings(&runbooks, &families);
    assert!(found.is_empty(), "docs/runbooks.md: {found:?}");
    for (words, file) in [(["check", "rules"], "alerts.yml"), (["test", "rules"], "alerts.test.yml")] {
        match Command::new("promtool").args(words).arg(root("deploy/prometheus").join(file)).output() {
            Ok(Output { status, stdout, stderr }) => {
                let said = [stdout, stderr].concat();
                assert!(status.success(), "{file}: {}", String::from_utf8_lossy(&said));
            }
            Err(_) => skip("there is no promtool (Debian has it in prometheus)"),
        }
    }
}

/// By the schemas that Kubernetes itself publishes, without properties that it does not know.
#[test]
fn manifests_are_kubernetes() {
    let python = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import kubernetes_validate"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return skip("MILLRACE_PYTHON names no Python with kubernetes-validate");
    }
    let files =
        ["kubernetes/node.yaml", "kubernetes/rack.yaml", "kubernetes/cluster.yaml", "kubernetes-sweep.yaml"];
    let files = files.map(|file| root("deploy").join(file));
    let checked = Command::new(&python)
        .args(["-m", "kubernetes_validate", "--strict", "--no-warn"])
        .args(&files)
        .output();
    let Output { status, stdout, stderr } = checked.expect("it was found");
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    assert!(status.success() && said.contains("statefulset/replica"), "{said}");
}

/// The text behind `NAME: |` in YAML.
fn block<'a>(yaml: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = yaml.lines().skip_while(|line| line.trim() != format!("{name}: |")).skip(1).peekable();
    let depth = lines.peek().map_or(0, |line| line.len() - line.trim_start().len());
    let inside =
        lines.take_while(|line| line.trim().is_empty() || line.len() - line.trim_start().len() >= depth);
    inside.map(|line| line.get(depth..).unwrap_or_default()).collect()
}

#[test]
fn files_in_manifests_are_read() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let write = |name: &str, lines: &[&str]| {
        assert!(!lines.is_empty(), "{name} is in its manifest");
        let path = folder.path().join(name);
        fs::write(&path, lines.join("\n")).expect("a file");
        path
    };
    let node = write("node.toml", &block(&read("deploy/kubernetes/node.yaml"), "node.toml"));
    let shipped = root("deploy/systemd/node.toml");
    for config in [&node, &shipped] {
        let output = Command::new(PROGRAM)
            .args(["up", "--check", "--config"])
            .arg(config)
            .output()
            .expect("the program");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{config:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("kv memcached at tcp:") && said.contains("admin: "), "{said}");
    }
    let made = Command::new(PROGRAM)
        .args(["key", "new"])
        .arg(folder.path().join("cluster.key"))
        .output()
        .expect("the program");
    assert!(made.status.success(), "{made:?}");
    for (manifest, members) in [
        ("rack.yaml", ["box:1", "box:2", "home:1", "controller:0"]),
        (
            "cluster.yaml",
            ["chain:7/replica:1", "chain:7/replica:3", "chain:7/controller:0", "chain:7/controller:1"],
        ),
    ] {
        let text = block(&read(&format!("deploy/kubernetes/{manifest}")), "cluster.toml").join("\n");
        // Machines that are not there are asked here, where nobody listens.
        let near =
            (0..4).fold(text.replace("/run/key/", "").replace("10.0.0.", "127.0.0."), |text, number| {
                let at = format!("127.0.0.{}", number + 1);
                text.replace(&format!("replica-{number}.replica"), &at)
                    .replace(&format!("controller-{number}.controller"), &at)
            });
        let file = write(manifest, &near.lines().collect::<Vec<_>>());
        let output =
            Command::new(PROGRAM).args(["cluster", "status"]).arg(&file).output().expect("the program");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(members.iter().all(|member| said.contains(member)), "{manifest}: {said}{why}");
    }
    // The socket unit listens where the shipped file does.
    let file = fs::read_to_string(shipped).expect("ours");
    for address in
        read("deploy/systemd/millrace.socket").lines().filter_map(|line| line.strip_prefix("ListenStream="))
    {
        assert!(file.contains(&format!("{address}\"")), "{address}");
    }
}
