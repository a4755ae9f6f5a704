//! What a workload must say to make sense.

use super::calls::{self, TIMES_MAX};
use super::{Class, Workload};

/// Classes at most: each is a program for every way of every machine.
const CLASSES_MAX: usize = 256;
/// Requests that one request of a client may come to, on average: each is simulated.
const REQUESTS_MAX: f64 = 10_000.0;

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    /// The class that it is in, counted from 0.
    class: Option<usize>,
    key: &'static str,
    /// What is wrong and what would be right.
    pub(super) why: String,
}

impl Fault {
    /// The line of its key, or else of what it belongs to.
    pub(super) fn line(&self, text: &str) -> usize {
        let heads = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("[[class]]"));
        let heads: Vec<usize> = heads.map(|(at, _)| at).collect();
        let from = self.class.and_then(|class| heads.get(class).copied()).unwrap_or(0);
        let to = heads.iter().copied().find(|head| *head > from).unwrap_or(usize::MAX);
        let says = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == self.key);
        let lines = text.lines().enumerate().skip(from).take_while(|(at, _)| *at < to);
        1 + lines.filter(|(_, line)| says(line)).map(|(at, _)| at).next().unwrap_or(from)
    }
}

/// The first thing that is wrong.
pub(super) fn fault(workload: &Workload) -> Option<Fault> {
    let wrong = |key, why: &str| Some(Fault { class: None, key, why: why.into() });
    if workload.name.trim().is_empty() {
        return wrong("name", "name must not be empty");
    }
    if workload.keys == 0 {
        return wrong("keys", "keys must be at least 1: what requests choose among");
    }
    if !(0.0..=10.0).contains(&workload.skew) {
        return wrong("skew", "skew must be from 0 (uniform) to 10; YCSB's is 0.99");
    }
    if workload.working_set == 0 {
        return wrong("working_set", "working_set must be at least a byte");
    }
    if workload.window == 0 {
        return wrong("window", "window must be at least 1: requests under way");
    }
    if workload.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return wrong("rate", "rate must be above 0, in requests per second; leave it out if none is given");
    }
    if workload.classes.is_empty() {
        return wrong("class", "a workload needs at least one [[class]] of operations");
    }
    if workload.classes.len() > CLASSES_MAX {
        return wrong(
            "class",
            &format!("a workload has at most {CLASSES_MAX} classes: put together what is alike"),
        );
    }
    let classes = || workload.classes.iter().enumerate();
    let bad = classes().find_map(|(at, class)| {
        let twice = workload.classes[..at].iter().any(|other| other.name == class.name);
        let is_called =
            workload.classes.iter().flat_map(|other| &other.calls).any(|call| call.class == class.name);
        let (key, why) = if twice {
            ("name", "has the name of another".into())
        } else {
            class_fault(class, is_called).or_else(|| call_fault(workload, class))?
        };
        Some(Fault { class: Some(at), key, why: format!("class {}: {why}", class.name) })
    });
    bad.or_else(|| endless(workload)).or_else(|| {
        let sum: f64 = workload.classes.iter().map(|class| class.share).sum();
        let last = workload.classes.len() - 1;
        let why = format!("shares of all classes must add up to 1; they add up to {sum}");
        ((sum - 1.0).abs() > 1e-6).then_some(Fault { class: Some(last), key: "share", why })
    })
}

/// What is wrong with what it calls, but that it may come back to itself.
fn call_fault(workload: &Workload, class: &Class) -> Option<(&'static str, String)> {
    class.calls.iter().find_map(|call| {
        let why = match call.times {
            _ if !workload.classes.iter().any(|other| other.name == call.class) => {
                let all: Vec<_> = workload.classes.iter().map(|other| &*other.name).collect();
                format!("calls {}, which is no class: there are {}", call.class, all.join(", "))
            }
            1..=TIMES_MAX => return None,
            times => format!("calls {} {times} times; from 1 to {TIMES_MAX} can be", call.class),
        };
        Some(("calls", why))
    })
}

/// Calls that never end, or come to too many.
fn endless(workload: &Workload) -> Option<Fault> {
    let Some(around) = calls::cycle(workload) else {
        let all: f64 = calls::rates(workload).iter().sum();
        let why = format!("with its calls a request comes to {all:.0} requests; {REQUESTS_MAX:.0} can be");
        return (all > REQUESTS_MAX).then_some(Fault { class: None, key: "calls", why });
    };
    let names: Vec<&str> = around.iter().map(|at| &*workload.classes[*at].name).collect();
    let why = format!(
        "class {}: its calls come back to it, so they never end: {} → {}",
        names[0],
        names.join(" → "),
        names[0]
    );
    Some(Fault { class: around.first().copied(), key: "calls", why })
}

