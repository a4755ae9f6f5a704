//! `--live`: the workload of nodes that run, from their admin ports, and what the model predicts for where they serve it now beside what they measure.
//!
//! ```text
//!   ask ─▶ window ─▶ ask ─▶ observations ─▶ services ─▶ methods ─▶ workload
//!                                              └─▶ where they are, p50, p99, cores ─▶ beside what that is predicted to give
//! ```
//! Cycles of a host core are what the server's own stage says that a request is worked on (`execute`, `handle`, or preprocessing and engine), less what the
//! model puts into a request of this kind by itself; sockets, wake-ups and hand-overs are the model's, so what is predicted of them is held against what is
//! measured and not made of it.

use super::seen::{self, Beside, Method, kind_name};
use crate::observed::{Difference, Kind, Location, Observation, Service, ask};
use crate::placer::choice::Choice;
use crate::placer::predict::{handler_ns, link};
use bench::report::format::{digits, micros, short};
use model::Platform;
use model::alternative::Offered;
use model::plan::answer::Plan;
use model::plan::{PlanError, families};
use model::platform::picos;
use model::system::host::{Handler, Host, Link, Route};
use model::workload::Workload;
use serde::Serialize;
use serve::process::{interrupt, progress};
use serve::trace::Port;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the clock.
const SLEEP: Duration = Duration::from_millis(20);
/// What is watched for less than this says nothing.
const WATCHED_MIN: Duration = Duration::from_millis(200);
/// Cores of a machine that is another one: no bound on what it says.
const CORES_ELSEWHERE: f64 = 4096.0;
/// Requests of the run that a placement's latencies are from.
const OPERATIONS: f64 = 30_000.0;

/// What nodes said.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) workload: Workload,
    /// Method by method, as a table.
    pub(super) table: String,
    pub(super) remarks: Vec<String>,
    pub(super) at_nodes: AtNodes,
}

/// What was measured at the nodes, and where they serve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AtNodes {
    /// How many.
    pub(super) nodes: usize,
    /// Requests per second of all of them.
    pub(super) rate: f64,
    /// Seconds of the median and the 99th percentile within the server.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Cores that the service used, all nodes together.
    pub(super) cores: f64,
    /// The way through the node, as the planner calls it; none where nodes differ.
    pub(super) placement: Option<String>,
    /// Method by method.
    pub(super) methods: Vec<Method>,
}

/// What the model says of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Placed {
    pub(super) rate: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Cores of all nodes together.
    pub(super) cores: f64,
    /// The most that all nodes together could serve.
    pub(super) most: Option<f64>,
}

/// Watches nodes for so long; Ctrl-C ends it early, and what was seen so far counts.
///
/// # Errors
/// One does not answer, or began anew meanwhile; it was ended at once. A sentence.
pub(super) fn watch(
    ports: &[Port],
    window: Duration,
    quiet: bool,
) -> Result<Vec<(Port, Observation)>, String> {
    let stop = interrupt::flag().map_err(|cause| cause.to_string())?;
    let began = Instant::now();
    let now_us = || began.elapsed().as_micros() as u64;
    let cores = |port: Port| {
        if port.is_local() { base::cpu::allowed_cores().len().max(1) as f64 } else { CORES_ELSEWHERE }
    };
    let mut first = Vec::new();
    for port in ports {
        let mut difference = Difference::default();
        difference.add(ask(*port, now_us())?, cores(*port));
        first.push((*port, difference));
    }
    let bar = progress::bar(quiet);
    let watched = Instant::now();
    while watched.elapsed() < window && !stop.load(Ordering::Relaxed) {
        progress::show(&bar, watched.elapsed().as_secs_f64() / window.as_secs_f64(), "watching");
        thread::sleep(SLEEP.min(window.saturating_sub(watched.elapsed())));
    }
    bar.finish_and_clear();
    if watched.elapsed() < WATCHED_MIN.min(window) {
        return Err("ended before anything was seen".into());
    }
    let last = |(port, mut difference): (Port, Difference)| {
        let seen = difference.add(ask(port, now_us())?, cores(port));
        let seen =
            seen.ok_or_else(|| format!("the node at {port} began anew while it was watched: try again"))?;
        Ok((port, seen))
    };
    first.into_iter().map(last).collect()
}

