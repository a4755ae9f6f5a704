//! A node of four services, two of them caches, whose costs depend on where they are, in a way that no predictor knows; its pages as its admin port writes
//! them; and its faults, one a look at most.

use super::super::choice::{Choice, Setting};
use super::{register, registers};
use crate::observed::{Kind, MEMORY, Register};
use base::Prng;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counters of misses of evicted keys.
const GHOSTS: [&str; 4] = ["1", "2", "3", "4"];
/// Cores of the node.
pub(super) const CORES: f64 = 4.0;
const MIB_64: u64 = 64 << 20;
/// One look in so many has a fault.
const FAULT_EVERY: u64 = 4;
/// One look in so many has another load.
const LOAD_EVERY: u64 = 40;

/// What a node did with a look.
pub(super) struct Answer {
    /// Metrics and registers, or that nothing came.
    pub pages: Result<(String, String), String>,
    /// How long it took.
    pub late_us: u64,
    /// What is wrong with a figure, and of which service.
    pub lie: Option<String>,
    pub liar: Option<String>,
    /// How long engine cores have been busy, in seconds.
    pub engine_s: f64,
    /// Which load it is.
    pub load: u64,
}

/// What a cache has of memory, in bytes, and how much it would have to find most of what it is asked.
struct Memory {
    limit: f64,
    used: f64,
    scale: f64,
}

/// Bytes of an item, and keys of evicted ones that a cache remembers.
const ITEM: f64 = 1024.0;
const GHOST_ROOM: f64 = 16384.0;

impl Memory {
    /// The share of gets that so many bytes find.
    fn hits(&self, bytes: f64) -> f64 {
        1.0 - (-bytes / self.scale).exp()
    }

    /// What it may have or has.
    fn most(&self) -> f64 {
        self.limit.max(self.used)
    }

    /// Its part of the page of metrics.
    fn page(&self, count: &dyn Fn(&str) -> f64, line: &mut dyn FnMut(&str, &str, f64)) {
        for (outcome, all) in [("hit", count("hits")), ("miss", count("misses"))] {
            let labels = format!(",command=\"get\",outcome=\"{outcome}\"");
            line("kv_command_outcomes_total", &labels, all);
        }
        for quarter in GHOSTS {
            line("kv_ghost_misses_total", &format!(",quarter=\"{quarter}\""), count(quarter));
        }
        line("kv_items_removed_total", ",reason=\"evicted\"", count("misses"));
        line("kv_memory_began_info", ",how=\"anonymous\"", 1.0);
        line("kv_memory_limit_bytes", "", self.limit);
        line("kv_memory_bytes", "", self.used.floor());
        line("kv_items", "", (self.used / ITEM).floor());
        line("kv_ghost_room_items", "", GHOST_ROOM);
    }
}

struct Server {
    memory: Option<Memory>,
    name: &'static str,
    kind: Kind,
    registers: Vec<Register>,
    rate: f64,
    counters: BTreeMap<String, f64>,
}

