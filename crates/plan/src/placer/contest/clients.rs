//! The clients of a phase: this program's own load generators, each a process, open loop; and what they saw.

use super::script::Load;
use serde::{Deserialize, Serialize};
use serve::process::end_with_this_process;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Keys of the key-value service.
const KEYS: u64 = 100_000;
/// Connections to it, and requests under way on each at most.
const KV_CONNECTIONS: u64 = 8;
const KV_PIPELINE: u64 = 16;
/// Calls under way at most.
const RPC_WINDOW: u64 = 64;

/// What the clients of a service saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClientFigures {
    pub service: &'static str,
    /// Requests per second that were to be asked.
    pub asked: f64,
    /// That were answered.
    pub answered: f64,
    /// That were answered within the limit.
    pub within: f64,
    pub p99_us: f64,
    /// Requests that failed, and answers that were wrong.
    pub lost: u64,
}

#[derive(Deserialize)]
struct Point {
    quantile: f64,
    us: f64,
}

#[derive(Deserialize)]
struct OfKv {
    outcome: KvOutcome,
}

#[derive(Deserialize)]
struct KvOutcome {
    single: KvSingle,
}

#[derive(Deserialize)]
struct KvSingle {
    ops_per_sec: f64,
    wrong: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    ended_early: Option<serde_json::Value>,
    curve: Vec<Point>,
}

