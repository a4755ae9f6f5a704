//! Any workload on this machine by messages, for the planner: cores of the host or of the SoC answer, or clients read by themselves.
//!
//! * **host**: SEND/RECV to the host's cores (path ①).
//! * **SoC**: SEND/RECV to the SoC's cores (path ②). Its memory holds what is most popular; what it does not hold it copies from the host with its
//!   DMA engine, access by access (③*), and writes back so.
//! * **READs**: clients read index and value of what needs no core with one READ after the other (path ①); the rest goes to the host.
//!
//! A core works through a class's needs alone: dependent accesses wait for memory one by one, rows and stores as many lines at once as it has fill
//! buffers, protobuf fields take cycles. The SoC's cores need more cycles for the same work. Copies on other machines are WRITEs that the answering side
//! posts together and waits for.
//!
//! The published case studies have settings of their own that know more; this is for everything else.

use super::machine::{Card, Machine, Side};
use super::verbs::Verb;
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::kernel::{ProgramId, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform, picos};
use crate::popularity;
use crate::workload::{Class, Workload};
use base::Picos;

/// Requester machines.
const CLIENTS: usize = 11;
const LINE: u64 = 64;

/// What work costs a core of a side.
#[derive(Clone, Copy, Debug)]
struct Costs {
    hertz: f64,
    /// Cycles for one of the host's.
    slower: f64,
    /// Waiting for memory.
    miss: Picos,
    /// Lines under way at once.
    overlap: u64,
    /// Cycles of a field, decoded or encoded.
    field: f64,
}

impl Costs {
    fn of(platform: &Platform, side: Side) -> Result<Costs, LoadError> {
        let (name, slower) = match side {
            Side::Host => ("host", 1.0),
            Side::Soc => ("soc", platform.ratio("soc.slower")?),
        };
        Ok(Costs {
            hertz: platform.value(&format!("{name}.clock"), Dimension::Frequency)?,
            slower,
            miss: platform.span(&format!("{name}.miss"))?,
            overlap: platform.count(&format!("{name}.overlap"))?.max(1),
            field: platform.value("host.field", Dimension::Cycles)?,
        })
    }

    fn cycles(&self, class: &Class) -> Picos {
        picos((class.cycles + class.fields as f64 * self.field) * self.slower / self.hertz)
    }

    fn lines(&self, bytes: u64) -> Picos {
        Picos(self.miss.0 * bytes.div_ceil(LINE) / self.overlap)
    }

    /// Everything, with the data in this side's memory.
    fn work(&self, class: &Class) -> Picos {
        let lookups = Picos(self.miss.0 * class.lookups);
        let rows = self.lines(class.rows * class.row.div_ceil(LINE) * LINE);
        [self.cycles(class), lookups, rows, self.lines(class.store)]
            .into_iter()
            .fold(Picos::ZERO, Picos::plus)
    }
}

struct Served<'a> {
    machine: Machine,
    workload: &'a Workload,
    host: Costs,
    soc: Costs,
    /// Share of the accesses that the SoC's memory serves.
    held: f64,
    /// From a WRITE's last bit on the wire to its acknowledgement, on another machine.
    acknowledged: Picos,
}

/// The ways to serve a workload.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let entry = (workload.working_set / workload.keys.max(1)).max(1);
    let fitting = platform.bytes("soc.memory")? / entry;
    let mut served = Served {
        machine: Machine::new(platform, Card::Snic, CLIENTS, seed)?,
        workload,
        host: Costs::of(platform, Side::Host)?,
        soc: Costs::of(platform, Side::Soc)?,
        held: popularity::head_share(workload.keys, workload.skew, fitting.max(1)),
        acknowledged: platform.span("network.latency")?.plus(platform.span("pcie.pass")?),
    };
    let mut alternatives = vec![
        served.alternative("host", "SEND/RECV to the host's cores", Place::Host, Served::by_host),
        served.alternative(
            "SoC",
            "SEND/RECV to the SoC's cores, host memory by DMA",
            Place::NicCores,
            Served::by_soc,
        ),
    ];
    let readable = workload.classes.iter().filter(|class| by_itself(class)).count();
    if readable > 0 {
        let place = if readable == workload.classes.len() { Place::Client } else { Place::Several };
        let what = "clients READ index and value in host memory; what needs cores goes to the host";
        alternatives.push(served.alternative("READs", what, place, Served::by_reads));
    }
    let host_cores = vec![served.machine.processor(Side::Host).cores.at];
    let arguments = served.machine.blocks(Side::Soc, workload.working_set);
    Ok(Setting { kernel: served.machine.kernel, alternatives, host_cores, power: vec![], arguments })
}

/// Whether a client can do it with READs alone.
fn by_itself(class: &Class) -> bool {
    class.cacheable && class.store == 0 && class.rows == 0 && class.fields == 0
}

