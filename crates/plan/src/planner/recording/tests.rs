//! Recordings as workloads: written by the recorder itself, made up, and wrong.

use super::*;
use base::Prng;
use base::recording::{Keys, Recording, Request};
use base::trace::Place;
use base::zipf::Zipf;
use base::{Clock, Nanos, hash::Hasher64};
use tempfile::TempDir;

const BEGIN: &str = "{\"line\":\"begin\",\"millrace_recording\":1,\"one_of\":4,\"unix_ms\":1}\n";

fn line(at_us: f64, method: &str, key: u64, took_us: f64) -> String {
    format!(
        "{{\"line\":\"request\",\"at_us\":{at_us},\"service\":\"cache\",\"method\":\"{method}\",\"key\":\"{key:016x}\",\
         \"request\":30,\"reply\":108,\"place\":\"edge\",\"took_us\":{took_us}}}\n"
    )
}

fn of(text: &str, service: Option<&str>) -> Result<Taken, String> {
    workload(text.as_bytes(), "r.rec", service)
}

/// 2,000 requests in two seconds, three gets to a set.
fn recorded() -> String {
    let method = |n: u64| if n % 4 == 3 { "set" } else { "get" };
    let requests = (0..2000).map(|n| line(n as f64 * 1000.0, method(n), 1 + n % 50, 5.0 + n as f64 / 100.0));
    let requests: String = requests.collect();
    format!(
        "{BEGIN}{requests}{{\"line\":\"seen\",\"at_us\":2e6,\"service\":\"cache\",\"requests\":10000,\"dropped\":7}}\n\
         {{\"line\":\"end\",\"at_us\":2e6,\"why\":\"stopped\"}}\n"
    )
}

#[test]
fn a_recording_becomes_a_workload() {
    let taken = of(&recorded(), None).expect("it is right");
    let Workload { classes, rate, keys, skew, .. } = &taken.workload;
    // All requests were counted, those of keys that are not in it too.
    assert!(rate.is_some_and(|rate| (rate / 5002.5 - 1.0).abs() < 1e-3), "{rate:?}");
    assert_eq!((*keys, classes.len()), (200, 2));
    assert!(*skew < 0.05, "{skew}");
    let [get, set] = &classes[..] else { panic!("{classes:?}") };
    assert_eq!((get.share, get.request, get.reply, get.store, get.cacheable), (0.75, 30, 108, 0, true));
    assert_eq!((&*set.name, set.store, set.cacheable), ("set", 30, false));
    let (p50, p99) = taken.measured.latencies.expect("they took a while");
    assert!((p50 - 15e-6).abs() < 1e-6 && (p99 - 24.8e-6).abs() < 1e-6, "{p50} {p99}");
    let said = taken.remarks.join("\n");
    for part in [
        "2.00k of 10.0k requests, one key of 4",
        "50.0 keys in it",
        "answered at: edge 2000",
        "7.00 requests of the sample were dropped",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(!said.contains("breaks off"), "{said}");
    assert!(taken.table.is_some_and(|table| table.contains("get")));
}

#[test]
fn one_that_breaks_off_is_used_as_far_as_it_goes() {
    let whole = recorded();
    let cut = &whole[..whole.len() - 300];
    let taken = of(cut, None).expect("what there is");
    assert!(taken.remarks.iter().any(|said| said.contains("breaks off")), "{:?}", taken.remarks);
    // Without the count of all requests it is the sample's, times N.
    assert!(
        taken.workload.rate.is_some_and(|rate| (rate / 4002.0 - 1.0).abs() < 0.01),
        "{:?}",
        taken.workload.rate
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let two = format!("{BEGIN}{}{}", line(1.0, "get", 1, 1.0), line(2.0, "get", 1, 1.0));
    let other = line(3.0, "get", 1, 1.0).replace("cache", "rank");
    for (text, why) in [
        ("{\"millrace_recording\":1}\n".to_owned(), "r.rec:1: "),
        (
            BEGIN.replace(":1,\"one_of\"", ":2,\"one_of\""),
            "r.rec:1: a recording of version 2, and this program reads 1",
        ),
        (two.replacen(BEGIN, "", 1), "r.rec:1: the first line of a recording"),
        (format!("{BEGIN}{BEGIN}"), "r.rec:2: the first line"),
        (BEGIN.to_owned(), "has no requests"),
        (format!("{BEGIN}nonsense\n"), "r.rec:2: "),
        (format!("{BEGIN}{}", line(f64::from(-1), "get", 1, 1.0)), "r.rec:2: at_us is -1"),
        (format!("{BEGIN}{}", line(1.0, "get", 1, 1e300)), "r.rec:2: took_us is"),
        (two.replacen("0000000000000001", "x", 1), "r.rec:2: key \"x\" is no hash"),
        (format!("{BEGIN}{}", line(1.0, "get", 1, 1.0)), "too few for a rate"),
        (
            format!("{two}{{\"line\":\"sample\",\"at_us\":3,\"one_of\":8}}\n"),
            "r.rec:4: one key of 4 until here and one of 8",
        ),
        (
            format!("{two}{other}"),
            "r.rec has requests of cache, rank: say of which service with --service NAME",
        ),
        (format!("{BEGIN}{}", "x".repeat(70_000)), "r.rec:2: "),
    ] {
        let said = of(&text, None).map(|taken| taken.workload);
        assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{why}: {said:?}");
    }
    let said = of(&recorded(), Some("rank")).map(|taken| taken.workload);
    assert!(said.is_err_and(|said| said.contains("no requests of \"rank\"; it has cache")));
    assert!(of(&format!("{two}{other}"), Some("cache")).is_ok());
}

/// Through the recorder's own file: requests with a known popularity come back as they were.
#[test]
fn what_the_recorder_writes_is_read_with_its_skew() {
    const ONE_OF: u32 = 8;
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let path = folder.path().join("recording");
    let recording = Recording::default();
    let own = recording.of("cache");
    let recorder = serve::recorder::Recorder::start(&path, 256 << 20, ONE_OF, recording).expect("a file");
    let (mut prng, zipf, hasher) = (Prng::new(3), Zipf::new(20_000, 0.99), Hasher64::new(3));
    let (keys, began) = (Keys::one_of(ONE_OF), Clock::shared().now());
    const REQUESTS: u64 = 200_000;
    for n in 0..REQUESTS {
        let key = hasher.hash(&zipf.sample(&mut prng).to_le_bytes());
        if keys.has(key) {
            let (service, method) = ("cache".into(), if n % 10 == 0 { "set" } else { "get" }.into());
            let at = began.plus(Nanos::from_micros(10 * n));
            let (request, reply, place, took) = (40, 100, Place::Engine, Nanos(7_000));
            own.add(Request { service, method, key: Some(key), at, request, reply, place, took });
        }
    }
    own.saw(REQUESTS);
    drop(recorder);
    let taken = super::super::trace::of_file(&path, None);
    let taken = taken.expect("what was written is read");
    let Workload { skew, rate, classes, .. } = &taken.workload;
    assert!((skew - 0.99).abs() < 0.15, "{skew}");
    assert!(rate.is_some_and(|rate| (rate / 100_000.0 - 1.0).abs() < 0.01), "{rate:?}");
    assert!((classes[0].share - 0.9).abs() < 0.02, "{classes:?}");
    assert!(taken.remarks.join(" ").contains("answered at: engine"), "{:?}", taken.remarks);
}

use model::workload::Workload;
