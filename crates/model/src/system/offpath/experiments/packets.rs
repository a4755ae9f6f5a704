//! F4 and F5: bandwidth by payload, and packets on PCIe1 and PCIe0 as hardware counters see them: those that carry data, of one operation and per
//! second. Requests of reads and what posting puts there are counted by themselves.
//!
//! In closed form: what an operation takes of each resource says how many of them the fullest one bears, and nothing queues in a counter.

use super::{Flow, PLATFORM, gbps, size};
use crate::component::PcieLink;
use crate::experiment::Rows;
use crate::kernel::program::Demand;
use crate::kernel::{Kernel, ProgramId};
use crate::platform::{LoadError, Platform, Platforms};
use crate::system::offpath::machine::{Card, Machine, Side};
use crate::system::offpath::verbs::Verb;

const PAYLOADS: [u64; 22] = [
    16,
    64,
    128,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    16_384,
    32_768,
    65_536,
    131_072,
    262_144,
    524_288,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    9 << 20,
    10 << 20,
    16 << 20,
];
/// Requesters: two fill the server's ports.
const REQUESTERS: u64 = 2;

pub(super) fn network(platforms: &Platforms, _: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    let variants = [
        ("RNIC ①", Card::Rnic, Side::Host),
        ("SNIC ①", Card::Snic, Side::Host),
        ("SNIC ②", Card::Snic, Side::Soc),
    ];
    for (variant, card, side) in variants {
        for verb in Verb::ALL {
            for bytes in PAYLOADS {
                by_payload(&mut rows, &platform, ("F4", variant), (card, Flow::OneSided(side, verb)), bytes)?;
            }
        }
    }
    Ok(rows)
}

pub(super) fn internal(platforms: &Platforms, _: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named(PLATFORM)?;
    let mut rows = Rows::default();
    for (variant, from) in [("SNIC ③ S2H", Side::Soc), ("SNIC ③ H2S", Side::Host)] {
        for verb in Verb::ALL {
            for bytes in PAYLOADS {
                by_payload(
                    &mut rows,
                    &platform,
                    ("F5", variant),
                    (Card::Snic, Flow::Internal(from, verb)),
                    bytes,
                )?;
            }
        }
    }
    Ok(rows)
}

