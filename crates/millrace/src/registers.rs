//! Registers: everything an operator may tune, as one list.
//!
//! Each has a name, a type with its unit, a range, a default and a sentence of help. The config file, `--set`, the HTTP
//! API, `millrace registers` and the metrics all read this list, so a register added here is everywhere at once. A *live* one
//! may change while the node runs and is read by its users on every pass; the others are read once at start.

use base::Bytes;
use serde::Serialize;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a register's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain count.
    Count,
    /// Bytes; written `64k`, `1GiB`.
    Size,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// `off` or `on`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// The unit as metrics and JSON name it.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Count => "count",
            Kind::Size => "bytes",
            Kind::Micros => "us",
            Kind::Seconds => "s",
            Kind::Switch => "switch",
            Kind::Choice(_) => "choice",
        }
    }
}

/// What is known of a register before anyone sets it.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Dotted name, as in the config file: `engine.group` is key `group` of table `[engine]`.
    pub name: &'static str,
    /// Type and unit.
    pub kind: Kind,
    /// Smallest value allowed.
    pub min: u64,
    /// Largest value allowed.
    pub max: u64,
    /// Value at start.
    pub default: u64,
    /// Whether it may change while the node runs.
    pub live: bool,
    /// One or two sentences for people.
    pub help: &'static str,
}

macro_rules! registers {
    ($($id:ident $name:literal $kind:expr, $min:expr, $max:expr, $default:expr, $live:ident, $help:literal;)*) => {
        /// A register's place in the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // each carries its help text in SPECS
        pub enum Id { $($id),* }

        /// The list itself, in the order of [`Id`].
        pub const SPECS: &[Spec] = &[$(Spec {
            name: $name, kind: $kind, min: $min, max: $max, default: $default,
            live: registers!(@live $live), help: $help,
        }),*];
    };
    (@live live) => { true };
    (@live start) => { false };
}

use Kind::{Choice, Count, Micros, Seconds, Size, Switch};