pub(super) struct World {
    random: Prng,
    servers: Vec<Server>,
    cpu: f64,
    threads: BTreeMap<&'static str, f64>,
    load: u64,
    seed: u64,
    last_us: u64,
    has_lied: Option<&'static str>,
    /// What caches may have together, by whoever set them besides the placer.
    promised: f64,
    pub violations: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let server = |name, kind| {
            let mut own = registers(kind);
            if kind == Kind::Kv {
                own.insert(0, register(MEMORY, MIB_64, [MIB_64 / 8, 1 << 46], &[]));
                own.insert(
                    0,
                    Register { live: false, ..register("store.mode", 0, [0, 1], &["cache", "store"]) },
                );
            }
            let limit = MIB_64 as f64;
            let memory = (kind == Kind::Kv).then_some(Memory { limit, used: limit, scale: limit });
            Server { memory, name, kind, registers: own, rate: 5e3, counters: BTreeMap::new() }
        };
        World {
            random: Prng::new(seed),
            servers: vec![
                server("cache", Kind::Kv),
                server("demo", Kind::Rpc),
                server("rank", Kind::Rec),
                server("pool", Kind::Kv),
            ],
            cpu: 1.0,
            threads: BTreeMap::new(),
            load: 0,
            seed,
            last_us: 0,
            has_lied: None,
            promised: 2.0 * MIB_64 as f64,
            violations: Vec::new(),
        }
    }

    fn one_of(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    /// What a request of a server costs where it is: some hundreds of nanoseconds to some hundred microseconds.
    fn cost_s(seed: u64, server: &Server, load: u64) -> f64 {
        let mut text = format!("{seed} {} {load}", server.name);
        for register in server.registers.iter().filter(|register| register.name != MEMORY) {
            let _ = write!(text, " {}", register.number);
        }
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        1e-6 * f64::powf(10.0, 2.0 * ((hash >> 11) as f64 / (1u64 << 53) as f64))
    }

    /// Serves until then, and answers, with a fault perhaps.
    pub(super) fn answer(&mut self, now_us: u64) -> Answer {
        self.serve((now_us - self.last_us) as f64 / 1e6);
        self.last_us = now_us;
        if self.one_of(LOAD_EVERY) {
            self.load += 1;
            for at in 0..self.servers.len() {
                self.servers[at].rate = 10f64.powf(2.0 + 2.0 * self.random.below(1000) as f64 / 1000.0);
                let scale = MIB_64 as f64 * 2f64.powf(self.random.below(5) as f64 - 2.0);
                self.servers[at].memory.iter_mut().for_each(|memory| memory.scale = scale);
            }
        }
        let mut answer = Answer {
            pages: Ok(self.pages()),
            late_us: self.random.below(50_000),
            lie: None,
            liar: None,
            engine_s: self.threads.get("engine-0").copied().unwrap_or(0.0),
            load: self.load,
        };
        // What was a lie is corrected by the next page, whose difference to it is none either.
        if let Some(name) = self.has_lied.take() {
            answer.liar = Some(name.to_owned());
        }
        if self.one_of(FAULT_EVERY) && answer.liar.is_none() {
            self.fault(&mut answer);
        }
        answer
    }

    fn serve(&mut self, seconds: f64) {
        let (seed, load) = (self.seed, self.load);
        let (is_full, is_slow) = (self.one_of(10), self.one_of(3));
        let mut engine = if is_full { seconds } else { 0.1 * seconds };
        for server in &mut self.servers {
            let cost = World::cost_s(seed, server, load);
            let done = (server.rate * seconds).min(seconds / cost).floor();
            let busy = done * cost;
            let (own, stages): (&str, &[&str]) = match server.kind {
                Kind::Kv => ("edge-0", &["receive", "queue", "execute", "reply", "send"]),
                Kind::Rpc => ("rpc-server", &["handle", "queue", "reply"]),
                Kind::Rec => ("rec-fabric", &[]),
            };
            *self.threads.entry(own).or_insert(0.0) += busy;
            self.cpu += busy;
            let mut add =
                |name: &str, more: f64| *server.counters.entry(name.to_owned()).or_insert(0.0) += more;
            add("requests", done);
            add("bytes", done * 100.0);
            stages.iter().for_each(|stage| add(stage, done * cost / stages.len() as f64));
            add("busy", busy / 2.0);
            if let Some(memory) = &mut server.memory {
                let misses = done * (1.0 - memory.hits(memory.used));
                add("hits", done - misses);
                add("misses", misses);
                for (quarter, name) in GHOSTS.into_iter().enumerate() {
                    let end = |nth: usize| memory.hits(memory.used + nth as f64 * GHOST_ROOM / 4.0 * ITEM);
                    add(name, done * (end(quarter + 1) - end(quarter)));
                }
                memory.used = match memory.used > memory.limit {
                    // It shrinks with the operations that follow.
                    true if is_slow => memory.used,
                    true => memory.limit,
                    false => (memory.used + misses * ITEM).min(memory.limit),
                };
            }
            if server.kind == Kind::Rec {
                engine += busy / 2.0;
            }
        }
        let engine = engine.min(seconds);
        *self.threads.entry("engine-0").or_insert(0.0) += engine;
        self.cpu = (self.cpu + engine).min(self.cpu + CORES * seconds);
    }

    fn pages(&self) -> (String, String) {
        let mut page = format!("process_cpu_seconds_total {}\nprocess_start_time_seconds 5\n", self.cpu);
        for (name, seconds) in &self.threads {
            let _ = writeln!(page, "process_thread_cpu_seconds_total{{thread=\"{name}\"}} {seconds}");
        }
        let mut rows = Vec::new();
        for server in &self.servers {
            rows.extend(server.registers.iter().map(|register| {
                let mut row = serde_json::to_value(register).expect("a register is plain data");
                row["name"] = format!("{}.{}", server.name, register.name).into();
                row
            }));
            let count = |name: &str| server.counters.get(name).copied().unwrap_or(0.0);
            let (requests, service) = (count("requests"), format!("service=\"{}\"", server.name));
            let mut line = |family: &str, labels: &str, value: f64| {
                let _ = writeln!(page, "millrace_{family}{{{service}{labels}}} {value}");
            };
            let mut stage = |family: &str, more: &str, stage: &str| {
                let labels = format!("{more},stage=\"{stage}\"");
                line(&format!("{family}_sum"), &labels, count(stage));
                line(&format!("{family}_count"), &labels, requests);
                let mean = if requests > 0.0 { count(stage) / requests } else { 0.0 };
                for end in [1e-6, 1e-5, 1e-4, 1e-3] {
                    let within = if mean <= end { requests } else { 0.0 };
                    line(&format!("{family}_bucket"), &format!("{labels},le=\"{end}\""), within);
                }
                line(&format!("{family}_bucket"), &format!("{labels},le=\"+Inf\""), requests);
            };
            match server.kind {
                Kind::Kv => {
                    ["receive", "queue", "execute", "reply", "send"]
                        .iter()
                        .for_each(|name| stage("kv_stage_seconds", "", name));
                    for family in
                        ["kv_requests_total", "kv_requests_executed_total", "kv_engine_passes_total"]
                    {
                        line(family, "", requests);
                    }
                    line("kv_received_bytes_total", "", count("bytes"));
                    server.memory.iter().for_each(|memory| memory.page(&count, &mut line));
                }
                Kind::Rpc => {
                    let side = ",side=\"server\"";
                    ["handle", "queue", "reply"]
                        .iter()
                        .for_each(|name| stage("rpc_stage_seconds", side, name));
                    line("rpc_calls_started_total", &format!("{side},method=\"/a.B/C\""), requests);
                    line("rpc_calls_ended_total", &format!("{side},method=\"/a.B/C\",code=\"OK\""), requests);
                }
                Kind::Rec => {
                    line("rec_requests_taken_total", "", requests);
                    line("rec_requests_total", ",outcome=\"answered\"", requests);
                    line("rec_queries_total", "", requests);
                    line("rec_batches_total", "", requests);
                    line("rec_busy_seconds_total", ",thread=\"engine\"", count("busy"));
                    line("rec_busy_seconds_total", ",thread=\"preprocess\"", count("busy"));
                    line("rec_request_time_seconds_total", ",part=\"all\"", 3.0 * count("busy"));
                }
            }
        }
        (page, serde_json::to_string(&rows).expect("rows are plain data"))
    }

    fn fault(&mut self, answer: &mut Answer) {
        match self.random.below(9) {
            0 => answer.pages = Err("it does not answer".to_owned()),
            1 => answer.pages = Ok(("<html>".to_owned(), "[]".to_owned())),
            2 => answer.pages = Ok((String::new(), "{}".to_owned())),
            3 => answer.late_us = 2_100_000 + self.random.below(60_000_000),
            4..=5 => self.lie(answer),
            6 => self.other_hand(),
            7 => self.hand_on_memory(answer),
            _ => self.shrink(answer),
        }
    }

    /// A counter that is no number, or none that can follow the last.
    fn lie(&mut self, answer: &mut Answer) {
        let (liar, family) = [
            ("cache", "millrace_kv_ghost_misses_total"),
            ("cache", "millrace_kv_requests_total"),
            ("demo", "millrace_rpc_calls_started_total"),
            ("rank", "millrace_rec_requests_taken_total"),
        ][self.random.below(4) as usize];
        let value = ["NaN", "+Inf", "-Inf", "-5", "0", "1e300"][self.random.below(6) as usize];
        let Ok((metrics, _)) = &mut answer.pages else { return };
        let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<f64>().ok());
        if !metrics.lines().any(|line| line.starts_with(family) && count(line) > Some(0.0)) {
            return;
        }
        let changed = metrics.lines().map(|line| match line.rsplit_once(' ') {
            Some((labels, _)) if line.starts_with(family) => format!("{labels} {value}\n"),
            _ => format!("{line}\n"),
        });
        *metrics = changed.collect();
        answer.lie = Some(format!("{family} = {value}"));
        answer.liar = Some(liar.to_owned());
        self.has_lied = Some(liar);
    }

    /// An operator sets something himself.
    fn other_hand(&mut self) {
        let at = self.random.below(self.servers.len() as u64) as usize;
        let server = &mut self.servers[at];
        let last = server.registers.len() - 1;
        let register = &mut server.registers[last];
        register.number = (register.number + 1) % (register.range[1] + 1);
    }

    /// An operator sets what a cache may have. A placer that sets it between two of its looks would undo that: nothing but the node could tell.
    fn hand_on_memory(&mut self, answer: &mut Answer) {
        let at = if self.one_of(2) { 0 } else { 3 };
        let bytes = (32 + self.random.below(64)) << 20;
        let server = &mut self.servers[at];
        let own = server.registers.iter_mut().find(|one| one.name == MEMORY).expect("a cache");
        own.number = bytes;
        let memory = server.memory.as_mut().expect("a cache");
        self.promised += bytes as f64 - memory.limit;
        memory.limit = bytes as f64;
        answer.pages = Ok(self.pages());
    }

    /// A cache may have so much: together they never have more than what they were promised, nor does one take what another has not given yet.
    fn set_memory(&mut self, name: &str, bytes: f64) {
        let server = self.servers.iter_mut().find(|server| server.name == name);
        let memory = server.and_then(|server| server.memory.as_mut()).expect("a cache");
        let is_more = bytes > memory.limit;
        memory.limit = bytes;
        let sum: f64 =
            self.servers.iter().filter_map(|server| server.memory.as_ref()).map(Memory::most).sum();
        if is_more && sum > self.promised {
            self.violations.push(format!("{name} takes {bytes}: {sum} of {} together", self.promised));
        }
    }

    /// A register takes less than before, or nothing, for this look.
    fn shrink(&mut self, answer: &mut Answer) {
        let at = self.random.below(self.servers.len() as u64) as usize;
        let is_start_only = self.one_of(2);
        let kept = self.servers[at].registers.clone();
        for register in &mut self.servers[at].registers {
            if is_start_only {
                register.live = false;
            } else {
                register.range = [register.number, register.number];
            }
        }
        answer.pages = Ok(self.pages());
        self.servers[at].registers = kept;
    }

    /// Sets registers; now and then one refuses, and those before it are put back.
    pub(super) fn set(&mut self, name: &str, settings: &[Setting], from: &Choice) -> Result<(), String> {
        let (refuses, is_lost) = (self.one_of(6), self.one_of(8));
        let server = self.servers.iter_mut().find(|server| server.name == name).ok_or("no such service")?;
        for setting in settings {
            let register = server.registers.iter_mut().find(|one| one.name == setting.register);
            let register = register.ok_or("no such register")?;
            if refuses {
                register.number =
                    register.number_of(from.value(&setting.register)).unwrap_or(register.number);
                return Err("503: it is busy".to_owned());
            }
            register.number = register.number_of(&setting.value).ok_or("out of range")?;
        }
        let Some(bytes) = settings.iter().find(|one| one.register == MEMORY) else { return Ok(()) };
        self.set_memory(name, bytes.value.parse().expect("bytes"));
        // It is done, and nobody is told.
        if is_lost { Err("no answer within 2 s".to_owned()) } else { Ok(()) }
    }
}
