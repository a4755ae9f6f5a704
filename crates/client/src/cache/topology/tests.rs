//! Tests of topologies: files and back, what is wrong in one, its keys, and where clients begin.

use super::*;
use proptest::prelude::*;
use tempfile::TempDir;

fn parse(text: &str) -> Result<Topology, TopologyError> {
    Topology::parse(text, Path::new("rack.toml"))
}

fn address(node: NodeId) -> SocketAddr {
    let nodes = Shape { tors: 4, roots: 2, homes: 3, controllers: 2 }.nodes();
    let place = nodes.iter().position(|one| *one == node).expect("it is one of them");
    SocketAddr::from(([127, 0, 0, 1], 7101 + place as u16))
}

#[test]
fn what_is_written_is_read() {
    let registers = Registers::default();
    registers.set("coherence.lease", "200000").expect("a lease");
    registers.set("coherence.policy", "exclusive").expect("a policy");
    let shape = Shape { tors: 4, roots: 2, homes: 3, controllers: 2 };
    let streams = (1..=3).map(|id| (HomeId(id), SocketAddr::from(([127, 0, 0, 1], 9000 + id))));
    let written = Topology::two_levels(&shape, address, &registers).expect("it fits");
    assert_eq!(written.value_max(), MAX_VALUE);
    let written = written.with_streams(streams).expect("all have one");
    let read = parse(&written.text()).expect("it is what was written");
    assert_eq!(read.text(), written.text());
    assert_eq!((read.layout(), read.book()), (written.layout(), written.book()));
    assert_eq!((read.config(), read.controllers()), (written.config(), 2));
    assert_eq!((read.streams(), read.value_max()), (written.streams(), 1 << 20));
    assert_eq!(**read.layout(), Layout::two_levels(4, 2, 3, SLOTS).expect("the same"));
}

