//! What a lab is made of, as options say it.

use super::LabError;
use super::link::Link;
use super::network::{MAX_CLIENTS, address_of};
use serve::inc::plan::{registers, setting};
use serve::inc::topology::Shape;
use serve::inc::{IncError, Topology};
use std::path::PathBuf;

/// Nodes, clients, links.
#[derive(clap::Args, Clone, Debug)]
pub struct Plan {
    /// Boxes, homes and controllers of this file, at its addresses; each needs one of its own that is not loopback
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tors", "roots", "homes", "controllers", "settings"])]
    pub topology: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)] // clap would take it for the command's help
    pub shape: Shape,

    /// Clients; they share the ToRs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CLIENTS)))]
    pub clients: u32,

    /// Boxes answer hits in their driver, by XDP, on all cables to hosts
    #[arg(long)]
    pub xdp: bool,

    /// A register of the cache, as in coherence.lease=200000; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,

    /// A cable with a link program, as in box:1-box:3,delay=50us,jitter=10us,loss=0.01,duplicate=0.001,reorder=0.01,rate=100m,queue=1000;
    /// may be repeated
    #[arg(long = "link", value_name = "LINK")]
    pub links: Vec<Link>,
}

impl Plan {
    /// The topology: the file's, or computed, with addresses from 10.77.0.0/16.
    ///
    /// # Errors
    /// File or settings make no sense.
    pub fn topology(&self) -> Result<Topology, LabError> {
        let topology = match &self.topology {
            Some(path) => Topology::read(path)?.holding_its_key()?,
            None => Topology::two_levels(&self.shape, address_of, &self.registers()?)?,
        };
        Ok(topology)
    }

    /// The settings.
    ///
    /// # Errors
    /// They make no sense.
    pub fn registers(&self) -> Result<serve::inc::registers::Registers, IncError> {
        registers(&self.settings)
    }
}
