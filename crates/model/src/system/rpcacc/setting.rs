//! Ways to serve a workload of RPCs with Protobuf messages, for the planner: who decodes and encodes; the handler runs on the host's cores on every way.
//!
//! A class says bytes and fields; a shape is made of them: the class's fields lie in request and reply by their bytes, a quarter of them are strings, if the
//! bytes are more than the numbers take. The handler looks up one after the other, reads rows as many at once as a core has fill buffers, copies
//! what is to be stored, and sends it to further machines before it replies.

use super::accelerator::{Accelerator, Placing};
use super::host::Host;
use super::onchip::OnChip;
use super::shape::Shape;
use super::smartnic::{Serialising, SmartNic};
use crate::alternative::{Alternative, Part, Place, Power, Setting};
use crate::kernel::{Kernel, Step};
use crate::platform::unit::Dimension;
use crate::platform::{LoadError, Platform};
use crate::workload::{Class, Workload};
use base::Picos;

/// Lines that a core reads at once: its fill buffers.
const OVERLAP: u64 = 12;

/// A way: its name, what it is, who answers, and its steps from cable to cable for a class.
type Way<M> = (&'static str, &'static str, Place, fn(&mut M, &Messages) -> (Vec<Step>, Vec<Step>));

/// The ways for this workload, by the platform's family.
///
/// # Errors
/// The platform lacks a number, or is of a family that is not ours.
pub fn setting(platform: &Platform, workload: &Workload, seed: u64) -> Result<Setting, LoadError> {
    let cores = workload.host_cores;
    match platform.family.as_str() {
        "onchip-rpc-accelerator" => {
            let mut machine = OnChip::new(platform, cores, seed)?;
            let alternatives = alternatives(&mut machine, &ON_CHIP, workload, |m| (&mut m.kernel, m.host));
            complete(platform, machine.kernel, machine.host, alternatives)
        }
        "rpc-smartnic" => {
            let mut machine = SmartNic::new(platform, cores, seed)?;
            let alternatives = alternatives(&mut machine, &SMART_NIC, workload, |m| (&mut m.kernel, m.host));
            complete(platform, machine.kernel, machine.host, alternatives)
        }
        _ => {
            let mut machine = Accelerator::new(platform, cores, seed)?;
            let alternatives = alternatives(&mut machine, &PCIE, workload, |m| (&mut m.kernel, m.host));
            complete(platform, machine.kernel, machine.host, alternatives)
        }
    }
}

const SOFTWARE: (&str, &str) = ("host cores", "a core decodes and encodes");

const PCIE: [Way<Accelerator>; 4] = [
    (SOFTWARE.0, SOFTWARE.1, Place::Host, |m, of| (m.host.receive(&of.request), m.host.send(&of.reply))),
    (
        "accelerator, walking",
        "the accelerator writes field by field and follows pointers over PCIe",
        Place::Several,
        |m, of| (m.receive(&of.request, Placing::FieldByField), m.send_walking(&of.reply)),
    ),
    (
        "accelerator, core copies",
        "one write for a message; a core lays out the reply, the accelerator encodes it",
        Place::Several,
        |m, of| (m.receive(&of.request, Placing::OneShot), m.send_presented(&of.reply, false)),
    ),
    ("accelerator, engine copies", "the same, large copies by the copy engines", Place::Several, |m, of| {
        (m.receive(&of.request, Placing::OneShot), m.send_presented(&of.reply, true))
    }),
];

const ON_CHIP: [Way<OnChip>; 2] = [
    (SOFTWARE.0, SOFTWARE.1, Place::Host, |m, of| (m.host.receive(&of.request), m.host.send(&of.reply))),
    (
        "accelerator beside the cores",
        "a core handles packets and hands messages to it",
        Place::Several,
        |m, of| (m.receive(&of.request), m.send(&of.reply)),
    ),
];

const SMART_NIC: [Way<SmartNic>; 4] = [
    (SOFTWARE.0, SOFTWARE.1, Place::Host, |m, of| (m.host.receive(&of.request), m.host.send(&of.reply))),
    (
        "SmartNIC cores, walking",
        "they write field by field and follow pointers by DMA",
        Place::Several,
        |m, of| (m.receive(&of.request, false), m.send(&of.reply, Serialising::Walking)),
    ),
    (
        "SmartNIC cores, core copies",
        "one write for a message; a host core lays out the reply, they encode it",
        Place::Several,
        |m, of| (m.receive(&of.request, true), m.send(&of.reply, Serialising::Presented)),
    ),
    (
        "SmartNIC cores, engine copies",
        "the same, large copies by the copy engines",
        Place::Several,
        |m, of| (m.receive(&of.request, true), m.send(&of.reply, Serialising::PresentedWithCopies)),
    ),
];

/// A class's messages.
struct Messages {
    request: Shape,
    reply: Shape,
}

impl Messages {
    fn of(class: &Class) -> Messages {
        let bytes = (class.request + class.reply).max(1);
        let of_request = class.fields * class.request / bytes;
        Messages {
            request: shape("request", of_request, class.request),
            reply: shape("reply", class.fields - of_request, class.reply),
        }
    }
}

