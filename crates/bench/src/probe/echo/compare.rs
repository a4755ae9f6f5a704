//! Epoll against io_uring, both sides in one run: short slices of each in turn, ratios of slices that are neighbours.
//!
//! Why slices: a virtual machine's cores move, and its neighbours come and go, so two long runs one after the other
//! compare two moments. Each round runs every server once, in an order that rotates, and a ratio is taken inside a
//! round. Every slice has fresh connections and a fresh server thread.
//!
//! What decides is the server thread's processor time per request: with one core for the client, throughput mostly
//! says what the client can do.

use super::client::{self, Load, Seen};
use super::sockets::{self, Transport};
use super::uring::Receive;
use super::{Served, Wait, epoll, process_cpu, uring};
use crate::contest::{self, Contest, Order, Sample, Turn};
use crate::probe::cores;
use crate::probe::session::{Session, Unit};
use crate::probe::timing::per_call;
use base::Nanos;
use base::cpu::thread_time;
use base::spread::{self, Spread};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll as epoll_api};
use serve::process::progress;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::AtomicBool;

/// A way to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// `epoll_wait`, `read`, `write`.
    Epoll,
    /// `io_uring_enter`.
    Uring(Receive),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::Epoll => "epoll",
            Server::Uring(Receive::Multishot) => "io_uring multishot",
            Server::Uring(Receive::Single) => "io_uring single",
        })
    }
}

impl Server {
    fn key(self) -> &'static str {
        match self {
            Server::Epoll => "epoll",
            Server::Uring(Receive::Multishot) => "uring_multishot",
            Server::Uring(Receive::Single) => "uring_single",
        }
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How client and server are connected.
    pub transport: Transport,
    /// Connections.
    pub conns: usize,
    /// Requests in one window.
    pub pipeline: usize,
    /// What the server does when idle.
    pub wait: Wait,
}

impl Case {
    fn key(&self) -> String {
        let wait = if self.wait == Wait::Spin { "_spin" } else { "" };
        format!("{}_{}x{}{wait}", self.transport, self.conns, self.pipeline)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = if self.wait == Wait::Spin { ", spinning server" } else { "" };
        f.pad(&format!("{} {} × {}{wait}", self.transport, self.conns, self.pipeline))
    }
}

/// What one server did in one slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    kops: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
    /// Processor time per request that neither the client's nor the server's thread was charged for.
    elsewhere_us: f64,
    per_wakeup: f64,
    calls: f64,
}

impl Slice {
    fn new(load: Load, seen: &Seen, served: Served, elsewhere: Nanos) -> Slice {
        let requests = served.requests().max(1) as f64;
        let micros = |q| seen.latency.value_at_quantile(q) as f64 / 1e3;
        Slice {
            kops: seen.counted as f64 / load.measure.as_secs_f64() / 1e3,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            cpu_us: served.cpu.0 as f64 / 1e3 / requests,
            elsewhere_us: elsewhere.0 as f64 / 1e3 / requests,
            per_wakeup: requests / served.wakeups.max(1) as f64,
            calls: served.calls as f64 / requests,
        }
    }
}

/// Runs one server under one load, client on `at.0`, server on `at.1`.
///
/// # Errors
/// The system's, from either side; the server's if both failed.
pub fn slice(case: Case, server: Server, load: Load, at: (usize, usize)) -> io::Result<Slice> {
    let pairs = sockets::connect(case.transport, case.conns, true)?;
    std::thread::scope(|scope| {
        let process = process_cpu();
        let serving = scope.spawn(move || {
            base::cpu::pin_to(at.1)?;
            let served = match server {
                Server::Epoll => epoll::serve(pairs.server, case.wait),
                Server::Uring(receive) => uring::serve(pairs.server, case.wait, receive),
            };
            served.map(|served| (served, thread_time()))
        });
        let own = thread_time();
        let seen = cores::on(at.0, || (client::drive(pairs.client, load), thread_time()));
        let served = serving.join().expect("the echo server does not panic");
        let ((served, server_cpu), (seen, client_cpu)) = (served?, seen?);
        let threads = server_cpu.plus(client_cpu).plus(thread_time().since(own));
        let elsewhere = process_cpu().since(process).since(threads);
        let seen = seen?;
        if seen.total != served.requests() {
            let lost = format!("{} requests answered, {} echoed", seen.total, served.requests());
            return Err(io::Error::new(io::ErrorKind::InvalidData, lost));
        }
        Ok(Slice::new(load, &seen, served, elsewhere))
    })
}