registers! {
    EngineForm "engine.form" Choice(&["plain", "staged", "coroutine"]), 0, 2, 1, live,
        "How the engine hides memory latency: not at all, by touching a group stage by stage, or by one coroutine per request.";
    EngineGroup "engine.group" Count, 1, 64, 16, live,
        "Requests touched together (staged) or interleaved (coroutine). 8 to 32 is useful; a core has about 16 misses outstanding.";
    EngineQuantum "engine.quantum" Count, 1, 4096, 64, live,
        "Requests admitted from one ring before the next ring has its turn.";
    EngineInFlight "engine.in_flight" Count, 1, 4096, 256, start,
        "Places in the in-flight table: requests that the engine has admitted and not yet answered.";
    EngineDeadline "engine.deadline" Micros, 0, 60_000_000, 0, live,
        "A request that has waited longer than this is answered SERVER_ERROR instead of being executed; 0 waits for ever.";
    EngineMode "engine.mode" Choice(&["shared", "dedicated"]), 0, 1, 0, start,
        "shared: whichever edge has work runs the engine. dedicated: a core of its own does, and edges only do I/O.";
    EdgeThreads "edge.threads" Count, 1, 256, 1, start,
        "Edge threads: each owns its connections and does their reads, parsing and writes (memcached's -t).";
    EdgePin "edge.pin" Switch, 0, 1, 0, start,
        "Pin edge thread i (and a dedicated engine after them) to the i-th allowed core.";
    EdgeBusyPoll "edge.busy_poll" Micros, 0, 1_000_000, 0, live,
        "How long an edge keeps polling its sockets and rings before it sleeps. Buys latency with CPU time.";
    EdgeReadBuffer "edge.read_buffer" Size, 2048, 1 << 20, 16 << 10, live,
        "Bytes that one read of one connection may take per wake-up.";
    RingEntries "ring.entries" Count, 16, 1 << 16, 1024, start,
        "Slots of the request ring between an edge and the engine, and of its response ring.";
    RingArena "ring.arena" Size, 256 << 10, 1 << 30, 1 << 20, start,
        "Bytes beside a response ring for the replies themselves. Values over an eighth of it travel out of line.";
    NetMaxConnections "net.max_connections" Count, 1, 1 << 20, 1024, live,
        "Connections beyond this are told so and closed (memcached's -c).";
    NetIdleTimeout "net.idle_timeout" Seconds, 0, 1 << 31, 0, live,
        "A connection that sent nothing for this long is closed; 0 never.";
    NetPipeline "net.pipeline" Count, 1, 1 << 16, 256, live,
        "Requests of one connection in flight per turn; the rest of its pipeline waits its turn, so others are served between.";
    NetBufferLimit "net.buffer_limit" Size, 1 << 20, 1 << 40, 256 << 20, live,
        "Bytes that all connections together may buffer (values arriving, replies that slow readers leave). Beyond it new large \
         values are refused and the slowest readers closed.";
    NetBacklog "net.backlog" Count, 1, 65535, 1024, start,
        "Listen backlog (memcached's -b).";
    UdpAmplification "udp.amplification" Count, 1, 1000, 10, live,
        "A UDP reply longer than this many times its request is refused, so that forged requests cannot flood a third party.";
    ShmEntries "shm.entries" Count, 16, 1 << 16, 1024, start,
        "Slots of each ring of a shared-memory connection.";
    ShmArena "shm.arena" Size, 64 << 10, 1 << 30, 4 << 20, start,
        "Bytes in each direction beside a shared-memory connection's rings. A message may take half of it.";
    ShmBusyPoll "shm.busy_poll" Micros, 0, 1_000_000, 50, live,
        "How long an edge keeps polling a shared-memory connection that has gone quiet before it sleeps on it. A wake-up costs \
         the client a system call and both some ten microseconds.";
    WaitSpin "wait.spin" Count, 0, 1 << 24, 64, live,
        "Dedicated engine: looks without a pause before whoever waits (engine for requests, edge for replies) starts to pause.";
    WaitPause "wait.pause" Count, 0, 1 << 24, 1024, live,
        "Dedicated engine: looks with a pause instruction between them before whoever waits goes to sleep.";
    WaitBlock "wait.block" Switch, 0, 1, 1, live,
        "Dedicated engine: whether whoever waits sleeps at last. off never sleeps and burns a core per thread.";
    StoreMemory "store.memory" Size, 8 << 20, 1 << 46, 64 << 20, live,
        "Memory for index and items together; never exceeded (memcached's -m, which leaves the index out).";
    StoreMode "store.mode" Choice(&["cache", "store"]), 0, 1, 0, start,
        "cache: evict when full. store: lose nothing, answer an error when full (memcached's -M).";
    StoreMaxValue "store.max_value" Size, 1 << 10, 1 << 30, 1 << 20, start,
        "Largest value accepted (memcached's -I).";
    StorePages "store.pages" Choice(&["base", "transparent", "2m", "1g"]), 0, 3, 1, start,
        "Pages under index and items: 4 KiB, transparent huge pages, or hugetlb pages reserved by the administrator.";
    StorePopulate "store.populate" Switch, 0, 1, 0, start,
        "Touch all memory at start, so that no later write pays for a first touch.";
    StoreFlushAll "store.flush_all" Switch, 0, 1, 1, start,
        "Whether clients may flush_all (memcached's -F turns it off).";
}

/// The values of all registers. Shared by reference; reading one is a relaxed load.
pub struct Registers {
    values: Vec<AtomicU64>,
}

