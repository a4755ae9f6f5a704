//! A topology as its controllers know it now: a client that begins after a home has moved looks for it where it is, whatever its file says.
//!
//! Nobody needs this while boxes live, who say where homes are when one does not answer; it spares a client that wait, and finds a home where no box does.

use super::super::secret::Secret;
use super::{Topology, TopologyError};
use crate::controllers::Controllers;
use protocol::coherence::NodeId;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Topology {
    /// As [`Topology::read`], with homes where controllers know them to be: those that are named instead of a file, else those of the file that say where
    /// operators find them (`admin`). Of a file's controllers nobody needs to answer; whoever does within `timeout` is believed, if he is of this rack.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn find(path: &Path, timeout: Duration) -> Result<Topology, TopologyError> {
        let topology = Topology::read(path)?;
        if Controllers::named(path).is_some() {
            return Ok(topology);
        }
        let admin = (0..topology.controllers()).filter_map(|at| topology.admin(NodeId::Controller(at)));
        let places: Vec<String> = admin.map(|address: SocketAddr| address.to_string()).collect();
        let Ok(controllers) = Controllers::of(&places) else { return Ok(topology) };
        let of_this_rack = |text: &str| {
            let told = Topology::parse(text, path).map_err(|error| error.to_string())?;
            if told.is_but_for_ranges(&topology) { Ok(told) } else { Err("another rack's".to_owned()) }
        };
        Ok(match controllers.first(timeout, of_this_rack) {
            Ok(told) => topology.with_moved((**told.layout().moved()).clone()),
            Err(_) => topology,
        })
    }

    /// The same, of a client that has its key in this file.
    #[must_use]
    pub fn with_client_key(self, path: impl Into<PathBuf>) -> Topology {
        Topology { secret: Secret::Files { key: None, client_key: Some(path.into()) }, ..self }
    }
}
