use super::*;
use crate::alternative::{Offered, Place};
use crate::platform::parts::TABLES;
use crate::platform::shipped::shipped;
use crate::workload::shipped as workloads;
use base::Picos;
use proptest::prelude::*;

fn workload(name: &str) -> Workload {
    workloads::shipped(name).expect("it is shipped").expect("it is sound")
}

/// A platform of these parts: name, kind, from.
fn text(parts: &[(&str, &str, &str)], more: &str) -> String {
    let part = |(name, kind, from): &(&str, &str, &str)| {
        format!("[[part]]\nname = \"{name}\"\nkind = \"{kind}\"\nfrom = \"{from}\"\n")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("name = \"of-parts\"\ntitle = \"of parts\"\n{parts}{more}")
}

fn composed(parts: &[(&str, &str, &str)], more: &str) -> Platform {
    Platform::parse(&text(parts, more), "of-parts.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn number(name: &str, value: &str, unit: &str) -> String {
    format!(
        "{name} = {{ value = {value}, unit = \"{unit}\", class = \"assumed\", source = \"a test\", range = [{value}, {value}] }}\n"
    )
}

/// Each way's name, and what it takes unloaded and of host cores, in picoseconds.
fn ways(platform: &Platform, workload: &Workload) -> Vec<(String, u64, u64)> {
    let setting = setting(platform, workload, 1).unwrap_or_else(|error| panic!("{error}"));
    let mean = |of: &dyn Fn(crate::ProgramId) -> u64, way: &crate::alternative::Alternative| {
        way.parts.iter().map(|part| part.share * of(part.program) as f64).sum::<f64>().round() as u64
    };
    let kernel = &setting.kernel;
    let cores = |program| -> u64 {
        let demand = kernel.demand(program).into_iter();
        demand.filter(|of| setting.host_cores.contains(&of.at)).map(|of| of.service.0).sum()
    };
    let all = setting.alternatives.iter();
    all.map(|way| (way.name.clone(), mean(&|program| kernel.unloaded(program).0, way), mean(&cores, way)))
        .collect()
}

#[test]
fn what_a_table_makes_a_model_makes() {
    for model in MODELS {
        let has = |kind| TABLES.iter().any(|(family, of, _)| *family == model.family && *of == kind);
        let made = (model.clients.is_some(), model.link.is_some(), model.cache.is_some());
        assert_eq!((has(Kind::Clients), has(Kind::Link), has(Kind::Box)), made, "{}", model.family);
    }
    assert!(TABLES.iter().all(|(family, ..)| MODELS.iter().any(|model| model.family == *family)));
}

#[test]
fn a_machine_said_by_its_parts_is_that_of_its_family() {
    let server = |from| [("clients", "clients", from), ("nic", "nic-soc", from), ("server", "host", from)];
    let [clients, nic, host] = server("cxl-type2");
    let cxl = [clients, nic, ("cxl", "coherent-accelerator", "cxl-type2"), host];
    let local = [("clients", "clients", "this-host"), ("node", "host", "this-host")];
    let cases: [(&str, &[_], &[&str]); 3] = [
        ("cxl-type2", &cxl, &["key-value-cache", "disaggregated-kv", "embedding-reduction", "image-service"]),
        ("bluefield2-ib", &server("bluefield2-ib"), &["embedding-reduction", "image-service"]),
        ("this-host", &local, &["key-value-cache", "image-service"]),
    ];
    for (name, parts, loads) in cases {
        for load in loads {
            let family = shipped(name).expect("it is shipped").expect("it is sound");
            let mut load = workload(load);
            load.host_cores = None;
            let by_parts = composed(parts, "");
            assert_eq!(ways(&by_parts, &load), ways(&family, &load), "{name}, {}", load.name);
            // What was read has the same names behind the parts'.
            let short = |full: &String| full.split_once('.').map(|(_, rest)| rest.to_string());
            let mut read: Vec<_> = by_parts.were_read().iter().filter_map(short).collect();
            read.sort();
            read.dedup();
            let same = family.were_read();
            assert!(same.iter().all(|name| read.contains(name)), "{name}: {read:?} and {same:?}");
        }
    }
}

#[test]
fn any_parts_that_can_be_joined_make_a_machine() {
    let load = workload("key-value-cache");
    let pick = |kind: Kind| -> Vec<&str> {
        let last = |family: &str| match family {
            "host" => "this-host",
            "in-network-cache" => "xpliant-octeon",
            "off-path-smartnic" => "bluefield2-ib",
            _ => "cxl-type2",
        };
        TABLES.iter().filter(|(_, of, _)| *of == kind).map(|(family, ..)| last(family)).collect()
    };
    let own = [
        ("[box.box]\n", number("memory_size", "64", "MiB")),
        ("[box.packet]\n", number("header", "16", "B") + &number("key", "16", "B")),
        ("[cable.link]\n", number("latency", "2", "us")),
    ];
    let own: String = own.into_iter().map(|(table, numbers)| format!("{table}{numbers}")).collect();
    let mut made = 0;
    for clients in pick(Kind::Clients) {
        for cache in pick(Kind::Box) {
            for card in pick(Kind::NicSoc).into_iter().map(Some).chain([None]) {
                for host in pick(Kind::Host) {
                    let mut parts = vec![
                        ("clients", "clients", clients),
                        ("cable", "link", "this-host"),
                        ("box", "box", cache),
                    ];
                    parts.extend(card.map(|card| ("nic", "nic-soc", card)));
                    parts.extend(card.map(|_| ("cxl", "coherent-accelerator", "cxl-type2")));
                    parts.push(("server", "host", host));
                    let Ok(platform) = Platform::parse(&text(&parts, &own), "of-parts.toml") else {
                        continue;
                    };
                    made += 1;
                    let setting =
                        setting(&platform, &load, 1).unwrap_or_else(|error| panic!("{parts:?}: {error}"));
                    assert!(
                        setting.alternatives.iter().any(|way| way.place == Place::NetworkBox),
                        "{parts:?}"
                    );
                    for way in &setting.alternatives {
                        let sum: f64 = way.parts.iter().map(|part| part.share).sum();
                        assert!((sum - 1.0).abs() < 1e-9, "{parts:?}, {}: {sum}", way.name);
                        assert!(
                            way.parts.iter().all(|part| setting.kernel.unloaded(part.program) > Picos::ZERO)
                        );
                    }
                    let mut shares = vec![0.0; setting.alternatives.len()];
                    *shares.last_mut().expect("there is one") = 1.0;
                    let ran = setting.run(
                        &shares,
                        Offered::Window(32),
                        1,
                        Picos::from_micros(200),
                        Picos::from_micros(1000),
                    );
                    assert!(ran.all.rate() > 1e5, "{parts:?}: {}", ran.all.rate());
                }
            }
        }
    }
    // Four kinds of clients, two of boxes, two cards with three hosts each, and two hosts without a card.
    assert_eq!(made, 4 * 2 * (2 * 3 + 2));
}

const RACK: [(&str, &str, &str); 4] = [
    ("clients", "clients", "xpliant-octeon"),
    ("tor", "box", "xpliant-octeon"),
    ("root", "box", "xpliant-octeon"),
    ("server", "host", "xpliant-octeon"),
];

#[test]
fn a_switch_is_passed_both_ways_and_a_box_that_has_an_item_answers_it() {
    let mut load = workload("key-value-cache");
    load.classes.retain(|class| class.cacheable);
    load.classes[0].share = 1.0;
    let with = |parts: &[_]| ways(&composed(parts, ""), &load);
    let [clients, tor, _, server] = RACK;
    let (none, one, two) = (with(&[clients, server]), with(&[clients, tor, server]), with(&RACK));
    let names: Vec<_> = two.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["server", "tor, else server", "root, else server", "tor and root, else server"]);
    assert_eq!(none.len() + 1, one.len());
    // The switch's latency is 1.9 us; the message has 16 bytes more on every cable then.
    let twice = (one[0].1 as f64 - none[0].1 as f64) / 1e6;
    assert!((3.8..3.9).contains(&twice), "{twice}");
    // Memory for all items: a read is only answered by the server if nobody read it since a write, and there is none.
    assert!(one[1].2 == 0 && one[1].1 < one[0].1 && two[1].2 == 0 && two[1].1 < two[2].1, "{one:?} {two:?}");
    assert_eq!(two[1].1, two[3].1, "the first box answers all");
}

#[test]
fn writes_have_copies_dropped_and_only_where_boxes_take_part() {
    let mut load = workload("key-value-cache");
    load.classes.reverse();
    let kept = composed(&RACK, "");
    let setting = setting(&kept, &load, 1).expect("it is complete");
    let writes = |way: usize| {
        let of = setting.alternatives[way].parts.iter().filter(|part| part.class == "SET");
        of.map(|part| part.share * setting.kernel.unloaded(part.program).as_secs_f64()).sum::<f64>()
    };
    let (plain, tor, root) = (writes(0), writes(1), writes(2));
    assert!(plain < root && root < tor, "{plain} {root} {tor}");
}

#[test]
fn several_servers_serve_more_and_places_can_be_left_out() {
    let load = workload("key-value-cache");
    let rack = |nodes: u64| {
        let all = shipped("rack-of-this-host").expect("it is shipped").expect("it is sound");
        all.with("node.count", nodes as f64).with("cable.count", nodes as f64)
    };
    let rate = |nodes| {
        let setting = setting(&rack(nodes), &load, 1).expect("it is complete");
        let which =
            setting.alternatives.iter().position(|way| way.name == "edge, TCP").expect("it is offered");
        let mut shares = vec![0.0; setting.alternatives.len()];
        shares[which] = 1.0;
        let (warm_up, span) = (Picos::from_millis(1), Picos::from_millis(5));
        setting.run(&shares, Offered::Window(256), 1, warm_up, span).all.rate()
    };
    let (one, four) = (rate(1), rate(4));
    assert!((3.5..=4.2).contains(&(four / one)), "{one} {four}");
    let places = |places: &[Place]| {
        let load = Workload { places: Some(places.into()), ..load.clone() };
        let setting = setting(&rack(2), &load, 1).expect("it is complete");
        setting.alternatives.into_iter().map(|way| way.name).collect::<Vec<_>>()
    };
    assert_eq!(places(&[Place::Edge]), ["edge, TCP", "edge, UDP"]);
    assert_eq!(
        places(&[Place::NetworkBox, Place::Engine]),
        ["engine, TCP", "engine, UDP", "tor, else engine, UDP"]
    );
    assert!(places(&[Place::NetworkBox, Place::Accelerator]).is_empty());
    for count in [0, 1000] {
        let said = setting(&rack(count), &load, 1).map_err(|why| why.to_string());
        assert!(said.is_err_and(|why| why.contains("from 1 to 256 can be side by side")));
    }
}

#[test]
fn what_cannot_be_joined_is_said_with_its_line() {
    let [clients, tor, root, server] = RACK;
    let card = ("nic", "nic-soc", "bluefield2-ib");
    let node = ("node", "host", "this-host");
    let ib = ("ib", "host", "bluefield2-ib");
    let cases: [(&[_], &str, usize, &str); 16] = [
        (
            &[clients, ("x", "gpu", "this-host"), server],
            "",
            9,
            "is no kind of part; there are clients, link, box",
        ),
        (&[clients, ("x", "rpc-engine", "broadwell-fpga"), server], "", 9, "cannot be joined to others yet"),
        (&[clients, ("x", "box", "cxl-type2"), server], "", 10, "no numbers of a part of kind box"),
        (&[clients, ("x", "box", "nobody's"), server], "", 10, "no shipped platform nobody's"),
        (&[tor, clients, server], "", 3, "clients come first"),
        (&[clients, clients, server], "", 7, "one part of kind clients"),
        (&[clients, tor, tor, server], "", 11, "the name of another"),
        (&[clients, server, root], "", 7, "the host comes last"),
        (&[clients, card, tor, ib], "", 11, "between clients and server"),
        (&[clients, tor], "", 7, "ends with a host"),
        (&[clients, ib], "", 7, "put a nic-soc before it"),
        (&[clients, ("x", "coherent-accelerator", "cxl-type2"), node], "", 7, "put a nic-soc before it"),
        (&[clients, card, server], "", 11, "leave out the nic-soc"),
        (
            &[clients, server],
            "[serve.server]\n",
            11,
            "serve is no part of this machine; it has clients, server",
        ),
        (&[clients, server], "[server.server]\ncount = 3\n", 12, "no table"),
        (&[clients, ("a.b", "box", "xpliant-octeon"), server], "", 8, "cannot be a part's name"),
    ];
    for (parts, more, line, why) in cases {
        match Platform::parse(&text(parts, more), "of-parts.toml") {
            Err(LoadError::File { line: at, why: said, .. }) => {
                assert!(at == line && said.contains(why), "{parts:?} {more}: line {at}: {said}");
            }
            other => panic!("{parts:?}: {other:?}"),
        }
    }
    let good = text(&[clients, server], "");
    for (from, to, line, why) in [
        ("title = \"of parts\"\n", "title = \"of parts\"\nfamily = \"host\"\n", 3, "has no family"),
        ("title = \"of parts\"\n", "title = \"of parts\"\nbase = \"this-host\"\n", 3, "has no base"),
        ("kind = \"clients\"\n", "", 3, "a part needs a line kind"),
        ("kind = \"clients\"\n", "kind = \"clients\"\ncount = 3\n", 6, "not count"),
    ] {
        let said = Platform::parse(&good.replacen(from, to, 1), "of-parts.toml");
        let Err(LoadError::File { line: at, why: said, .. }) = said else { panic!("{to}: {said:?}") };
        assert!(at == line && said.contains(why), "{to}: line {at}: {said}");
    }
    // A number that only its own file can say.
    let parts = [clients, ("tor", "box", "this-host"), server];
    let said =
        setting(&composed(&parts, ""), &workload("key-value-cache"), 1).map_err(|error| error.to_string());
    assert!(said.is_err_and(|said| said.contains("of-parts, part tor has no number packet.header")));
}

#[test]
fn watts_are_known_where_every_part_says_them() {
    let load = workload("key-value-cache");
    let platform = shipped("cxl-behind-box").expect("it is shipped").expect("it is sound");
    assert!(
        setting(&platform, &load, 1).expect("it is complete").power.is_empty(),
        "nobody says what the box draws"
    );
    let watts = |of: Platform, name: &str, value: f64| {
        let unit = crate::platform::unit::Unit::named("W").expect("it is one");
        of.given(name, crate::platform::Number::given(value, unit, "a test", (value, value)))
    };
    let said = watts(watts(platform, "tor.watts.idle", 20.0), "tor.watts.busy", 36.0);
    let power = setting(&said, &load, 1).expect("it is complete").power;
    let names: Vec<_> = power.iter().map(|power| (&*power.name, power.idle)).collect();
    assert_eq!(names, [("tor", 20.0), ("host package", 40.0), ("accelerator", 12.0)]);
    // Eight cores share what work adds.
    assert_eq!(power[0].busy[0].1, 2.0);
}

proptest! {
    /// Whatever is left of a file, and in whatever order: it is refused, or is a machine, or lacks a number.
    #[test]
    fn a_file_with_lines_lost_and_moved_is_refused_or_sound(
        which in 0..3usize, lost in proptest::collection::vec(any::<u16>(), 0..4), moved in any::<(u16, u16)>(),
    ) {
        let name = ["rack-of-this-host", "rack-of-bluefield2", "cxl-behind-box"][which];
        let (_, text) = crate::platform::shipped::SHIPPED.iter().find(|(its, _)| *its == name).expect("it is shipped");
        let mut lines: Vec<&str> = text.lines().collect();
        for at in lost {
            lines.remove(usize::from(at) % lines.len());
        }
        let (from, to) = (usize::from(moved.0) % lines.len(), usize::from(moved.1) % lines.len());
        let line = lines.remove(from);
        lines.insert(to, line);
        if let Ok(platform) = Platform::parse(&lines.join("\n"), "lost.toml") {
            let _ = check(&platform);
        }
    }
}

#[test]
fn a_machine_is_checked_without_a_question() {
    for (name, _) in crate::platform::shipped::SHIPPED {
        let platform = shipped(name).expect("it is shipped").expect("it is sound");
        assert_eq!(check(&platform), Ok(()), "{name}");
    }
    let [clients, _, _, server] = RACK;
    assert!(check(&composed(&[clients, ("tor", "box", "this-host"), server], "")).is_err());
}

/// A key-value store, or calls if they have fields.
fn store(fields: u64) -> Workload {
    let mut load = workload("disaggregated-kv");
    (load.skew, load.working_set, load.window, load.host_cores) = (0.9, 7 << 30, 256, None);
    (load.classes[0].lookups, load.classes[0].fields, load.classes[0].cacheable) = (3, fields, false);
    load
}

#[test]
fn a_machine_offers_what_it_has() {
    let names = |platform: &str, fields| {
        let platform = shipped(platform).expect("it is shipped").expect("it is right");
        let setting = setting(&platform, &store(fields), 1).expect("it is complete");
        let names: Vec<_> = setting.alternatives.iter().map(|a| a.name.clone()).collect();
        (names.join("; "), setting.power.len())
    };
    assert_eq!(names("connectx6", 0), ("host cores".into(), 1));
    assert_eq!(names("bluefield2-eth", 0), ("host cores; SmartNIC cores".into(), 2));
    assert_eq!(names("harp-upi", 0).0, "host cores; SmartNIC cores; accelerator");
    assert_eq!(names("u280-hbm2", 0).0, "host cores; SmartNIC cores; accelerator; accelerator, local memory");
    assert_eq!(names("cxl-type2", 0), ("host cores; accelerator; accelerator, local memory".into(), 2));
    assert_eq!(names("cxl-type2", 8).0, "host cores");
    assert_eq!(names("bluefield2-ib", 0), ("host; SoC".into(), 0));
}

#[test]
fn every_alternative_runs_on_every_coherent_accelerator() {
    for (name, _) in crate::platform::shipped::SHIPPED {
        let platform = shipped(name).expect("it is shipped").expect("it is right");
        if platform.family != "coherent-accelerator" {
            continue;
        }
        let make = || setting(&platform, &store(0), 1).expect("it is complete");
        for i in 0..make().alternatives.len() {
            let mut shares = vec![0.0; make().alternatives.len()];
            shares[i] = 1.0;
            let span = Picos::from_micros(50);
            let ran = make().run(&shares, Offered::Window(256), 1, Picos::from_micros(20), span);
            assert!(ran.all.rate() > 1e6, "{name}, {i}: {}", ran.all.rate());
            assert!(ran.watts.iter().all(|watts| *watts > 5.0));
        }
    }
}

#[test]
fn what_a_card_does_not_hold_costs_its_cores_more() {
    let platform = shipped("bluefield2-ib").expect("it is shipped").expect("it is sound");
    let mean = |working_set: u64| {
        let load = Workload { working_set, ..workload("embedding-reduction") };
        ways(&platform, &load).into_iter().find(|(name, ..)| name == "SoC").expect("it is offered").1
    };
    assert!(mean(64 << 30) > mean(1 << 30));
}

#[test]
fn clients_read_what_needs_no_core_where_nothing_is_between() {
    let load = workload("key-value-cache");
    let load = Workload { host_cores: None, ..load };
    let [clients, nic, host] = [
        ("clients", "clients", "bluefield2-ib"),
        ("nic", "nic-soc", "bluefield2-ib"),
        ("server", "host", "bluefield2-ib"),
    ];
    let near = ways(&composed(&[clients, nic, host], ""), &load);
    let reads = near.iter().find(|(name, ..)| name == "READs").expect("writes go to the host");
    assert!(reads.2 > 0 && reads.2 < near[0].2 / 10, "{near:?}");
    let behind = ways(&composed(&[clients, ("tor", "box", "xpliant-octeon"), nic, host], ""), &load);
    assert!(behind.iter().all(|(name, ..)| name != "READs"));
}
