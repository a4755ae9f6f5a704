//! Who may come in, and in which protocol: what servers are told, and what they say to logins.
//!
//! Cost: a connection whose clients need not log in has a parser that knows of none, and so no more to do for a request than without this.

use super::counters::NetCounters;
use super::guest::{Checks, Guest};
use base::rights::ServiceRights;
use base::users::{Form, UserFile};
use clap::{Args, ValueEnum};
use protocol::memcache::{Entry, Login, Parser, Protocol};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The names of [`LoginArgs`] in tables of config files.
pub const LOGIN_KEYS: &[&str] = &["auth_file", "enable_sasl", "protocol"];

/// memcached's variable that names a file of users for SASL.
const SASL_PWDB: &str = "MEMCACHED_SASL_PWDB";

/// What a server is told.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct LoginArgs {
    /// Serve only clients that log in, in the text protocol unless told otherwise: the file has a line user:password for each user, and is read again at SIGHUP
    #[arg(short = 'Y', long, value_name = "FILE", help_heading = "Logins")]
    pub auth_file: Option<PathBuf>,

    /// Serve only clients that log in with SASL PLAIN, in the binary protocol: users of -Y, or of the file that MEMCACHED_SASL_PWDB names
    #[arg(short = 'S', long, help_heading = "Logins")]
    pub enable_sasl: bool,

    /// Protocols to speak on streams: the one that a client's first byte says, or one alone
    #[arg(short = 'B', long, value_name = "NAME", value_enum, help_heading = "Logins")]
    pub protocol: Option<Spoken>,
}

/// memcached's names of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spoken {
    /// The first byte says which
    Auto,
    /// Text, classic and meta
    Ascii,
    /// Binary
    Binary,
}

impl LoginArgs {
    /// How connections begin.
    fn entry(&self) -> Entry {
        let protocol = match self.protocol {
            Some(Spoken::Auto) => Protocol::Any,
            Some(Spoken::Ascii) => Protocol::Text,
            Some(Spoken::Binary) => Protocol::Binary,
            None if self.enable_sasl => Protocol::Binary,
            None if self.auth_file.is_some() => Protocol::Text,
            None => Protocol::Any,
        };
        Entry { protocol, has_login: self.has_users() }
    }

    /// Whether clients must log in.
    pub fn has_users(&self) -> bool {
        self.enable_sasl || self.auth_file.is_some()
    }

    /// What flags and a config file say together: the flags, where they say anything.
    #[must_use]
    pub fn over(&self, file: LoginArgs) -> LoginArgs {
        LoginArgs {
            auth_file: self.auth_file.clone().or(file.auth_file),
            enable_sasl: self.enable_sasl || file.enable_sasl,
            protocol: self.protocol.or(file.protocol),
        }
    }

    /// The values of `stats settings`: binding_protocol, auth_enabled_sasl, auth_enabled_ascii.
    pub fn settings(&self) -> [(&'static str, String); 3] {
        let Entry { protocol, has_login } = self.entry();
        let spoken = match protocol {
            Protocol::Any => "auto-negotiate",
            Protocol::Text => "ascii",
            Protocol::Binary => "binary",
        };
        let has_sasl = has_login && protocol != Protocol::Text;
        let file = self.auth_file.as_ref().filter(|_| protocol != Protocol::Binary);
        let file = file.map_or_else(|| "no".to_owned(), |path| path.display().to_string());
        [
            ("binding_protocol", spoken.to_owned()),
            ("auth_enabled_sasl", if has_sasl { "yes" } else { "no" }.to_owned()),
            ("auth_enabled_ascii", file),
        ]
    }

    fn users(&self) -> Result<Option<Arc<UserFile>>, String> {
        let named = || std::env::var_os(SASL_PWDB).filter(|path| !path.is_empty()).map(PathBuf::from);
        let (path, form) = match &self.auth_file {
            Some(path) => (path.clone(), Form::Line),
            None if !self.enable_sasl => return Ok(None),
            None => (
                named().ok_or_else(|| {
                    format!(
                        "-S wants users: name a file with a line user:password for each, with -Y FILE or in {SASL_PWDB}; sasldb and \
                         other stores of Cyrus SASL are not read"
                    )
                })?,
                Form::Colon,
            ),
        };
        let users = UserFile::open(&path, form).map_err(|error| error.to_string())?;
        if let Some(mode) = users.is_open_to_others() {
            let path = path.display();
            log::warn!(
                "others on this machine can read the passwords in {path} (mode {mode:o}): chmod 600 {path}"
            );
        }
        Ok(Some(Arc::new(users)))
    }
}

/// What every connection of a server begins with.
#[derive(Clone, Debug, Default)]
pub struct Entrance {
    entry: Entry,
    users: Option<Arc<UserFile>>,
    rights: Option<ServiceRights>,
    checks: Checks,
}

impl Entrance {
    /// As `args` say.
    ///
    /// # Errors
    /// There are no users, or what is said contradicts itself. A sentence.
    pub fn of(args: &LoginArgs) -> Result<Entrance, String> {
        if args.enable_sasl && args.protocol == Some(Spoken::Ascii) {
            return Err(
                "-S is of the binary protocol: leave out -B ascii, or give users with -Y FILE instead of -S"
                    .to_owned(),
            );
        }
        Ok(Entrance { entry: args.entry(), users: args.users()?, rights: None, checks: Checks::default() })
    }

