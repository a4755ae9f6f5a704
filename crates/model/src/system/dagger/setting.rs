//! Ways to serve a workload of RPCs on this machine, for the planner: the NIC with each of its interfaces, and stacks in software.
//!
//! The NIC does the stack and a host core the handler, so that these ways are of several places; with a stack in software the host does all.
//!
//! Callers are other machines with the same NIC or stack; what they and the network take is time, not this machine's resources. The handler runs on
//! the core that received the call: dependent lookups one after the other, rows as many at once as a core has fill buffers, Protobuf fields
//! by the core on every way, for the NIC knows flat messages only. Further copies are calls to their machines, all at once, before the reply.
//!
//! Batches lower a core's work for each call; that their first members wait for the last is left to the experiments, since under a load that needs batches
//! they fill in less time than a crossing takes. Buses are charged as for calls one by one.
//!
//! A stack in software is what its authors published: a core's time for each call, and the rest of its round trip as latency.

use super::interface::Interface;
use super::machine::{Machine, Side, lines};
use crate::alternative::{Alternative, Part, Place, Setting};
use crate::component::Cores;
use crate::kernel::{ProgramId, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::workload::{Class, Workload};
use base::Picos;

const INTERFACES: [Interface; 6] = [
    Interface::MMIO,
    Interface::doorbell(1),
    Interface::doorbell(11),
    Interface::upi(1),
    Interface::upi(4),
    Interface::upi_direct(4),
];

/// The ways for this workload.
///
/// # Errors
/// The platform lacks a number.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let mut machine = Machine::new(platform, Interface::MMIO, 0, seed)?;
    let count = workload.host_cores.map_or_else(|| platform.count("host.cores"), Ok)?.max(1);
    let hertz = platform.value("core.clock", Dimension::Frequency)?;
    let cores = Cores::new(&mut machine.kernel, "host cores", count, hertz);
    let ways = Ways {
        cores,
        half_tor: Picos(platform.span("network.tor")?.0 / 2),
        memory: platform.span("host.memory")?,
        overlap: platform.count("host.overlap")?,
        field: platform.cycles("host.field", "core.clock")?,
        line: platform.cycles("core.more_line", "core.clock")?,
    };
    let mut alternatives = Vec::new();
    for interface in INTERFACES {
        machine.interface = interface;
        alternatives.push(alternative(
            format!("RPC NIC, {interface}"),
            "the NIC does the stack, a host core the handler".into(),
            workload,
            Place::Several,
            |class| ways.by_nic(&mut machine, class),
        ));
    }
    for (stack, rate, rtt) in
        [("eRPC", "rivals.erpc_rate", "rivals.erpc_rtt"), ("IX", "rivals.ix_rate", "rivals.ix_rtt")]
    {
        let (each, rtt) = (platform.service(rate, 1)?, platform.span(rtt)?);
        alternatives.push(alternative(
            format!("software stack, {stack}"),
            "a host core does stack and handler".into(),
            workload,
            Place::Host,
            |class| ways.by_software(&mut machine, class, each, rtt),
        ));
    }
    let host_cores = vec![cores.at];
    Ok(Setting { kernel: machine.kernel, alternatives, host_cores, power: vec![], arguments: 1 })
}

fn alternative(
    name: String,
    what: String,
    workload: &Workload,
    place: Place,
    mut program: impl FnMut(&Class) -> ProgramId,
) -> Alternative {
    let part =
        |class: &Class| Part { class: class.name.clone(), share: class.share, program: program(class) };
    let parts = workload.classes.iter().map(part).collect();
    Alternative { name, what, place, parts }
}

struct Ways {
    cores: Cores,
    half_tor: Picos,
    memory: Picos,
    overlap: u64,
    field: Picos,
    line: Picos,
}

impl Ways {
    /// What a core does for the handler.
    fn handler(&self, class: &Class) -> Picos {
        let each = |span: Picos, times: u64| Picos(span.0 * times);
        let further = |bytes: u64| each(self.line, lines(bytes) - 1);
        let lookups = each(self.memory.plus(further(class.lookup)), class.lookups);
        let row_lines = if class.rows == 0 { 0 } else { class.rows * lines(class.row) };
        let rows = Picos(self.memory.0 * row_lines / self.overlap);
        let store = each(self.line, class.store.div_ceil(64));
        let fields = each(self.field, class.fields);
        [self.cores.span(class.cycles), lookups, rows, store, fields]
            .into_iter()
            .fold(Picos::ZERO, Picos::plus)
    }

    fn further_copies(class: &Class) -> u64 {
        class.copies.saturating_sub(1)
    }

