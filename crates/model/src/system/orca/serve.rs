//! What each server does for a piece of work: programs from a client's doorbell to the client's knowing the response.
//!
//! * **Host cores**: two-sided RPC. A core takes a batch together; that hides memory's latency behind other requests up to its line fill buffers,
//!   and a request leaves with its batch.
//! * **SmartNIC cores**: the same with a cache of the host's data; what misses is read from the host by RDMA, few reads at once per core.
//! * **Accelerator**: rings in host memory, cpoll, table of requests under way, WQEs and doorbells by itself. A batch is responses of one doorbell, and no
//!   response waits for it: the NIC may take a WQE before the doorbell rings.

use super::machine::{Fabric, Machine, Message, Own, host_seconds, span};
use crate::component::coherent::lines;
use crate::component::{LINE, Towards};
use crate::kernel::{Kernel, ProgramId, Service, Step};
use crate::platform::{LoadError, Platform};
use crate::popularity;
use base::Picos;

/// What one operation needs; see [`crate::workload::Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes that come.
    pub request: u64,
    /// Bytes that go.
    pub reply: u64,
    /// Dependent accesses.
    pub accesses: u64,
    /// Bytes of each.
    pub access: u64,
    /// Rows that are read at once.
    pub rows: u64,
    /// Bytes of each.
    pub row: u64,
    /// Bytes to be stored.
    pub store: u64,
    /// Machines that store them; 0 and 1 are this one alone.
    pub copies: u64,
    /// Cycles of a host core.
    pub cycles: f64,
    /// Protobuf fields.
    pub fields: u64,
}

/// What hits and batches depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Popularity {
    /// Different keys or rows.
    pub keys: u64,
    /// Zipf's theta.
    pub skew: f64,
    /// Bytes of each.
    pub entry: u64,
}

impl Popularity {
    /// The hit rate of a cache of `bytes`.
    pub fn hits(&self, bytes: u64) -> f64 {
        popularity::head_share(self.keys, self.skew, (bytes / self.entry.max(1)).max(1))
    }
}

/// How an accelerator learns of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// The rings are the cpoll region.
    Pinned,
    /// A pointer of 4 bytes beside them is; the NIC writes both for one WQE (UMR).
    Pointers,
    /// The same with two WQEs: two messages.
    TwoWrites,
}

/// Where an accelerator's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// In host memory.
    Host,
    /// In its own.
    Local,
}

/// Builds programs of one machine.
#[derive(Debug)]
pub struct Servers<'a> {
    /// The machine.
    pub machine: Machine,
    platform: &'a Platform,
    popularity: Popularity,
    batch: u64,
    /// Of a request in its batch, 0 (the last to come, which waits for nobody) to 1.
    place: f64,
}