/// The workload of what was seen, of one service by name if that is said; `own` is the nodes' machine, as the model has it.
///
/// # Errors
/// What a node says cannot be; there is no such service; no request came; services are of several kinds. A sentence that says what to do.
pub(super) fn take(
    seen: &[(Port, Observation)],
    service: Option<&str>,
    own: &Platform,
) -> Result<Taken, String> {
    let services = chosen(seen, service)?;
    let kind = services[0].1.kind;
    let mut methods: BTreeMap<String, Method> = BTreeMap::new();
    let host = if own.family == "host" { Host::of(own).ok() } else { None };
    for (_, service) in &services {
        for method in methods_of(service, host.as_ref()) {
            match methods.get_mut(&method.name) {
                Some(known) => known.add(&method),
                None => {
                    methods.insert(method.name.clone(), method);
                }
            }
        }
    }
    let mut methods: Vec<Method> = methods.into_values().collect();
    methods.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let span = seen.iter().map(|(_, seen)| seen.span_us).max().unwrap_or(0) as f64 / 1e6;
    let names: BTreeSet<&str> = services.iter().map(|(_, service)| &*service.name).collect();
    let named: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let ports: BTreeSet<String> = services.iter().map(|(port, _)| port.to_string()).collect();
    let ports = ports.into_iter().collect::<Vec<_>>();
    let what = [&[kind_name(kind)][..], &named].concat().join(" ");
    let beside = Beside {
        name: "live",
        title: format!("What {} serves ({what})", ports.join(", ")),
        ..of_services(&services, kind)
    };
    let mut remarks = vec![format!(
        "watched for {} s: {} node{}, {}",
        digits(span),
        ports.len(),
        if ports.len() == 1 { "" } else { "s" },
        under_way(&services, &beside)
    )];
    remarks.extend(untold(&services, kind, &methods, host.is_some(), own));
    let workload = seen::workload(kind, &methods, beside).map_err(|why| {
        format!("{}: {why}: send load meanwhile, or watch longer with --window", ports.join(", "))
    })?;
    let at_nodes = at_nodes(&services, ports.len(), methods);
    let table = seen::table(&at_nodes.methods, (at_nodes.p50, at_nodes.p99)).to_string();
    Ok(Taken { workload, table, remarks, at_nodes })
}

/// The services whose requests are the workload.
fn chosen<'a>(
    seen: &'a [(Port, Observation)],
    name: Option<&str>,
) -> Result<Vec<(Port, &'a Service)>, String> {
    let all = || seen.iter().flat_map(|(port, seen)| seen.services.iter().map(|service| (*port, service)));
    let list = || {
        let one = |(port, service): (Port, &Service)| {
            format!(
                "{} ({}) at {port}",
                if service.name.is_empty() { "one without a name" } else { &service.name },
                kind_name(service.kind)
            )
        };
        all().map(one).collect::<Vec<_>>().join(", ")
    };
    if let Some((port, fault)) = seen.iter().find_map(|(port, seen)| Some((port, seen.fault()?))) {
        return Err(format!("what the node at {port} says cannot be: {fault}"));
    }
    if let Some((port, _)) = seen.iter().find(|(_, seen)| seen.services.is_empty()) {
        return Err(format!(
            "the server at {port} has no service whose load can be read: kv, rpc and rec have"
        ));
    }
    let wanted: Vec<_> = all().filter(|(_, one)| name.is_none_or(|name| one.name == name)).collect();
    if wanted.is_empty() {
        return Err(format!("there is no service {:?}; there are {}", name.unwrap_or_default(), list()));
    }
    for (port, service) in &wanted {
        if let Some(fault) = service.fault() {
            let of = if service.name.is_empty() { String::new() } else { format!(" of {}", service.name) };
            return Err(format!("what the node at {port} says{of} cannot be: {fault}"));
        }
    }
    let busy: Vec<_> = wanted.iter().copied().filter(|(_, service)| service.rate.0 > 0.0).collect();
    let Some((_, first)) = busy.first() else {
        return Err(format!(
            "no request came while it was watched, to {}: send load meanwhile, or watch longer with --window",
            list()
        ));
    };
    if busy.iter().any(|(_, service)| service.kind != first.kind) {
        return Err(format!(
            "a workload is of services of one kind, and there are {}: say which with --service NAME",
            list()
        ));
    }
    Ok(busy)
}