fn class_fault(class: &Class, is_called: bool) -> Option<(&'static str, String)> {
    let wrong = |key, why: &str| Some((key, why.to_string()));
    if class.share == 0.0 && !is_called {
        return wrong("share", "share must be above 0 and at most 1: nobody calls it");
    }
    if !(class.share >= 0.0 && class.share <= 1.0) {
        return wrong("share", "share must be above 0 and at most 1");
    }
    if class.request == 0 && class.reply == 0 {
        return wrong("request", "request and reply are both empty: nothing travels");
    }
    if (class.lookups > 0) != (class.lookup > 0) {
        return wrong("lookups", "lookups (how many) and lookup (bytes of each) go together");
    }
    if (class.rows > 0) != (class.row > 0) {
        return wrong("rows", "rows (how many) and row (bytes of each) go together");
    }
    if class.copies > 1 && class.store == 0 {
        return wrong("copies", "copies need a store: the bytes that are copied");
    }
    if !(class.cycles.is_finite() && class.cycles >= 0.0) {
        return wrong("cycles", "cycles must be 0 or more");
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::platform::LoadError;
    use crate::workload::Workload;

    const GOOD: &str = r#"name = "kv"
title = "a store"
keys = 1000
skew = 0.5
working_set = "10 GiB"
window = 64
rate = 1e6
host_cores = 2
[[class]]
name = "GET"
share = 0.75
request = "16 B"
reply = 64
lookups = 2
lookup = "64 B"
[[class]]
name = "SET"
share = 0.25
request = 80
reply = 0
store = 64
copies = 2
"#;

    #[test]
    fn a_cycle_is_said_by_its_names() {
        let calls = |to: &str| format!("calls = [{{ class = \"{to}\", times = 2 }}]\n");
        let text = GOOD.replacen("lookups = 2\n", &format!("{}lookups = 2\n", calls("SET")), 1);
        let workload = Workload::parse(&text, "kv.toml").expect("SET calls nobody");
        assert_eq!(workload.classes[0].calls[0].times, 2);
        let many = text.replace("times = 2", "times = 1000").replacen(
            "share = 0.25",
            "share = 0.25\ncalls = [{ class = \"LOG\", times = 1000 }]",
            1,
        );
        let many = format!("{many}[[class]]\nname = \"LOG\"\nshare = 0\nrequest = 1\nreply = 1\n");
        let said = Workload::parse(&many, "kv.toml").expect_err("it is too much").to_string();
        assert!(said.ends_with("requests; 10000 can be"), "{said}");
        let text = text.replacen("copies = 2\n", &calls("GET"), 1);
        let said = Workload::parse(&text, "kv.toml").expect_err("it never ends").to_string();
        assert!(said.starts_with("kv.toml:14: class GET: ") && said.ends_with("GET → SET → GET"), "{said}");
    }

    #[test]
    fn a_wrong_file_is_refused_with_line_and_reason() {
        assert!(Workload::parse(GOOD, "kv.toml").is_ok());
        let cases = [
            ("name = \"kv\"", "name = \"\"", 1, "must not be empty"),
            ("keys = 1000", "keys = 0", 3, "keys must be"),
            ("skew = 0.5", "skew = -1", 4, "skew must be"),
            ("skew = 0.5", "skew = nan", 4, "skew must be"),
            ("\"10 GiB\"", "\"10 GB\"", 5, "is no size"),
            ("window = 64", "window = 0", 6, "window must be"),
            ("window = 64\n", "", 1, "window"),
            ("rate = 1e6", "rate = 0", 7, "rate must be"),
            ("host_cores = 2", "host_cores = -1", 8, ""),
            ("share = 0.75", "share = 0.5", 18, "add up to 0.75"),
            ("share = 0.25", "share = -0.25", 18, "class SET: share must be above 0"),
            ("request = \"16 B\"\nreply = 64", "request = 0\nreply = 0", 12, "nothing travels"),
            ("lookup = \"64 B\"\n", "", 14, "go together"),
            ("store = 64\n", "", 21, "copies need a store"),
            ("\"SET\"", "\"GET\"", 17, "the name of another"),
            ("copies = 2", "cycles = inf", 22, "cycles must be"),
            ("copies = 2", "copys = 2", 22, "copys"),
            (
                "copies = 2",
                "calls = [{ class = \"PUT\" }]",
                22,
                "class SET: calls PUT, which is no class: there are GET, SET",
            ),
            (
                "copies = 2",
                "calls = [{ class = \"GET\", times = 0 }]",
                22,
                "calls GET 0 times; from 1 to 1000",
            ),
            (
                "copies = 2",
                "calls = [{ class = \"SET\" }]",
                22,
                "class SET: its calls come back to it, so they never end: SET → SET",
            ),
            ("copies = 2", "slo = { p99 = \"200 B\" }", 22, "\"200 B\" is no time"),
            ("copies = 2", "slo = { p98 = \"2us\" }", 22, "p98"),
            ("share = 0.25", "share = 0", 18, "nobody calls it"),
        ];
        for (from, to, line, why) in cases {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            match Workload::parse(&text, "kv.toml") {
                Err(LoadError::File { line: at, why: said, file }) => {
                    assert!(at == line && said.contains(why) && file == "kv.toml", "{to}: line {at}: {said}");
                }
                other => panic!("{to}: {other:?}"),
            }
        }
    }
}