    fn by_nic(&self, machine: &mut Machine, class: &Class) -> ProgramId {
        let batch = machine.interface.batch;
        let close = Picos(machine.close().0 / batch);
        let (request, reply) = (class.request, class.reply);
        let caller = self.caller(machine, class);
        let arrive = machine.arrive(Side::Server, lines(request));
        let leave = machine.leave(Side::Server, lines(reply));
        let receive = machine.complete(request).plus(self.handler(class));
        let send = machine.post(reply).plus(close);
        let mut steps = vec![Step::Wait(caller), Step::Wait(self.half_tor)];
        steps.extend(arrive);
        match Self::further_copies(class) {
            0 => steps.push(self.cores.busy(receive.plus(send))),
            copies => {
                let one = machine.post(class.store).plus(close).plus(machine.complete(64));
                steps.push(self.cores.busy(receive.plus(Picos(one.0 * copies))));
                // A call like the client's, to a machine like this one.
                let there = self.far(machine, class.store, 64).plus(machine.complete(class.store));
                steps.push(Step::Wait(there.plus(self.half_tor).plus(self.half_tor)));
                steps.push(self.cores.busy(send));
            }
        }
        steps.extend(leave);
        steps.push(Step::Wait(self.half_tor));
        machine.kernel.program(&class.name, steps)
    }

    /// What a caller's machine takes beside the wire, with nothing else there.
    fn caller(&self, machine: &mut Machine, class: &Class) -> Picos {
        let work = machine.post(class.request).plus(machine.close()).plus(machine.complete(class.reply));
        work.plus(self.far(machine, class.request, class.reply))
    }

    /// What hardware of another machine takes to send so many bytes and to receive.
    fn far(&self, machine: &mut Machine, sent: u64, received: u64) -> Picos {
        let mut steps = machine.leave(Side::Client, lines(sent));
        steps.extend(machine.arrive(Side::Client, lines(received)));
        let alone = machine.kernel.program("far machine, alone", steps);
        machine.kernel.unloaded(alone)
    }

    fn by_software(&self, machine: &mut Machine, class: &Class, each: Picos, rtt: Picos) -> ProgramId {
        let further = lines(class.request) + lines(class.reply) - 2;
        let calls = 1 + Self::further_copies(class);
        let stack = Picos(each.0 * calls + self.line.0 * further);
        let on_the_way = Picos(rtt.0.saturating_sub(each.0));
        let mut steps =
            vec![Step::Wait(Picos(on_the_way.0 / 2)), self.cores.busy(stack.plus(self.handler(class)))];
        if calls > 1 {
            steps.push(Step::Wait(rtt));
        }
        steps.push(Step::Wait(Picos(on_the_way.0 - on_the_way.0 / 2)));
        machine.kernel.program(&class.name, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternative::Offered;

    const ECHO: &str = r#"
name = "echo"
title = "small calls"
keys = 1
working_set = "64 B"
window = 256
host_cores = 1
[[class]]
name = "CALL"
share = 1.0
request = "64 B"
reply = "64 B"
"#;

    fn ran(text: &str, way: &str, offered: Offered) -> crate::alternative::Ran {
        let platform = super::super::platform();
        let workload: Workload = toml::from_str(text).expect("it is right");
        let setting = setting(&platform, &workload, 1).expect("it is complete");
        let shares: Vec<_> =
            setting.alternatives.iter().map(|one| if one.name == way { 1.0 } else { 0.0 }).collect();
        setting.run(&shares, offered, 1, Picos::from_micros(50), Picos::from_micros(400))
    }

    #[test]
    fn one_core_does_what_the_experiments_say_and_a_round_trip_takes_as_long() {
        let full = ran(ECHO, "RPC NIC, UPI B=1", Offered::Window(256));
        assert!((full.all.rate() / 8.1e6 - 1.0).abs() < 0.02, "{}", full.all.rate());
        assert!(full.host_cores > 0.99);
        let quiet = ran(ECHO, "RPC NIC, UPI B=1", Offered::Rate(1e5));
        assert!((quiet.all.quantile(0.5) / 2.1e-6 - 1.0).abs() < 0.05, "{}", quiet.all.quantile(0.5));
        let software = ran(ECHO, "software stack, eRPC", Offered::Window(256));
        assert!((software.all.rate() / 4.96e6 - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_an_operation_needs_costs_the_core() {
        let rate =
            |more: &str| ran(&format!("{ECHO}{more}"), "RPC NIC, UPI B=4", Offered::Window(256)).all.rate();
        let plain = rate("");
        for more in [
            "lookups = 2\nlookup = \"64 B\"",
            "rows = 20\nrow = \"64 B\"",
            "cycles = 500",
            "fields = 9",
            "store = \"256 B\"\ncopies = 3",
        ] {
            assert!(rate(more) < 0.9 * plain, "{more}");
        }
    }

    #[test]
    fn small_calls_are_planned_onto_the_nic() {
        let workload: Workload = toml::from_str(ECHO).expect("it is right");
        let question = crate::plan::Question { top: 2, ..Default::default() };
        let plan = crate::plan::plan(&super::super::platform(), &workload, &question).expect("it is known");
        assert!(plan.advice.offload, "{:?}", plan.advice);
        let first = plan.ranking.first().expect("somebody serves them");
        assert!(first.name.starts_with("RPC NIC, UPI"), "{}", first.name);
    }
}