/// Every load of a run: `N × P` over TCP, and in a full run also over Unix sockets and with a spinning server.
fn cases(quick: bool, alone: bool) -> Vec<Case> {
    let mut kinds = vec![(Transport::Tcp, Wait::Block)];
    if alone && !quick {
        kinds.extend([(Transport::Unix, Wait::Block), (Transport::Tcp, Wait::Spin)]);
    }
    let loads = [(1, 1), (16, 1), (64, 1), (1, 32), (16, 32), (64, 32)];
    let case = |transport, wait| loads.map(|(conns, pipeline)| Case { transport, conns, pipeline, wait });
    kinds.into_iter().flat_map(|(transport, wait)| case(transport, wait)).collect()
}

/// The servers this machine can run; what it refuses is noted.
fn servers(session: &mut Session) -> Vec<Server> {
    let mut servers = vec![Server::Epoll];
    if let Err(e) = uring::available() {
        session.skip("io_uring", format!("the kernel refuses it: {e}"));
        return servers;
    }
    for receive in [Receive::Multishot, Receive::Single] {
        // A connection whose client is gone already: everything is set up, nothing is served.
        let hung_up = sockets::connect(Transport::Unix, 1, true).map(|pairs| pairs.server);
        match hung_up.and_then(|server| uring::serve(server, Wait::Block, receive)) {
            Ok(_) => servers.push(Server::Uring(receive)),
            Err(e) => session.skip(format!("io_uring, {receive}"), e),
        }
    }
    servers
}

/// Measures every case; `alone` where the user asked for this section only and so for the long form of it.
pub fn measure(session: &mut Session, alone: bool) {
    let Some(at) = session.two_cores() else {
        return session
            .skip("epoll against io_uring", "it takes a core for the client and one for the server");
    };
    let servers = servers(session);
    let (rounds, warm, measure) = match (alone, session.quick) {
        (true, false) => (15, 10, 90),
        (false, false) => (3, 10, 50),
        (_, true) => (1, 5, 20),
    };
    let mut table = header();
    for case in cases(session.quick, alone) {
        session.step(format!("echo {case}"));
        let (warm, measure) = (Nanos::from_millis(warm), Nanos::from_millis(measure));
        let load = Load { pipeline: case.pipeline, warm, measure };
        let slices = in_turn(session, case, &servers, load, at, rounds);
        report(session, &mut table, case, &servers, &slices);
    }
    session.block(table);
    idle_looks(session, servers.len() > 1);
}

/// `rounds` slices of each server, each round in another order; only rounds that every server finished.
fn in_turn(
    session: &mut Session,
    case: Case,
    servers: &[Server],
    load: Load,
    at: (usize, usize),
    rounds: u32,
) -> Vec<Vec<Slice>> {
    let (stop, bar) = (AtomicBool::new(false), progress::bar(true));
    let contest = Contest::new((servers.len(), 1), (rounds, Order::Rotated), &stop, (&bar, 0.0, 1.0));
    let measure = |turn: Turn| match slice(case, servers[turn.side], load, at) {
        Ok(slice) => Ok::<_, Infallible>(contest::Slice::Measured(slice)),
        Err(error) => {
            session.skip(format!("the rest of {case} by {}", servers[turn.side]), error);
            Ok(contest::Slice::Over)
        }
    };
    let Ok(mut samples) = contest.run(&mut contest::by(|_| String::new(), measure));
    let figures = |samples: Vec<Sample<Slice>>| samples.into_iter().map(|sample| sample.figures).collect();
    samples.whole_rounds(0).into_iter().map(figures).collect()
}

/// What it costs a spinning server to find that nothing has arrived.
fn idle_looks(session: &mut Session, uring: bool) {
    let epoll = match epoll_api::create(epoll_api::CreateFlags::CLOEXEC) {
        Ok(epoll) => epoll,
        Err(e) => return session.skip("an idle look", e),
    };
    let (mut events, at_once) = (Vec::with_capacity(1), Timespec { tv_sec: 0, tv_nsec: 0 });
    let looks = per_call(session, || epoll_api::wait(&epoll, spare_capacity(&mut events), Some(&at_once)));
    let reading = "one more look at the sockets by a thread that also polls rings";
    session.record("idle_look_epoll", "idle look, epoll_wait(0)", &looks, Unit::Nanos, "loop", reading);
    if uring {
        match uring::idle_looks(50, 10_000) {
            Ok(looks) => {
                let reading = "the same by memory shared with the kernel";
                session.record(
                    "idle_look_uring",
                    "idle look, io_uring",
                    &looks,
                    Unit::Nanos,
                    "loop",
                    reading,
                );
            }
            Err(e) => session.skip("an idle look by io_uring", e),
        }
    }
}