#[test]
fn errors_say_what_would_be_right() {
    let one = "[[box]]\nid = 1\naddress = \"127.0.0.1:1\"\n";
    let home = "[[home]]\nid = 1\naddress = \"127.0.0.1:2\"\nbox = 1\n";
    for (text, words) in [
        (String::new(), "rack.toml:1: the topology is none: at least one home"),
        (
            format!("slots = 3\n{one}{home}"),
            "rack.toml:1: the topology is none: 3 slots: must be a power of two",
        ),
        (format!("slots = \"many\"\n{one}{home}"), "rack.toml:1: slots must be a number"),
        (format!("{one}{one}{home}"), "rack.toml:5: the topology is none: box 1: ids are 1 to 64, each once"),
        (format!("{one}{home}{home}"), "rack.toml:9: the topology is none: at least one home, each once"),
        (
            format!("{one}above = [9]\n{home}"),
            "rack.toml:2: the topology is none: box 9 is named but not there",
        ),
        (
            format!("{one}{}", home.replace("box = 1", "box = 9")),
            "rack.toml:5: the topology is none: box 9 is named",
        ),
        (format!("{one}{}", home.replace(":2", ":1")), "rack.toml:5: box:1 and home:1 have the same address"),
        (format!("{one}{}", home.replace(":2", ":0")), "by which the others reach it"),
        (format!("{one}{}", home.replace("127.0.0.1", "0.0.0.0")), "by which the others reach it"),
        (format!("{one}{}", home.replace("127.0.0.1", "[::1]")), "rack.toml:5: home:1 has an IPv6 address"),
        (format!("{one}{home}stream = \"0.0.0.0:9\"\n"), "rack.toml:5: "),
        (
            format!(
                "{one}{home}{}stream = \"[::1]:9\"\n",
                home.replace("id = 1", "id = 2").replace(":2", ":3")
            ),
            "rack.toml:5: home:1 has no stream",
        ),
        (
            format!("{one}{home}[coherence]\nlaese = 1\n"),
            "rack.toml:9: there is no register \"coherence.laese\"; did you mean \"coherence.lease\"?",
        ),
        (format!("{one}{home}[coherence]\nlease = 1.5\n"), "rack.toml:9: "),
        (
            format!("{one}{home}[coherence]\nhealth = 2000\n"),
            "rack.toml:8: the registers in [coherence] do not fit",
        ),
        (format!("{one}{home}[[bax]]\n"), "rack.toml:8: the file has no key \"bax\"; did you mean \"box\"?"),
        (
            format!("{one}{home}port = 1\n"),
            "rack.toml:8: [home] has no key \"port\"; it knows address, admin, box, id, moved, stream",
        ),
        (one.replace("id = 1\n", ""), "rack.toml:2: [box] needs id"),
        (
            one.replace("127.0.0.1:1", "here"),
            "rack.toml:3: address cannot be \"here\": invalid socket address",
        ),
        (one.replace("id = 1", "id = 70000"), "rack.toml:2: id cannot be \"70000\""),
        ("box = [".into(), "rack.toml:1: not valid TOML"),
        ("box = 3".into(), "rack.toml:1: box must be a list of tables"),
    ] {
        let error = parse(&text).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}

#[test]
fn ranges_of_slots_are_read_and_written() {
    let rack = "[[box]]\nid = 1\naddress = \"127.0.0.1:1\"\n[[box]]\nid = 2\naddress = \"127.0.0.1:2\"\n\
                [[home]]\nid = 1\naddress = \"127.0.0.1:3\"\nbox = 1\n";
    let with = |ranges: &[(&str, &str)]| {
        let range = |(slots, cache): &(&str, &str)| format!("[[range]]\nslots = {slots}\ncache = {cache}\n");
        parse(&(rack.to_owned() + &ranges.iter().map(range).collect::<String>()))
    };
    let all =
        [("\"0-31\"", "\"cluster\""), ("40", "[1, 2]"), ("\"41 - 41\"", "2"), ("\"50-63\"", "\"nowhere\"")];
    let topology = with(&all).expect("good ranges");
    let shown: Vec<_> = topology.layout().ranges().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["0-31: cluster", "40-40: [1, 2]", "41-41: [2]", "50-63: nowhere"]);
    let again = parse(&topology.text()).expect("what was written");
    assert_eq!(again.layout(), topology.layout());
    let plain = with(&[]).expect("none");
    assert!(again.is_but_for_ranges(&plain) && plain.layout() != again.layout());
    let other = Shape { tors: 2, roots: 0, homes: 1, controllers: 0 };
    let other = Topology::two_levels(&other, address, &Registers::default()).expect("it fits");
    assert!(!other.is_but_for_ranges(&plain));

    for (ranges, words) in [
        (&[("\"5-4\"", "\"nowhere\"")][..], "rack.toml:12: slots 5-4: a range rises, and slots are 0 to 63"),
        (&[("\"0-64\"", "\"nowhere\"")], "rack.toml:12: slots 0-64: a range rises"),
        (&[("\"0-9\"", "\"all\""), ("\"9-12\"", "\"cluster\"")], "rack.toml:15: slots 0-9 and 9-12 overlap"),
        (
            &[("\"0-9\"", "[1, 9]")],
            "rack.toml:12: the topology is none: slots 0-9 name box 9, which is not there",
        ),
        (
            &[("\"0-9\"", "[1, 99]")],
            "rack.toml:12: cache = \"1, 99\": write \"all\", \"cluster\", \"nowhere\", or ids",
        ),
        (&[("\"0-9\"", "\"nowher\"")], "rack.toml:12: cache = \"nowher\""),
        (&[("\"0-9\"", "[]")], "rack.toml:13: [range] needs cache"),
        (
            &[("\"a-9\"", "1")],
            "rack.toml:12: slots cannot be \"a-9\": \"a-9\" are no slots; write the first and the last",
        ),
    ] {
        let error = with(ranges).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}

#[test]
fn a_file_says_where_operators_find_nodes() {
    let text = "[[box]]\nid = 1\naddress = \"127.0.0.1:1\"\nadmin = \"9101\"\nabove = []\n[[home]]\nid = 1\naddress = \"127.0.0.1:2\"\n\
                box = 1\nadmin = \"127.0.0.1:9101\"\n[[controller]]\naddress = \"127.0.0.1:3\"\n[[chain]]\nnumber = 7\n";
    let topology = parse(text).expect("chains are left to others");
    let (one, home, controller) = (NodeId::Box(BoxId(1)), NodeId::Home(HomeId(1)), NodeId::Controller(0));
    let at = "127.0.0.1:9101".parse().ok();
    assert_eq!([one, home, controller].map(|node| topology.admin(node)), [at, at, None]);
    assert_eq!(
        [&[one, home][..], &[one, controller], &[]].map(|nodes| topology.admin_of(nodes)),
        [at, None, None]
    );
    assert_eq!(parse(&topology.text()).expect("what was written").text(), topology.text());
}

#[test]
fn keys_are_read_made_and_asked_for() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let folder = folder.path();
    let file = folder.join("rack.toml");
    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
    let held = Topology::two_levels(&shape, address, &Registers::default()).expect("it fits");
    held.write(&file).expect("two files");
    let read = Topology::read(&file).expect("what was written");
    let keys = read.node_keys(false).expect("its key");
    assert!(keys.is_some() && keys == held.held_keys() && read.held_keys().is_none());
    let clients = read.client_keys().expect("of the same key");
    assert!(clients.is_some() && clients != keys && clients == held.client_keys().expect("held"));
    let client_key = held.secret.client_key(false).expect("held").expect("there is one");
    client_key.write_new(&folder.join("client.key")).expect("a file");
    let text = read.text().replace("\nkey = ", "\nclient_key = \"client.key\"\n# ");
    let of_clients = Topology::parse(&text, &file).expect("the same for clients");
    assert_eq!(of_clients.client_keys().expect("its key"), clients);
    let error = of_clients.node_keys(false).expect_err("it is for clients").to_string();
    assert!(error.contains("[cluster]") && error.contains("--no-key"), "{error}");
    assert_eq!(of_clients.node_keys(true).expect("all are here"), None);
    let elsewhere = Topology::parse(&text.replace("127.0.0.1", "10.0.0.1"), &file).expect("one");
    let error = elsewhere.node_keys(true).expect_err("others reach it").to_string();
    assert!(error.contains("other machines"), "{error}");
    std::fs::remove_file(folder.join("rack.key")).expect("it is there");
    assert!(read.client_keys().expect("who comes first makes it").is_some());
    assert!(folder.join("rack.key").exists());
    let far = Topology::parse(&read.text().replace("127.0.0.1", "10.0.0.1"), &file).expect("one");
    std::fs::remove_file(folder.join("rack.key")).expect("it was made");
    assert!(far.client_keys().is_err() && far.node_keys(false).is_err(), "not for several machines");
}

