//! A host's numbers, read from its platform file.

use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use base::Picos;

/// What memory is like when so many bytes are touched at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkingSet {
    /// Bytes.
    pub bytes: f64,
    /// Seconds until a line is there that the core waits for.
    pub latency: f64,
    /// Seconds between lines when it waits for many.
    pub line: f64,
}

/// The numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// From small to large.
    pub sets: Vec<WorkingSet>,
    /// Bits per second of a sequential read.
    pub stream: f64,
    /// Processors that threads may run on.
    pub processors: u64,
    /// Cycles per second of one.
    pub clock: f64,
    /// A line to another core and back.
    pub ping_pong: Picos,
    /// Between lines that one core writes one by one and another reads.
    pub line_single: Picos,
    /// The same, handed over in batches of 32.
    pub line_batch: Picos,
    /// A look at all sockets.
    pub epoll: Picos,
    /// Sending a datagram, to where it waits at the other socket.
    pub udp_send: Picos,
    /// Taking one that waits.
    pub udp_receive: Picos,
    /// Sending a small message over a connection, to where it waits at the other socket.
    pub tcp_send: Picos,
    /// Taking one that waits.
    pub tcp_receive: Picos,
    /// Bits per second at which sending and taking grow with a message.
    pub tcp_copy: f64,
    /// Sending a byte through a Unix socket.
    pub bell_send: Picos,
    /// Taking it.
    pub bell_receive: Picos,
    /// From the call that wakes a sleeping thread to its first instruction.
    pub wake: Picos,
    /// The same where the sleeper's core has just become idle.
    pub wake_soon: Picos,
    /// How long a core is idle until a wake-up takes as long as of one that has slept for long.
    pub long_sleep: Picos,
    /// Of which the one who wakes is busy.
    pub wake_call: Picos,
    /// From the call that wakes a thread of the same core to its first instruction.
    pub switch: Picos,
    /// A GET of the store whose lines are in the first-level cache.
    pub get: Picos,
    /// The same in groups.
    pub get_staged: Picos,
    /// Suspending and resuming a coroutine.
    pub resume: Picos,
    /// A message through a ring, both halves by one core.
    pub ring: Picos,
    /// A call over a ring pair, all four halves by one core.
    pub echo: Picos,
    /// A call of the fabric, both ends: serialising, frames, routing, parsing.
    pub call: Picos,
    /// A request of the node beside sockets and store: frame, parsing, engine, reply.
    pub request: Picos,
    /// A coherence machine takes a packet and makes one: parsing, tables, checksum.
    pub machine: Picos,
}

/// No step of a host takes longer, in seconds.
const SPAN_MAX: f64 = 1.0;

/// What numbers of a host can be, in base units: what is beyond makes arithmetic of nothing.
const SOUND: [(Dimension, std::ops::RangeInclusive<f64>); 5] = [
    (Dimension::Time, 0.0..=SPAN_MAX),
    (Dimension::Frequency, 1e6..=1e12),
    (Dimension::Bandwidth, 1e6..=1e15),
    (Dimension::Size, 1.0..=1e18),
    (Dimension::Count, 1.0..=4096.0),
];

/// Which end of its numbers' ranges a host is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that takes time takes as little as it believably could.
    Fast,
    /// … as much as it could.
    Slow,
}

fn check(platform: &Platform) -> Result<(), LoadError> {
    for (name, number) in platform.numbers() {
        let sound = SOUND.iter().find(|(dimension, _)| *dimension == number.unit.dimension);
        let Some((_, sound)) = sound.filter(|(_, sound)| !sound.contains(&number.base())) else { continue };
        let (least, most) = (sound.start() / number.unit.scale, sound.end() / number.unit.scale);
        let (value, unit) = (number.value, number.unit.name);
        return Err(LoadError::File {
            file: platform.name.clone(),
            line: number.line,
            why: format!(
                "{name} is {value} {unit}, which is not between {least} and {most}: no host is so; measure it again with millrace model this-host"
            ),
        });
    }
    Ok(())
}

