use super::super::tests::{predictor, service};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A node that has nothing but this service.
fn seen(service: &Service, cores: f64) -> Observation {
    Observation {
        sequence: 1,
        at_us: 1,
        span_us: 500_000,
        cores: Figure(cores),
        cores_used: Figure(service.cores_used()),
        others: Figure(0.0),
        busy: [(Location::Engine, service.cores.get(&Location::Engine).copied().unwrap_or_default())].into(),
        services: vec![service.clone()],
    }
}

/// A service whose requests take so long to handle, at a rate.
fn loaded(handle_ns: f64, rate: f64) -> Service {
    let mut service = service("s", Kind::Rpc);
    service.rate = Figure(rate);
    service.stages.insert("handle".into(), Figure(handle_ns));
    service.cores.insert(Location::Edge, Figure(rate * (handle_ns + 5_000.0) / 1e9));
    service
}

fn predict(
    model: &Predictor,
    seen: &Observation,
    service: &Service,
    changes: &[(&str, &str)],
) -> Option<Prediction> {
    let to = Choice::present(service).with(service, changes).expect("it can");
    model.of(seen, service)?.predict(&to)
}

fn at(service: &Service, changes: &[(&str, &str)]) -> Prediction {
    predict(&predictor(), &seen(service, 4.0), service, changes).expect("it says something")
}

const ON_TWO: [(&str, &str); 2] = [("place.handlers", "host"), ("workers.count", "2")];

#[test]
fn short_handlers_stay_at_the_edge_and_long_ones_gain_from_workers() {
    let short = loaded(500.0, 20_000.0);
    let (edge, host) = (at(&short, &[]), at(&short, &ON_TWO));
    assert!(edge.cores.mid < host.cores.mid && edge.p50_ns.mid < host.p50_ns.mid, "{edge:?} {host:?}");
    let long = loaded(400_000.0, 2_200.0);
    let (edge, host) = (at(&long, &[]), at(&long, &[("place.handlers", "host"), ("workers.count", "3")]));
    assert!(host.capacity.mid > 2.0 * edge.capacity.mid, "{edge:?} {host:?}");
    assert!(host.p99_ns.mid < edge.p99_ns.mid, "{edge:?} {host:?}");
}

/// At the edge, and a share of them on a worker.
fn both(share: &str) -> [(&str, &str); 4] {
    [("place.handlers", "edge"), ("place.other", "host"), ("place.share", share), ("workers.count", "1")]
}

/// The service, set so.
fn set(mut service: Service, changes: &[(&str, &str)]) -> Service {
    let to = Choice::present(&service).with(&service, changes).expect("it can");
    for (name, value) in to.values() {
        let register = service.registers.iter_mut().find(|one| one.name == name).expect("its own");
        register.number = register.number_of(value).expect("it takes it");
    }
    service
}

/// Handlers that fill a thread gain from a second one beside it; those that a thread does beside its sockets do not.
#[test]
fn two_places_serve_more_than_either_and_cost_more_when_there_is_room() {
    let model = predictor();
    let service = loaded(100_000.0, 9_000.0);
    let seen = seen(&service, 2.0);
    let served = model.of(&seen, &service).expect("it is known");
    let edge = Choice::present(&service);
    let choice = |changes: &[(&str, &str)]| edge.with(&service, changes).expect("it can");
    let share = served.shares(&choice(&both("50"))).into_iter().next().expect("there is a best one");
    assert!((0.4..0.55).contains(&share), "{share}: the edge has its sockets as well");
    let capacity = |choice: &Choice| served.predict(choice).expect("it says something").capacity.mid;
    let host = choice(&[("place.handlers", "host"), ("workers.count", "1")]);
    let best = choice(&both(&format!("{:.0}", 100.0 * share)));
    let [edge, host, best, little] =
        [edge.clone(), host, best, choice(&both("10"))].map(|one| capacity(&one));
    assert!(
        best > 1.6 * edge.max(host) && little > edge && little < 0.8 * best,
        "{edge} {host} {best} {little}"
    );
    let light = loaded(2_000.0, 5_000.0);
    let [one, two] = [at(&light, &[]), at(&light, &both("50"))];
    assert!(one.cores.mid < two.cores.mid && one.p99_ns.mid < two.p99_ns.mid, "{one:?} {two:?}");
}

