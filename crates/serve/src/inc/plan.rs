//! `millrace inc topology`: a topology of two levels on loopback, to be used as it is or edited.

use super::IncError;
use super::registers::Registers;
use super::topology::{Shape, Topology};
use protocol::coherence::NodeId;
use protocol::wire::HomeId;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// Print a topology on loopback, or at --ip, ready to use or to edit.
///
/// Boxes 1 to N are ToRs, which clients ask; the roots come after them and are above all of them; homes are behind the last ToRs.
#[derive(clap::Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    shape: Shape,

    /// The first node's port; the others have those after it
    #[arg(long, value_name = "PORT", default_value_t = 7101, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Ports that nobody uses at this moment, instead
    #[arg(long, conflicts_with = "port")]
    free_ports: bool,

    /// The address of all nodes, such as ::1
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    ip: IpAddr,

    /// Say where homes listen for memcached clients, on ports after those of the nodes: values too long for a packet go there. Such a home is a
    /// node: millrace up --boxes
    #[arg(long)]
    streams: bool,

    /// A register of the cache, as in coherence.lease=200000; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = super::plan::setting)]
    settings: Vec<(String, String)>,
}

/// Reads `NAME=VALUE`.
pub fn setting(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("{text:?} is no setting; write for example coherence.lease=200000");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.trim().into(), value.trim().into()))
}

/// Registers with these settings.
pub fn registers(settings: &[(String, String)]) -> Result<Registers, IncError> {
    let registers = Registers::default();
    settings.iter().try_for_each(|(name, value)| registers.set(name, value)).map_err(IncError::Register)?;
    Ok(registers)
}

/// A socket on a port of the system's choosing for each node, and where it is: on loopback.
pub fn sockets(shape: &Shape) -> std::io::Result<BTreeMap<NodeId, (UdpSocket, SocketAddr)>> {
    sockets_at(Ipv4Addr::LOCALHOST.into(), shape)
}

fn sockets_at(ip: IpAddr, shape: &Shape) -> std::io::Result<BTreeMap<NodeId, (UdpSocket, SocketAddr)>> {
    let bind = |node| {
        let socket = UdpSocket::bind((ip, 0))?;
        let address = socket.local_addr()?;
        Ok((node, (socket, address)))
    };
    shape.nodes().into_iter().map(bind).collect()
}

impl Plan {
    /// Prints it.
    ///
    /// # Errors
    /// Ports or settings do not fit, or standard output is gone.
    pub fn run(&self) -> Result<(), IncError> {
        let nodes = self.shape.nodes();
        let addresses: BTreeMap<NodeId, SocketAddr> = if self.free_ports {
            let sockets = sockets_at(self.ip, &self.shape).map_err(IncError::Socket)?;
            sockets.into_iter().map(|(node, (_, address))| (node, address)).collect()
        } else {
            let count = nodes.len() + if self.streams { usize::from(self.shape.homes) } else { 0 };
            if usize::from(self.port) + count > 1 << 16 {
                return Err(IncError::Ports(self.port, count));
            }
            let at = |port| SocketAddr::from((self.ip, port));
            nodes.iter().zip(self.port..=u16::MAX).map(|(node, port)| (*node, at(port))).collect()
        };
        let registers = registers(&self.settings)?;
        let topology = Topology::two_levels(&self.shape, |node| addresses[&node], &registers)?;
        let streams =
            if self.streams { self.streams(nodes.len()).map_err(IncError::Socket)? } else { vec![] };
        let topology = topology.with_streams(streams)?;
        std::io::stdout().write_all(topology.text().as_bytes()).map_err(IncError::Output)
    }

    /// Where homes listen for memcached clients, behind so many nodes.
    fn streams(&self, nodes: usize) -> std::io::Result<Vec<(HomeId, SocketAddr)>> {
        let homes = (1..=self.shape.homes).map(HomeId);
        if !self.free_ports {
            // There are so many ports: that was looked at.
            let ports = (self.port + nodes as u16)..=u16::MAX;
            return Ok(homes.zip(ports.map(|port| SocketAddr::from((self.ip, port)))).collect());
        }
        let listeners: Vec<_> =
            homes.map(|home| Ok((home, TcpListener::bind((self.ip, 0))?))).collect::<std::io::Result<_>>()?;
        listeners.iter().map(|(home, listener)| Ok((*home, listener.local_addr()?))).collect()
    }
}
