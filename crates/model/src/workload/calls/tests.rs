//! Against closed forms: fixed services in a chain and side by side, and queues whose load is what is called.

use super::*;
use crate::alternative::{Offered, Place, Setting};
use crate::kernel::Service;
use crate::plan::Limits;
use crate::plan::estimate::{by_class, latencies};
use crate::plan::graph::Graph;
use crate::queueing;
use base::Picos;

/// Classes of one service each, in nanoseconds at a station of its own with so many servers: name, share, nanoseconds, servers, calls.
type Kind<'a> = (&'a str, f64, u64, usize, &'a str);

fn workload(classes: &[Kind<'_>]) -> Workload {
    let class = |(name, share, _, _, calls): &Kind<'_>| {
        format!(
            "[[class]]\nname = \"{name}\"\nshare = {share}\nrequest = 64\nreply = 64\ncalls = [{calls}]\n"
        )
    };
    let all: String = classes.iter().map(class).collect();
    let head = "name = \"w\"\ntitle = \"w\"\nkeys = 1\nworking_set = 1\nwindow = 64\n";
    Workload::parse(&format!("{head}{all}"), "w.toml").expect("it is right")
}

fn setting(classes: &[Kind<'_>]) -> (Workload, Setting) {
    let workload = workload(classes);
    let flat = flat(&workload);
    let mut kernel = Kernel::new(1);
    let part = |((name, _, ns, servers, _), class): (&Kind<'_>, &crate::workload::Class)| {
        let at = kernel.resource(name, *servers);
        let service = Service::Fixed(Picos::from_nanos(*ns));
        let program = kernel.program(name, [Step::Use { at, service, units: 1, after: Picos::ZERO }]);
        Part { class: class.name.clone(), share: class.share, program }
    };
    let parts = classes.iter().zip(&flat.classes).map(part).collect();
    let mut alternative = Alternative { name: "w".into(), what: String::new(), place: Place::Host, parts };
    compose(&mut kernel, &mut alternative, &workload);
    let alternatives = vec![alternative];
    (workload, Setting { kernel, alternatives, host_cores: Vec::new(), power: Vec::new(), arguments: 1 })
}

fn unloaded(classes: &[Kind<'_>]) -> u64 {
    let (_, setting) = setting(classes);
    setting.kernel.unloaded(setting.alternatives[0].parts[0].program).0 / 1000
}

#[test]
fn a_chain_takes_the_sum_and_what_is_at_once_the_longest() {
    let one = ("a", 1.0, 100, 1, "{ class = \"b\" }");
    let b = ("b", 0.0, 300, 4, "");
    assert_eq!(unloaded(&[one, b]), 400);
    let thrice = ("a", 1.0, 100, 1, "{ class = \"b\", times = 3 }");
    assert_eq!(unloaded(&[thrice, b]), 100 + 3 * 300);
    let at_once = ("a", 1.0, 100, 1, "{ class = \"b\", times = 3, parallel = true }");
    assert_eq!(unloaded(&[at_once, b]), 100 + 300);
    // With one server three come one after the other all the same.
    assert_eq!(unloaded(&[at_once, ("b", 0.0, 300, 1, "")]), 100 + 3 * 300);
    let both = "{ class = \"b\", parallel = true }, { class = \"c\", parallel = true }";
    assert_eq!(unloaded(&[("a", 1.0, 100, 1, both), b, ("c", 0.0, 700, 1, "")]), 100 + 700);
    let through = ("b", 0.0, 300, 4, "{ class = \"c\", times = 2 }");
    assert_eq!(unloaded(&[("a", 1.0, 100, 1, both), through, ("c", 0.0, 700, 2, "")]), 100 + 300 + 2 * 700);
}

#[test]
fn rates_add_to_what_a_class_has_itself() {
    let page = "{ class = \"item\", times = 3, parallel = true }, { class = \"log\" }";
    let workload = workload(&[
        ("page", 0.25, 1, 1, page),
        ("item", 0.75, 1, 1, "{ class = \"log\", times = 2 }"),
        ("log", 0.0, 1, 1, ""),
    ]);
    let item = 0.75 + 3.0 * 0.25;
    assert_eq!(rates(&workload), [0.25, item, 0.25 + 2.0 * item]);
    let flat = flat(&workload);
    assert!((flat.classes.iter().map(|class| class.share).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(!are_there(&flat) && are_there(&workload) && flat.check().is_ok());
}

/// What runs agrees with what is computed without queues: fixed services, one request at a time.
#[test]
fn runs_take_as_long_as_is_computed() {
    let calls = "{ class = \"b\", times = 2, parallel = true }, { class = \"c\", parallel = true }, { class = \"b\" }";
    let classes = [("a", 1.0, 100, 1, calls), ("b", 0.0, 300, 2, ""), ("c", 0.0, 500, 1, "")];
    let (_, setting) = setting(&classes);
    let ran = setting.run(&[1.0], Offered::Window(1), 1, Picos::from_micros(10), Picos::from_micros(1000));
    assert!((ran.all.mean() - 900e-9).abs() < 1e-9, "{}", ran.all.mean());
    let busy =
        |name: &str| ran.resources.iter().find(|busy| busy.name == name).expect("it worked").utilisation;
    // In 900 ns: b three times 300 on two servers, c once 500.
    assert!((busy("b") - 0.5).abs() < 0.01 && (busy("c") - 5.0 / 9.0).abs() < 0.01);
}

/// Of a class with two ways, one is drawn each time.
#[test]
fn ways_of_a_class_are_drawn_by_their_shares() {
    let mut kernel = Kernel::new(3);
    let wait = |kernel: &mut Kernel, ns| kernel.program("way", [Step::Wait(Picos::from_nanos(ns))]);
    let (short, long) = (wait(&mut kernel, 100), wait(&mut kernel, 500));
    let either = kernel.one_of("either", &[(0.75, short), (0.25, long)]);
    assert_eq!(kernel.unloaded(either), Picos::from_nanos(200));
    let sim = crate::Sim::new(kernel);
    let one = crate::load::Loop { mix: either.into(), window: 1, arguments: 1 };
    let seen = &crate::load::closed(&sim, 5, &[one], Picos::ZERO, Picos::from_micros(10_000))[0];
    assert!((seen.mean() / 200e-9 - 1.0).abs() < 0.05, "{}", seen.mean());
    assert!(seen.quantile(0.5) < 110e-9 && seen.quantile(0.9) > 490e-9);
}

#[test]
fn a_called_station_queues_as_m_d_1_at_the_rate_of_all_callers() {
    // Half of the requests call b, half are b themselves: b has as many as there are requests.
    let classes = [("a", 0.5, 1, 64, "{ class = \"b\" }"), ("b", 0.5, 100, 1, "")];
    let (workload, setting) = setting(&classes);
    let graph = Graph::of(&setting, &workload, &Limits::default());
    let rate = 7e6;
    let wanted = 100e-9 + queueing::mg1_wait(0.7, 100e-9, 0.0);
    let each = by_class(&graph, &[rate]);
    let [a, b] = &each[..] else { panic!("{each:?}") };
    let (a, b) = (a.expect("it is asked").mean, b.expect("it is asked").mean);
    assert!((a - b - 1e-9).abs() < 1e-12, "{a} {b}");
    let all = latencies(&graph, &[rate]).expect("it keeps up").mean;
    assert!((all - (a + b) / 2.0).abs() < 1e-12);
    let span = Picos::from_micros(40_000);
    let ran = setting.run(&[1.0], Offered::ByClass(rate), 1, Picos::from_micros(100), span);
    let seen = |name: &str| ran.classes.iter().find(|(of, _)| of == name).expect("it ran").1.mean();
    assert!((seen("b") / wanted - 1.0).abs() < 0.05, "{} and not {wanted}", seen("b"));
    assert!((seen("a") / (wanted + 1e-9) - 1.0).abs() < 0.05, "{} and not {wanted}", seen("a"));
    assert!((b / wanted - 1.0).abs() < 0.25, "{b} and not {wanted}");
}

/// What the planner says of a page that asks for three items at once, on a machine with host cores alone.
fn planned(page_p99: &str) -> crate::plan::answer::Ranked {
    let text = format!(
        r#"
name = "pages"
title = "pages"
keys = 1000
working_set = "1 GiB"
window = 64
[[class]]
name = "page"
share = 0.25
request = 64
reply = 1024
cycles = 20000
calls = [{{ class = "item", times = 3, parallel = true }}, {{ class = "log" }}]
slo = {{ p99 = "{page_p99}" }}
[[class]]
name = "item"
share = 0.75
request = 64
reply = 64
lookups = 2
lookup = 64
slo = {{ p99 = "1s" }}
[[class]]
name = "log"
share = 0
request = 64
reply = 8
cycles = 2000
"#
    );
    let workload = Workload::parse(&text, "pages.toml").expect("it is right");
    let platform =
        crate::platform::shipped::shipped("connectx6").expect("it is shipped").expect("it is right");
    let mut plan =
        crate::plan::plan(&platform, &workload, &crate::plan::Question::default()).expect("it serves it");
    assert!(plan.by_limit && plan.advice.possible == plan.ranking[0].misses.is_empty());
    plan.ranking.remove(0)
}

#[test]
fn a_plan_says_of_each_class_whether_it_is_kept_and_which_binds() {
    let (loose, tight) = (planned("150us"), planned("2us"));
    let of = |ranked: &crate::plan::answer::Ranked, name: &str| {
        ranked.classes.iter().find(|class| class.name == name).expect("it is there").clone()
    };
    let (page, item, log) = (of(&loose, "page"), of(&loose, "item"), of(&loose, "log"));
    assert!(page.kept == Some(true) && page.binds && item.kept == Some(true) && !item.binds, "{loose:?}");
    assert!((log.kept, log.simulated, log.binds) == (None, None, false) && log.estimate.is_some());
    // A quarter of the requests asks for three items, and for one line of the log.
    assert!((page.rate / loose.rate - 0.25).abs() < 1e-9 && (log.rate / loose.rate - 0.25).abs() < 1e-9);
    assert!((item.rate / loose.rate - 1.5).abs() < 1e-9);
    // Its latency has theirs in it, and as much is asked as that allows.
    let seen = |class: &crate::plan::answer::ClassAnswer| class.simulated.expect("it was asked").mean;
    assert!(seen(&page) > seen(&item) + 5e-6, "20000 cycles: {page:?} {item:?}");
    assert!(page.excess.is_some_and(|excess| excess > 0.3), "{page:?}");
    let page = of(&tight, "page");
    assert!(
        page.kept == Some(false)
            && page.binds
            && tight.misses.iter().any(|why| why.contains("p99 of class page"))
    );
}