fn methods_of(service: &Service, host: Option<&Host>) -> Vec<Method> {
    let cycles = host.map_or(0.0, |host| cycles(service, host));
    let load = &service.load;
    let number = |figure: Option<crate::observed::Figure>| figure.map(|figure| figure.0);
    let seconds = |figure: Option<crate::observed::Figure>| figure.map(|figure| figure.0 / 1e9);
    let of = |method: &crate::observed::Method| Method {
        name: method.name.clone(),
        rate: method.rate.0,
        // Where sizes by method are not told, those of all are.
        request: number(method.request_bytes).or(Some(service.request_bytes.0).filter(|bytes| *bytes > 0.0)),
        reply: number(method.reply_bytes).or(Some(service.reply_bytes.0).filter(|bytes| *bytes > 0.0)),
        stored: method.stored_bytes.0,
        hits: number(method.hits),
        p50: seconds(method.p50_ns),
        p99: seconds(method.p99_ns),
        cycles,
        rows: load.rows.map(|(rows, bytes)| (rows.0, bytes.0)),
    };
    load.methods.iter().map(of).collect()
}

/// Cycles of a request beside what the model puts into it.
fn cycles(service: &Service, host: &Host) -> f64 {
    let worked_ns = match service.kind {
        Kind::Kv => handler_ns(service).unwrap_or(0.0),
        Kind::Rec => service.stage("preprocess") + service.stage("engine"),
        Kind::Rpc => {
            // Away from the connections' thread the stage has the ways there and back in it; the threads' own time has not.
            let own = service.cores.get(&place(service)).map_or(0.0, |cores| cores.0 * 1e9 / service.rate.0);
            let away = place(service) != Location::Edge && own > 0.0;
            if away { service.stage("handle").min(own) } else { service.stage("handle") }
        }
    };
    let (latency, line) = host.miss(working_set(service) as u64);
    let known_ns = match (service.kind, service.load.rows) {
        (Kind::Kv, _) => host.get.plus(latency).plus(latency).as_secs_f64() * 1e9,
        (Kind::Rec, Some((rows, bytes))) => rows.0 * (bytes.0 / 64.0).ceil() * line.as_secs_f64() * 1e9,
        _ => 0.0,
    };
    (worked_ns - known_ns).max(0.0) * host.clock / 1e9
}

/// Where its handlers run now.
fn place(service: &Service) -> Location {
    Choice::present(service).place(service.kind)
}

/// Bytes that its requests may touch: its items, else all that the process has.
fn working_set(service: &Service) -> f64 {
    let items = service.load.items.map(|(_, bytes)| bytes.0).filter(|bytes| *bytes > 0.0);
    items.or(service.load.resident.map(|bytes| bytes.0)).unwrap_or(1.0)
}

fn connections(services: &[(Port, &Service)]) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (link, count) in services.iter().flat_map(|(_, service)| &service.connections) {
        *all.entry(link.clone()).or_insert(0.0) += count.0;
    }
    all.retain(|_, count| *count > 0.0);
    all
}

/// What the workload has beside its classes; name and title are the caller's.
fn of_services(services: &[(Port, &Service)], kind: Kind) -> Beside {
    let sum = |of: &dyn Fn(&Service) -> f64| services.iter().map(|(_, service)| of(service)).sum::<f64>();
    let keys = sum(&|service| service.load.items.map_or(1.0, |(items, _)| items.0));
    // By Little's law, or as many as there are connections, if these are more.
    let stay = |service: &Service| match kind {
        Kind::Rec => service.stage("all"),
        _ => service.stages.values().map(|stage| stage.0).sum(),
    };
    let waiting = sum(&|service| service.rate.0 * stay(service) / 1e9);
    let under_way = sum(&|service| service.load.under_way.map_or(0.0, |count| count.0));
    let open: f64 = connections(services).values().sum();
    Beside {
        name: "live",
        title: String::new(),
        keys,
        skew: 0.0,
        working_set: sum(&working_set),
        window: waiting.max(under_way).max(open),
    }
}