fn header() -> String {
    let name = "connections × pipeline";
    format!(
        "  {name:<30}{:<20}{:>9}{:>9}{:>9}{:>11}{:>10}{:>10}   CPU ÷ epoll's, kops ÷ epoll's\n",
        "server", "kops/s", "p50 µs", "p99 µs", "CPU µs/op", "calls/op", "ops/wake"
    )
}

type Figure = (&'static str, Unit, fn(&Slice) -> f64);

/// In the order of the table's columns; the last is for the file only.
const FIGURES: [Figure; 7] = [
    ("throughput", Unit::KiloOpsPerSec, |s| s.kops),
    ("p50", Unit::Micros, |s| s.p50_us),
    ("p99", Unit::Micros, |s| s.p99_us),
    ("cpu", Unit::Micros, |s| s.cpu_us),
    ("calls", Unit::PerOp, |s| s.calls),
    ("requests_per_wakeup", Unit::Ratio, |s| s.per_wakeup),
    ("cpu_elsewhere", Unit::Micros, |s| s.elsewhere_us),
];

/// Records one load's figures and adds its lines to the table.
fn report(session: &mut Session, table: &mut String, case: Case, servers: &[Server], slices: &[Vec<Slice>]) {
    for (&server, own) in servers.iter().zip(slices) {
        if own.is_empty() {
            continue;
        }
        let name = format!("{}_{}", case.key(), server.key());
        let medians = FIGURES.map(|(figure, unit, value)| {
            let samples: Vec<f64> = own.iter().map(value).collect();
            session.record_unlisted(format!("{name}_{figure}"), &samples, unit, METHOD);
            Spread::of_all(&samples).map_or(0.0, |s| s.median)
        });
        let [kops, p50, p99, cpu, calls, per_wakeup, _] = medians;
        let first = server == Server::Epoll;
        let case_name = if first { case.to_string() } else { String::new() };
        let _ = write!(
            table,
            "  {case_name:<30}{server:<20}{kops:>9.1}{p50:>9.1}{p99:>9.1}{cpu:>11.3}{calls:>10.2}{per_wakeup:>10.1}"
        );
        if !first {
            let cpu = ratios(session, format!("{name}_cpu_ratio"), own, &slices[0], |s| s.cpu_us);
            let kops = ratios(session, format!("{name}_throughput_ratio"), own, &slices[0], |s| s.kops);
            let _ = write!(table, "   {cpu}, {kops}");
        }
        table.push('\n');
    }
}

/// Records a figure's ratio to epoll's, round by round, and words it.
fn ratios(
    session: &mut Session,
    key: String,
    own: &[Slice],
    epolls: &[Slice],
    value: fn(&Slice) -> f64,
) -> String {
    // A slice in which nothing was answered (another program had the core) has no ratio.
    let pairs = own.iter().zip(epolls).map(|(own, epoll)| (value(own), value(epoll)));
    let ratios: Vec<f64> =
        pairs.filter(|&(own, epoll)| own > 0.0 && epoll > 0.0).map(|(o, e)| o / e).collect();
    session.record_unlisted(key, &ratios, Unit::Ratio, "to epoll's slice of the same round");
    spread::text(ratios, 2)
}

/// Steps that [`measure`] announces.
pub fn steps(quick: bool, alone: bool) -> u64 {
    cases(quick, alone).len() as u64
}

const METHOD: &str = "echo of 64 B, spinning client, slices in turn";

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(pipeline: usize) -> Load {
        Load { pipeline, warm: Nanos::ZERO, measure: Nanos::from_millis(1) }
    }

    #[test]
    fn every_server_echoes_every_load() {
        let mut session = Session::new(true, base::cpu::allowed_cores(), 1, false);
        let core = session.cores[0];
        let at = session.two_cores().unwrap_or((core, core));
        for server in servers(&mut session) {
            for transport in [Transport::Tcp, Transport::Unix] {
                // 8192 requests are 512 KiB: more than a socket takes at once, so partial writes are met on both sides.
                for (conns, pipeline) in [(1, 1), (3, 32), (2, 8192)] {
                    let case = Case { transport, conns, pipeline, wait: Wait::Block };
                    let slice = slice(case, server, brief(pipeline), at).expect("both sides agree");
                    assert!(slice.calls > 0.0, "{case} {server}");
                }
            }
            let spinning = Case { transport: Transport::Tcp, conns: 2, pipeline: 4, wait: Wait::Spin };
            slice(spinning, server, brief(4), at).expect("both sides agree");
        }
    }
}
