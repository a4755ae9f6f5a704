//! The planner on a machine that can be worked out by hand.

use super::graph::{Graph, Kind};
use super::mixture::{alone, capacity, greedy, most, shares, whole};
use super::*;
use crate::alternative::{Alternative, Offered, Part, Place, Power};
use crate::kernel::{Kernel, Service, Step};
use base::Picos;
use proptest::prelude::*;

/// A NIC that everything passes; a host of two cores; a fast box with one unit; and a table of rows in the client's hands.
const MACHINE: &str = r#"
name = "toy"
title = "A toy"
family = "toys"
[nic]
packet = { value = 100, unit = "ns", class = "published", source = "a paper", range = [90, 110] }
[host]
work = { value = 1000, unit = "ns", class = "published", source = "a paper", range = [900, 1100] }
cores = { value = 2, unit = "count", class = "published", source = "a paper", range = [2, 2] }
watts = { value = 20, unit = "W", class = "datasheet", source = "a vendor", range = [20, 20] }
[box]
work = { value = 250, unit = "ns", class = "assumed", source = "nobody knows", range = [200, 300] }
"#;

const LOAD: &str = r#"
name = "kv"
title = "a store"
keys = 1000
working_set = "1 MiB"
window = 64
[[class]]
name = "GET"
share = 1.0
request = 16
reply = 64
"#;

fn visit(at: crate::ResourceId, span: Picos) -> Step {
    Step::Use { at, service: Service::Fixed(span), units: 1, after: Picos::ZERO }
}

/// `host`: a packet and work there. `box`: one packet and work there. `reads`: three packets and 2 us of cable, nobody's work.
fn toy(platform: &Platform, _: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let mut kernel = Kernel::new(seed);
    let packet = platform.span("nic.packet")?;
    let nic = kernel.resource("nic", 1);
    let host = kernel.resource("host cores", platform.count("host.cores")? as usize);
    let place = kernel.resources("box unit", 1);
    let buffer = kernel.tokens("buffer", 32);
    let posted = kernel.program("posted", [visit(place, Picos::from_nanos(1))]);
    let programs = [
        ("host", Place::Host, vec![visit(nic, packet), visit(host, platform.span("host.work")?)]),
        (
            "box",
            Place::NicCores,
            vec![
                visit(nic, packet),
                Step::Take(buffer, 1),
                visit(place, platform.span("box.work")?),
                Step::Give(buffer, 1),
            ],
        ),
        (
            "reads",
            Place::Client,
            vec![
                visit(nic, packet),
                visit(nic, packet),
                visit(nic, packet),
                Step::Wait(Picos::from_nanos(2000)),
                Step::Fork(posted),
            ],
        ),
    ];
    let alternatives = programs.map(|(name, place, steps)| Alternative {
        name: name.into(),
        what: format!("by {name}"),
        place,
        parts: vec![Part { class: "GET".into(), share: 1.0, program: kernel.program(name, steps) }],
    });
    let watts = platform.value("host.watts", crate::platform::unit::Dimension::Power)?;
    Ok(Setting {
        kernel,
        alternatives: alternatives.into(),
        host_cores: vec![host],
        power: vec![Power { name: "host".into(), idle: 50.0, busy: vec![(host, watts)] }],
        arguments: 1,
    })
}

/// The same without the box and the reads.
fn only_host(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let mut setting = toy(platform, workload, seed)?;
    setting.alternatives.truncate(1);
    Ok(setting)
}

fn toys() -> (Platform, Workload) {
    let platform = Platform::parse(MACHINE, "toy.toml").expect("it is right");
    (platform, Workload::parse(LOAD, "kv.toml").expect("it is right"))
}

fn ask(question: &Question) -> Plan {
    let (platform, workload) = toys();
    plan_on(toy, &platform, &workload, question).unwrap_or_else(|error| panic!("{error}"))
}

fn graph() -> Graph {
    let (platform, workload) = toys();
    let setting = toy(&platform, &workload, 1).expect("it is right");
    Graph::of(&setting, &workload, &Limits::default())
}

