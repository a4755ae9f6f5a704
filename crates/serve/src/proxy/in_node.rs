//! The proxy as a service of a process.

use super::shared::Options;
use super::{Keys, ProxyError, Running};
use crate::admin::Routes;
use crate::engine_cores::EngineCore;
use crate::http::PortAt;
use crate::inc::Topology;
use crate::memcached::login::Entrance;
use crate::process::listen::{NO_CERTIFICATE, certificate_for};
use crate::process::table::{Table, Wrong};
use crate::process::{Stop, say};
use crate::reach::{self, Protection};
use crate::shell::{Failure, Service};
use base::registers::Shown;
use base::rights::ServiceRights;
use fabric::link::Address;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A proxy, running or not.
pub struct Proxying {
    keys: Keys,
    topology: Topology,
    listen: Vec<(SocketAddr, bool)>,
    rights: Option<ServiceRights>,
    running: Option<Running>,
}

impl Proxying {
    pub(super) fn new(keys: Keys, topology: Topology, listen: Vec<(SocketAddr, bool)>) -> Proxying {
        Proxying { keys, topology, listen, rights: None, running: None }
    }

    /// As a table of a config file says.
    ///
    /// # Errors
    /// Says which key is wrong, or what is wrong with the topology.
    pub fn of(table: &Table<'_>) -> Result<Proxying, Wrong> {
        let keys: Keys = table.flags(&["kind"])?;
        table.no_registers("the topology file sets its registers in [coherence]")?;
        let file = table.need("topology", "the file that the nodes have, too")?;
        let topology = Topology::find(&keys.topology, ::client::controllers::TIMEOUT);
        let topology = topology.map_err(|error| file.wrong(error.to_string()))?;
        Ok(Proxying::new(keys, topology, Vec::new()))
    }

    /// Who may come in, and where, with the certificate where TLS is spoken.
    fn doors(&self) -> Result<(Entrance, Vec<PortAt>), Failure> {
        let certificate = certificate_for(&[])?;
        let entrance = Entrance::of(&self.keys.login)?.with_rights(self.rights.clone());
        let at = |&(address, has_tls): &(SocketAddr, bool)| {
            let tls = certificate.clone().filter(|_| has_tls);
            if has_tls && tls.is_none() { Err(NO_CERTIFICATE.into()) } else { Ok(PortAt { address, tls }) }
        };
        let listen = self.listen.iter().map(at).collect::<Result<_, Failure>>()?;
        Ok((entrance, listen))
    }

    fn options(&self) -> Options {
        let Keys { threads, pipeline, connections, .. } = self.keys;
        let cores = base::cpu::allowed_cores().len();
        Options { threads: threads.map_or(cores, usize::from), pipeline: usize::from(pipeline), connections }
    }
}

impl Service for Proxying {
    fn kind(&self) -> &'static str {
        "proxy"
    }

    fn role(&self) -> String {
        "memcached clients before the in-network cache".to_owned()
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["memcached"]
    }

    fn listen(&mut self, _protocol: &str, address: &Address) -> Result<(), String> {
        let (Address::Tcp(endpoint) | Address::Tls(endpoint)) = address else {
            return Err("the proxy listens on TCP: HOST:PORT, or with TLS tls:HOST:PORT".to_owned());
        };
        let resolved = endpoint.resolve().map_err(|why| format!("{address}: {why}"))?;
        self.listen.push((resolved, matches!(address, Address::Tls(_))));
        Ok(())
    }

    fn registers(&self) -> Vec<Shown> {
        self.topology.registers().show()
    }

    fn guard(&mut self, rights: ServiceRights) -> Result<(), Failure> {
        self.rights = Some(rights);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        self.doors().map(drop)
    }

    fn open(&mut self, _core: &Arc<EngineCore>, _is_shown: bool) -> Result<Routes, Failure> {
        let (entrance, listen) = self.doors()?;
        for port in &listen {
            let protection = match port.tls {
                Some(_) => Protection::Tls,
                None if entrance.has_users() => Protection::Passwords,
                None => Protection::None,
            };
            reach::check("the proxy", port.address, protection)?;
        }
        let running = Running::start_at(&self.topology, self.keys.tor, (&listen, entrance), self.options())?;
        let routes = running.routes(&self.topology);
        self.running = Some(running);
        Ok(routes)
    }

    fn start(&mut self, _stop: &Stop) -> Result<(), Failure> {
        self.running.iter().for_each(|proxy| say(&ready(proxy)));
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        let addresses = self.running.iter().flat_map(|proxy| proxy.addresses().iter());
        addresses.map(|address| format!("tcp:{address}")).collect()
    }

    fn death(&self) -> Option<Failure> {
        let has_failed = self.running.as_ref().is_some_and(Running::has_failed);
        let unknown = || ProxyError::System("reach the boxes", io::Error::other("its threads have ended"));
        has_failed.then(|| unknown().into())
    }

    fn reload(&self) -> bool {
        self.running.as_ref().is_some_and(|proxy| proxy.shared().entrance.reload())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let Some(proxy) = self.running.take() else { return Ok(()) };
        let counters = proxy.stop()?;
        let mut line = String::from("proxy:");
        for (name, count) in counters.iter().filter(|(_, count)| *count > 0) {
            let _ = write!(line, " {name} {count}");
        }
        say(&line);
        Ok(())
    }
}

fn ready(proxy: &Running) -> String {
    let addresses: Vec<_> = proxy.addresses().iter().map(SocketAddr::to_string).collect();
    let Options { threads, .. } = proxy.shared().options;
    format!("memcached at {} by box {}, {threads} threads", addresses.join(", "), proxy.shared().tor)
}
