//! Who asks on a memcached connection, and which of its commands are answered with a refusal.
//!
//! Cost: where there is no file of rights one branch for each command, on a word that is in the connection; nothing else is looked at.

use super::socket::Socket;
use base::rights::{Ask, Denied, Identity, Peer, ServiceRights};
use protocol::memcache::{Asked, Command, KEY_MAX, Line, Need, Parser};
use protocol::planted::{Bugs, NoBugs};
use rustix::net::{AddressFamily, sockopt};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A mistake of the check, made on purpose to see that the conversations of `millrace/tests/righted` find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Of a binary request that shows and changes only what it shows is asked for.
    BinaryChangeUnasked,
    /// A quiet binary request is done unasked.
    BinaryQuietUnasked,
}

/// A client, where there are rights.
#[derive(Default)]
pub struct Guest(Option<Box<dyn Check>>);

/// Who asks, and what is said to a command without a right. Behind a pointer, so that servers are not of two types for the sake of [`Planted`].
trait Check: Send {
    /// Who asks.
    fn peer(&mut self) -> &mut Peer;

    /// What is said to a command that this client has no right to.
    fn refusal(&mut self, command: &Command<'_>) -> Option<Line>;
}

struct Checked<B> {
    peer: Peer,
    bugs: B,
}

/// How commands of a server's clients are checked; a test's with a mistake.
#[derive(Clone)]
pub struct Checks(Arc<dyn Fn(Peer) -> Box<dyn Check> + Send + Sync>);

impl Checks {
    /// With these mistakes.
    pub fn with_bugs<B: Bugs<Planted> + Send + Sync + 'static>(bugs: B) -> Checks {
        Checks(Arc::new(move |peer| Box::new(Checked { peer, bugs: bugs.clone() })))
    }
}

impl Default for Checks {
    fn default() -> Checks {
        Checks::with_bugs(NoBugs)
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checks")
    }
}

impl Guest {
    /// Who is at the other end of a socket, as far as the system says: of a Unix socket its user, of others anybody.
    pub fn at(rights: Option<&ServiceRights>, checks: &Checks, socket: BorrowedFd<'_>) -> Guest {
        let peer = |rights: &ServiceRights| rights.peer(user_of(socket).into_iter().collect());
        Guest(rights.map(|rights| (checks.0)(peer(rights))))
    }

    /// Its handshake is over: it is whom its certificate names, if it has shown one.
    pub(crate) fn shook_hands(&mut self, socket: &Socket) {
        if let Some(check) = &mut self.0 {
            check.peer().set_identities(socket.identities());
        }
    }

    /// It has logged in by this name, or failed to.
    pub fn set_user(&mut self, user: Option<&[u8]>) {
        if let Some(check) = &mut self.0 {
            check.peer().set_user(user);
        }
    }

    /// The command that is to be done for `command`, which `parser` gave last: itself, or what says that there is no right to it.
    #[inline]
    pub fn admit<'a>(&mut self, command: Command<'a>, parser: &mut Parser) -> Command<'a> {
        match &mut self.0 {
            None => command,
            Some(check) => match check.refusal(&command) {
                None => command,
                Some(line) => parser.refused(&command, line),
            },
        }
    }
}

impl<B: Bugs<Planted> + Send> Check for Checked<B> {
    fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    fn refusal(&mut self, command: &Command<'_>) -> Option<Line> {
        let Checked { peer, bugs } = self;
        let mut refused = |what, line| peer.may(what).err().map(|Denied| line);
        match command.need() {
            Need::Nothing => None,
            Need::Key { .. }
                if command.asked().is_some_and(Asked::is_quiet) && bugs.has(Planted::BinaryQuietUnasked) =>
            {
                None
            }
            Need::Key { key, reads, mut writes } => {
                writes &= !(key.is_binary() && reads && bugs.has(Planted::BinaryChangeUnasked));
                let mut scratch = [0; KEY_MAX];
                let key = key.key(&mut scratch);
                let read = if reads { refused(Ask::Read(key), Line::NoRead) } else { None };
                read.or_else(|| if writes { refused(Ask::Write(key), Line::NoWrite) } else { None })
            }
            Need::Any => refused(Ask::Any, Line::NoRight),
            Need::AllKeys => refused(Ask::ReadAll, Line::NoReadAll),
            Need::Look => refused(Ask::Look, Line::NoAdmin),
            Need::Administer => refused(Ask::Administer, Line::NoAdmin),
        }
    }
}

/// The user at the other end of a Unix socket.
pub(crate) fn user_of(socket: BorrowedFd<'_>) -> Option<Identity> {
    let is_local = sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX);
    let peer = is_local.then(|| sockopt::socket_peercred(socket).ok()).flatten()?;
    Some(Identity::Uid(peer.uid.as_raw()))
}