#[test]
fn the_graph_is_what_operations_take() {
    let graph = graph();
    let rows: Vec<_> = graph.rows.iter().map(|row| (&*row.name, row.kind, row.capacity)).collect();
    let wanted = [
        ("nic", Kind::Resource, 1.0),
        ("host cores", Kind::Resource, 2.0),
        ("box unit 0", Kind::Resource, 1.0),
        ("buffer", Kind::Tokens, 32.0),
        ("requests of all clients", Kind::Window, 64.0),
    ];
    assert_eq!(rows, wanted);
    let nanos = |way: usize| -> Vec<f64> {
        graph.ways[way].demand.iter().map(|seconds| (seconds * 1e12).round() / 1e3).collect()
    };
    assert_eq!(nanos(0), [100.0, 1000.0, 0.0, 0.0, 1100.0]);
    assert_eq!(nanos(1), [100.0, 0.0, 250.0, 250.0, 350.0]);
    assert_eq!(nanos(2), [300.0, 0.0, 1.0, 0.0, 2300.0]);
    assert!((graph.ways[0].host_cores - 1e-6).abs() < 1e-12 && (graph.ways[0].joules - 20e-6).abs() < 1e-12);
}

#[test]
fn the_best_mixture_fills_box_and_host_and_then_the_cable() {
    // By hand: box 4 M (its unit), host 2 M (its cores), and what the NIC has left of 10 M packets: 4 M, three for each read.
    let plan = ask(&Question::default());
    let first = &plan.ranking[0];
    assert_eq!(first.name, "host + box + reads");
    let wanted = 6e6 + 4e6 / 3.0;
    assert!((first.most / wanted - 1.0).abs() < 0.01, "{}", first.most);
    let seen = first.saturated.expect("it ran").rate;
    assert!((0.93..1.01).contains(&(seen / first.most)), "simulated {seen}, computed {}", first.most);
    // A tenth more of the NIC: a million packets more, a third of a million reads.
    let nic = first.bottlenecks.iter().find(|of| of.name == "nic").expect("it is full");
    assert!((nic.gain_of_tenth - 1e6 / 3.0 / wanted).abs() < 1e-3, "{nic:?}");
    let nic = first.links.iter().find(|link| link.name == "nic").expect("it is used");
    assert!(nic.utilisation > 0.999 && nic.simulated.is_some_and(|used| used > 0.9), "{nic:?}");
    // Who is fastest is first: the box, then the host, then reads.
    let switches: Vec<_> = first.switches.iter().map(|of| (&*of.add, (of.rate / 1e5).round())).collect();
    assert_eq!(switches, [("host", 40.0), ("reads", 60.0)]);
    assert!((first.switches[0].under_way - 4.0 * 0.35).abs() < 0.01);
    assert_eq!(first.paths[2].steps, ["nic"]);
    assert_eq!(first.paths[2].behind, ["box unit 0"]);
}

/// Of two ways: the share with which they serve most, and the one that spares the host. By hand: box 4 M by its unit, host 2 M by its cores.
#[test]
fn two_ways_have_the_shares_that_are_best() {
    let graph = graph();
    let near = |found: &[f64], wanted: &[f64]| {
        found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6)
    };
    // 5 M, of which the box takes 0.9 of what it can.
    let found = shares(&graph, [0, 1], 5e6).expect("it is solved");
    assert!(near(&found, &[4.0 / 6.0, 3.6 / 5.0]), "{found:?}");
    assert!((capacity(&graph, &[2.0 / 6.0, 4.0 / 6.0, 0.0]) / 6e6 - 1.0).abs() < 1e-6);
    // The other way about, and at a rate that the box serves alone.
    let found = shares(&graph, [1, 0], 1e6).expect("it is solved");
    assert!(near(&found, &[2.0 / 6.0]), "{found:?}");
    // At a rate that nobody serves there is only the most.
    assert_eq!(shares(&graph, [0, 1], 1e8).expect("it is solved").len(), 1);
    assert_eq!(capacity(&graph, &[1.0, 0.0, 0.0]), alone(&graph, 0));
}

