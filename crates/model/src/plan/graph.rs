//! The machine as the planner sees it: what an operation of each alternative takes of each resource (a hypergraph: an alternative is an edge
//! that touches all resources on its way).
//!
//! Rows are resources; pools of tokens and the requests that clients have under way, by Little's law (so many operations per second, each holding
//! one for so long); and budgets. Resources that are told apart by a number only, and that are used alike (banks, ports of eleven clients), are one row.

use super::Limits;
use crate::alternative::{Alternative, Place, Setting};
use crate::kernel::{Hold, Kernel, ResourceId, Tokens};
use crate::workload::{Slo, Workload, calls};

/// What kind of limit a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Servers that work.
    Resource,
    /// Tokens that are held.
    Tokens,
    /// Requests that clients have under way.
    Window,
    /// What the workload or an objective allows.
    Budget,
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name; of several alike, their common one and how many they are.
    pub name: String,
    /// What kind.
    pub kind: Kind,
    /// Servers, tokens, requests, cores, watts: of all members.
    pub capacity: f64,
    /// Servers of each member.
    pub servers: u32,
    /// Resources that it stands for.
    pub members: Vec<String>,
}

/// Waits of an operation at a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stop {
    /// Which row.
    pub row: usize,
    /// How often the operation's end waits there, in the mean.
    pub visits: f64,
    /// Seconds of service of all visits.
    pub service: f64,
    /// Uses that nobody waits for.
    pub behind: f64,
    /// Seconds of service of these.
    pub behind_service: f64,
    /// Seconds that its wake-ups take if threads sleep there; the class's unloaded time has them.
    pub wake: f64,
    /// Seconds of host cores that these wake-ups take.
    pub wake_cores: f64,
    /// Seconds that a thread without work stays awake.
    pub awake: f64,
}

/// A class of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Of the graph's classes.
    pub class: usize,
    /// Of the alternative's operations; 0 of a class that only others call.
    pub share: f64,
    /// Seconds when nothing else is there.
    pub unloaded: f64,
    /// In the order in which they come.
    pub stops: Vec<Stop>,
}

/// An alternative.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Who answers.
    pub place: Place,
    /// Of each row: capacity times seconds that an operation takes.
    pub demand: Vec<f64>,
    /// Seconds when nothing else is there, in the mean.
    pub unloaded: f64,
    /// Seconds of a host core.
    pub host_cores: f64,
    /// Whether it keeps to budgets that leave nothing.
    pub allowed: bool,
    /// Joules beside what idles.
    pub joules: f64,
    /// Uses of resources: what it costs to simulate.
    pub uses: f64,
    /// Its classes.
    pub parts: Vec<Part>,
}

/// A class of the workload, whoever serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Requests of it that a request of a client comes to on average, with those that other classes call.
    pub rate: f64,
    /// What its latency is to keep.
    pub slo: Slo,
}

/// Alternatives over resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Limits.
    pub rows: Vec<Row>,
    /// Alternatives, in the setting's order.
    pub ways: Vec<Way>,
    /// Classes, in the workload's order.
    pub classes: Vec<Class>,
    /// Watts when nothing is done.
    pub idle: f64,
    /// Whether watts are known.
    pub has_power: bool,
    /// Requests that clients have under way.
    pub window: u64,
    /// Requests that come in one turn, on average: they find threads awake or asleep together, and share their wake-ups.
    pub together: f64,
}

impl Graph {
    /// Of a setting.
    pub fn of(setting: &Setting, workload: &Workload, limits: &Limits) -> Graph {
        let kernel = &setting.kernel;
        let mut graph = Graph {
            rows: Vec::new(),
            ways: setting.alternatives.iter().map(|way| of_way(setting, way)).collect(),
            classes: classes(workload),
            idle: setting.power.iter().map(|power| power.idle).sum(),
            has_power: !setting.power.is_empty(),
            window: workload.window,
            together: 1.0,
        };
        let row_of = graph.add_resources(setting);
        for (way, alternative) in graph.ways.iter_mut().zip(&setting.alternatives) {
            let of = |part| of_part(kernel, part, (&row_of, &graph.classes));
            way.parts = alternative.parts.iter().map(of).collect();
        }
        graph.add_pools(setting);
        let latencies = graph.ways.iter().map(|way| way.unloaded).collect();
        graph.add_row("requests of all clients", Kind::Window, workload.window as f64, latencies);
        let cores: Vec<f64> = graph.ways.iter().map(|way| way.host_cores).collect();
        if workload.host_cores == Some(0) {
            graph.ways.iter_mut().for_each(|way| way.allowed = way.host_cores == 0.0);
        } else if let Some(budget) = workload.host_cores {
            graph.add_row("host cores that the workload allows", Kind::Budget, budget as f64, cores.clone());
        }
        if let Some(budget) = limits.host_cores {
            graph.add_row("host cores that are allowed", Kind::Budget, budget, cores);
        }
        if let Some(budget) = limits.watts {
            let joules = graph.ways.iter().map(|way| way.joules).collect();
            graph.add_row("watts that are allowed", Kind::Budget, (budget - graph.idle).max(0.0), joules);
        }
        graph
    }