/// Where it is at two places, what is measured of both is split into handlers, sockets and the way again.
#[test]
fn a_service_at_two_places_is_told_apart_again() {
    let mut service = set(loaded(30_000.0, 10_000.0), &both("40"));
    // 20 us of each are the handler's, and of the 4,000 calls a second on the worker as much again the way's.
    service.cores = [(Location::Edge, Figure(0.4)), (Location::Host, Figure(0.3))].into();
    let found = at(&service, &[]);
    assert!((found.cores.mid / service.cores_used() - 1.0).abs() < 0.15, "{found:?}");
    let edge = at(&service, &[("place.share", "0"), ("workers.count", "0")]);
    assert!(edge.cores.mid < 0.8 * found.cores.mid, "nothing is handed over there: {edge:?} {found:?}");
}

/// What it predicts for where a service is, is what was measured: of the cores all, and nothing of its sockets is the model's.
#[test]
fn the_present_has_the_cores_that_were_measured() {
    for (changes, own) in [(&[][..], Location::Edge), (&ON_TWO, Location::Host)] {
        let mut service = set(loaded(20_000.0, 10_000.0), changes);
        // Beside the handler, and more than a hand-over takes at least.
        service.cores.insert(own, Figure(if own == Location::Edge { 0.3 } else { 0.9 }));
        let found = at(&service, &[]);
        let measured = service.cores_used();
        assert!((found.cores.mid / measured - 1.0).abs() < 0.15, "{own}: {found:?} {measured}");
    }
}

#[test]
fn a_thread_that_sleeps_costs_whoever_wakes_it() {
    let cores = |rate: f64, change: &[(&str, &str)]| at(&loaded(500.0, rate), change).cores.mid / rate;
    let engine = [("place.handlers", "engine")];
    let (edge, seldom, often) = (cores(1_000.0, &[]), cores(1_000.0, &engine), cores(100_000.0, &engine));
    // A wake-up and a look of some 27 us beside a request of 5.5.
    assert!(seldom > edge + 20e-6 && often < seldom, "{edge} {seldom} {often}");
}

/// What was timed on another thread has the way there in it; what that thread worked says more of the handler.
#[test]
fn a_wait_for_a_worker_is_no_work_of_the_handler() {
    let mut service = set(loaded(160_000.0, 10_000.0), &ON_TWO);
    service.cores.insert(Location::Edge, Figure(0.28));
    service.cores.insert(Location::Host, Figure(0.14));
    let (host, edge) =
        (at(&service, &[]), at(&service, &[("place.handlers", "edge"), ("workers.count", "0")]));
    assert!(edge.capacity.mid > 30_000.0 && edge.cores.mid < 0.5 * host.cores.mid, "{edge:?} {host:?}");
}

/// Beside a short handler the hand-over is most of what a call's own clock sees, however much its sockets take.
#[test]
fn sockets_are_not_in_the_stay_of_a_call() {
    let service = loaded(500.0, 5_000.0);
    let (edge, engine) = (at(&service, &[]), at(&service, &[("place.handlers", "engine")]));
    assert!(edge.p50_ns.mid < 1_000.0 && engine.p50_ns.mid > 20.0 * edge.p50_ns.mid, "{edge:?} {engine:?}");
}

#[test]
fn requests_that_come_together_share_a_wake_up() {
    let mut store = service("s", Kind::Kv);
    store.rate = Figure(20_000.0);
    store.stages.insert("execute".into(), Figure(500.0));
    store.cores.insert(Location::Edge, Figure(0.1));
    let mut cores = |together| {
        store.together = Figure(together);
        at(&store, &[("engine.mode", "dedicated")]).cores.mid
    };
    let (alone, many) = (cores(1.0), cores(16.0));
    assert!(many < 0.5 * alone, "{many} {alone}");
}