#[test]
fn objectives_and_limits_choose_otherwise() {
    let at = |objective, rate| ask(&Question { objective, rate: Some(rate), ..Question::default() });
    let lazy = at(Objective::HostCpu, 3e6);
    assert_eq!((&*lazy.ranking[0].name, lazy.advice.offload), ("box", true), "{:?}", lazy.advice);
    let fast = at(Objective::P99, 1e6);
    assert_eq!(fast.ranking[0].name, "box");
    let cool = at(Objective::Power, 3e6);
    assert!(cool.ranking[0].at_rate.is_some_and(|seen| seen.watts.is_some_and(|watts| watts < 51.0)));
    // Three times what the box can do, with a twentieth of a core.
    let limits = Limits { host_cores: Some(0.05), ..Limits::default() };
    let spared = ask(&Question { limits, ..Question::default() });
    let cores = spared.ranking[0].saturated.expect("it ran").host_cores;
    assert!(spared.ranking[0].name.contains("box + reads") && cores < 0.06, "{cores}");
    // Reads take 2.3 us: whoever wants 2 us cannot have them.
    let limits = Limits { p99: Some(2e-6), ..Limits::default() };
    let quick = ask(&Question { limits, ..Question::default() });
    let first = &quick.ranking[0];
    assert_eq!((&*first.name, first.misses.len()), ("host + box", 0));
    assert!(first.at_rate.is_some_and(|seen| seen.p99 <= 2e-6) && first.rate > 3e6, "{first:?}");
}

#[test]
fn it_may_say_that_the_host_should_do_it() {
    let (platform, workload) = toys();
    let alone = plan_on(only_host, &platform, &workload, &Question::default()).expect("it plans");
    assert!(!alone.advice.offload && alone.advice.why.contains("in every alternative"), "{:?}", alone.advice);
    // A box that is slower than the host's cores, in a machine whose host is fast.
    let slow = platform.with("host.work", 150.0).with("box.work", 2900.0).with("nic.packet", 140.0);
    let plan = plan_on(toy, &slow, &workload, &Question::default()).expect("it plans");
    assert!(!plan.advice.offload, "{:?} {:?}", plan.advice, plan.ranking[0].name);
}

#[test]
fn doubt_comes_from_the_numbers_that_are_assumed() {
    let question = Question { objective: Objective::P99, rate: Some(1e6), ..Question::default() };
    let plan = ask(&question);
    let sure = &plan.confidence;
    assert!(sure.doubtful > 0.8 && sure.numbers[0].number == "box.work", "{sure:?}");
    assert!(sure.range.0 < 1.0 && sure.range.1 > 1.0);
    let same = ask(&question);
    assert_eq!(plan.ranking[0].at_rate, same.ranking[0].at_rate, "the same question has the same answer");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let (platform, workload) = toys();
    let error = plan(&platform, &workload, &Question::default()).expect_err("nobody composes toys");
    assert!(error.to_string().contains("family toys"), "{error}");
    let question = Question { rate: Some(-1.0), ..Question::default() };
    assert!(plan_on(toy, &platform, &workload, &question).is_err());
    // More than the machine can do: every mixture says so.
    let question = Question { rate: Some(1e9), objective: Objective::HostCpu, ..Question::default() };
    let plan = plan_on(toy, &platform, &workload, &question).expect("it plans");
    assert!(plan.ranking.iter().all(|ranked| !ranked.misses.is_empty() && ranked.at_rate.is_none()));
}

#[test]
fn an_slo_that_nobody_keeps_has_a_nearest_and_no_advice() {
    // The box is the quickest, with 350 ns.
    let limits = Limits { p99: Some(175e-9), ..Limits::default() };
    for question in [
        Question { limits, ..Question::default() },
        Question { limits, rate: Some(1e6), ..Question::default() },
        Question { limits, rate: Some(1e6), objective: Objective::P99, ..Question::default() },
    ] {
        let plan = ask(&question);
        let (first, why) = (&plan.ranking[0], &plan.advice.why);
        assert!(
            !plan.advice.possible && !plan.advice.offload && plan.advice.gain.is_none(),
            "{:?}",
            plan.advice
        );
        assert!(question.rate.is_some() || first.name == "box", "{}", first.name);
        let least = plan.ranking.iter().map(|of| of.excess).fold(f64::INFINITY, f64::min);
        assert!(first.excess == least && (2.0..6.0).contains(&least), "{least}");
        let nearest = format!("{} comes nearest, {least:.2} times what is allowed", first.name);
        assert!(why.contains(&nearest), "{why}");
        assert!(plan.ranking.iter().all(|of| !of.value.is_nan() && !of.tie));
    }
}