    fn add_row(&mut self, name: &str, kind: Kind, capacity: f64, demand: Vec<f64>) {
        self.rows.push(Row { name: name.into(), kind, capacity, servers: 0, members: Vec::new() });
        for (way, demand) in self.ways.iter_mut().zip(demand) {
            way.demand.push(demand);
        }
    }

    /// Rows of resources; for each resource its row.
    fn add_resources(&mut self, setting: &Setting) -> Vec<Option<usize>> {
        let kernel = &setting.kernel;
        let takes: Vec<Vec<f64>> =
            setting.alternatives.iter().map(|way| seconds_by_resource(kernel, way)).collect();
        let mut stems: Vec<String> = Vec::new();
        let row_of = kernel.all_resources().map(|id| {
            let at = id.0 as usize;
            let takes: Vec<f64> = takes.iter().map(|of_way| of_way[at]).collect();
            if takes.iter().all(|seconds| *seconds == 0.0) {
                return None;
            }
            let (name, servers) = (kernel.name_of(id), kernel.servers(id) as u32);
            let like = |row: &usize| {
                let (row, other) = (&self.rows[*row], *row);
                let members = row.members.len() as f64;
                let alike = |(way, seconds): (&Way, &f64)| {
                    let mean = way.demand[other] / members;
                    (mean - seconds).abs() <= 1e-3 * mean.max(*seconds)
                };
                stems[other] == stem(name)
                    && row.servers == servers
                    && self.ways.iter().zip(&takes).all(alike)
            };
            let found = (0..self.rows.len()).find(like);
            let row = found.unwrap_or_else(|| {
                stems.push(stem(name));
                self.add_row(name, Kind::Resource, 0.0, vec![0.0; takes.len()]);
                self.rows.len() - 1
            });
            self.rows[row].servers = servers;
            self.rows[row].capacity += f64::from(servers);
            self.rows[row].members.push(name.into());
            for (way, seconds) in self.ways.iter_mut().zip(takes) {
                way.demand[row] += seconds;
            }
            Some(row)
        });
        let row_of = row_of.collect();
        for (row, stem) in self.rows.iter_mut().zip(stems) {
            if row.members.len() > 1 {
                row.name = format!("{stem} ×{}", row.members.len());
            }
        }
        row_of
    }

    fn add_pools(&mut self, setting: &Setting) {
        let kernel = &setting.kernel;
        let mut pools: Vec<(Tokens, Vec<f64>)> = Vec::new();
        let mut threads: Vec<(usize, usize, Hold)> = Vec::new();
        for (at, alternative) in setting.alternatives.iter().enumerate() {
            for (number, part) in alternative.parts.iter().enumerate() {
                for hold in kernel.holds(part.program) {
                    let known = pools.iter().position(|(pool, _)| *pool == hold.pool);
                    let known = known.unwrap_or_else(|| {
                        pools.push((hold.pool, vec![0.0; setting.alternatives.len()]));
                        pools.len() - 1
                    });
                    pools[known].1[at] += part.share * hold.token_seconds;
                    if hold.threads > 0.0 {
                        threads.push((at, number, hold));
                    }
                }
            }
        }
        for (pool, held) in pools {
            let (name, tokens) = kernel.pool(pool);
            let kind = if kernel.are_threads(pool) { Kind::Resource } else { Kind::Tokens };
            self.add_row(name, kind, tokens as f64, held);
            let row = self.rows.len() - 1;
            self.rows[row].servers = tokens as u32;
            for (way, part, hold) in threads.iter().filter(|(_, _, hold)| hold.pool == pool) {
                let stop = stop_at(&mut self.ways[*way].parts[*part].stops, row);
                (stop.visits, stop.service) = (hold.threads, hold.token_seconds);
                (stop.wake, stop.awake) = (hold.wake, hold.awake);
                let by_host = hold.wake_work.iter().filter(|(at, _)| setting.host_cores.contains(at));
                stop.wake_cores = by_host.map(|(_, seconds)| seconds).sum();
            }
        }
    }

    /// Whether a class has limits of latency of its own.
    pub fn has_slo(&self) -> bool {
        self.classes.iter().any(|class| !class.slo.is_none())
    }

