//! The config file: interfaces, routes, neighbours, the tunnel, NAT, and registers. Every complaint says file and line.

use crate::net::{Interface, Link, Net, Via, Zone};
use crate::packet::{Mac, icmp};
use crate::place::slots::MOST_FRAME;
use crate::registers::Registers;
use crate::route::table::{Prefix, Table as Routes};
use crate::tunnel::OVERHEAD;
use crate::tunnel::keys::Secret;
use client::table::{Entry, Source, Table, Wrong};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The longest packet that an interface may have: a frame fits a slot.
pub const MOST_MTU: usize = MOST_FRAME - 14 - 64;
/// The least that IPv4 asks of a link (RFC 791), and the tunnel's own bytes.
const LEAST_MTU: usize = 576;

/// What the system knows of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its hardware address.
    pub mac: Mac,
    /// Bytes of the longest packet.
    pub mtu: usize,
}

/// What a file says.
#[derive(Debug)]
pub struct Config {
    /// The network.
    pub net: Net,
    /// The tunnel's key; none without a tunnel.
    pub secret: Option<Secret>,
}

impl Config {
    /// Reads a file, and sets registers. `known` asks the system for an interface; its error is a sentence.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(
        path: &Path,
        registers: &Registers,
        known: impl Fn(&str) -> Result<Known, String>,
    ) -> Result<Config, Wrong> {
        let source = Source::read(path)?;
        let parsed = source.parse()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Config::of(&source.table(&parsed), folder, registers, known)
    }

    /// Sets registers alone: what else stands in the file is for the next start.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read_registers(path: &Path, registers: &Registers) -> Result<(), Wrong> {
        let source = Source::read(path)?;
        source.table(&source.parse()?).registers(registers, OTHERS)
    }

    fn of(
        file: &Table<'_>,
        folder: &Path,
        registers: &Registers,
        known: impl Fn(&str) -> Result<Known, String>,
    ) -> Result<Config, Wrong> {
        file.only(&["interface", "route", "neighbour", "tunnel", "nat", "place"])?;
        file.registers(registers, OTHERS)?;
        let mut interfaces = Vec::new();
        for table in file.need("interface", "[[interface]] for each link")?.tables()? {
            interfaces.push(interface(&table, &known)?);
        }
        let first = file.need("interface", "[[interface]] for each link")?;
        if interfaces.len() > 255 {
            return Err(first.wrong("there may be 255 interfaces"));
        }
        let number = |entry: &Entry<'_>, name: &str| {
            let at = interfaces.iter().position(|interface: &Interface| interface.name == name);
            at.map(|at| at as u8)
                .ok_or_else(|| entry.wrong(format!("there is no [[interface]] named {name:?}")))
        };
        let mut routes = Routes::default();
        for (at, interface) in interfaces.iter().enumerate() {
            if routes.insert(interface.network, Via::Interface(at as u8, None)).is_some() {
                return Err(first.wrong(format!("{} is on two interfaces", interface.network)));
            }
        }
        let (tunnel, secret) = match file.get("tunnel") {
            Some(entry) => {
                let (link, secret) = tunnel(&entry.table()?, folder, &interfaces, number)?;
                (Some(link), Some(secret))
            }
            None => (None, None),
        };
        if let Some(entry) = file.get("route") {
            for table in entry.tables()? {
                route(&table, &interfaces, tunnel.as_ref(), &mut routes)?;
            }
        }
        let mut neighbours = Vec::new();
        for table in file.get("neighbour").map(|entry| entry.tables()).transpose()?.unwrap_or_default() {
            table.only(&["interface", "address", "mac"])?;
            let entry = table.need("interface", "the link that it is on")?;
            let mac = table.need("mac", "its hardware address")?.read(Mac::parse)?;
            neighbours.push((
                number(&entry, entry.text()?)?,
                address(&table, "address", "its address")?,
                mac,
            ));
        }
        let nat = nat(file, tunnel.as_ref(), &interfaces)?;
        Ok(Config { net: Net { interfaces, tunnel, routes, nat, neighbours }, secret })
    }
}

/// Tables without registers. `[nat]` has both.
const OTHERS: &[&str] = &["interface", "route", "neighbour", "tunnel", "nat.address"];