impl<'a> Servers<'a> {
    /// On that machine.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(
        platform: &'a Platform,
        host_cores: u64,
        popularity: Popularity,
        batch: u64,
        seed: u64,
    ) -> Result<Servers<'a>, LoadError> {
        let machine = Machine::new(platform, host_cores, seed)?;
        Ok(Servers { machine, platform, popularity, batch, place: 0.5 })
    }

    /// A server that is a part of a machine: see [`Machine::around`].
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn around(
        platform: &'a Platform,
        host_cores: u64,
        (popularity, batch): (Popularity, u64),
        kernel: Kernel,
    ) -> Result<Servers<'a>, LoadError> {
        let machine = Machine::around(platform, host_cores, kernel)?;
        Ok(Servers { machine, platform, popularity, batch, place: 0.5 })
    }

    /// Programs that follow are of requests at this place of their batch, 0 to 1: how much of it they wait for. The mean otherwise.
    pub fn at_place(&mut self, place: f64) {
        self.place = place;
    }

    /// Mean latency of a line for a host core or the home agent.
    pub fn line_latency(&self) -> Result<f64, LoadError> {
        let hits = self.popularity.hits(self.platform.bytes("host.llc")?);
        let (llc, memory) = (self.machine.numbers.llc, self.machine.memory.latency());
        Ok(hits * llc.as_secs_f64() + (1.0 - hits) * memory.as_secs_f64())
    }

    /// A host core is busy with this so long, in seconds.
    pub fn host_time(&self, work: &Work) -> Result<f64, LoadError> {
        self.core_time(work, self.line_latency()?)
    }

    fn core_time(&self, work: &Work, line: f64) -> Result<f64, LoadError> {
        let cycles = |name: &str| self.platform.value(name, crate::platform::unit::Dimension::Cycles);
        let once = cycles("host.batch")? / self.batch as f64;
        let fields = work.fields as f64 * cycles("host.field")?;
        let instructions = cycles("host.request")? + cycles("host.two_sided")? + once + fields;
        let own = host_seconds(self.platform, work.cycles)?;
        let together = self.platform.count("host.memory_parallelism")?;
        let parallel = |count: u64| count.min(together) as f64;
        let stream = self.platform.count("host.stream_lines")? as f64;
        let waits = (work.accesses * lines(work.access)) as f64 / parallel(self.batch)
            + if work.store == 0 { 0.0 } else { lines(work.store) as f64 / stream };
        // A stream of rows overlaps with the arithmetic on them.
        let rows = (work.rows * lines(work.row)) as f64 / stream * line;
        let body = if work.rows > 0 { own.max(rows) } else { own };
        Ok(host_seconds(self.platform, instructions)? + waits * line + body)
    }

    /// Host cores serve it.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn host(&mut self, work: &Work) -> Result<ProgramId, LoadError> {
        let mut steps = self.machine.request(Message::TwoSided, work.request);
        steps.push(self.memory_written(work.request));
        steps.extend(self.at_host(work)?);
        steps.extend(self.posted_by_host(work.reply));
        steps.extend(self.machine.response(Message::TwoSided, work.reply));
        Ok(self.machine.kernel.program("host cores", steps))
    }

    /// The NIC writes a message into host memory, with what says that it has come.
    pub(super) fn memory_written(&self, request: u64) -> Step {
        self.machine.to_host(request + LINE)
    }

    /// The core whose request it is works on it.
    pub(super) fn host_core(&self, work: &Work) -> Result<Step, LoadError> {
        Ok(own_core(self.machine.host, self.host_time(work)?))
    }

    /// What host cores do, from the message in memory to the response.
    pub(super) fn at_host(&mut self, work: &Work) -> Result<Vec<Step>, LoadError> {
        let busy = self.host_time(work)?;
        let mut steps = vec![own_core(self.machine.host, busy)];
        steps.extend(self.batch_wait(busy));
        steps.extend(self.host_memory(work)?);
        steps.extend(self.copies(work));
        Ok(steps)
    }

    /// A core has the NIC send a response: alone with the doorbell, of a batch by DMA.
    pub(super) fn posted_by_host(&self, reply: u64) -> Vec<Step> {
        if self.batch == 1 {
            return vec![self.machine.to_nic(LINE + reply)];
        }
        let mut steps = vec![self.machine.to_nic(8)];
        steps.extend(self.machine.nic_reads(LINE + reply));
        steps
    }

    /// The SmartNIC's cores serve it: shares and programs of what hits their cache and of what misses.
    ///
    /// # Errors
    /// The platform lacks a number, or has no SmartNIC.
    pub fn soc(&mut self, work: &Work) -> Result<Vec<(f64, ProgramId)>, LoadError> {
        let parts = self.soc_hits()?.into_iter();
        parts.map(|(share, hit)| Ok((share, self.soc_program(work, hit)?))).collect()
    }

    /// The SmartNIC's cores serve it, hitting or missing their cache.
    ///
    /// # Errors
    /// The platform lacks a number, or has no SmartNIC.
    pub fn soc_program(&mut self, work: &Work, hit: bool) -> Result<ProgramId, LoadError> {
        let mut steps = self.machine.request(Message::TwoSided, work.request);
        steps.extend(self.at_soc(work, hit)?);
        steps.extend(self.machine.response(Message::TwoSided, work.reply));
        Ok(self.machine.kernel.program("SmartNIC cores", steps))
    }

    /// What the SmartNIC does, from its NIC units having the request to their having the response.
    pub(super) fn at_soc(&mut self, work: &Work, hit: bool) -> Result<Vec<Step>, LoadError> {
        let Some((cores, _)) = self.machine.soc else {
            let (platform, number) = (self.platform.name.clone(), "soc.cores above 0".into());
            return Err(LoadError::Missing { platform, number });
        };
        let memory = self.machine.memory.latency().as_secs_f64();
        let busy = self.core_time(work, memory)? / self.platform.ratio("soc.speed")?;
        let internal = self.platform.span("soc.internal")?;
        let post = self.platform.span("soc.read_post")?.as_secs_f64();
        let mut steps = vec![Step::Wait(internal), own_core(cores, busy)];
        steps.extend(self.batch_wait(busy));
        if !hit {
            let read = self.remote_read(work.access.max(1))?;
            for _ in 0..work.accesses {
                steps.extend([own_core(cores, post), Step::Each(read, 1)]);
            }
            if work.rows > 0 {
                let row = self.remote_read(work.row)?;
                steps.extend([own_core(cores, post * work.rows as f64), Step::Each(row, work.rows as u32)]);
            }
        }
        if work.store > 0 {
            steps.extend([own_core(cores, post), self.machine.pass_nic(), self.machine.to_host(work.store)]);
        }
        steps.extend(self.copies(work));
        steps.push(Step::Wait(internal));
        Ok(steps)
    }

    /// Shares of what hits the SmartNIC's cache, and of what misses it.
    pub(super) fn soc_hits(&self) -> Result<Vec<(f64, bool)>, LoadError> {
        let hits = self.popularity.hits(self.platform.bytes("soc.cache")?);
        Ok([(hits, true), (1.0 - hits, false)].into_iter().filter(|(share, _)| *share > 0.0).collect())
    }

    /// The SmartNIC's core reads host memory by RDMA.
    fn remote_read(&mut self, bytes: u64) -> Result<ProgramId, LoadError> {
        let notice = self.platform.span("soc.read_notice")?;
        let (_, reads) = self.machine.soc.expect("whoever reads is there");
        let pcie = &self.machine.pcie;
        let (forth, back) = (pcie.link.read(bytes).forth, pcie.link.read(bytes).back);
        let steps = [
            Step::Take(reads, 1),
            Step::Wait(notice),
            self.machine.pass_nic(),
            pcie.carry(forth, Towards::Host),
            Step::Wait(self.machine.memory.latency()),
            pcie.carry(back, Towards::Device),
            Step::Wait(notice),
            Step::Give(reads, 1),
        ];
        Ok(self.machine.kernel.program("RDMA read of host memory", steps))
    }

    /// The accelerator serves it.
    ///
    /// # Errors
    /// The platform lacks a number, an accelerator, or memory of its own where `data` wants it.
    pub fn accelerator(&mut self, work: &Work, data: Data, rings: Rings) -> Result<ProgramId, LoadError> {
        let mut steps = self.machine.request(Message::OneSided, work.request);
        match rings {
            Rings::Pinned => steps.push(self.ring_written(work.request)),
            Rings::Pointers => steps.extend(self.ring_and_pointer(work.request)),
            Rings::TwoWrites => {
                steps.push(self.ring_written(work.request));
                // Right behind the other, whose way its latency overlaps.
                let mut second = self.machine.request(Message::OneSided, 4);
                second.push(self.machine.to_host(4));
                steps.insert(0, Step::Fork(self.machine.kernel.program("pointer", second)));
            }
        }
        steps.extend(self.at_accelerator(work, data)?);
        steps.extend(self.posted_by_accelerator(work.reply));
        steps.extend(self.machine.response(Message::OneSided, work.reply));
        Ok(self.machine.kernel.program("accelerator", steps))
    }

    /// The NIC writes a request into a ring in host memory.
    fn ring_written(&self, request: u64) -> Step {
        self.machine.to_host(request + self.machine.numbers.rpc)
    }

    /// And the pointer beside it.
    pub(super) fn ring_and_pointer(&self, request: u64) -> [Step; 2] {
        [self.ring_written(request), self.machine.to_host(4)]
    }

    /// What the accelerator does, from the request in its ring to the response's WQE.
    pub(super) fn at_accelerator(&mut self, work: &Work, data: Data) -> Result<Vec<Step>, LoadError> {
        let missing =
            |number: &str| LoadError::Missing { platform: self.platform.name.clone(), number: number.into() };
        let fabric = self.machine.fabric.ok_or_else(|| missing("interconnect.clock"))?;
        if data == Data::Local && fabric.local.is_none() {
            return Err(missing("local.capacity"));
        }
        let mut steps = fabric.endpoint.signal().to_vec();
        steps.push(self.machine.hardware_late());
        steps.extend(fabric.unit.enter());
        let arrived = Step::Wait(self.machine.numbers.llc);
        steps.extend(fabric.endpoint.read(work.request + self.machine.numbers.rpc, &[arrived]));
        steps.extend(self.in_accelerator(&fabric, work, data)?);
        steps.extend(self.copies(work));
        steps.extend(self.respond(&fabric, work.reply)?);
        Ok(steps)
    }

    /// One doorbell of 8 bytes for the batch; the NIC fetches WQE and data.
    pub(super) fn posted_by_accelerator(&self, reply: u64) -> Vec<Step> {
        let doorbell = self.machine.pcie.link.write(8).forth;
        let shared = crate::pcie::Load { bytes: doorbell.bytes.div_ceil(self.batch), ..doorbell };
        let mut steps = vec![self.machine.pcie.carry(shared, Towards::Device)];
        steps.extend(self.machine.nic_reads(LINE + reply));
        steps
    }

    fn in_accelerator(&mut self, fabric: &Fabric, work: &Work, data: Data) -> Result<Vec<Step>, LoadError> {
        let cycles = |name: &str| self.platform.value(name, crate::platform::unit::Dimension::Cycles);
        let (hash, step) = (cycles("accelerator.hash")?, cycles("accelerator.step")?);
        let home = span(self.line_latency()?);
        let mut steps = vec![fabric.unit.pass(hash)];
        for _ in 0..work.accesses {
            steps.push(fabric.unit.pass(step));
            match (data, &fabric.local) {
                (Data::Local, Some(local)) => steps.extend(local.access(work.access)),
                _ => {
                    steps.push(self.machine.hardware_late());
                    steps.extend(fabric.endpoint.read(work.access, &[Step::Wait(home)]));
                }
            }
        }
        if work.rows > 0 {
            steps.extend(self.reduce(fabric, work, data, home)?);
        } else if work.cycles > 0.0 {
            steps.extend(self.by_host(fabric, work.cycles)?);
        }
        if work.store > 0 {
            match (data, &fabric.local) {
                (Data::Local, Some(local)) => steps.extend(local.access(work.store)),
                _ => steps.extend(fabric.endpoint.write(work.store)),
            }
        }
        Ok(steps)
    }

    /// Rows are read so many lines at once, each query in a lane; what comes after the last of an iteration waits for the next.
    fn reduce(
        &mut self,
        fabric: &Fabric,
        work: &Work,
        data: Data,
        home: Picos,
    ) -> Result<Vec<Step>, LoadError> {
        let count = work.rows * lines(work.row);
        let at_once = self.platform.count("accelerator.rows_in_flight")?;
        let busy = |latency: Picos, interval: Picos| {
            span(
                latency.as_secs_f64() * count.div_ceil(at_once) as f64
                    + interval.as_secs_f64() * count as f64,
            )
        };
        let (lane, memory, charge) = match (data, &fabric.local) {
            (Data::Local, Some(local)) => {
                let cycle = self.platform.service("accelerator.clock", 1)?;
                (busy(local.latency(), cycle), *local, None)
            }
            _ => {
                let endpoint = &fabric.endpoint;
                let charge = self.machine.kernel.program("lines of rows", endpoint.charge(count));
                (busy(endpoint.read_latency(home), endpoint.interval()), self.machine.memory, Some(charge))
            }
        };
        let stream = self.machine.kernel.program("rows", [memory.stream(work.rows * work.row)]);
        let mut steps: Vec<_> = charge.map(Step::Fork).into_iter().collect();
        steps.extend([fabric.unit.lanes.busy(lane), Step::Each(stream, memory.channels())]);
        Ok(steps)
    }

    /// What the accelerator cannot do goes over the ring to a host core and back.
    fn by_host(&mut self, fabric: &Fabric, cycles: f64) -> Result<Vec<Step>, LoadError> {
        let mut steps = fabric.endpoint.write(LINE);
        steps.push(Step::Wait(self.machine.numbers.home));
        steps.push(own_core(self.machine.host, host_seconds(self.platform, cycles)?));
        steps.extend(fabric.endpoint.signal());
        Ok(steps)
    }

    /// WQE and fence. Who posts is taken until the fence is passed, which waits for the WQEs' way there and
    /// back, once a batch; a response waits for its own WQE's way.
    fn respond(&mut self, fabric: &Fabric, reply: u64) -> Result<Vec<Step>, LoadError> {
        let doorbell = self.platform.cycles("accelerator.doorbell", "accelerator.clock")?;
        let way = fabric.endpoint.round_trip();
        let share = Picos(way.plus(doorbell).0 / self.batch);
        let after = Picos((way.0 / 2).saturating_sub(share.0));
        let wqe = self.machine.kernel.program("WQE", fabric.endpoint.write(LINE + reply));
        let service = Service::Fixed(share);
        let mut steps = vec![Step::Fork(wqe), Step::Use { at: fabric.responses, service, units: 1, after }];
        steps.push(fabric.unit.leave());
        Ok(steps)
    }

    /// A request leaves with its batch, the time of those behind it later.
    fn batch_wait(&self, busy: f64) -> Option<Step> {
        (self.batch > 1).then(|| Step::Wait(span(busy * (self.batch - 1) as f64 * self.place)))
    }

    /// What host memory carries: rows and stores, which may fill it, are waited for; single lines are only counted.
    fn host_memory(&mut self, work: &Work) -> Result<Vec<Step>, LoadError> {
        let memory = self.machine.memory;
        let kernel = &mut self.machine.kernel;
        let mut steps = vec![];
        if work.accesses > 0 {
            let access = kernel.program("access", memory.access(work.access));
            let all = kernel.program("accesses", [Step::Each(access, work.accesses as u32)]);
            steps.push(Step::Fork(all));
        }
        let missed = 1.0 - self.popularity.hits(self.platform.bytes("host.llc")?);
        let bytes = (work.rows * work.row) as f64 * missed + work.store as f64;
        if bytes > 0.0 {
            let stream = kernel.program("stream", [memory.stream(bytes as u64)]);
            steps.push(Step::Each(stream, memory.channels()));
        }
        Ok(steps)
    }

    /// Further machines store it too, in a chain: one message out and an acknowledgement in, and each machine's time beyond.
    fn copies(&mut self, work: &Work) -> Vec<Step> {
        if work.copies < 2 {
            return vec![];
        }
        let network = self.machine.network;
        let hop = Picos(2 * (network.latency.0 + self.machine.numbers.nic.0 + self.machine.pcie.latency.0));
        let further = Picos(hop.0 * (work.copies - 2));
        vec![
            self.machine.pass_nic(),
            network.reply(work.store),
            Step::Wait(hop.plus(further)),
            network.send(0),
            self.machine.pass_nic(),
        ]
    }
}

/// Work of so many seconds in the mean on the core whose request it is: software takes now more, now less.
fn own_core(cores: Own, seconds: f64) -> Step {
    let (first, count) = (cores.first, cores.count);
    let service = Service::Exponential(span(seconds));
    Step::Pick { first, count, service, units: 1, after: Picos::ZERO }
}