impl Host {
    /// Of a platform of this family, with its numbers at these ends of their ranges.
    ///
    /// # Errors
    /// See [`Host::of`].
    pub fn at_end(platform: &Platform, end: End) -> Result<Host, LoadError> {
        let mut moved = platform.unread();
        for (name, number) in platform.numbers() {
            let (least, most) = number.range;
            let is_least = match number.unit.dimension {
                Dimension::Time => end == End::Fast,
                Dimension::Frequency | Dimension::Bandwidth => end == End::Slow,
                _ => continue,
            };
            moved = moved.with(name, if is_least { least } else { most });
        }
        Host::of(&moved)
    }

    /// Of a platform of this family.
    ///
    /// # Errors
    /// A number is missing, of another kind, or one that no host has.
    pub fn of(platform: &Platform) -> Result<Host, LoadError> {
        check(platform)?;
        let span = |name: &str| platform.span(name);
        let set = |number| {
            let seconds =
                |name: &str| platform.value(&format!("memory.set_{number}.{name}"), Dimension::Time);
            let bytes = platform.bytes(&format!("memory.set_{number}.size"))? as f64;
            Ok(WorkingSet { bytes, latency: seconds("latency")?, line: seconds("line")? })
        };
        let mut sets =
            (1..=platform.count("memory.sets")?).map(set).collect::<Result<Vec<_>, LoadError>>()?;
        sets.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        Ok(Host {
            sets,
            stream: platform.bandwidth("memory.stream")?,
            processors: platform.count("cores.processors")?,
            clock: platform.value("cores.clock", Dimension::Frequency)?,
            ping_pong: span("cores.ping_pong")?,
            line_single: span("cores.line_single")?,
            line_batch: span("cores.line_batch")?,
            epoll: span("kernel.epoll")?,
            udp_send: span("kernel.udp_send")?,
            udp_receive: span("kernel.udp_receive")?,
            tcp_send: span("kernel.tcp_send")?,
            tcp_receive: span("kernel.tcp_receive")?,
            tcp_copy: platform.bandwidth("kernel.tcp_copy")?,
            bell_send: span("kernel.bell_send")?,
            bell_receive: span("kernel.bell_receive")?,
            wake: span("kernel.wake")?,
            wake_soon: span("kernel.wake_soon")?,
            long_sleep: span("kernel.long_sleep")?,
            wake_call: span("kernel.wake_call")?,
            switch: span("kernel.switch")?,
            get: span("code.get")?,
            get_staged: span("code.get_staged")?,
            resume: span("code.resume")?,
            ring: span("code.ring")?,
            echo: span("code.echo")?,
            call: span("code.call")?,
            request: span("code.request")?,
            machine: span("code.machine")?,
        })
    }

    /// Latency and line time of a working set of so many bytes: between neighbours linear over the logarithm of the size.
    ///
    /// # Panics
    /// If the platform has no set: `memory.sets` is at least 1 in a file of the probe.
    pub fn memory(&self, bytes: u64) -> (Picos, Picos) {
        let at = |set: &WorkingSet| (set.latency, set.line);
        let bytes = bytes as f64;
        let above = self.sets.partition_point(|set| set.bytes < bytes);
        let (latency, line) = match (above.checked_sub(1).map(|i| &self.sets[i]), self.sets.get(above)) {
            (Some(low), Some(high)) => {
                let share = crate::random::ln(bytes / low.bytes) / crate::random::ln(high.bytes / low.bytes);
                let between = |a: f64, b: f64| a + (b - a) * share;
                (between(low.latency, high.latency), between(low.line, high.line))
            }
            (None, Some(only)) | (Some(only), None) => at(only),
            (None, None) => panic!("a host has a working set"),
        };
        (picos(latency), picos(line))
    }

    /// The same for who has counted hits of the first-level cache in his code's own time: only what a line costs beyond one.
    pub fn miss(&self, bytes: u64) -> (Picos, Picos) {
        let near = self.sets.first().map_or(Picos::ZERO, |set| picos(set.latency));
        let (latency, line) = self.memory(bytes);
        (latency.since(near), line.min(latency.since(near)))
    }

    /// What so many lines take that are asked for at once, in the same terms.
    pub fn misses(&self, bytes: u64, lines: u64) -> Picos {
        let (latency, line) = self.miss(bytes);
        if lines == 0 { Picos::ZERO } else { latency.plus(Picos(line.0 * (lines - 1))) }
    }
}