fn address(table: &Table<'_>, key: &str, what: &str) -> Result<Ipv4Addr, Wrong> {
    let entry = table.need(key, what)?;
    let address: Ipv4Addr = entry.read(|text| text.parse().map_err(|_| "an address is 10.0.0.1"))?;
    if icmp::is_one_host(address) { Ok(address) } else { Err(entry.wrong(format!("{address} is no host's"))) }
}

fn zone(table: &Table<'_>) -> Result<Zone, Wrong> {
    table.need("zone", "\"inside\" or \"outside\"")?.read(|text| match text {
        "inside" => Ok(Zone::Inside),
        "outside" => Ok(Zone::Outside),
        _ => Err("it is inside or outside"),
    })
}

fn interface(table: &Table<'_>, known: &impl Fn(&str) -> Result<Known, String>) -> Result<Interface, Wrong> {
    table.only(&["name", "address", "zone"])?;
    let entry = table.need("name", "as the system names it: eth0")?;
    let Known { mac, mtu } = known(entry.text()?).map_err(|why| entry.wrong(why))?;
    if !(LEAST_MTU + OVERHEAD..=MOST_MTU).contains(&mtu) {
        let range = format!("{} to {MOST_MTU}", LEAST_MTU + OVERHEAD);
        let name = entry.text()?;
        return Err(
            entry.wrong(format!("{name} has an MTU of {mtu}, {range} will do: ip link set {name} mtu 1500"))
        );
    }
    let network = table.need("address", "the gateway's there, with its network: 10.1.0.1/24")?;
    let (prefix, address) = network.read(Prefix::parse)?;
    if !icmp::is_one_host(address) || prefix.bits() == 0 {
        return Err(network.wrong(format!("{address} in {prefix} is no host's")));
    }
    Ok(Interface { name: entry.text()?.to_owned(), mac, address, network: prefix, mtu, zone: zone(table)? })
}