#[derive(Deserialize)]
struct OfRpc {
    replies_per_sec: f64,
    failed: BTreeMap<String, u64>,
    latency_us: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct OfRec {
    lines: Vec<RecLine>,
}

#[derive(Deserialize)]
struct RecLine {
    requests_per_sec: f64,
    failed: u64,
    curve: Vec<Point>,
}

/// The share of answers that came within a limit, of quantiles in rising order: between two by their times.
fn share_within(quantiles: impl IntoIterator<Item = (f64, f64)>, limit_us: f64) -> f64 {
    let mut below: Option<(f64, f64)> = None;
    for (quantile, us) in quantiles {
        if us > limit_us {
            return match below {
                Some((from, shorter)) if us > shorter => {
                    from + (quantile - from) * (limit_us - shorter) / (us - shorter)
                }
                Some((from, _)) => from,
                None => 0.0,
            };
        }
        below = Some((quantile, us));
    }
    if below.is_some() { 1.0 } else { 0.0 }
}

/// The quantile of a curve.
fn at(quantiles: &[(f64, f64)], wanted: f64) -> f64 {
    quantiles.iter().find(|(quantile, _)| *quantile >= wanted).map_or(0.0, |(_, us)| *us)
}

fn served(
    service: &'static str,
    (asked, answered): (f64, f64),
    curve: &[(f64, f64)],
    lost: u64,
    limit_us: f64,
) -> ClientFigures {
    let within = answered * share_within(curve.iter().copied(), limit_us);
    ClientFigures { service, asked, answered, within, p99_us: at(curve, 0.99), lost }
}

fn points(curve: Vec<Point>) -> Vec<(f64, f64)> {
    curve.into_iter().map(|point| (point.quantile, point.us)).collect()
}

/// One client that runs.
struct Client {
    service: &'static str,
    asked: f64,
    process: Child,
}

/// The clients of a phase, killed when this is dropped.
pub(super) struct Clients(Vec<Client>);

impl Drop for Clients {
    fn drop(&mut self) {
        for client in &mut self.0 {
            // One that has ended is not there to be killed.
            let _ = client.process.kill().and_then(|()| client.process.wait());
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Fills the key-value service with values of this size.
pub(super) fn preload(program: &Path, kv: u16) -> Result<(), String> {
    let line = format!("bench 127.0.0.1:{kv} -k {KEYS} -n 1 -d 1s --warmup 0s --json");
    let output = Command::new(program).args(words(&line)).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("millrace {line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("millrace {line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// What clients of a phase are told.
pub(super) fn lines(ports: &[u16], load: &Load, times: &str) -> Vec<Line> {
    let [kv, rpc, rec] = ports else { return Vec::new() };
    let law = if load.kv_skew > 0.0 { format!("zipf:{}", load.kv_skew) } else { "uniform".to_owned() };
    let sets = load.kv_sets_percent;
    let lines = [
        (
            "cache",
            load.kv_rate,
            format!(
                "bench 127.0.0.1:{} -k {KEYS} -v {} --get {} --set {sets} --dist {law} -c {KV_CONNECTIONS} -P {KV_PIPELINE} -r {} --no-preload {times}",
                kv,
                load.kv_value,
                100 - sets,
                load.kv_rate
            ),
        ),
        (
            "demo",
            load.rpc_rate,
            format!(
                "rpc bench tcp:127.0.0.1:{} -p {} -w {RPC_WINDOW} -r {} {times}",
                rpc, load.rpc_payload, load.rpc_rate
            ),
        ),
        (
            "rank",
            load.rec_rate,
            format!(
                "rec bench tcp:127.0.0.1:{} -b {} -w 16 -r {} {times}",
                rec, load.rec_queries, load.rec_rate
            ),
        ),
    ];
    let line = |(service, rate, words): (_, u64, _)| Line { service, asked: rate as f64, words };
    lines.into_iter().map(line).collect()
}

/// A client: of which service, how many requests a second that count it asks, and what this program is told for it.
pub(super) struct Line {
    pub service: &'static str,
    pub asked: f64,
    pub words: String,
}

/// When what counts begins, and how long it is, for a client.
pub(super) fn times((settle, length): (Duration, Duration)) -> String {
    format!("--warmup {}ms -d {}ms --json", settle.as_millis(), length.as_millis())
}

impl Clients {
    /// Begins a load.
    pub(super) fn start(program: &Path, lines: Vec<Line>) -> Result<Clients, String> {
        let mut clients = Clients(Vec::new());
        for Line { service, asked, words: line } in lines {
            let mut command = Command::new(program);
            command.args(words(&line)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            end_with_this_process(&mut command);
            let process = command.spawn().map_err(|error| format!("millrace {line}: {error}"))?;
            clients.0.push(Client { service, asked, process });
        }
        Ok(clients)
    }

    /// Waits for all, and says what they saw.
    ///
    /// # Errors
    /// One of them did not come to its end.
    pub(super) fn end(mut self, limit_us: f64) -> Result<Vec<ClientFigures>, String> {
        // All of them, before one's error is told: none is left running beside the next phase.
        let ended: Vec<_> = self.0.drain(..).map(|client| client.end(limit_us)).collect();
        ended.into_iter().collect()
    }
}

impl Client {
    fn end(self, limit_us: f64) -> Result<ClientFigures, String> {
        let Client { service, asked, process } = self;
        let output =
            process.wait_with_output().map_err(|error| format!("the client of {service}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        read(service, asked, &text, limit_us).map_err(|why| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("the client of {service} ended with {}: {why}; it said: {}", output.status, said.trim())
        })
    }
}

/// What a client printed.
fn read(service: &'static str, asked: f64, text: &str, limit_us: f64) -> Result<ClientFigures, String> {
    fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
        serde_json::from_str(text).map_err(|error| format!("its figures cannot be read: {error}"))
    }
    match service {
        "cache" | "left" | "right" => {
            let KvSingle { ops_per_sec, wrong, failed, ended_early, curve } =
                parse::<OfKv>(text)?.outcome.single;
            if let Some(why) = ended_early {
                return Err(format!("it ended early: {why}"));
            }
            let lost = wrong.values().chain(failed.values()).sum();
            Ok(served(service, (asked, ops_per_sec), &points(curve), lost, limit_us))
        }
        "demo" => {
            let OfRpc { replies_per_sec, failed, latency_us } = parse(text)?;
            Ok(served(service, (asked, replies_per_sec), &latency_us, failed.values().sum(), limit_us))
        }
        _ => {
            let OfRec { mut lines } = parse(text)?;
            let RecLine { requests_per_sec, failed, curve } = lines.pop().ok_or("it has no line")?;
            Ok(served(service, (asked, requests_per_sec), &points(curve), failed, limit_us))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_time_is_read_of_quantiles() {
        let curve = [(0.0, 10.0), (0.5, 20.0), (0.9, 40.0), (1.0, 100.0)];
        let share = |limit| share_within(curve, limit);
        assert_eq!((share(5.0), share(10.0), share(100.0)), (0.0, 0.0, 1.0));
        assert!((share(30.0) - 0.7).abs() < 1e-9 && (share(70.0) - 0.95).abs() < 1e-9);
        assert_eq!((share_within([], 1.0), at(&curve, 0.6)), (0.0, 40.0));
    }

    #[test]
    fn figures_of_clients_are_read() {
        let rpc = r#"{"replies_per_sec": 100.0, "failed": {"INTERNAL": 2}, "latency_us": [[0.0, 1.0], [0.99, 3.0]]}"#;
        let found = read("demo", 120.0, rpc, 2.0).expect("figures");
        assert_eq!((found.lost, found.p99_us, found.within), (2, 3.0, 49.5));
        assert!(read("demo", 1.0, "{}", 2.0).is_err_and(|why| why.contains("cannot be read")));
        let early = r#"{"outcome": {"single": {"ops_per_sec": 1, "wrong": {}, "failed": {}, "ended_early": "gone", "curve": []}}}"#;
        assert!(read("cache", 1.0, early, 2.0).is_err_and(|why| why.contains("ended early")));
    }
}
