//! The options of a box's fast tier, and the tier that they ask for.

use super::topology::Topology;
use super::{IncError, book};
use protocol::coherence::NodeId;
use std::net::{IpAddr, SocketAddr};
use xdp::{Entries, Mode, Options, Tier};

/// Owned keys that the program answers for at most, 6 kB each; for more the box itself does.
const MOST_LENT: usize = 4096;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Fast tier")]
pub struct Fast {
    /// Answer what comes in on this interface by an XDP program; may be repeated
    #[arg(long = "xdp", value_name = "IFACE")]
    interfaces: Vec<String>,

    /// Where the program runs. native: in the driver; generic: after it, on any interface
    #[arg(long = "xdp-mode", value_name = "MODE", value_enum, default_value_t = Where::Native, requires = "interfaces")]
    mode: Where,

    /// Copies that the program can answer from, 1.4 kB each; rounded up to a power of two. The default is twice coherence.copies: sets of four
    /// fill unevenly
    #[arg(long = "xdp-capacity", value_name = "N", requires = "interfaces", value_parser = clap::value_parser!(u32).range(4..=1 << 22))]
    capacity: Option<u32>,

    /// Fail where the program cannot run, instead of answering everything without it
    #[arg(long = "xdp-required", requires = "interfaces")]
    required: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Where {
    Native,
    Generic,
}

impl Fast {
    /// The tier on its interfaces, and what it goes by; none where none is wanted, or, after a line that says why, where it cannot be had.
    ///
    /// # Errors
    /// It is required, and cannot be had.
    pub fn load(&self, topology: &Topology, node: NodeId) -> Result<Option<(Tier, xdp::Live)>, IncError> {
        if self.interfaces.is_empty() {
            return Ok(None);
        }
        match self.try_load(topology, node) {
            Err(error) if !self.required => {
                log::warn!("{}: no fast tier: {error}; the user tier answers everything", book::name(node));
                Ok(None)
            }
            loaded => loaded.map(Some),
        }
    }

    fn try_load(&self, topology: &Topology, node: NodeId) -> Result<(Tier, xdp::Live), IncError> {
        let address = topology.book().address_of(node).expect("its socket was bound there");
        let options = self.options(topology, node, address)?;
        let mode = match self.mode {
            Where::Native => Mode::Native,
            Where::Generic => Mode::Generic,
        };
        let tier = Tier::load(&self.interfaces, mode, options).map_err(IncError::Fast)?;
        for (node, address) in topology.book().iter() {
            if let (NodeId::Home(home), SocketAddr::V4(address)) = (node, address) {
                tier.set_home(home, address);
            }
        }
        Ok((tier, options.live))
    }

    fn options(&self, topology: &Topology, node: NodeId, address: SocketAddr) -> Result<Options, IncError> {
        let IpAddr::V4(ip) = address.ip() else { return Err(IncError::FastFamily(node, address)) };
        let mut options = Options::new(address.port());
        options.live.address = Some(ip);
        options.live.filter = topology.filter();
        // Whoever forges a sender's address gets it no more bytes than he sends.
        options.live.max_growth = 0;
        options.owned = topology.config().owned.min(MOST_LENT);
        options.capacity = self.capacity.map_or(2 * topology.config().copies, |capacity| capacity as usize);
        if topology.cores(node) > 1 {
            options.capacity = options.capacity.max(Entries::DIVISIBLE);
        }
        Ok(options)
    }
}