    /// Ways that may be used.
    pub fn allowed(&self) -> Vec<usize> {
        (0..self.ways.len()).filter(|way| self.ways[*way].allowed).collect()
    }

    /// What the rates (of each way, per second) take of each row, as a share of its capacity.
    pub fn utilisation(&self, rates: &[f64]) -> Vec<f64> {
        let of = |(at, row): (usize, &Row)| {
            let taken: f64 = self.ways.iter().zip(rates).map(|(way, rate)| way.demand[at] * rate).sum();
            if row.capacity > 0.0 { taken / row.capacity } else { 0.0 }
        };
        self.rows.iter().enumerate().map(of).collect()
    }

    /// Host cores that the rates keep busy.
    pub fn host_cores(&self, rates: &[f64]) -> f64 {
        self.ways.iter().zip(rates).map(|(way, rate)| way.host_cores * rate).sum()
    }

    /// Watts, with what idles; `None` where they are not known.
    pub fn watts(&self, rates: &[f64]) -> Option<f64> {
        let busy: f64 = self.ways.iter().zip(rates).map(|(way, rate)| way.joules * rate).sum();
        self.has_power.then_some(self.idle + busy)
    }
}

/// A name without the words that are numbers.
fn stem(name: &str) -> String {
    let words = name.split_whitespace().filter(|word| !word.bytes().all(|b| b.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

fn seconds_by_resource(kernel: &Kernel, way: &Alternative) -> Vec<f64> {
    let mut seconds = vec![0.0; kernel.all_resources().count()];
    for part in &way.parts {
        for demand in kernel.demand(part.program) {
            seconds[demand.at.0 as usize] += part.share * demand.service.as_secs_f64();
        }
    }
    seconds
}

fn of_way(setting: &Setting, alternative: &Alternative) -> Way {
    let kernel = &setting.kernel;
    let seconds = seconds_by_resource(kernel, alternative);
    let of = |at: &ResourceId| seconds[at.0 as usize];
    let busy = setting.power.iter().flat_map(|power| &power.busy);
    let sum = |of: &dyn Fn(crate::ProgramId) -> f64| -> f64 {
        alternative.parts.iter().map(|part| part.share * of(part.program)).sum()
    };
    Way {
        name: alternative.name.clone(),
        what: alternative.what.clone(),
        place: alternative.place,
        demand: Vec::new(),
        unloaded: sum(&|program| kernel.unloaded(program).as_secs_f64()),
        host_cores: setting.host_cores.iter().map(of).sum(),
        allowed: true,
        joules: busy.map(|(at, watts)| watts * of(at)).sum(),
        uses: sum(&|program| kernel.demand(program).iter().map(|demand| demand.uses as f64).sum()),
        parts: Vec::new(),
    }
}

fn classes(workload: &Workload) -> Vec<Class> {
    let rates = calls::rates(workload);
    let class = |(class, rate): (&crate::workload::Class, f64)| Class {
        name: class.name.clone(),
        rate,
        slo: class.slo,
    };
    workload.classes.iter().zip(rates).map(class).collect()
}

fn of_part(
    kernel: &Kernel,
    part: &crate::alternative::Part,
    (row_of, classes): (&[Option<usize>], &[Class]),
) -> Part {
    let mut stops: Vec<Stop> = Vec::new();
    for visit in kernel.visits(part.program) {
        if let Some(row) = row_of[visit.at.0 as usize] {
            let stop = stop_at(&mut stops, row);
            stop.visits += visit.visits;
            stop.service += visit.service;
        }
    }
    for demand in kernel.demand(part.program) {
        if let Some(row) = row_of[demand.at.0 as usize] {
            let stop = stop_at(&mut stops, row);
            stop.behind += demand.uses as f64;
            stop.behind_service += demand.service.as_secs_f64();
        }
    }
    // So far that is everything; what the end waits for is not behind it.
    for stop in &mut stops {
        let each = stop.behind_service / stop.behind.max(1.0);
        stop.behind_service = (stop.behind_service - stop.service).max(0.0);
        stop.behind = if each > 0.0 { stop.behind_service / each } else { 0.0 };
    }
    // What a caller's machine calls by a name of its own is the first.
    let class = classes.iter().position(|class| class.name == part.class).unwrap_or(0);
    Part { class, share: part.share, unloaded: kernel.unloaded(part.program).as_secs_f64(), stops }
}

fn stop_at(stops: &mut Vec<Stop>, row: usize) -> &mut Stop {
    let known = stops.iter().position(|stop| stop.row == row).unwrap_or_else(|| {
        stops.push(Stop { row, ..Stop::default() });
        stops.len() - 1
    });
    &mut stops[known]
}