fn tunnel(
    table: &Table<'_>,
    folder: &Path,
    interfaces: &[Interface],
    number: impl Fn(&Entry<'_>, &str) -> Result<u8, Wrong>,
) -> Result<(Link, Secret), Wrong> {
    table.only(&["interface", "peer", "port", "address", "zone", "key"])?;
    let carrier = table.need("interface", "the link that carries it")?;
    let interface = number(&carrier, carrier.text()?)?;
    let peer = address(table, "peer", "the other gateway's address")?;
    if peer == interfaces[usize::from(interface)].address {
        return Err(table.wrong("the other gateway has another address"));
    }
    let port = match table.get("port") {
        Some(entry) => match u16::try_from(entry.count()?) {
            Ok(port) if port > 0 => port,
            _ => return Err(entry.wrong("a port is 1 to 65535")),
        },
        None => 4790,
    };
    let key = table.need("key", "a file: `gateway keygen FILE` makes one")?;
    let secret = Secret::read(&folder.join(PathBuf::from(key.text()?))).map_err(|why| key.wrong(why))?;
    let address = address(table, "address", "the gateway's in the tunnel")?;
    Ok((Link { interface, peer, port, address, zone: zone(table)? }, secret))
}

fn route(
    table: &Table<'_>,
    interfaces: &[Interface],
    tunnel: Option<&Link>,
    routes: &mut Routes<Via>,
) -> Result<(), Wrong> {
    table.only(&["to", "via"])?;
    let to = table.need("to", "a network: 10.2.0.0/16")?;
    let (prefix, _) = to.read(Prefix::parse)?;
    let via = table.need("via", "\"tunnel\", or a router's address on a link")?;
    let way = if via.text()? == "tunnel" {
        let link = tunnel.ok_or_else(|| via.wrong("there is no [tunnel]"))?;
        if prefix.has(link.peer) && prefix.bits() > interfaces[usize::from(link.interface)].network.bits() {
            return Err(via.wrong("the other gateway would be behind the tunnel to it"));
        }
        Via::Tunnel
    } else {
        let router = address(table, "via", "a router's address")?;
        let at = interfaces.iter().position(|interface| interface.network.has(router));
        let at = at.ok_or_else(|| via.wrong(format!("{router} is on no interface's network")))?;
        Via::Interface(at as u8, Some(router))
    };
    match routes.insert(prefix, way) {
        None => Ok(()),
        Some(_) => Err(to.wrong(format!("there are two routes to {prefix}"))),
    }
}

/// NAT's address: it is on if there is a `[nat]` with one.
fn nat(file: &Table<'_>, tunnel: Option<&Link>, interfaces: &[Interface]) -> Result<Option<Ipv4Addr>, Wrong> {
    let Some(entry) = file.get("nat") else { return Ok(None) };
    let table = entry.table()?;
    let nat = address(
        &table,
        "address",
        "what hosts inside are seen as; an interface's, or one that is routed here",
    )?;
    let is_outside = |zone: Zone| zone == Zone::Outside;
    if !interfaces.iter().any(|i| is_outside(i.zone)) && !tunnel.is_some_and(|link| is_outside(link.zone)) {
        return Err(entry.wrong("nothing is outside, so nothing would be translated"));
    }
    Ok(Some(nat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::{Id, placement, show};
    use base::private;
    use std::io::Write as _;

    const GOOD: &str = include_str!("../gateway.toml");

    fn read(text: &str) -> Result<(Config, Registers), String> {
        let folder = std::env::temp_dir().join(format!(
            "gateway-config-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        private::make_directory(&folder).expect("a folder");
        let mut key = private::create(&folder.join("gateway.key")).expect("a file");
        key.write_all(Secret::of_seed(1).to_text().as_bytes()).expect("room");
        let registers = Registers::default();
        let known = |name: &str| match name {
            "eth9" => Err("there is no interface eth9".to_owned()),
            "jumbo" => Ok(Known { mac: Mac([2; 6]), mtu: 9000 }),
            _ => Ok(Known { mac: Mac([2; 6]), mtu: 1500 }),
        };
        let source = Source::of(Path::new("gateway.toml"), text);
        let parsed = source.parse().map_err(|error| error.to_string())?;
        let config = Config::of(&source.table(&parsed), &folder, &registers, known);
        std::fs::remove_dir_all(&folder).expect("ours");
        config.map(|config| (config, registers)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_that_is_shipped_is_read() {
        let (config, registers) = read(GOOD).expect("it is good");
        assert_eq!(config.net.interfaces.len(), 2);
        assert_eq!(config.net.nat, Some(Ipv4Addr::new(10, 9, 0, 1)));
        assert_eq!(config.net.routes.find(Ipv4Addr::new(10, 2, 3, 4)), Some(&Via::Tunnel));
        assert_eq!(
            config.net.routes.find(Ipv4Addr::new(8, 8, 8, 8)),
            Some(&Via::Interface(1, Some(Ipv4Addr::new(192, 0, 2, 254))))
        );
        assert_eq!(show(placement(&registers)), "acc  acc  acc ");
        assert_eq!(registers.read(Id::NatFlows), 65536);
        assert_eq!(config.secret, Some(Secret::of_seed(1)));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (from, to, says) in [
            ("name = \"eth0\"", "name = \"eth9\"", "there is no interface eth9"),
            ("name = \"eth0\"", "name = \"jumbo\"", "ip link set jumbo mtu 1500"),
            ("zone = \"inside\"", "zone = \"indoors\"", "inside or outside"),
            ("10.1.0.1/24", "10.1.0.1", "10.1.0.0/16 is one"),
            ("via = \"tunnel\"", "via = \"10.77.0.1\"", "on no interface's network"),
            ("via = \"tunnel\"", "by = \"tunnel\"", "no key \"by\""),
            ("key = \"gateway.key\"", "key = \"none.key\"", "gateway keygen"),
            ("route = \"acc\"", "route = \"gpu\"", "one of host, acc"),
            ("flows = 65536", "flow = 65536", "did you mean \"nat.flows\"?"),
            ("peer = \"192.0.2.2\"", "peer = \"224.0.0.1\"", "no host's"),
            ("to = \"10.2.0.0/16\"", "to = \"0.0.0.0/0\"", "two routes"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = read(&GOOD.replacen(from, to, 1)).expect_err(says);
            assert!(error.contains(says) && error.starts_with("gateway.toml:"), "{to}: {error}");
        }
    }
}