fn under_way(services: &[(Port, &Service)], beside: &Beside) -> String {
    let open = connections(services);
    let links: Vec<_> = open.iter().map(|(link, count)| format!("{count:.0} {link}")).collect();
    let links = if links.is_empty() { "not told".to_owned() } else { links.join(", ") };
    let items = services.iter().filter_map(|(_, service)| service.load.items);
    let (items, bytes) = items.fold((0.0, 0.0), |sum, (items, bytes)| (sum.0 + items.0, sum.1 + bytes.0));
    let items = if items > 0.0 {
        format!("; {} items of {} B", short(items), digits(bytes / items))
    } else {
        String::new()
    };
    format!("connections: {links}; {} requests under way{items}", beside.window.max(1.0).ceil())
}

/// Stages, and what is not told, with what to do.
fn untold(
    services: &[(Port, &Service)],
    kind: Kind,
    methods: &[Method],
    has_cycles: bool,
    own: &Platform,
) -> Vec<String> {
    let mut said = Vec::new();
    for (port, service) in services {
        let stages = service.stages.iter().filter(|(_, time)| time.0 > 0.0);
        let stages: Vec<_> = stages.map(|(name, time)| format!("{name} {}", micros(time.0 / 1e3))).collect();
        said.push(format!("stages at {port}, on average: {}", stages.join(", ")));
    }
    let is_sized = services.iter().all(|(_, service)| {
        service
            .load
            .methods
            .iter()
            .all(|method| method.request_bytes.is_some() && method.reply_bytes.is_some())
    });
    let names = |of: &dyn Fn(&Method) -> bool| {
        let names: Vec<_> = methods.iter().filter(|method| of(method)).map(|method| &*method.name).collect();
        names.join(", ")
    };
    let sample = "registers of the node with PUT /registers/monitor.sample to 64 or less, or watch longer with --window";
    match kind {
        Kind::Rpc if !is_sized => said.push(format!(
            "sizes by method are not told: too few calls were timed. Those of all frames together are taken; set {sample}"
        )),
        Kind::Kv if !is_sized => said.push(
            "sizes by command are not told, by a node of an earlier version: those of all together are taken; --set workload.get.reply=1KiB gives another"
                .into(),
        ),
        Kind::Rec if services.iter().any(|(_, service)| service.load.rows.is_none()) => said.push(
            "rows of tables are not told: their time is in the cycles, so a machine that reads rows by itself is not credited with it".into(),
        ),
        _ => {}
    }
    if kind == Kind::Kv {
        said.push(
            "which keys are asked for is not told: all alike are taken. --set workload.skew=0.99 says otherwise; up --record and plan --trace know it".into(),
        );
    }
    let untimed = names(&|method| kind == Kind::Rpc && method.p99.is_none());
    if !untimed.is_empty() {
        said.push(format!(
            "p50 and p99 of {untimed} are not told: fewer than 40 calls were timed; set {sample}"
        ));
    }
    let none = names(&|method| method.request.is_none() || method.reply.is_none());
    if !none.is_empty() {
        said.push(format!("sizes of {none} are not told at all: 1 B and 0 B are taken; --set workload.NAME.request=… gives others"));
    }
    said.push(if has_cycles {
        let all = methods.iter().map(|method| method.cycles * method.rate).sum::<f64>();
        let rate = methods.iter().map(|method| method.rate).sum::<f64>();
        format!("{} cycles of a host core for a request, as its stage took, beside what {} has for it", digits(all / rate), own.name)
    } else {
        format!("cycles of a host core are not known: {} is of family {}, and no machine like the node's; 0 are taken", own.name, own.family)
    });
    said
}