/// Why a register was not set.
#[derive(Clone, Debug)]
pub enum SetError {
    /// No register has this name; the nearest name, if one is near.
    Unknown(String, Option<&'static str>),
    /// The text is not a value of the register's kind.
    NotAValue(&'static Spec, String),
    /// The number is outside the register's range.
    OutOfRange(&'static Spec, u64),
    /// The register is read once at start, and the node has started.
    NotLive(&'static Spec),
}

/// A register as people and programs are shown it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Dotted name.
    pub name: &'static str,
    /// Value as people write it.
    pub value: String,
    /// Value as a number.
    pub number: u64,
    /// Unit of the number.
    pub unit: &'static str,
    /// Smallest and largest number allowed.
    pub range: [u64; 2],
    /// Words allowed, for a choice.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub choices: &'static [&'static str],
    /// Default as people write it.
    pub default: String,
    /// Whether it may change while the node runs.
    pub live: bool,
    /// What it does.
    pub help: &'static str,
}

/// List all registers: name, default, range, what each does.
#[derive(clap::Args, Debug)]
pub struct List {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl List {
    /// Prints the list.
    ///
    /// # Errors
    /// When standard output is gone.
    pub fn run(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let all = Registers::default().show();
        if self.json {
            return writeln!(out, "{}", serde_json::to_string_pretty(&all)?);
        }
        for r in all {
            let range = match r.choices {
                [] => format!("{} to {} {}", r.range[0], r.range[1], r.unit),
                words => words.join(" | "),
            };
            let live = if r.live { "live" } else { "at start" };
            writeln!(out, "{} = {}   ({range}, {live})\n    {}", r.name, r.default, r.help)?;
        }
        Ok(())
    }
}

impl Spec {
    /// Reads what people write for this register.
    ///
    /// # Errors
    /// When the text is no value of the register's kind, or outside its range.
    pub fn parse(&'static self, text: &str) -> Result<u64, SetError> {
        let text = text.trim();
        let bad = || SetError::NotAValue(self, text.to_string());
        let number = match self.kind {
            Kind::Size => text.parse::<Bytes>().map_err(|_| bad())?.0,
            Kind::Count | Kind::Micros | Kind::Seconds => text.parse().map_err(|_| bad())?,
            Kind::Switch => match text {
                "on" | "true" | "yes" | "1" => 1,
                "off" | "false" | "no" | "0" => 0,
                _ => return Err(bad()),
            },
            Kind::Choice(words) => words.iter().position(|&w| w == text).ok_or_else(bad)? as u64,
        };
        if (self.min..=self.max).contains(&number) {
            Ok(number)
        } else {
            Err(SetError::OutOfRange(self, number))
        }
    }

    /// Writes `number` as people read it.
    pub fn show(&self, number: u64) -> String {
        match self.kind {
            Kind::Count => number.to_string(),
            Kind::Size if number.is_multiple_of(1 << 20) && number > 0 => format!("{}MiB", number >> 20),
            Kind::Size if number.is_multiple_of(1 << 10) && number > 0 => format!("{}KiB", number >> 10),
            Kind::Size => number.to_string(),
            Kind::Micros => number.to_string(),
            Kind::Seconds => number.to_string(),
            Kind::Switch => ["off", "on"][usize::from(number != 0)].to_string(),
            Kind::Choice(words) => words[number as usize].to_string(),
        }
    }
}

impl Default for Registers {
    fn default() -> Registers {
        Registers { values: SPECS.iter().map(|spec| AtomicU64::new(spec.default)).collect() }
    }
}

impl Registers {
    /// The value now.
    #[inline]
    pub fn read(&self, id: Id) -> u64 {
        self.values[id as usize].load(Ordering::Relaxed)
    }

    /// The value now, as a size or count.
    #[inline]
    pub fn size(&self, id: Id) -> usize {
        self.read(id) as usize
    }

    /// Whether a switch is on.
    pub fn is_on(&self, id: Id) -> bool {
        self.read(id) != 0
    }

    /// Sets a register of this program's own choosing.
    ///
    /// # Errors
    /// When `number` is outside its range.
    pub fn write(&self, id: Id, number: u64) -> Result<(), SetError> {
        let spec = &SPECS[id as usize];
        if !(spec.min..=spec.max).contains(&number) {
            return Err(SetError::OutOfRange(spec, number));
        }
        self.values[id as usize].store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Sets a register by name, from text, before the node starts.
    ///
    /// # Errors
    /// When there is no such register or no such value.
    pub fn set(&self, name: &str, text: &str) -> Result<(), SetError> {
        let at = Registers::find(name)?;
        self.values[at].store(SPECS[at].parse(text)?, Ordering::Relaxed);
        Ok(())
    }

    /// Sets a register by name, from text, while the node runs.
    ///
    /// # Errors
    /// As [`Registers::set`], and when the register is not live.
    pub fn set_live(&self, name: &str, text: &str) -> Result<(), SetError> {
        let spec = &SPECS[Registers::find(name)?];
        if spec.live { self.set(name, text) } else { Err(SetError::NotLive(spec)) }
    }

    /// All registers, for people and programs.
    pub fn show(&self) -> Vec<Shown> {
        SPECS.iter().enumerate().map(|(at, _)| self.show_at(at)).collect()
    }

    /// One register by name.
    ///
    /// # Errors
    /// When there is no such register.
    pub fn show_one(&self, name: &str) -> Result<Shown, SetError> {
        Ok(self.show_at(Registers::find(name)?))
    }

    fn show_at(&self, at: usize) -> Shown {
        let spec = &SPECS[at];
        let number = self.values[at].load(Ordering::Relaxed);
        Shown {
            name: spec.name,
            value: spec.show(number),
            number,
            unit: spec.kind.unit(),
            range: [spec.min, spec.max],
            choices: if let Choice(words) = spec.kind { words } else { &[] },
            default: spec.show(spec.default),
            live: spec.live,
            help: spec.help,
        }
    }

    fn find(name: &str) -> Result<usize, SetError> {
        SPECS.iter().position(|spec| spec.name == name).ok_or_else(|| {
            let tail = name.rsplit('.').next().unwrap_or(name);
            let near = SPECS.iter().map(|spec| spec.name).find(|n| n.rsplit('.').next() == Some(tail));
            let near =
                near.or_else(|| SPECS.iter().map(|s| s.name).find(|n| !tail.is_empty() && n.contains(tail)));
            SetError::Unknown(name.to_string(), near)
        })
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.show().into_iter().map(|r| (r.name, r.value))).finish()
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name, Some(near)) => {
                write!(f, "there is no register {name:?}; did you mean {near:?}?")
            }
            SetError::Unknown(name, None) => {
                write!(f, "there is no register {name:?}; `millrace registers` lists them")
            }
            SetError::NotAValue(spec, text) => {
                let wants = match spec.kind {
                    Kind::Count => "a whole number".to_string(),
                    Kind::Size => "a size such as 64k or 2GiB".to_string(),
                    Kind::Micros => "a whole number of microseconds".to_string(),
                    Kind::Seconds => "a whole number of seconds".to_string(),
                    Kind::Switch => "on or off".to_string(),
                    Kind::Choice(words) => format!("one of {}", words.join(", ")),
                };
                write!(f, "register {} takes {wants}, not {text:?}", spec.name)
            }
            SetError::OutOfRange(spec, number) => write!(
                f,
                "register {} takes {} to {}, not {}",
                spec.name,
                spec.show(spec.min),
                spec.show(spec.max),
                number
            ),
            SetError::NotLive(spec) => {
                write!(
                    f,
                    "register {} is read once at start; set it in the config file or with --set and restart",
                    spec.name
                )
            }
        }
    }
}

impl std::error::Error for SetError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_range_and_survives_show_and_parse() {
        for spec in SPECS {
            assert!((spec.min..=spec.max).contains(&spec.default), "{}", spec.name);
            assert_eq!(spec.parse(&spec.show(spec.default)).ok(), Some(spec.default), "{}", spec.name);
            assert!(spec.name.split_once('.').is_some(), "{} has a table and a key", spec.name);
            assert!(spec.help.ends_with('.'), "{} has a whole sentence of help", spec.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = SPECS.iter().map(|s| s.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SPECS.len());
    }

    #[test]
    fn setting_checks_name_kind_range_and_liveness() {
        let registers = Registers::default();
        registers.set("store.memory", "1GiB").expect("a size");
        assert_eq!(registers.read(Id::StoreMemory), 1 << 30);
        registers.set_live("engine.form", "coroutine").expect("live");
        assert_eq!(registers.read(Id::EngineForm), 2);
        let error = |r: Result<(), SetError>| r.expect_err("refused").to_string();
        assert!(error(registers.set("engine.grup", "1")).contains("millrace registers"));
        assert!(error(registers.set("group", "1")).contains("engine.group"));
        assert!(error(registers.set("engine.group", "many")).contains("whole number"));
        assert!(error(registers.set("engine.group", "65")).contains("1 to 64"));
        assert!(error(registers.set("engine.form", "magic")).contains("plain, staged, coroutine"));
        assert!(error(registers.set_live("ring.entries", "64")).contains("restart"));
        assert_eq!(registers.read(Id::EngineGroup), 16, "a refused value changes nothing");
    }
}