#[test]
fn a_rate_that_nobody_serves_gets_no_advice_but_the_most() {
    for objective in Objective::ALL.map(|(_, objective)| objective) {
        let plan = ask(&Question { rate: Some(1e9), objective, ..Question::default() });
        let most = plan.ranking.iter().map(|of| of.most).fold(0.0, f64::max);
        assert!(!plan.advice.possible && !plan.advice.offload, "{:?}", plan.advice);
        assert!(plan.advice.why.contains(&format!("the most is {most:.3e}")), "{}", plan.advice.why);
        assert!(plan.advice.why.contains("host + box + reads"), "{}", plan.advice.why);
    }
}

/// A second box, as good as the first but for a part in a thousand.
fn two_boxes(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let mut setting = toy(platform, workload, seed)?;
    let other = setting.kernel.resource("other unit", 1);
    let (nic, work) = (crate::ResourceId(0), platform.span("box.work")?);
    let steps = [visit(nic, platform.span("nic.packet")?), visit(other, Picos(work.0 * 1001 / 1000))];
    let part = Part { class: "GET".into(), share: 1.0, program: setting.kernel.program("other", steps) };
    setting.alternatives.push(Alternative {
        name: "other".into(),
        what: "by the other".into(),
        place: Place::NicCores,
        parts: vec![part],
    });
    Ok(setting)
}

#[test]
fn what_the_simulation_cannot_tell_apart_is_a_tie() {
    let (platform, workload) = toys();
    let question = Question { objective: Objective::P99, rate: Some(5e5), top: 8, ..Question::default() };
    let plan = plan_on(two_boxes, &platform, &workload, &question).expect("it plans");
    let tie = |name: &str| plan.ranking.iter().find(|of| of.name == name).map(|of| of.tie);
    let names: Vec<_> = plan.ranking.iter().map(|of| &*of.name).collect();
    let first = names[0];
    assert!(["box", "other"].contains(&first), "{names:?}");
    let second = if first == "box" { "other" } else { "box" };
    assert_eq!((tie(first), tie(second), tie("host")), (Some(false), Some(true), Some(false)));
    assert!(
        plan.advice.ties.iter().any(|of| of == second) && !plan.advice.ties.iter().any(|of| of == "host")
    );
    // Three times as slow is none.
    let slow = platform.with("box.work", 750.0);
    let plan = plan_on(toy, &slow, &workload, &question).expect("it plans");
    assert!(plan.advice.ties.is_empty(), "{:?}", plan.advice);
}

#[test]
fn simulations_may_run_in_any_order() {
    let (platform, workload) = toys();
    let question = Question::default();
    let mut backwards = |all: Vec<Simulation<'_>>| {
        let mut done: Vec<_> = all.into_iter().rev().map(Simulation::run).collect();
        done.reverse();
        done
    };
    let plan = plan_by(toy, &platform, &workload, &question, &mut backwards).expect("it plans");
    let same = ask(&question);
    let figures =
        |plan: &Plan| plan.ranking.iter().map(|of| (of.name.clone(), of.saturated)).collect::<Vec<_>>();
    assert_eq!(figures(&plan), figures(&same));
}

#[test]
fn estimates_are_near_what_is_simulated() {
    for (objective, rate) in [(Objective::P99, 2e6), (Objective::P99, 5e6), (Objective::HostCpu, 3e6)] {
        let plan = ask(&Question { objective, rate: Some(rate), top: 8, ..Question::default() });
        let both = |ranked: &answer::Ranked| Some((ranked.name.clone(), ranked.estimate?, ranked.at_rate?));
        let compared: Vec<_> = plan.ranking.iter().filter_map(both).collect();
        assert!(!compared.is_empty());
        for (name, estimate, seen) in compared {
            let mean = estimate.mean / seen.mean;
            let p99 = estimate.p99 / seen.p99;
            assert!((0.85..1.25).contains(&mean), "{name} at {rate}: mean {mean} of the simulated");
            assert!((0.6..1.7).contains(&p99), "{name} at {rate}: p99 {p99} of the simulated");
        }
    }
}