/// A message of so many fields and so many bytes on the wire, or nearly.
fn shape(name: &str, fields: u64, bytes: u64) -> Shape {
    let numbers = Shape::flat(name, fields, &[]);
    if bytes <= numbers.wire() {
        return numbers;
    }
    let strings = (fields / 4).max(1);
    let headers = Shape::flat(name, fields.saturating_sub(strings), &vec![0; strings as usize]).wire();
    let length = bytes.saturating_sub(headers) / strings;
    Shape::flat(name, fields.saturating_sub(strings), &vec![length; strings as usize])
}

fn alternatives<M>(
    machine: &mut M,
    ways: &[Way<M>],
    workload: &Workload,
    parts_of: fn(&mut M) -> (&mut Kernel, Host),
) -> Vec<Alternative> {
    let one = |(name, what, place, steps): &Way<M>| {
        let part = |class: &Class| {
            let (receive, send) = steps(machine, &Messages::of(class));
            let (kernel, host) = parts_of(machine);
            let mut steps = vec![host.port.send(class.request)];
            steps.extend(receive);
            steps.extend(handler(&host, class));
            steps.extend(send);
            steps.push(host.port.reply(class.reply));
            Part {
                class: class.name.clone(),
                share: class.share,
                program: kernel.program(&class.name, steps),
            }
        };
        let parts = workload.classes.iter().map(part).collect();
        Alternative { name: (*name).into(), what: (*what).into(), place: *place, parts }
    };
    ways.iter().map(one).collect()
}

/// What a core does between request and reply.
fn handler(host: &Host, class: &Class) -> Vec<Step> {
    let lines = |bytes: u64| bytes.div_ceil(64).max(1);
    let rows = (class.rows * lines(class.row)).div_ceil(OVERLAP);
    let misses = Picos(host.memory.0 * (class.lookups + rows));
    let store = host.software.copy(class.store);
    let mut steps = vec![host.cores.busy(misses.plus(host.cores.span(class.cycles + store)))];
    let further = class.copies.saturating_sub(1);
    if further > 0 {
        // To all at once; each has stored it when its answer is here.
        steps.push(host.cores.work(2.0 * further as f64 * host.software.stack));
        steps.extend((0..further).map(|_| host.port.reply(class.store)));
        steps.extend((0..further).map(|_| host.port.send(0)));
    }
    steps
}

fn complete(
    platform: &Platform,
    kernel: Kernel,
    host: Host,
    alternatives: Vec<Alternative>,
) -> Result<Setting, LoadError> {
    let watts = |name: &str| platform.value(name, Dimension::Power);
    let power = vec![
        Power {
            name: "host".into(),
            idle: watts("power.host")?,
            busy: vec![(host.cores.at, watts("power.core")?)],
        },
        Power { name: "card".into(), idle: watts("power.card")?, busy: vec![] },
    ];
    Ok(Setting { kernel, alternatives, host_cores: vec![host.cores.at], power, arguments: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternative::Offered;
    use crate::platform::shipped::shipped;

    fn workload(fields: u64, request: u64, reply: u64) -> Workload {
        let text = format!(
            "name = \"rpc\"\ntitle = \"RPCs\"\nkeys = 1\nworking_set = 1\nwindow = 256\nhost_cores = 2\n\
             [[class]]\nname = \"call\"\nshare = 1.0\nrequest = {request}\nreply = {reply}\nfields = {fields}\ncycles = 200.0\n"
        );
        toml::from_str(&text).expect("it is right")
    }

    #[test]
    fn shapes_have_the_fields_and_the_bytes() {
        for (fields, bytes) in [(0, 100), (1, 64), (20, 80), (20, 500), (40, 100_000)] {
            let shape = shape("m", fields, bytes);
            assert_eq!(shape.fields(), fields.max(1));
            assert!(shape.wire().abs_diff(bytes) <= 16, "{fields} {bytes}: {}", shape.wire());
        }
    }

    #[test]
    fn with_few_cores_many_fields_are_best_left_to_the_accelerator() {
        let platform = shipped("pcie-rpc-accelerator").expect("shipped").expect("sound");
        let setting = || setting(&platform, &workload(60, 1000, 1000), 1).expect("complete");
        let names: Vec<_> = setting().alternatives.iter().map(|of| of.name.clone()).collect();
        assert_eq!(names.len(), 4);
        let rate = |i: usize| {
            let mut shares = [0.0; 4];
            shares[i] = 1.0;
            let (warm_up, span) = (Picos::from_micros(100), Picos::from_micros(400));
            setting().run(&shares, Offered::Window(256), 1, warm_up, span).all.rate()
        };
        assert!(rate(3) > 1.5 * rate(0), "{names:?}: {} {}", rate(0), rate(3));
    }

    #[test]
    fn every_platform_of_ours_has_its_ways() {
        for (name, ways) in [("pcie-rpc-accelerator", 4), ("onchip-rpc-accelerator", 2), ("bluefield3", 4)] {
            let platform = shipped(name).expect("shipped").expect("sound");
            let setting = setting(&platform, &workload(20, 300, 5000), 1).expect("complete");
            assert_eq!(setting.alternatives.len(), ways);
            for alternative in &setting.alternatives {
                let demand = setting.kernel.demand(alternative.parts[0].program);
                assert!(demand.iter().any(|d| setting.host_cores.contains(&d.at)), "{}", alternative.name);
            }
        }
    }
}