fn at_nodes(services: &[(Port, &Service)], nodes: usize, methods: Vec<Method>) -> AtNodes {
    let most = |of: fn(&Service) -> Option<f64>| {
        let all: Option<Vec<f64>> = services.iter().map(|(_, service)| of(service)).collect();
        all.and_then(|all| all.into_iter().reduce(f64::max))
    };
    let routes: Vec<String> = services.iter().map(|(_, service)| route(service)).collect();
    AtNodes {
        nodes,
        rate: methods.iter().map(|method| method.rate).sum(),
        p50: most(|service| service.p50_ns.map(|ns| ns.0 / 1e9)),
        p99: most(|service| service.p99_ns.map(|ns| ns.0 / 1e9)),
        cores: services.iter().map(|(_, service)| service.cores_used()).sum(),
        placement: routes.first().filter(|first| routes.iter().all(|route| route == *first)).cloned(),
        methods,
    }
}

/// The way through the node that most of its connections take, as the planner calls it; by TCP where the model has no times of theirs.
fn route(service: &Service) -> String {
    let handler = match place(service) {
        Location::Edge => Handler::Edge,
        Location::Engine => Handler::Engine,
        Location::Host => Handler::HostThreads,
    };
    Route { link: link(service).unwrap_or(Link::Tcp), handler }.name()
}

impl AtNodes {
    /// What this machine is predicted to do for the placement that the nodes have, each with its part of the rate; none where it has no such way.
    pub(super) fn placed(
        &self,
        platform: &Platform,
        workload: &Workload,
        plan: Option<&Plan>,
        seed: u64,
    ) -> Result<Option<Placed>, PlanError> {
        let Some(name) = &self.placement else { return Ok(None) };
        let builder = families::builder(platform, workload)?;
        let setting = builder(platform, workload, seed)?;
        let Some(at) = setting.alternatives.iter().position(|way| way.name == *name) else { return Ok(None) };
        let nodes = self.nodes as f64;
        let rate = workload.rate.unwrap_or(self.rate) / nodes;
        let mut shares = vec![0.0; setting.alternatives.len()];
        shares[at] = 1.0;
        let span = OPERATIONS / rate;
        let ran = setting.run(&shares, Offered::Rate(rate), seed, picos(span / 4.0), picos(span));
        let single = plan.and_then(|plan| plan.alternatives.iter().find(|way| way.name == *name));
        Ok(Some(Placed {
            rate: ran.all.rate() * nodes,
            p50: ran.all.quantile(0.5),
            p99: ran.all.quantile(0.99),
            cores: ran.host_cores * nodes,
            most: single.map(|way| way.most * nodes),
        }))
    }

    /// Predicted beside measured.
    pub(super) fn beside(&self, placed: Option<Placed>, platform: &str) -> Vec<String> {
        let span = |seconds: Option<f64>| seconds.map_or("not told".into(), |seconds| micros(seconds * 1e6));
        let by = self.placement.as_deref().unwrap_or("several placements");
        let mut said = vec![format!(
            "measured: {}/s by {by}; p50 {}, p99 {} within the server; {} cores",
            short(self.rate),
            span(self.p50),
            span(self.p99),
            digits(self.cores)
        )];
        let Some(placed) = placed else {
            said.push(format!("predicted: nothing, since {platform} has no such placement"));
            return said;
        };
        let ratio = |predicted: f64, measured: Option<f64>| {
            let measured = measured.filter(|measured| *measured > 0.0);
            measured.map_or(String::new(), |measured| format!(" ({:.2} times)", predicted / measured))
        };
        let most = placed.most.map_or(String::new(), |most| format!("; {}/s at most", short(most)));
        said.push(format!(
            "predicted on {platform}: {}/s; p50 {}{}, p99 {}{}, from the client and back; {} cores{}{most}",
            short(placed.rate),
            micros(placed.p50 * 1e6),
            ratio(placed.p50, self.p50),
            micros(placed.p99 * 1e6),
            ratio(placed.p99, self.p99),
            digits(placed.cores),
            ratio(placed.cores, Some(self.cores)),
        ));
        said
    }
}

#[cfg(test)]
mod tests;
