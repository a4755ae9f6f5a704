//! Pages of nodes, made up, as the workload of `--live`; and pages of nodes that lie.

use super::*;
use crate::observed::Reading;

const KV: &str = r#"[
    {"name": "engine.mode", "number": 0, "range": [0, 1], "choices": ["shared", "dedicated"], "live": true},
    {"name": "engine.group", "number": 16, "range": [1, 64], "live": true},
    {"name": "edge.threads", "number": 1, "range": [1, 256], "live": true}]"#;
const RPC: &str = r#"[
    {"name": "place.handlers", "number": 1, "range": [0, 3], "choices": ["auto", "edge", "host", "engine"], "live": true},
    {"name": "workers.count", "number": 0, "range": [0, 256], "live": true}]"#;

fn port(n: u16) -> Port {
    std::net::SocketAddr::from(([127, 0, 0, 1], n)).into()
}

fn own() -> Platform {
    model::platform::shipped::shipped("this-host").expect("it is shipped").expect("it is sound")
}

fn with_process(page: &str) -> String {
    format!(
        "process_cpu_seconds_total 1\nprocess_start_time_seconds 7\nprocess_resident_memory_bytes 1e6\n\
         process_thread_cpu_seconds_total{{thread=\"edge-0\"}} 0.2\n{page}"
    )
}

/// A key-value node after so many gets, of which nine of ten found a value of 100 B, and a quarter as many sets of 100 B; the rest of each is 30 B and 8 B.
fn kv(gets: u64) -> String {
    let (hits, sets) = (gets * 9 / 10, gets / 4);
    let all = gets + sets;
    let stages: String = [("receive", 1.0), ("queue", 0.5), ("execute", 2.0), ("reply", 0.5), ("send", 4.0)]
        .iter()
        .map(|(stage, us)| {
            let of = format!("stage=\"{stage}\"");
            format!(
                "millrace_kv_stage_seconds_count{{{of}}} {all}\nmillrace_kv_stage_seconds_sum{{{of}}} {}\n\
                 millrace_kv_stage_seconds_bucket{{{of},le=\"1e-05\"}} {all}\nmillrace_kv_stage_seconds_bucket{{{of},le=\"+Inf\"}} {all}\n",
                all as f64 * us * 1e-6
            )
        })
        .collect();
    with_process(&format!(
        "millrace_kv_requests_total {all}\nmillrace_kv_requests_executed_total {all}\nmillrace_kv_engine_passes_total {all}\n\
         millrace_kv_received_bytes_total {}\nmillrace_kv_sent_bytes_total {}\n\
         millrace_kv_value_bytes_total{{direction=\"received\"}} {}\nmillrace_kv_value_bytes_total{{direction=\"sent\"}} {}\n\
         millrace_kv_commands_total{{command=\"get\"}} {gets}\nmillrace_kv_commands_total{{command=\"set\"}} {sets}\n\
         millrace_kv_command_outcomes_total{{command=\"get\",outcome=\"hit\"}} {hits}\n\
         millrace_kv_command_outcomes_total{{command=\"get\",outcome=\"miss\"}} {}\n\
         millrace_kv_items 5000\nmillrace_kv_item_bytes 640000\n\
         millrace_kv_connections 12\nmillrace_kv_shm_connections 2\n{stages}",
        30 * all + 100 * sets,
        8 * all + 100 * hits,
        100 * sets,
        100 * hits,
        gets - hits,
    ))
}

/// An RPC server after so many calls, one of 64 timed where `timed`.
fn rpc(calls: u64, is_timed: bool) -> String {
    let of = "side=\"server\",method=\"/a.B/C\"";
    let timed = if is_timed { calls / 64 } else { 0 };
    with_process(&format!(
        "millrace_rpc_calls_started_total{{{of}}} {calls}\nmillrace_rpc_calls_ended_total{{{of},code=\"OK\"}} {calls}\n\
         millrace_rpc_calls_in_flight{{{of}}} 3\n\
         millrace_rpc_frame_bytes_total{{side=\"server\",transport=\"shm\",direction=\"received\"}} {}\n\
         millrace_rpc_frame_bytes_total{{side=\"server\",transport=\"shm\",direction=\"sent\"}} {}\n\
         millrace_rpc_connections{{side=\"server\",transport=\"shm\"}} 4\n\
         millrace_rpc_message_bytes_total{{{of},direction=\"received\"}} {}\n\
         millrace_rpc_message_bytes_total{{{of},direction=\"sent\"}} {}\n\
         millrace_rpc_call_seconds_count{{{of}}} {timed}\nmillrace_rpc_call_seconds_sum{{{of}}} {}\n\
         millrace_rpc_call_seconds_bucket{{{of},le=\"1e-05\"}} {timed}\nmillrace_rpc_call_seconds_bucket{{{of},le=\"+Inf\"}} {timed}\n\
         millrace_rpc_stage_seconds_count{{side=\"server\",stage=\"handle\"}} {timed}\n\
         millrace_rpc_stage_seconds_sum{{side=\"server\",stage=\"handle\"}} {}\n",
        60 * calls,
        90 * calls,
        40 * timed,
        70 * timed,
        timed as f64 * 5e-6,
        timed as f64 * 3e-6,
    ))
}

