//! What a node is told at start: where to listen, and every register. From defaults, then the config file, then flags.

use super::durable::DurableArgs;
use super::home::HomeArgs;
use super::service::prefixes::Detail;
use super::watchers::Watchers;
use crate::kv::registers::Registers;
use crate::memcached::connections::Connections;
use crate::memcached::guest::Checks;
use crate::memcached::login::{LOGIN_KEYS, LoginArgs};
use crate::process::parse::address;
use crate::process::table::{Entry, Table, Wrong};
use crate::process::tls::{TLS_KEYS, TlsArgs};
use crate::rights::{RIGHTS_KEYS, RightsArgs};
use base::rights::ServiceRights;
use base::tls::ServerFiles;
use base::trace::Tracer;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// memcached's port.
pub const MEMCACHED_PORT: u16 = 11211;

/// Where a node listens. `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// TCP addresses for memcached clients. Port 0 picks a free one.
    pub tcp: Vec<SocketAddr>,
    /// TCP addresses for memcached clients that speak TLS.
    pub tls: Vec<SocketAddr>,
    /// UDP addresses for memcached clients; off by default, as amplification attacks taught memcached.
    pub udp: Vec<SocketAddr>,
    /// Unix stream socket for memcached clients.
    pub unix: Option<PathBuf>,
    /// Unix socket at which clients on this machine ask for shared-memory rings.
    pub shm: Option<PathBuf>,
    /// Access mask of the Unix sockets, octal as with `umask`.
    pub unix_mask: u32,
}

impl Default for Listen {
    fn default() -> Listen {
        Listen {
            tcp: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), MEMCACHED_PORT)],
            tls: vec![],
            udp: vec![],
            unix: None,
            shm: None,
            unix_mask: 0o700,
        }
    }
}

/// Everything a node needs to start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// The certificate of listeners that speak TLS.
    pub tls: Option<ServerFiles>,
    /// Who may come in, and in which protocol.
    pub login: LoginArgs,
    /// What clients may do; none: all that their protocol has.
    pub rights: Option<ServiceRights>,
    /// How they are looked at; a test plants mistakes there.
    pub checks: Checks,
    /// The file that says so, where it is one server's.
    pub rights_file: RightsArgs,
    /// Its registers, shared with whoever may turn them later.
    pub registers: Arc<Registers>,
    /// Whose home it is, if boxes are before it.
    pub home: HomeArgs,
    /// What acknowledged writes survive.
    pub durable: DurableArgs,
    /// The directory that the store's memory lies in, for the next process to go on with (memcached's -e). None: it is anonymous.
    pub memory_file: Option<PathBuf>,
    /// Whether the `shutdown` command may stop the node (memcached's -A).
    pub allow_shutdown: bool,
    /// Where its requests leave spans.
    pub tracer: Tracer,
    /// Which connections there are, for whoever asks.
    pub connections: Connections,
    /// Whether commands are counted by the prefix of their keys.
    pub detail: Detail,
    /// Who is shown what happens, and whether anybody may be.
    pub watchers: Watchers,
    /// What was said and changes nothing, to be logged at the start.
    pub notes: Vec<String>,
    /// Lines about each connection (1) and each command (2) on standard error (memcached's -v, -vv).
    pub verbosity: u8,
}

impl Config {
    /// Applies a config file of one server: table `[listen]`, and one table per family of registers. Where operators are to find it, if that is
    /// said there.
    ///
    /// # Errors
    /// Says which key is wrong and what is wanted there.
    pub fn apply(&mut self, file: &Table<'_>) -> Result<Option<SocketAddr>, Wrong> {
        if let Some(entry) = file.entries().find(|entry| entry.table().is_err()) {
            return Err(
                entry.wrong(format!("{} must stand inside a table such as [engine] or [listen]", entry.key))
            );
        }
        let mut admin = None;
        if let Some(listen) = file.get("listen") {
            let listen = listen.table()?;
            listen.only(
                &[
                    &["tcp", "tls", "udp", "unix", "unix_mask", "shm", "admin"],
                    TLS_KEYS,
                    LOGIN_KEYS,
                    RIGHTS_KEYS,
                ]
                .concat(),
            )?;
            self.apply_flags(&listen)?;
            for entry in listen.entries() {
                match entry.key {
                    "admin" => admin = addresses(&entry)?.pop(),
                    key if [TLS_KEYS, LOGIN_KEYS, RIGHTS_KEYS].concat().contains(&key) => {}
                    _ => self.apply_listen(&entry)?,
                }
            }
        }
        self.apply_store(file, &["listen"])?;
        Ok(admin)
    }

    /// Applies tables that are a family of registers each, but not those of `others`; `store.memory_file` stands among them and is none.
    ///
    /// # Errors
    /// Says which key is wrong and what is wanted there.
    pub fn apply_store(&mut self, file: &Table<'_>, others: &[&str]) -> Result<(), Wrong> {
        if let Some(store) = file.get("store").and_then(|store| store.table().ok())
            && let Some(place) = store.get("memory_file")
        {
            self.memory_file = Some(place.text()?.into());
        }
        file.registers(&self.registers, &[others, &["store.memory_file"]].concat())
    }

    /// The certificate, and who may come in, by the names of their flags.
    fn apply_flags(&mut self, listen: &Table<'_>) -> Result<(), Wrong> {
        let all_but = |keys: &[&str]| -> Vec<&str> {
            listen.entries().map(|entry| entry.key).filter(|key| !keys.contains(key)).collect()
        };
        self.login = listen.flags(&all_but(LOGIN_KEYS))?;
        self.rights_file = listen.flags(&all_but(RIGHTS_KEYS))?;
        let args: TlsArgs = listen.flags(&all_but(TLS_KEYS))?;
        self.tls = args.files().map_err(|why| listen.wrong(why))?.or(self.tls.take());
        Ok(())
    }

