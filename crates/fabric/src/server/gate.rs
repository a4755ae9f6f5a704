//! Who may call what: looked at once for each request, before its handler is.
//!
//! ```text
//!  link ──identities──▶ Peer ──may call this path?──▶ examine the message, if the service wants it ──▶ handler
//!                        └ with a token in the call's metadata: who has that, too
//! ```
//! A client is whom its link proves: of TLS whom its certificate names, of Unix sockets and shared memory the user, of all others anybody. Links within
//! this process are its own. A connection that goes on over another link is whom both prove:
//! what comes over the first meanwhile has no more rights than before.
//!
//! Cost: a server without a gate has one branch for each request.

use crate::frame;
use crate::link::{Link, Transport};
use crate::status::{Code, Status};
use base::rights::{Ask, Denied, Identity, Peer, ServiceRights};
use std::fmt;
use std::sync::Arc;

/// Where callers send a token, as gRPC has it: `Bearer TOKEN`.
const AUTHORIZATION: &str = "authorization";

/// Looks into a message, by the path of its method: what else its sender must have a right to.
type Examine = dyn Fn(&mut Peer, &str, &[u8]) -> Result<(), Status> + Send + Sync;

/// See the head of the file.
#[derive(Clone)]
pub struct Gate {
    rights: ServiceRights,
    examine: Option<Arc<Examine>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate({:?}, examines: {})", self.rights, self.examine.is_some())
    }
}

impl Gate {
    /// Callers may call what these say.
    pub fn new(rights: ServiceRights) -> Gate {
        Gate { rights, examine: None }
    }

    /// And each message is looked into by `examine`, which refuses those that their sender has no right to.
    #[must_use]
    pub fn examining(
        self,
        examine: impl Fn(&mut Peer, &str, &[u8]) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Gate {
        Gate { examine: Some(Arc::new(examine)), ..self }
    }

    /// A client that has proved these.
    pub fn peer(&self, identities: Vec<Identity>) -> Peer {
        self.rights.peer(identities)
    }

    /// The client at the other end of a link; none: it is this process.
    pub(super) fn peer_of(&self, link: &dyn Link) -> Option<Box<Peer>> {
        let is_own = link.transport() == Transport::Memory;
        (!is_own).then(|| Box::new(self.peer(link.peer_identities())))
    }

    /// Whether a client may have this message handled by the method at a path (`package.Service/Method`).
    ///
    /// # Errors
    /// PERMISSION_DENIED.
    pub fn admits(
        &self,
        peer: &mut Peer,
        path: &str,
        metadata: &[u8],
        message: Option<&[u8]>,
    ) -> Result<(), Status> {
        match token(metadata) {
            Some(token) => self.admits_peer(&mut peer.with_token(token), path, message),
            None => self.admits_peer(peer, path, message),
        }
    }

    fn admits_peer(&self, peer: &mut Peer, path: &str, message: Option<&[u8]>) -> Result<(), Status> {
        peer.may(Ask::Call(path)).map_err(|Denied| denied(Ask::Call(path)))?;
        match (&self.examine, message) {
            (Some(examine), Some(message)) => examine(peer, path, message),
            _ => Ok(()),
        }
    }
}

/// The token of a call, if it carries one.
fn token(metadata: &[u8]) -> Option<&[u8]> {
    if metadata.is_empty() {
        return None;
    }
    let (_, value) = frame::metadata(metadata).find(|(key, _)| *key == AUTHORIZATION)?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// What is said to a call whose sender has no right to this.
#[cold]
pub fn denied(what: Ask<'_>) -> Status {
    Status::new(
        Code::PermissionDenied,
        format!("no right to {what}: the server's file of rights must allow it"),
    )
}
