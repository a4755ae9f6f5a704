//! The laboratory's network: a client, two gateways with a tunnel between them, a server.
//!
//! ```text
//!  client                gateway A                         gateway B              server
//!  10.1.0.2 ── c0 · in ── 10.1.0.1 … 192.0.2.1 ── out · out ── 192.0.2.2 … 10.2.0.1 ── in · s0 ── 10.2.0.2
//!                         NAT: 10.9.0.1     ╰── tunnel 10.8.0.1 · 10.8.0.2 ──╯
//! ```
//! The gateways' namespaces have interfaces without addresses: the kernel there answers nobody.

use super::namespace::Namespace;
use crate::driver::interface;
use crate::net::{Interface, Link, Net, Via, Zone};
use crate::route::table::{Prefix, Table};
use std::io;
use std::net::Ipv4Addr;

/// The client's address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
/// What the server sees the client as.
pub const NAT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Who has NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    /// The client's gateway, before the tunnel.
    A,
    /// The server's gateway, behind it.
    B,
}

/// All of it.
pub struct Network {
    /// The client's.
    pub client: Namespace,
    /// The gateways', A first.
    pub gateways: [Namespace; 2],
    /// The server's.
    pub server: Namespace,
}

impl Network {
    /// Makes it.
    ///
    /// # Errors
    /// The system or `ip` refuses.
    pub fn new() -> io::Result<Network> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let gateways = [Namespace::new()?, Namespace::new()?];
        for (host, name, gateway, address, router) in [
            (&client, "c0", &gateways[0], CLIENT, gateway_address(0)),
            (&server, "s0", &gateways[1], SERVER, gateway_address(1)),
        ] {
            host.ip(&format!("link add {name} type veth peer name in netns {}", gateway.path()))?;
            host.ip(&format!("address add {address}/24 dev {name}"))?;
            host.ip(&format!("link set {name} up"))?;
            host.ip(&format!("route add default via {router}"))?;
            whole_packets(host, name)?;
        }
        gateways[0].ip(&format!("link add out type veth peer name out netns {}", gateways[1].path()))?;
        for gateway in &gateways {
            for name in ["in", "out"] {
                gateway.ip(&format!("link set {name} up"))?;
                whole_packets(gateway, name)?;
            }
        }
        Ok(Network { client, gateways, server })
    }

    /// A gateway's network: 0 is A.
    ///
    /// # Errors
    /// An interface is not there.
    pub fn of_gateway(&self, side: usize, hides: Hides) -> io::Result<Net> {
        let has_nat = hides == if side == 0 { Hides::A } else { Hides::B };
        let outer = |side: usize| Ipv4Addr::new(192, 0, 2, 1 + side as u8);
        // NAT stands between inside and outside: at A the tunnel is outside, at B the server.
        let inside_if = |is: bool| if is { Zone::Inside } else { Zone::Outside };
        let (near, tunnel) = match (has_nat, hides) {
            (true, Hides::B) => (Zone::Outside, Zone::Inside),
            (true, Hides::A) => (Zone::Inside, Zone::Outside),
            (false, _) => (Zone::Inside, inside_if(true)),
        };
        let known = |name: &'static str| {
            self.gateways[side].within(move || interface::known(name).map_err(io::Error::other))
        };
        let (inside, carrier) = (known("in")?, known("out")?);
        let of = |name: &str, known: crate::config::Known, address: Ipv4Addr, zone| Interface {
            name: name.into(),
            mac: known.mac,
            address,
            network: Prefix::new(address, 24),
            mtu: known.mtu,
            zone,
        };
        let interfaces = vec![
            of("in", inside, gateway_address(side), near),
            of("out", carrier, outer(side), Zone::Outside),
        ];
        let mut routes = Table::default();
        for (at, interface) in interfaces.iter().enumerate() {
            routes.insert(interface.network, Via::Interface(at as u8, None));
        }
        // What is behind the other gateway.
        let far = match (side, hides) {
            (0, _) => Prefix::new(SERVER, 24),
            (_, Hides::A) => Prefix::new(NAT, 24),
            (_, Hides::B) => Prefix::new(CLIENT, 24),
        };
        routes.insert(far, Via::Tunnel);
        let tunnel_address = |side: usize| Ipv4Addr::new(10, 8, 0, 1 + side as u8);
        routes.insert(Prefix::new(tunnel_address(1 - side), 32), Via::Tunnel);
        let link = Link {
            interface: 1,
            peer: outer(1 - side),
            port: 4790,
            address: tunnel_address(side),
            zone: tunnel,
        };
        // Where the server is outside its gateway's own address stands for the client.
        let nat = has_nat.then(|| if hides == Hides::A { NAT } else { gateway_address(1) });
        Ok(Net { interfaces, tunnel: Some(link), routes, nat, neighbours: Vec::new() })
    }
}

fn gateway_address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1 + side as u8, 0, 1)
}

/// Has an interface send packets as a cable would carry them.
fn whole_packets(namespace: &Namespace, name: &str) -> io::Result<()> {
    let left = namespace.within(|| Ok(interface::without_offloads(name, true)))?;
    match left.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{name} does not turn off its offloads: {}", left.join(", ")))),
    }
}