#[test]
fn clients_find_a_box() {
    let shape = Shape { tors: 2, roots: 1, homes: 1, controllers: 0 };
    let topology = Topology::two_levels(&shape, address, &Registers::default()).expect("it fits");
    assert_eq!(topology.tor(None).expect("the first"), BoxId(1));
    assert_eq!(topology.tor(Some(2)).expect("it is there"), BoxId(2));
    let error = topology.tor(Some(8)).expect_err("it is not").to_string();
    assert!(error.contains("its boxes are 1, 2, 3"), "{error}");
    assert!(topology.bind_client().and_then(|socket| socket.local_addr()).expect("one").ip().is_loopback());
    let error = topology.bind(NodeId::Home(HomeId(9))).expect_err("there is none").to_string();
    assert!(error.contains("no home:9; it has box:1, box:2, box:3, home:1"), "{error}");
}

const LINES: &[&str] = &[
    "slots = 64",
    "[cluster]",
    "key = \"c.key\"",
    "[[box]]",
    "id = 1",
    "id = 2",
    "address = \"127.0.0.1:1\"",
    "address = \"[::1]:2\"",
    "admin = 9101",
    "above = [2]",
    "draining = true",
    "[[home]]",
    "box = 1",
    "stream = \"127.0.0.1:9\"",
    "[[controller]]",
    "[[range]]",
    "slots = \"0-31\"",
    "cache = [1, 2]",
    "[coherence]",
    "lease = 500000",
];

proptest! {
    #[test]
    fn any_lines_are_a_topology_or_refused(lines in proptest::collection::vec(prop_oneof![
        8 => proptest::sample::select(LINES).prop_map(str::to_owned),
        1 => ".{0,12}",
    ], 0..24)) {
        if let Ok(topology) = parse(&lines.join("\n")) {
            let written = topology.text();
            prop_assert_eq!(parse(&written).expect("what was written").text(), written);
        }
    }
}