/// A setting of `ways` with random demands of four stations.
fn random_graph(nanos: &[Vec<u64>]) -> Graph {
    let (_, workload) = toys();
    let mut kernel = Kernel::new(1);
    let stations: Vec<_> = (0..4).map(|at| kernel.resource(["a", "b", "c", "d"][at], 1 + at)).collect();
    let alternatives = nanos.iter().enumerate().map(|(way, spans)| {
        let steps: Vec<Step> =
            spans.iter().zip(&stations).map(|(span, at)| visit(*at, Picos::from_nanos(*span))).collect();
        Alternative {
            name: format!("way {way}"),
            what: String::new(),
            place: Place::Several,
            parts: vec![Part { class: "GET".into(), share: 1.0, program: kernel.program("way", steps) }],
        }
    });
    let alternatives = alternatives.collect();
    let setting =
        Setting { kernel, alternatives, host_cores: vec![stations[0]], power: Vec::new(), arguments: 1 };
    Graph::of(&setting, &workload, &Limits::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_programme_is_never_worse_than_the_guideline_and_prices_are_slopes(
        nanos in proptest::collection::vec(proptest::collection::vec(1u64..2000, 4), 1..5),
        order in Just(()).prop_perturb(|(), mut rng| rng.random::<u64>()),
    ) {
        let graph = random_graph(&nanos);
        let all: Vec<usize> = (0..nanos.len()).collect();
        let best = most(&graph, &all, &whole(&graph)).expect("it is solved");
        let mut turns = all.clone();
        turns.sort_by_key(|way| (*way as u64 + 1).wrapping_mul(order | 1) >> 7);
        let rates = greedy(&graph, &turns);
        let greedy: f64 = rates.iter().sum();
        prop_assert!(best.rate >= greedy * (1.0 - 1e-6), "{} < {greedy}", best.rate);
        for used in graph.utilisation(&best.rates).iter().chain(&graph.utilisation(&rates)) {
            prop_assert!(*used <= 1.0 + 1e-3, "a row is used {used}");
        }
        // More of a row never hurts, and gains what its price says to begin with.
        for row in 0..graph.rows.len() {
            let mut shares = whole(&graph);
            let step = 1e-4;
            shares[row] = 1.0 + step;
            let more = most(&graph, &all, &shares).expect("it is solved").rate / best.rate - 1.0;
            shares[row] = 1.0 - step;
            let less = 1.0 - most(&graph, &all, &shares).expect("it is solved").rate / best.rate;
            let price = best.elasticity[row] * step;
            prop_assert!(more > -1e-6 && more <= price + 1e-6 && price <= less + 1e-6, "{more} {price} {less}");
        }
    }
}

#[test]
fn a_mixture_runs_as_offered() {
    let (platform, workload) = toys();
    let setting = toy(&platform, &workload, 1).expect("it is right");
    let ran = setting.run(
        &[0.5, 0.5, 0.0],
        Offered::Rate(2e6),
        1,
        Picos::from_micros(100),
        Picos::from_micros(5000),
    );
    assert!((ran.all.rate() / 2e6 - 1.0).abs() < 0.03 && (ran.host_cores - 1.0).abs() < 0.05);
}

#[test]
fn over_the_load_the_best_of_several_mixtures_serves() {
    let (platform, workload) = toys();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    let mixtures = [names(&["host"]), names(&["box"]), names(&["box", "host"]), names(&["nobody"])];
    let of = |workload: &Workload, loads: &[f64]| {
        curve::over_load(toy, &platform, workload, &Question::default(), &mixtures, loads)
            .expect("it is answered")
    };
    let over = of(&workload, &[1e6, 5e6, 6.5e6]);
    assert!((over.most / 6e6 - 1.0).abs() < 1e-6, "box 4 and host 2 million: {over:?}");
    let best = |at: usize| over.at[at].as_ref().expect("it is served");
    assert_eq!((best(0).mixture, best(1).mixture), (1, 2));
    assert!(over.at[2].is_none(), "nobody serves so much");
    assert!(best(0).p99 < best(1).p99 && best(0).host_cores == 0.0 && best(1).host_cores > 0.9, "{over:?}");
    assert!(best(0).busiest.0 == "box unit 0" && (best(0).busiest.1 - 0.25).abs() < 0.01, "{over:?}");
    // A budget of no host cores leaves out what needs them.
    let over = of(&Workload { host_cores: Some(0), ..workload.clone() }, &[1e6, 5e6]);
    assert!((over.most / 4e6 - 1.0).abs() < 1e-6 && over.at[1].is_none(), "{over:?}");
}
