use super::*;
use crate::alternative::Offered;
use crate::plan::{Question, plan};
use crate::platform::Platforms;
use crate::workload::shipped;

fn host() -> Host {
    Host::of(&Platforms::shipped().named("this-host").expect("it is shipped")).expect("it is complete")
}

/// One class: a call that takes so many cycles.
fn calls(cycles: f64) -> Workload {
    let text = format!(
        "name = \"calls\"\ntitle = \"calls\"\nkeys = 1\nworking_set = \"16 KiB\"\nwindow = 16\n[[class]]\nname = \"call\"\n\
         share = 1.0\nrequest = \"64 B\"\nreply = \"64 B\"\nfields = 1\ncycles = {cycles}\n"
    );
    Workload::parse(&text, "calls.toml").expect("a workload")
}

fn rate(host: &Host, threads: Threads, workload: &Workload, route: Route, window: u64) -> f64 {
    let setting = Node::new(host, threads, 1).setting(workload, &[route]);
    let (warm_up, span) = (Picos::from_millis(1), Picos::from_millis(20));
    setting.run(&[1.0], Offered::Window(window), 1, warm_up, span).all.rate()
}

#[test]
fn a_request_alone_takes_what_its_parts_take() {
    let (host, workload) = (host(), calls(0.0));
    let route = Route { link: Link::Tcp, handler: Handler::Edge };
    let always = Threads {
        edge_awake: Picos::from_millis(1),
        client_awake: Picos::from_millis(1),
        ..Threads::default()
    };
    let parts = [host.tcp_send, host.tcp_receive, host.call].map(Picos::as_secs_f64);
    let copied = 4.0 * transfer(64, host.tcp_copy).as_secs_f64();
    let awake = 2.0 * parts[0] + 2.0 * parts[1] + parts[2] + copied;
    let found = 1.0 / rate(&host, always, &workload, route, 1);
    assert!((found / awake - 1.0).abs() < 0.01, "{found} and not {awake}");
    // Two sleepers, each with its wake-up and its look at the sockets.
    let asleep = awake + 2.0 * host.wake.plus(host.epoll).as_secs_f64();
    let found = 1.0 / rate(&host, Threads::default(), &workload, route, 1);
    assert!((found / asleep - 1.0).abs() < 0.01, "{found} and not {asleep}");
}

#[test]
fn threads_share_the_processors() {
    let host = host();
    let workload = calls(host.clock * 100e-6);
    let route = Route { link: Link::Tcp, handler: Handler::HostThreads };
    let at = |processors| {
        let threads = Threads { processors, host: 4, ..Threads::default() };
        rate(&host, threads, &workload, route, 16)
    };
    let [one, two, many] = [1, 2, 16].map(at);
    // Four threads of 100 us each, at most; where they share no processor, each wakes the next one by a call.
    assert!(many > 35e3 && many < 40.1e3, "{many}");
    assert!(one > 9e3 && one < 10e3 && two > 1.7 * one && two < 20e3, "{one} {two}");
}

#[test]
fn short_handlers_belong_on_the_edge_and_long_ones_beside_it() {
    let host = host();
    let threads = Threads { processors: 8, host: 4, ..Threads::default() };
    let best = |cycles: f64| {
        let by =
            |handler| rate(&host, threads, &calls(cycles), Route { link: Link::SharedMemory, handler }, 16);
        let rates = [Handler::Edge, Handler::Engine, Handler::HostThreads].map(by);
        (0..3).max_by(|a, b| rates[*a].total_cmp(&rates[*b])).expect("three")
    };
    assert_eq!((best(0.0), best(host.clock * 50e-6)), (0, 2));
}

#[test]
fn this_host_is_planned_like_any_other() {
    let platform = Platforms::shipped().named("this-host").expect("it is shipped");
    for workload in
        [shipped::shipped("key-value-cache").expect("it is shipped").expect("it is right"), calls(50_000.0)]
    {
        let plan = plan(&platform, &workload, &Question::default()).expect("a plan");
        assert!(plan.ranking[0].saturated.is_some_and(|ran| ran.rate > 0.0));
        let names: Vec<_> = plan.alternatives.iter().map(|of| of.name.clone()).collect();
        assert!(names.iter().any(|name| name == "edge, TCP"), "{names:?}");
    }
}
