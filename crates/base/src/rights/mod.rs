//! Rights: who may do what in which service. Whoever serves asks here, once for each request.
//!
//! ```text
//!  rules of a file ──▶ Rights ──of(service)──▶ ServiceRights ──peer(identities)──▶ Peer ──may(what)──▶ yes, or Denied
//!                        ▲ replaced at SIGHUP                    of a connection     └ looks whether they were replaced
//! ```
//! A peer has several identities at once: it is anybody, it has logged in, it has shown a certificate. What any rule allows to any of them it may do, and
//! nothing else.
//!
//! Cost: without rights nobody asks. With them a number is compared that changes when rules are replaced, and each rule for the peer is two binary searches.
//!
//! Bounds: [`RULES_MAX`] rules; a peer has two bytes for each that is for it.
//!
//! `patterns` has names and beginnings of names.

mod patterns;
#[cfg(test)]
mod tests;

pub use patterns::Patterns;

use crate::users::Users;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Rules of a file at most.
pub const RULES_MAX: usize = 4096;

/// Who somebody is, by one of the ways in which it can be proved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Whoever connects.
    Anybody,
    /// The user of this number of this machine, as the system says.
    Uid(u32),
    /// Who has logged in by this name.
    User(Box<[u8]>),
    /// The common name of a certificate's subject.
    CommonName(Box<str>),
    /// A DNS name of a certificate, in lower case.
    Dns(Box<str>),
    /// A URI of a certificate.
    Uri(Box<str>),
    /// Who has a token of this name.
    Token(Box<str>),
}

/// How it was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// Not at all.
    None,
    /// By the system.
    Uid,
    /// By a password.
    User,
    /// By a certificate.
    Certificate,
    /// By a token.
    Token,
}

impl Proof {
    /// All of them, from the weakest on.
    pub const ALL: [Proof; 5] = [Proof::None, Proof::Uid, Proof::User, Proof::Certificate, Proof::Token];

    /// As metrics have it.
    pub fn word(self) -> &'static str {
        ["anybody", "uid", "user", "certificate", "token"][self as usize]
    }
}

impl Identity {
    /// How it was proved.
    pub fn proof(&self) -> Proof {
        match self {
            Identity::Anybody => Proof::None,
            Identity::Uid(_) => Proof::Uid,
            Identity::User(_) => Proof::User,
            Identity::CommonName(_) | Identity::Dns(_) | Identity::Uri(_) => Proof::Certificate,
            Identity::Token(_) => Proof::Token,
        }
    }

    /// As rules name it: `anybody`, `uid:1000`, `user:shop`, `cn:shop`, `dns:shop.example.org`, `uri:spiffe://example.org/shop`, `token:ci`.
    ///
    /// # Errors
    /// What is wanted.
    pub fn parse(text: &str) -> Result<Identity, String> {
        if text == "anybody" {
            return Ok(Identity::Anybody);
        }
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        if !["uid", "user", "cn", "dns", "uri", "token"].contains(&kind) {
            return Err(format!(
                "{text:?} is nobody: write anybody, uid:NUMBER, user:NAME, cn:NAME, dns:NAME, uri:URI or token:NAME"
            ));
        }
        if name.is_empty() {
            return Err(format!(
                "{kind}: wants a name, as in {kind}:{}",
                if kind == "uid" { "1000" } else { "shop" }
            ));
        }
        Ok(match kind {
            "uid" => Identity::Uid(name.parse().map_err(|_| format!("uid:{name} is no number of a user"))?),
            "user" => Identity::User(name.as_bytes().into()),
            "cn" => Identity::CommonName(name.into()),
            "dns" => Identity::dns(name),
            "uri" => Identity::Uri(name.into()),
            _ => Identity::Token(name.into()),
        })
    }

    /// By this DNS name, whose case does not matter.
    pub fn dns(name: &str) -> Identity {
        Identity::Dns(name.to_ascii_lowercase().into())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Anybody => f.write_str("anybody"),
            Identity::Uid(number) => write!(f, "uid:{number}"),
            Identity::User(name) => write!(f, "user:{}", name.escape_ascii()),
            Identity::CommonName(name) => write!(f, "cn:{name}"),
            Identity::Dns(name) => write!(f, "dns:{name}"),
            Identity::Uri(name) => write!(f, "uri:{name}"),
            Identity::Token(name) => write!(f, "token:{name}"),
        }
    }
}