    fn apply_listen(&mut self, entry: &Entry<'_>) -> Result<(), Wrong> {
        match entry.key {
            "tcp" => self.listen.tcp = addresses(entry)?,
            "tls" => self.listen.tls = addresses(entry)?,
            "udp" => self.listen.udp = addresses(entry)?,
            "unix" => self.listen.unix = Some(entry.text()?.into()),
            "shm" => self.listen.shm = Some(entry.text()?.into()),
            _ => {
                self.listen.unix_mask =
                    octal(entry.text()?).map_err(|why| entry.wrong(format!("unix_mask is {why}")))?
            }
        }
        Ok(())
    }
}

/// An access mask, as `chmod` has it.
///
/// # Errors
/// It is none.
pub fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).map_err(|_| "an octal number such as 700".to_string())
}

fn addresses(entry: &Entry<'_>) -> Result<Vec<SocketAddr>, Wrong> {
    let read = |text| address(text).map_err(|wrong| entry.wrong(wrong.to_string()));
    entry.texts()?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::registers::Id;
    use crate::process::table::Source;
    use std::path::Path;

    fn apply(text: &str) -> Result<(Config, Option<SocketAddr>), String> {
        let source = Source::of(Path::new("m.toml"), text);
        let mut config = Config::default();
        let parsed = source.parse().map_err(|wrong| wrong.to_string())?;
        let admin = config.apply(&source.table(&parsed)).map_err(|wrong| wrong.to_string())?;
        Ok((config, admin))
    }

    #[test]
    fn a_file_sets_registers_and_addresses() {
        let (config, admin) = apply(
            "[listen]\ntcp = ['127.0.0.1:0', '[::1]:0']\nunix = '/run/m.sock'\nunix_mask = '770'\nadmin = 'localhost:0'\n\
             [engine]\ngroup = 32\nform = 'plain'\n[store]\nmemory = '1g'\npopulate = true\nmemory_file = '/dev/shm/m'\n",
        )
        .expect("a good file");
        assert_eq!(config.listen.tcp.len(), 2);
        assert_eq!(admin.map(|admin| admin.port()), Some(0));
        assert_eq!(config.listen.unix_mask, 0o770);
        assert_eq!(config.registers.read(Id::EngineGroup), 32);
        assert_eq!(config.registers.read(Id::EngineForm), 0);
        assert_eq!(config.registers.read(Id::StoreMemory), 1 << 30);
        assert!(config.registers.is_on(Id::StorePopulate));
        assert_eq!(config.memory_file.as_deref(), Some(Path::new("/dev/shm/m")));
    }

    #[test]
    fn a_file_has_listeners_with_tls_and_without() {
        let text = "[listen]\ntcp = '127.0.0.1:1'\ntls = ['127.0.0.1:2']\ntls_cert = 'c.pem'\ntls_min_version = '1.2'\n";
        let (config, _) = apply(text).expect("a good file");
        assert_eq!((config.listen.tcp[0].port(), config.listen.tls[0].port()), (1, 2));
        let files = config.tls.expect("a certificate");
        assert_eq!((files.cert, files.key), (PathBuf::from("c.pem"), PathBuf::from("c.pem")));
        assert_eq!(files.min_version, base::tls::MinVersion::Tls12);
        let users = "[listen]\nauth_file = '/etc/users'\nprotocol = 'auto'\nrights = '/etc/rights.toml'\n";
        let (config, _) = apply(users).expect("a good file");
        assert_eq!(config.rights_file.rights.as_deref(), Some(Path::new("/etc/rights.toml")));
        assert_eq!(config.login.settings().map(|(_, value)| value), ["auto-negotiate", "yes", "/etc/users"]);
        let wrong = apply("[listen]\ntls_key = 'k.pem'\n").expect_err("no certificate");
        assert!(
            wrong.starts_with("m.toml:1") && wrong.contains("tls_cert") || wrong.contains("--tls-cert"),
            "{wrong}"
        );
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        for (text, part) in [
            ("x = 1", "m.toml:1: x must stand inside a table"),
            ("[engine]\ngroup = 99", "m.toml:2: register engine.group takes 1 to 64"),
            (
                "[engine]\n\ngrup = 9",
                "m.toml:3: there is no register \"engine.grup\"; did you mean \"engine.group\"?",
            ),
            ("[engine]\ngroup = [1]", "m.toml:2: engine.group must be a number, a string"),
            ("[store]\nmemory_file = 1", "m.toml:2: store.memory_file"),
            ("[listen]\ntcp = 'nowhere'", "127.0.0.1:11211"),
            (
                "[listen]\nwhere = 1",
                "m.toml:2: [listen] has no key \"where\"; it knows admin, auth_file, enable_sasl, protocol, rights, shm, tcp, tls, tls_cert",
            ),
            ("[listen]\nunix_mak = '700'", "did you mean \"unix_mask\"?"),
            ("[listen]\nunix_mask = '9'", "octal"),
            ("[listen", "m.toml:1: not valid TOML"),
        ] {
            let error = apply(text).expect_err(text);
            assert!(error.contains(part), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn loopback_is_the_default() {
        assert!(Listen::default().tcp.iter().all(|a| a.ip().is_loopback()));
    }
}
