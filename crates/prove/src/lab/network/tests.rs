//! The published topology, cable by cable, and what cannot be a network.

use super::*;
use crate::lab::place::parse;
use serve::inc::registers::Registers;
use serve::inc::topology::Shape;

fn topology(tors: u16, roots: u16) -> Topology {
    let shape = Shape { tors, roots, homes: 1, controllers: 1 };
    Topology::two_levels(&shape, address_of, &Registers::default()).expect("it fits")
}

fn node(name: &str) -> NodeId {
    parse(name).expect("a name")
}

fn lines(network: &Network, namespace: &str) -> Vec<String> {
    let batches = network.batches();
    let mut of = batches.iter().filter(|batch| batch.namespace.as_deref() == Some(namespace));
    of.next().expect("it is there").lines.clone()
}

#[test]
fn two_racks_below_two_roots() {
    let network = Network::new(&topology(2, 2), 1, &[], "x-").expect("it fits");
    let spaces = ["client1", "box1", "box2", "box3", "box4", "home1", "controller0"];
    assert_eq!(network.namespaces(), spaces.map(|name| format!("x-{name}")));
    let batches = network.batches();
    assert_eq!(batches[0].lines[1], "netns add x-box1");
    assert_eq!(
        batches[1].lines[0],
        "link add name to-box3 address 02:6d:72:00:00:00 netns x-box1 \
         type veth peer name to-box1 address 02:6d:72:00:00:01 netns x-box3"
    );
    assert_eq!(batches[1].lines.len(), 4 + 3, "each ToR to each root, and a host each");
    assert_eq!(
        lines(&network, "x-client1"),
        [
            "link set lo up",
            "address add 10.77.100.1/32 dev lo",
            "link set to-box1 up",
            "neighbour add 10.77.1.1 lladdr 02:6d:72:00:06:00 dev to-box1 nud permanent",
            "route add 10.77.1.1/32 dev to-box1 src 10.77.100.1",
            "route add default src 10.77.100.1 via 10.77.1.1 dev to-box1",
        ]
    );
    let tor = lines(&network, "x-box1");
    for line in [
        "route add 10.77.100.1/32 dev to-client1 src 10.77.1.1",
        "route add 10.77.1.2/32 src 10.77.1.1 nexthop via 10.77.1.3 dev to-box3 nexthop via 10.77.1.4 dev to-box4",
        "route add 10.77.2.1/32 src 10.77.1.1 nexthop via 10.77.1.3 dev to-box3 nexthop via 10.77.1.4 dev to-box4",
    ] {
        assert!(tor.iter().any(|other| other == line), "{line} in {tor:#?}");
    }
    let root = lines(&network, "x-box3");
    assert!(
        root.contains(&"route add 10.77.2.1/32 src 10.77.1.3 via 10.77.1.2 dev to-box2".to_string()),
        "{root:#?}"
    );
    assert_eq!(network.tor(client(1)), Some(BoxId(1)));
    assert_eq!(network.tor(node("home:1")), Some(BoxId(2)));
    assert_eq!(network.tor(node("box:1")), None);
}

#[test]
fn a_link_program_has_a_namespace_between() {
    let pair = (node("box:3"), node("box:1"));
    let network = Network::new(&topology(2, 1), 0, &[pair], "x-").expect("it fits");
    let laid = &network.batches()[1].lines;
    assert_eq!(
        laid[..2],
        [
            "link add name to-box3 address 02:6d:72:00:00:00 netns x-box1 type veth peer name to-box1 netns x-box3-box1",
            "link add name to-box1 address 02:6d:72:00:00:01 netns x-box3 type veth peer name to-box3 netns x-box3-box1",
        ]
    );
    assert_eq!(lines(&network, "x-box3-box1"), ["link set to-box3 up", "link set to-box1 up"]);
    let plain = Network::new(&topology(2, 1), 0, &[], "x-").expect("it fits");
    assert_eq!(lines(&network, "x-box1"), lines(&plain, "x-box1"), "the nodes see no difference");
}

/// Every way is there, and no shorter one: the routes are walked.
#[test]
fn every_route_ends_where_it_should() {
    let network = Network::new(&topology(4, 2), 9, &[], "x-").expect("it fits");
    let at =
        |address| network.places.iter().find(|(_, place)| place.address == address).map(|(node, _)| *node);
    for from in network.places.keys() {
        for (to, goal) in &network.places {
            let (mut node, mut hops) = (*from, 0);
            while node != *to {
                let place = &network.places[&node];
                node = if let Some(end) = place.ends.iter().find(|end| end.to == *to) {
                    end.to
                } else {
                    let routes = &place.routes;
                    let found = routes.iter().find(|(to, _)| to.is_none_or(|to| to == goal.address));
                    let (_, hops) = found.unwrap_or_else(|| panic!("no way from {from:?} to {to:?}"));
                    assert!((1..=4).contains(&hops.len()), "over one box of the other level, or any");
                    *hops.last().expect("a route has a hop")
                };
                hops += 1;
                assert!(hops <= 4, "from {from:?} to {to:?}");
            }
            assert_eq!(at(goal.address), Some(*to));
        }
    }
}

#[test]
fn xdp_programs_have_the_interfaces_towards_hosts_to_themselves() {
    let network = Network::new(&topology(2, 1), 1, &[], "x-").expect("it fits");
    let passing = network.passing();
    let is = |space: &str, interface: &str| passing.contains(&(space.into(), interface.into()));
    assert!(is("x-client1", "to-box1") && is("x-home1", "to-box2") && is("x-box1", "to-box3"));
    assert_eq!(network.towards_hosts(node("box:2")), ["to-home1", "to-controller0"]);
    assert!(
        network.towards_hosts(node("home:1")).is_empty() && network.towards_hosts(node("box:3")).is_empty()
    );
    assert!(!is("x-box1", "to-client1") && !is("x-box2", "to-home1"));
}

#[test]
fn what_is_no_network_says_why() {
    let error = |result: Result<Network, LabError>| result.expect_err("it is none").to_string();
    let apart = error(Network::new(&topology(2, 0), 1, &[], "x-"));
    assert!(apart.contains("no way") && apart.contains("--roots 1"), "{apart}");
    let pair = (node("box:1"), node("box:2"));
    let none = error(Network::new(&topology(2, 1), 0, &[pair], "x-"));
    assert!(none.contains("no cable") && none.contains("box:1-box:3"), "{none}");
    let cable = (node("box:1"), node("box:3"));
    let twice = error(Network::new(&topology(2, 1), 0, &[cable, (cable.1, cable.0)], "x-"));
    assert!(twice.contains("two links"), "{twice}");
    let shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
    let near = |port: u16| {
        move |node: NodeId| match node {
            NodeId::Box(_) => SocketAddr::from(([10, 1, 1, 1], port)),
            _ => SocketAddr::from(([10, 1, 1, 1], port + 1)),
        }
    };
    let shared = Topology::two_levels(&shape, near(7), &Registers::default()).expect("it fits");
    assert!(error(Network::new(&shared, 0, &[], "x-")).contains("an address of its own"));
    let local = |node| {
        SocketAddr::from((
            [127, 0, 0, 1],
            address_of(node).ip().to_string().len() as u16 + 1 + matches!(node, NodeId::Box(_)) as u16,
        ))
    };
    let local = Topology::two_levels(&shape, local, &Registers::default()).expect("it fits");
    assert!(error(Network::new(&local, 0, &[], "x-")).contains("IPv4 address"));
}