/// How far somebody may administer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admin {
    /// Not at all.
    #[default]
    None,
    /// May look: at the admin port, at connections.
    Read,
    /// May change, too.
    Write,
}

/// Some may do something.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Who.
    pub who: Vec<Identity>,
    /// In which services; none: in all.
    pub services: Option<Vec<Box<str>>>,
    /// Keys that they may read.
    pub read: Patterns,
    /// Keys that they may write.
    pub write: Patterns,
    /// Methods that they may call: `package.Service/Method`.
    pub call: Patterns,
    /// Models that they may ask.
    pub infer: Patterns,
    /// How far they may administer.
    pub admin: Admin,
}

impl Rule {
    /// Whether it is for one of these in this service.
    fn is_for(&self, identities: &[Identity], service: Option<&str>) -> bool {
        let is_here = match (&self.services, service) {
            (None, _) => true,
            (Some(services), Some(service)) => services.iter().any(|name| **name == *service),
            (Some(_), None) => false,
        };
        let is_one = |who: &Identity| *who == Identity::Anybody || identities.contains(who);
        is_here && self.who.iter().any(is_one)
    }

    /// Whether it allows this.
    #[inline]
    fn allows(&self, what: &Ask<'_>) -> bool {
        match *what {
            Ask::Read(key) => self.read.has(key),
            Ask::Write(key) => self.write.has(key),
            Ask::ReadAll => self.read.has_all(),
            Ask::Any => true,
            Ask::Call(path) => self.call.has(path.as_bytes()),
            Ask::Infer(model) => self.infer.has(model.as_bytes()),
            Ask::Look => self.admin >= Admin::Read,
            Ask::Administer => self.admin >= Admin::Write,
        }
    }
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// Learn what this key has.
    Read(&'a [u8]),
    /// Change what this key has.
    Write(&'a [u8]),
    /// Learn of all keys.
    ReadAll,
    /// Learn what says nothing of any key: whoever may do something may.
    Any,
    /// Call this method: `package.Service/Method`.
    Call(&'a str),
    /// Have this model answer.
    Infer(&'a str),
    /// Look as operators do.
    Look,
    /// Change what operators change.
    Administer,
}

impl Ask<'_> {
    /// The right that it wants, as metrics have it.
    fn right(&self) -> usize {
        match self {
            Ask::Read(_) | Ask::ReadAll | Ask::Any => 0,
            Ask::Write(_) => 1,
            Ask::Call(_) => 2,
            Ask::Infer(_) => 3,
            Ask::Look | Ask::Administer => 4,
        }
    }
}

/// Names of rights in metrics.
const RIGHTS: [&str; 5] = ["read", "write", "call", "infer", "admin"];

impl fmt::Display for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Read(key) => write!(f, "read key {}", key.escape_ascii()),
            Ask::Write(key) => write!(f, "write key {}", key.escape_ascii()),
            Ask::ReadAll => f.write_str("read all keys"),
            Ask::Any => f.write_str("ask anything here"),
            Ask::Call(path) => write!(f, "call {path}"),
            Ask::Infer(model) => write!(f, "ask model {model}"),
            Ask::Look => f.write_str("look at what operators see (admin = \"read\")"),
            Ask::Administer => f.write_str("administer (admin = \"write\")"),
        }
    }
}

/// There is no right to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

/// What a file says.
#[derive(Debug, Default)]
pub struct Rules {
    /// Who may do what. At most [`RULES_MAX`].
    pub rules: Vec<Rule>,
    /// Names of tokens.
    pub tokens: Option<Users>,
}

/// The rules of a process, which may be replaced while it serves.
#[derive(Debug)]
pub struct Rights {
    rules: RwLock<Arc<Rules>>,
    /// How often they were replaced.
    generation: AtomicU64,
    refused: [[AtomicU64; Proof::ALL.len()]; RIGHTS.len()],
}

impl Rights {
    /// These rules.
    pub fn new(rules: Rules) -> Arc<Rights> {
        let (rules, generation) = (RwLock::new(Arc::new(rules)), AtomicU64::new(0));
        Arc::new(Rights { rules, generation, refused: Default::default() })
    }