    /// Whoever comes in may do what these say, if there are any.
    #[must_use]
    pub fn with_rights(self, rights: Option<ServiceRights>) -> Entrance {
        Entrance { rights, ..self }
    }

    /// Commands of whoever comes in are checked so.
    #[must_use]
    pub fn checked_by(self, checks: Checks) -> Entrance {
        Entrance { checks, ..self }
    }

    /// The parser of a new connection by this socket, and who is there.
    pub fn enter(&self, max_value: usize, socket: BorrowedFd<'_>) -> (Parser, Guest) {
        (Parser::entered(self.entry, max_value), Guest::at(self.rights.as_ref(), &self.checks, socket))
    }

    /// Whether clients must log in.
    pub fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Whether a login is right, and counts it.
    #[cold]
    pub fn admits(&self, login: &Login<'_>, net: &NetCounters) -> bool {
        let is_right = match (&self.users, login.credentials) {
            (Some(users), Some((user, password))) => users.admits(user, password),
            _ => false,
        };
        net.auth_cmds.add(1);
        net.auth_errors.add(u64::from(!is_right));
        is_right
    }

    /// Reads the users again, if there is a file of them; whether there is.
    pub fn reload(&self) -> bool {
        let Some(users) = &self.users else { return false };
        match users.reload() {
            Ok(count) => log::info!("{} users may log in, of {}", count, users.path().display()),
            Err(error) => log::warn!("{error}; those that were known stay so"),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn args(auth_file: Option<&str>, enable_sasl: bool, protocol: Option<Spoken>) -> LoginArgs {
        LoginArgs { auth_file: auth_file.map(PathBuf::from), enable_sasl, protocol }
    }

    #[test]
    fn flags_say_the_protocol_as_memcached_has_it() {
        let spoken = |args: LoginArgs| args.settings().map(|(_, value)| value);
        for (args, wanted) in [
            (args(None, false, None), ["auto-negotiate", "no", "no"]),
            (args(None, false, Some(Spoken::Binary)), ["binary", "no", "no"]),
            (args(None, false, Some(Spoken::Ascii)), ["ascii", "no", "no"]),
            (args(Some("u"), false, None), ["ascii", "no", "u"]),
            (args(None, true, None), ["binary", "yes", "no"]),
            (args(Some("u"), true, None), ["binary", "yes", "no"]),
            (args(Some("u"), false, Some(Spoken::Auto)), ["auto-negotiate", "yes", "u"]),
        ] {
            assert_eq!(spoken(args.clone()), wanted.map(str::to_owned), "{args:?}");
        }
    }

    #[test]
    fn what_cannot_be_says_what_to_do() {
        let refused = |args: LoginArgs| Entrance::of(&args).expect_err("it cannot be");
        assert!(refused(args(Some("u"), true, Some(Spoken::Ascii))).contains("leave out -B ascii"));
        let error = refused(args(Some("/nowhere/users"), false, None));
        assert!(error.contains("/nowhere/users"), "{error}");
        if std::env::var_os(SASL_PWDB).is_none() {
            assert!(refused(args(None, true, None)).contains("-Y FILE or in MEMCACHED_SASL_PWDB"));
        }
        assert!(!Entrance::of(&LoginArgs::default()).expect("anybody may come in").reload());
    }

    #[test]
    fn logins_are_counted() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("users");
        std::fs::write(&path, "ann:one\n").expect("a folder");
        let entrance = Entrance::of(&args(path.to_str(), false, None)).expect("a good file");
        let net = NetCounters::default();
        let mut parser = Parser::entered(entrance.entry, 1 << 20);
        for (text, is_right) in [("set x 0 0 7\r\nann two\r\n", false), ("set x 0 0 7\r\nann one\r\n", true)]
        {
            let protocol::memcache::Step::Login { login, .. } = parser.next(text.as_bytes()) else {
                panic!("a login")
            };
            assert_eq!(entrance.admits(&login, &net), is_right);
        }
        assert_eq!((net.auth_cmds.read(), net.auth_errors.read()), (2, 1));
        std::fs::remove_file(&path).expect("it is ours");
        assert!(entrance.reload(), "there is a file, and it is gone: those that were known stay so");
    }
}