fn by_payload(
    rows: &mut Rows,
    platform: &Platform,
    (experiment, variant): (&'static str, &str),
    (card, flow): (Card, Flow),
    bytes: u64,
) -> Result<(), LoadError> {
    let point = format!("{} {}", flow.name(), size(bytes));
    let at = (experiment, variant, &*point);
    let mut machine = Machine::of_fleet(platform, card, REQUESTERS, 1)?;
    let counted = counted(&mut machine, flow, bytes);
    let program = flow.program(&mut machine, 0, bytes, 1);
    let rate = borne(&machine.kernel, program);
    rows.add(at, "bandwidth", "Gbps", gbps(rate, bytes));
    rows.add(at, "throughput", "Mops", rate / 1e6);
    let names = [
        ("PCIe1 packets", "PCIe1 packet rate", "PCIe1 other packets"),
        ("PCIe0 packets", "PCIe0 packet rate", "PCIe0 other packets"),
    ];
    for ((data, of_all), (name, rate_name, other)) in counted.into_iter().zip(names) {
        rows.add(at, name, "packets", data as f64);
        rows.add(at, rate_name, "Mpps", rate * data as f64 / 1e6);
        rows.add(at, other, "packets", (of_all - data) as f64);
    }
    Ok(())
}

/// Operations per second that the resource bears of which one takes the most.
fn borne(kernel: &Kernel, program: ProgramId) -> f64 {
    let of = |d: &Demand| d.service.as_secs_f64() / kernel.servers(d.at) as f64;
    1.0 / kernel.demand(program).iter().map(of).fold(f64::MIN_POSITIVE, f64::max)
}

/// On each link: packets that carry data, and all.
pub(super) fn counted(machine: &mut Machine, flow: Flow, bytes: u64) -> [(u64, u64); 2] {
    let program = flow.program(machine, 0, bytes, 1);
    let links = machine.links();
    let all = links.map(|link| of(&machine.kernel, program, &link));
    let others = others(machine, flow, bytes);
    // A plain NIC has no PCIe1: nothing goes over it, requests neither.
    [0, 1].map(|link| if all[link] == 0 { (0, 0) } else { (all[link] - others[link], all[link]) })
}

fn of(kernel: &Kernel, program: ProgramId, link: &PcieLink) -> u64 {
    let demand = kernel.demand(program);
    demand.iter().filter(|d| d.at == link.to_host || d.at == link.to_device).map(|d| d.units).sum()
}

/// Requests of reads, and the write that posts.
fn others(machine: &Machine, flow: Flow, bytes: u64) -> [u64; 2] {
    let packets = machine.port.packets(bytes);
    let requests = |side: Side| {
        let link = machine.links()[usize::from(side == Side::Host)].link;
        packets * link.read(bytes.div_ceil(packets)).forth.packets
    };
    let (read, posted) = match flow {
        Flow::OneSided(side, Verb::Read) => (Some(side), None),
        Flow::Internal(from, Verb::Read) => (Some(from.other()), Some(from)),
        Flow::Internal(from, Verb::Write) => (Some(from), Some(from)),
        _ => (None, None),
    };
    let mut on = [0, 0];
    for (side, count) in [(read, read.map_or(0, requests)), (posted, 1)] {
        let Some(side) = side else { continue };
        on[0] += count;
        on[1] += if side == Side::Host { count } else { 0 };
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;

    #[test]
    fn packets_are_those_of_the_papers_table() {
        let platform = shipped("bluefield2-ib").expect("it is listed").expect("it is sound");
        let on = |card: Card, flow: Flow, bytes: u64| {
            let mut machine = Machine::new(&platform, card, 1, 1).expect("the platform is complete");
            counted(&mut machine, flow, bytes).map(|(data, _)| data)
        };
        let of = |flow: Flow, bytes: u64| on(Card::Snic, flow, bytes);
        for bytes in [1u64, 64, 512, 4096, 65_536, 1 << 20] {
            let (host, soc) = (bytes.div_ceil(512), bytes.div_ceil(128));
            for verb in Verb::ALL {
                assert_eq!(of(Flow::OneSided(Side::Host, verb), bytes), [host, host], "① {bytes}");
                let plain = on(Card::Rnic, Flow::OneSided(Side::Host, verb), bytes);
                assert_eq!(plain, [0, host], "RNIC ① {bytes}");
                assert_eq!(of(Flow::OneSided(Side::Soc, verb), bytes), [soc, 0], "② {bytes}");
                assert_eq!(of(Flow::Internal(Side::Soc, verb), bytes), [host + soc, host], "③ S2H {bytes}");
                assert_eq!(of(Flow::Internal(Side::Host, verb), bytes), [host + soc, host], "③ H2S {bytes}");
            }
        }
    }

    #[test]
    fn every_operation_ends_and_its_packets_are_on_the_links() {
        let platform = shipped("bluefield2-ib").expect("it is listed").expect("it is sound");
        let flows = [
            Flow::OneSided(Side::Soc, Verb::Read),
            Flow::OneSided(Side::Host, Verb::Write),
            Flow::TwoSided(Side::Soc),
            Flow::Internal(Side::Soc, Verb::Write),
            Flow::Internal(Side::Host, Verb::Read),
            Flow::InternalMessage(Side::Soc),
            Flow::Dma(Verb::Read),
        ];
        for flow in flows {
            let mut machine = Machine::new(&platform, Card::Snic, 1, 1).expect("the platform is complete");
            let program = flow.program(&mut machine, 0, 3000, 4);
            let links = machine.links();
            let of_one = links.map(|link| of(&machine.kernel, program, &link));
            for argument in 0..200 {
                machine.kernel.begin(program, argument);
            }
            machine.kernel.run_until(base::Picos::from_millis(10));
            assert_eq!(machine.kernel.under_way(), 0, "{flow:?}");
            let counted = links.map(|link| {
                machine.kernel.usage(link.to_host).units + machine.kernel.usage(link.to_device).units
            });
            assert_eq!(counted, of_one.map(|packets| 200 * packets), "{flow:?}");
        }
    }
}