    /// From now on these rules, for those who are connected, too.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        // After the rules: who sees the number finds them.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refusals so far: the right that was missing, how the peer had proved who it is, how many.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        RIGHTS.iter().zip(&self.refused).flat_map(|(right, by_proof)| {
            let one = move |(proof, count): (Proof, &AtomicU64)| {
                (*right, proof.word(), count.load(Ordering::Relaxed))
            };
            Proof::ALL.into_iter().zip(by_proof).map(one)
        })
    }

    /// The rights in a service; one without a name has rules for all services alone.
    pub fn of(self: &Arc<Rights>, service: Option<&str>) -> ServiceRights {
        ServiceRights { rights: Arc::clone(self), service: service.map(Arc::from) }
    }
}

/// Rights in one service.
#[derive(Clone, Debug)]
pub struct ServiceRights {
    rights: Arc<Rights>,
    service: Option<Arc<str>>,
}

impl ServiceRights {
    /// Somebody who has proved these identities.
    pub fn peer(&self, identities: Vec<Identity>) -> Peer {
        let mut peer = Peer { of: self.clone(), identities, grant: Grant::default(), generation: 0 };
        peer.renew();
        peer
    }

    /// Somebody who has proved these, and perhaps has a token besides.
    pub fn bearer(&self, mut identities: Vec<Identity>, token: Option<&[u8]>) -> Peer {
        if let Some(token) = token {
            let rules = self.rights.rules();
            let name = rules.tokens.as_ref().and_then(|tokens| tokens.owner_of(token));
            identities.extend(name.map(|name| Identity::Token(String::from_utf8_lossy(name).into())));
        }
        self.peer(identities)
    }
}

/// The rules for a peer.
#[derive(Clone, Debug, Default)]
struct Grant {
    rules: Arc<Rules>,
    /// Which of them.
    places: Box<[u16]>,
}

/// Somebody who asks for things, by a connection or in a call.
#[derive(Clone, Debug)]
pub struct Peer {
    of: ServiceRights,
    identities: Vec<Identity>,
    grant: Grant,
    /// The rules' when it was made.
    generation: u64,
}

impl Peer {
    /// The same, if it has this token besides.
    #[must_use]
    pub fn with_token(&self, token: &[u8]) -> Peer {
        self.of.bearer(self.identities.clone(), Some(token))
    }

    /// From now on it is only whom `other` is, too.
    #[cold]
    pub fn meet(&mut self, other: &Peer) {
        self.identities.retain(|identity| other.identities.contains(identity));
        self.renew();
    }

    /// Takes the rules as they are now.
    #[cold]
    fn renew(&mut self) {
        self.generation = self.of.rights.generation.load(Ordering::Acquire);
        let rules = self.of.rights.rules();
        let service = self.of.service.as_deref();
        let is_for =
            |(place, rule): (usize, &Rule)| rule.is_for(&self.identities, service).then_some(place as u16);
        let places = rules.rules.iter().enumerate().filter_map(is_for).collect();
        self.grant = Grant { rules, places };
    }

    /// It has logged in by this name; none: not any more.
    #[cold]
    pub fn set_user(&mut self, user: Option<&[u8]>) {
        self.identities.retain(|identity| !matches!(identity, Identity::User(_)));
        self.identities.extend(user.map(|user| Identity::User(user.into())));
        self.renew();
    }

    /// It has proved who it is in another way.
    #[cold]
    pub fn set_identities(&mut self, identities: Vec<Identity>) {
        self.identities = identities;
        self.renew();
    }

    /// Whether it may do this. A refusal is counted, and logged for who debugs.
    ///
    /// # Errors
    /// It may not.
    #[inline]
    pub fn may(&mut self, what: Ask<'_>) -> Result<(), Denied> {
        if self.of.rights.generation.load(Ordering::Acquire) != self.generation {
            self.renew();
        }
        let Grant { rules, places } = &self.grant;
        if places.iter().any(|place| rules.rules[usize::from(*place)].allows(&what)) {
            return Ok(());
        }
        self.refuse(&what)
    }

    #[cold]
    fn refuse(&self, what: &Ask<'_>) -> Result<(), Denied> {
        let proof = self.identities.iter().map(Identity::proof).max().unwrap_or(Proof::None);
        self.of.rights.refused[what.right()][proof as usize].fetch_add(1, Ordering::Relaxed);
        log::debug!("{self} may not {what}");
        Err(Denied)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.identities.split_first() else { return f.write_str("anybody") };
        write!(f, "{first}")?;
        others.iter().try_for_each(|other| write!(f, ", {other}"))
    }
}