/// What two pages of a node, a second apart, are.
fn seen(n: u16, registers: &str, [first, second]: [&str; 2]) -> (Port, Observation) {
    let mut difference = Difference::default();
    let reading = |at_us, page| Reading::of(at_us, page, registers).expect("a page");
    assert!(difference.add(reading(0, first), 4.0).is_none());
    (port(n), difference.add(reading(1_000_000, second), 4.0).expect("the second"))
}

fn take_kv(second: &str) -> Result<Taken, String> {
    take(&[seen(1, KV, [&kv(1000), second])], None, &own())
}

#[test]
fn a_key_value_node_is_a_workload_with_sizes_by_command() {
    let taken = take_kv(&kv(41_000)).expect("a workload");
    let Workload { classes, rate, keys, working_set, window, .. } = &taken.workload;
    assert_eq!((*rate, *keys, *working_set, *window), (Some(50_000.0), 5000, 640_000, 12));
    let [get, set] = &classes[..] else { panic!("{classes:?}") };
    assert_eq!((&*get.name, get.share, get.request, get.reply, get.store), ("get", 0.8, 30, 98, 0));
    assert_eq!((&*set.name, set.share, set.request, set.reply, set.store), ("set", 0.2, 130, 8, 100));
    // 2 µs of execution, less the model's own part of it.
    assert!((4_000.0..8_750.0).contains(&get.cycles) && get.lookups == 2, "{}", get.cycles);
    let at_nodes = &taken.at_nodes;
    assert_eq!(at_nodes.placement.as_deref(), Some("edge, TCP"));
    assert!(at_nodes.methods[0].hits.is_some_and(|hits| (hits - 0.9).abs() < 1e-9));
    assert!(at_nodes.p99.is_some() && taken.table.contains("90.0 %"), "{}", taken.table);
    let said = taken.remarks.join("\n");
    for part in ["2 shm, 10 sockets", "which keys are asked for is not told", "execute 2.0 µs"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}

#[test]
fn what_is_predicted_stands_beside_what_was_measured() {
    let taken = take_kv(&kv(21_000)).expect("a workload");
    let placed =
        taken.at_nodes.placed(&own(), &taken.workload, None, 1).expect("it runs").expect("it has the way");
    assert!((placed.rate / 25_000.0 - 1.0).abs() < 0.05 && placed.p99 >= placed.p50, "{placed:?}");
    let said = taken.at_nodes.beside(Some(placed), "this-host").join("\n");
    assert!(
        said.contains("by edge, TCP") && said.contains("predicted on this-host") && said.contains("times)"),
        "{said}"
    );
    let other = model::platform::shipped::shipped("connectx6").expect("it is shipped").expect("it is sound");
    assert_eq!(taken.at_nodes.placed(&other, &taken.workload, None, 1), Ok(None));
    assert!(taken.at_nodes.beside(None, "connectx6").join(" ").contains("no such placement"));
}

#[test]
fn rates_of_several_nodes_add_up() {
    let nodes = [1, 2].map(|n| seen(n, KV, [&kv(1000), &kv(41_000)]));
    let taken = take(&nodes, None, &own()).expect("a workload");
    assert_eq!(
        (taken.workload.rate, taken.workload.keys, taken.at_nodes.nodes),
        (Some(100_000.0), 10_000, 2)
    );
    assert!(taken.remarks[0].contains("2 nodes"), "{:?}", taken.remarks);
}

#[test]
fn an_rpc_node_says_sizes_of_what_it_timed_or_that_it_did_not() {
    let taken = take(&[seen(1, RPC, [&rpc(0, true), &rpc(64_000, true)])], None, &own()).expect("a workload");
    let class = &taken.workload.classes[0];
    assert_eq!(
        (&*class.name, class.request, class.reply, class.fields, class.lookups),
        ("/a.B/C", 40, 70, 1, 0)
    );
    assert_eq!(taken.at_nodes.placement.as_deref(), Some("edge, shared memory"));
    assert!(taken.at_nodes.methods[0].p99.is_some());
    // 3 µs at 4.374 GHz.
    assert!((class.cycles / 13_122.0 - 1.0).abs() < 1e-6, "{}", class.cycles);
    let untimed =
        take(&[seen(1, RPC, [&rpc(0, false), &rpc(64_000, false)])], None, &own()).expect("a workload");
    assert_eq!((untimed.workload.classes[0].request, untimed.workload.classes[0].reply), (60, 90));
    let said = untimed.remarks.join("\n");
    assert!(
        said.contains("sizes by method are not told") && said.contains("/registers/monitor.sample"),
        "{said}"
    );
    assert!(said.contains("p50 and p99 of /a.B/C are not told"), "{said}");
}

#[test]
fn services_are_chosen_or_it_is_said_which_there_are() {
    let (a, b) = (seen(1, KV, [&kv(1000), &kv(2000)]), seen(2, RPC, [&rpc(0, true), &rpc(6400, true)]));
    let said = |seen: &[(Port, Observation)], service| take(seen, service, &own()).err().unwrap_or_default();
    let mixed = said(&[a.clone(), b], None);
    assert!(mixed.contains("of one kind") && mixed.contains("--service NAME"), "{mixed}");
    let none = said(std::slice::from_ref(&a), Some("rank"));
    assert!(none.contains("no service \"rank\"; there are one without a name (kv) at 127.0.0.1:1"), "{none}");
    let idle = said(&[seen(1, KV, [&kv(1000), &kv(1000)])], None);
    assert!(idle.contains("no request came") && idle.contains("--window"), "{idle}");
    let other = said(&[seen(1, "[]", [&kv(0), &kv(10)])], None);
    assert!(other.contains("no service whose load can be read"), "{other}");
}

/// A node may say anything: it is refused with what it said, or taken as it stands; never believed where it cannot be.
#[test]
fn a_node_that_lies_is_refused_with_what_it_said() {
    let good = kv(41_000);
    for (from, to, why) in [
        (
            "millrace_kv_requests_total 51250",
            "millrace_kv_requests_total NaN",
            "counter requests went from 1250 to NaN",
        ),
        (
            "millrace_kv_requests_total 51250",
            "millrace_kv_requests_total +Inf",
            "counter requests went from 1250 to inf",
        ),
        (
            "millrace_kv_requests_total 51250",
            "millrace_kv_requests_total 3",
            "counter requests went from 1250 to 3",
        ),
        ("millrace_kv_requests_total 51250", "millrace_kv_requests_total 9e15", "the rate is"),
        ("millrace_kv_items 5000", "millrace_kv_items -5", "the number of items is -5"),
        ("millrace_kv_items 5000", "millrace_kv_items NaN", "the number of items is NaN"),
        ("millrace_kv_item_bytes 640000", "millrace_kv_item_bytes inf", "what it keeps is inf"),
        ("millrace_kv_connections 12", "millrace_kv_connections NaN", "connections over sockets"),
        (
            "process_resident_memory_bytes 1e6",
            "process_resident_memory_bytes -1",
            "the memory of the process is -1",
        ),
        ("direction=\"sent\"} 3690000", "direction=\"sent\"} 1e14", "bytes of values were sent"),
        ("direction=\"sent\"} 3690000", "direction=\"sent\"} NaN", "counter bytes of values sent went from"),
        ("command=\"get\"} 41000", "command=\"get\"} NaN", "the rate of get is NaN"),
        ("process_cpu_seconds_total 1", "process_cpu_seconds_total 1e9", "the cores used is"),
    ] {
        assert!(good.contains(from), "{from} in\n{good}");
        let said = take_kv(&good.replace(from, to));
        let said = said.map(|taken| taken.workload);
        assert!(
            said.as_ref().is_err_and(|said| said.contains(why) && said.contains("127.0.0.1:1")),
            "{to}: {said:?}"
        );
    }
}

#[test]
fn what_is_missing_is_said_and_done_without() {
    // A node of a version that did not count values.
    let [first, second] = [1000, 41_000].map(|gets| {
        let page = kv(gets);
        let lines = page.lines().filter(|line| !line.contains("value_bytes") && !line.contains("kv_item"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    });
    let taken = take(&[seen(1, KV, [&first, &second])], None, &own()).expect("a workload");
    let [get, set] = &taken.workload.classes[..] else { panic!("two classes") };
    assert!(get.request == set.request && get.reply == set.reply, "{get:?} {set:?}");
    assert_eq!(taken.workload.working_set, 1_000_000, "what the process has");
    assert!(taken.remarks.iter().any(|said| said.contains("of an earlier version")), "{:?}", taken.remarks);
    let other =
        model::platform::shipped::shipped("bluefield2-ib").expect("it is shipped").expect("it is sound");
    let taken = take(&[seen(1, KV, [&kv(1000), &kv(2000)])], None, &other).expect("a workload");
    assert!(
        taken.workload.classes[0].cycles == 0.0
            && taken.remarks.join(" ").contains("cycles of a host core are not known")
    );
}