type Shares = Vec<(f64, ProgramId)>;

impl Served<'_> {
    fn alternative(
        &mut self,
        name: &str,
        what: &str,
        place: Place,
        programs: fn(&mut Self, usize, &Class) -> Shares,
    ) -> Alternative {
        let mut parts = Vec::new();
        for class in &self.workload.classes {
            for client in 0..CLIENTS {
                for (share, program) in programs(self, client, class) {
                    let share = share * class.share / CLIENTS as f64;
                    parts.push(Part { class: class.name.clone(), share, program });
                }
            }
        }
        Alternative { name: name.into(), what: what.into(), place, parts }
    }

    fn by_host(&mut self, client: usize, class: &Class) -> Shares {
        let mut work = vec![self.machine.processor(Side::Host).cores.busy(self.host.work(class))];
        work.extend(self.copies(Side::Host, class));
        vec![(1.0, self.message(client, Side::Host, class, work))]
    }

    fn by_soc(&mut self, client: usize, class: &Class) -> Shares {
        let cores = self.machine.processor(Side::Soc).cores;
        let mut held = vec![cores.busy(self.soc.work(class))];
        held.extend(self.copies(Side::Soc, class));
        let near = self.message(client, Side::Soc, class, held);
        if self.held >= 1.0 {
            return vec![(1.0, near)];
        }
        // What has been copied is worked through as if it had been there.
        let mut work = Vec::new();
        for _ in 0..class.lookups {
            work.extend(self.machine.by_dma_steps(Verb::Read, class.lookup));
        }
        if class.rows > 0 {
            let row = self.machine.by_dma(Verb::Read, class.row);
            work.push(Step::Each(row, class.rows as u32));
        }
        work.push(cores.busy(self.soc.work(class)));
        if class.store > 0 {
            work.extend(self.machine.by_dma_steps(Verb::Write, class.store));
        }
        work.extend(self.copies(Side::Soc, class));
        vec![(self.held, near), (1.0 - self.held, self.message(client, Side::Soc, class, work))]
    }

    fn by_reads(&mut self, client: usize, class: &Class) -> Shares {
        if !by_itself(class) {
            return self.by_host(client, class);
        }
        // The last access finds the value; those before it say where it is.
        let mut steps = Vec::new();
        for _ in 1..class.lookups {
            steps.extend(self.machine.one_sided_steps(client, Verb::Read, Side::Host, class.lookup, 1));
        }
        steps.extend(self.machine.one_sided_steps(client, Verb::Read, Side::Host, class.reply, 1));
        vec![(1.0, self.machine.kernel.program(&class.name, steps))]
    }

    fn message(&mut self, client: usize, side: Side, class: &Class, work: Vec<Step>) -> ProgramId {
        let steps = self.machine.two_sided_steps(client, side, (class.request, class.reply), (0.0, work));
        self.machine.kernel.program(&class.name, steps)
    }

    /// WRITEs of what is stored to further machines, all at once.
    fn copies(&mut self, side: Side, class: &Class) -> Option<Step> {
        let further = class.copies.saturating_sub(1);
        if further == 0 || class.store == 0 {
            return None;
        }
        let mut steps = self.machine.posted_by(side, 1);
        steps.extend(self.machine.fabric.nic_reads(side, class.store));
        steps.extend([self.machine.nic.pass(side), self.machine.port.reply(class.store)]);
        steps.push(Step::Wait(self.acknowledged));
        let copy = self.machine.kernel.program("copy", steps);
        Some(Step::Each(copy, further as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;
    use crate::workload::shipped::SHIPPED;

    fn of(name: &str, change: impl Fn(&mut Workload)) -> Setting {
        let platform = shipped("bluefield2-ib").expect("it is shipped").expect("it is sound");
        let mut workload = crate::workload::shipped::shipped(name).expect("shipped").expect("sound");
        change(&mut workload);
        setting(&platform, &workload, 1).expect("it is complete")
    }

    #[test]
    fn every_shipped_workload_can_be_served_and_shares_add_up() {
        for (name, _) in SHIPPED {
            let setting = of(name, |_| ());
            assert!(setting.alternatives.len() >= 2, "{name}");
            for way in &setting.alternatives {
                let sum: f64 = way.parts.iter().map(|part| part.share).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{name}, {}: {sum}", way.name);
                assert!(way.parts.iter().all(|part| setting.kernel.unloaded(part.program) > Picos::ZERO));
            }
        }
    }

    #[test]
    fn what_the_soc_does_not_hold_costs_it_more() {
        let mean = |working_set: u64| {
            let setting = of("embedding-reduction", |workload| workload.working_set = working_set);
            let parts = setting.alternatives[1].parts.iter();
            parts.map(|part| part.share * setting.kernel.unloaded(part.program).as_secs_f64()).sum::<f64>()
        };
        assert!(mean(64 << 30) > mean(1 << 30));
    }
}