#[test]
fn what_others_use_is_not_there() {
    let service = loaded(100_000.0, 5_000.0);
    let alone = seen(&service, 2.0);
    let beside = Observation { others: Figure(1.2), ..alone.clone() };
    let capacity =
        |seen| predict(&predictor(), seen, &service, &ON_TWO).expect("it says something").capacity.mid;
    assert!(capacity(&beside) < 0.6 * capacity(&alone));
}

#[test]
fn few_clients_wait_behind_few() {
    let mut service = loaded(100_000.0, 9_000.0);
    let many = at(&service, &[]);
    service.connections.insert("tcp".into(), Figure(2.0));
    let few = at(&service, &[]);
    assert!(few.p99_ns.mid < many.p99_ns.mid && few.p99_ns.mid >= 100_000.0, "{few:?} {many:?}");
}

#[test]
fn it_says_nothing_of_what_it_does_not_know() {
    let model = predictor();
    let service = loaded(500.0, 20_000.0);
    let seen = seen(&service, 4.0);
    assert_eq!(predict(&model, &seen, &service, &[("workers.balancer", "two_choices")]), None);
    // A handler that nobody has timed; one that nobody has asked, over a link of which it has no times.
    assert!(model.of(&seen, &loaded(0.0, 20_000.0)).is_none());
    let mut idle = loaded(500.0, 0.0);
    assert!(model.of(&seen, &idle).is_none(), "nobody says how its clients come");
    idle.connections.insert("unix".into(), Figure(3.0));
    assert!(model.of(&seen, &idle).is_none());
    idle.connections.insert("tcp".into(), Figure(4.0));
    let found = predict(&model, &seen, &idle, &[("place.handlers", "engine"), ("workers.count", "0")]);
    assert!(found.is_some_and(|one| one.cores.mid >= 0.0 && one.capacity.mid > 0.0), "{found:?}");
}

/// A store that nobody has asked yet: its handlers are the model's, by what is in it.
#[test]
fn the_model_stands_in_for_what_is_not_measured() {
    let capacity = |bytes: f64| {
        let mut store = service("s", Kind::Kv);
        store.connections.insert("tcp".into(), Figure(4.0));
        store.stored_bytes = Figure(bytes);
        let found = predict(&predictor(), &seen(&store, 4.0), &store, &[]).expect("it says something");
        found.capacity.mid
    };
    assert!(capacity(1e9) < capacity(16_384.0), "memory that is far away takes longer");
}

#[test]
fn the_known_error_is_what_check_host_found() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measurements/check-host.md");
    let Ok(page) = std::fs::read_to_string(page) else { return eprintln!("skipped: {page} is not there") };
    let (_, rows) = page.split_once("## Services by place").expect("it has them");
    // The error in percent stands before the first sign of percent; of a placement that was measured again, the last.
    let error = |row: &str| row.split_once('%')?.0.split_whitespace().last()?.parse::<f64>().ok();
    let name = |row: &str| Some(row.trim().split_once(" under way")?.0.to_owned());
    let is_arithmetic = |row: &&str| row.contains(" under way") && !row.contains("its code in time");
    let last: BTreeMap<String, f64> =
        rows.lines().filter(is_arithmetic).filter_map(|row| Some((name(row)?, error(row)?))).collect();
    for (handler, place) in [
        (Handler::Edge, ", edge,"),
        (Handler::Engine, ", engine,"),
        (Handler::HostThreads, ", host threads,"),
    ] {
        for is_rec in [false, true] {
            let is_of = |name: &str| name.contains(place) && name.starts_with("inference") == is_rec;
            let errors: Vec<f64> =
                last.iter().filter(|(name, _)| is_of(name)).map(|(_, error)| *error).collect();
            let square = errors.iter().map(|error| error * error / 1e4).sum::<f64>() / errors.len() as f64;
            let is_known = (square.sqrt() - handler.known_error(is_rec)).abs() < 0.01;
            assert!(errors.len() >= 4 && is_known, "{place} {is_rec} {}: {errors:?}", square.sqrt());
        }
    }
}

fn platform(number: &str, value: &str) -> Result<Predictor, String> {
    let text = predictor().text().to_owned();
    let line = text.lines().find(|line| line.starts_with(&format!("{number} = "))).expect("it is there");
    let unit = line.split("unit = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a unit");
    let other = format!(
        "{number} = {{ value = {value}, unit = \"{unit}\", class = \"measured\", source = \"a test\", range = [{value}, {value}] }}"
    );
    Predictor::new(&text.replace(line, if value.is_empty() { "" } else { &other }), "other.toml")
}

#[test]
fn platforms_that_cannot_be_are_refused_with_what_to_do() {
    for (number, value, why) in [
        ("clock", "0.0", "no host is so"),
        ("stream", "0.0", "no host is so"),
        ("sets", "0.0", "is 0: what is made of it needs at least 1"),
        ("processors", "0.0", "is 0: what is made of it needs at least 1"),
        ("processors", "1000000.0", "no host is so"),
        ("wake", "1e18", "no host is so"),
        ("tcp_send", "nan", "a decimal number belongs here"),
        ("wake_call", "", "has no number kernel.wake_call"),
        ("wake", "-1.0", "cannot be"),
    ] {
        let refused = platform(number, value).expect_err(number);
        assert!(refused.contains(why) && refused.contains(number), "{number}: {refused}");
    }
    let nic = model::platform::shipped::SHIPPED[0].1;
    assert!(Predictor::new(nic, "nic.toml").is_err_and(|why| why.contains("this-host")));
    assert!(Predictor::new("wake = 3", "x.toml").is_err_and(|why| why.starts_with("x.toml:1")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a node says that has no fault, and whatever a sound platform says, a prediction is one that can be gone by.
    #[test]
    fn predictions_are_sound(
        rate in prop_oneof![Just(0.0), 0.0..1e12f64, 1.0..1e5f64],
        times in prop_oneof![Just(0.0), 0.0..3600e9f64, 100.0..1e5f64],
        (cores, used, busy) in (0.0..4096.0f64, 0.0..4096.0f64, 0.0..1.25f64),
        (connections, stored, spin) in (0.0..1e12f64, 0.0..1e18f64, 0u64..1 << 24),
        (kind, to) in (0usize..3, 0usize..32),
        wake in prop_oneof![Just("0.0"), Just("1000000.0"), Just("14.7")],
    ) {
        let kind = [Kind::Kv, Kind::Rpc, Kind::Rec][kind];
        let mut service = service("s", kind);
        service.rate = Figure(rate);
        for stage in ["execute", "handle", "preprocess", "engine"] {
            service.stages.insert(stage.into(), Figure(times));
        }
        (service.p50_ns, service.stored_bytes) = (Some(Figure(times)), Figure(stored));
        (service.request_bytes, service.reply_bytes) = (Figure(stored.min(1e12)), Figure(rate));
        service.connections.insert("tcp".into(), Figure(connections));
        service.cores.insert(Location::Edge, Figure(used));
        service.registers.push(super::super::tests::register("wait.spin", spin, [0, 1 << 24], &[]));
        service.registers.push(super::super::tests::register("wait.pause", spin, [0, 1 << 24], &[]));
        let mut seen = seen(&service, cores);
        (seen.others, seen.cores_used) = (Figure(busy * cores), Figure(busy * cores));
        let model = platform("wake", wake).expect("it could be");
        let Some(served) = model.of(&seen, &service) else { return Ok(()) };
        let shares = |pair: &Choice| super::super::choice::steps(&served.shares(pair));
        let all = super::super::choice::alternatives(&service, cores as u64, &shares);
        if let Some(found) = served.predict(&all[to % all.len()]) {
            prop_assert!(found.is_sound(), "{:?}", found);
        }
    }
}
