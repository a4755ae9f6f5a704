//! memcached's flags, as `millrace up` has them.

use super::config::{Config, MEMCACHED_PORT, octal};
use super::durable::DurableArgs;
use super::extended::ExtendedFlags;
use super::home::HomeArgs;
use super::ignored::IgnoredFlags;
use super::registers::{Id, SetError};
use super::service::prefixes::Detail;
use super::tls_flags::TlsFlags;
use super::watchers::{WatchPlan, Watchers};
use crate::memcached::login::LoginArgs;
use crate::process::parse::{AssignError, WrongAddress, address, assign};
use base::Bytes;
use clap::Args;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// Of one key-value server.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// TCP port for memcached clients; 0 picks a free one
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,

    /// Address or name to listen on; loopback unless told otherwise. May be repeated or a list with commas, and may carry a port
    ///
    /// Before it tls: or notls: say whether TLS is spoken there; it is where neither is said if there is a certificate.
    #[arg(short = 'l', long = "listen", value_name = "[tls:|notls:]ADDR[:PORT]")]
    listen: Vec<String>,

    /// Unix socket for memcached clients (alone: no TCP, as in memcached)
    #[arg(short = 's', long = "unix-socket", value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Access mask of Unix sockets, octal
    #[arg(short = 'a', long = "unix-mask", value_name = "MASK", value_parser = octal)]
    unix_mask: Option<u32>,

    /// UDP port for memcached clients; 0 is off
    #[arg(short = 'U', long = "udp-port", value_name = "PORT")]
    udp_port: Option<u16>,

    /// Unix socket at which clients on this machine get shared-memory rings
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,

    /// Memory for items and index, in MiB, or with a unit (64m, 2g)
    #[arg(short = 'm', long = "memory-limit", value_name = "MIB", value_parser = mebibytes)]
    memory: Option<Bytes>,

    /// Directory, best on a tmpfs, for the memory of items: a node that is stopped in order leaves it there to the next one
    #[arg(short = 'e', long, value_name = "PATH")]
    memory_file: Option<PathBuf>,

    /// Lose nothing: answer an error when memory is full, instead of evicting
    #[arg(short = 'M', long = "disable-evictions")]
    no_evictions: bool,

    /// Connections at most
    #[arg(short = 'c', long = "conn-limit", value_name = "N")]
    connections: Option<u64>,

    /// Edge threads
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<u64>,

    /// Largest value (1k to 1g; a plain number is bytes)
    #[arg(short = 'I', long = "max-item-size", value_name = "SIZE")]
    max_value: Option<Bytes>,

    /// Listen backlog
    #[arg(short = 'b', long = "listen-backlog", value_name = "N")]
    backlog: Option<u64>,

    /// Requests of one connection per turn
    #[arg(short = 'R', long = "max-reqs-per-event", value_name = "N")]
    pipeline: Option<u64>,

    /// Use 2 MiB pages reserved by the administrator, where there are any
    #[arg(short = 'L', long = "enable-largepages")]
    large_pages: bool,

    /// Let the `shutdown` command stop the node
    #[arg(short = 'A', long = "enable-shutdown")]
    allow_shutdown: bool,

    /// Refuse `flush_all`
    #[arg(short = 'F', long = "disable-flush-all")]
    no_flush: bool,

    /// Count what clients do by the prefix of their keys, which ends with this character: `stats detail dump` shows it
    #[arg(short = 'D', value_name = "CHAR", value_parser = delimiter)]
    detail: Option<u8>,

    /// Refuse listings of keys: `stats cachedump`, `lru_crawler metadump`
    #[arg(short = 'X', long = "disable-dumping")]
    no_dumps: bool,

    /// Refuse to be watched
    #[arg(short = 'W', long = "disable-watch")]
    no_watch: bool,

    #[command(flatten)]
    extended: ExtendedFlags,

    #[command(flatten)]
    tls: TlsFlags,

    #[command(flatten)]
    login: LoginArgs,

    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    durable: DurableArgs,

    #[command(flatten)]
    ignored: IgnoredFlags,

    /// Set a register; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// memcached's `-m 64` is MiB; `-m 64m` and `-m 1g` are what they say.
fn mebibytes(text: &str) -> Result<Bytes, String> {
    match text.parse::<u64>() {
        Ok(mib) => mib.checked_mul(1 << 20).map(Bytes).ok_or_else(|| "a number of MiB".to_string()),
        Err(_) => text.parse::<Bytes>().map_err(|e| e.to_string()),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte @ b'!'..=b'~'] => Ok(*byte),
        _ => Err("one character, such as :".to_owned()),
    }
}

/// What is wrong with them.
#[derive(Debug)]
pub enum FlagError {
    /// An address.
    Address(WrongAddress),
    /// A register.
    Register(AssignError),
    /// A name that is to be listened at.
    Name(String, std::io::Error),
    /// The certificate.
    Tls(String),
    /// A flag of memcached's.
    Memcached(String),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Address(e) => e.fmt(f),
            FlagError::Register(e) => e.fmt(f),
            FlagError::Name(name, e) => write!(
                f,
                "-l {name}: {e}; write an address such as 127.0.0.1:11211, or a name that this machine can resolve"
            ),
            FlagError::Tls(why) | FlagError::Memcached(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for FlagError {}

impl From<SetError> for FlagError {
    fn from(e: SetError) -> FlagError {
        FlagError::Register(e.into())
    }
}

impl From<AssignError> for FlagError {
    fn from(e: AssignError) -> FlagError {
        FlagError::Register(e)
    }
}

impl From<WrongAddress> for FlagError {
    fn from(e: WrongAddress) -> FlagError {
        FlagError::Address(e)
    }
}

impl Flags {
    /// Has them say what they say, over what the config said before.
    ///
    /// # Errors
    /// Says which of them is wrong and what is wanted.
    pub fn apply(&self, config: &mut Config) -> Result<(), FlagError> {
        self.apply_addresses(config)?;
        let registers = &config.registers;
        let numbers = [
            (Id::StoreMemory, self.memory.map(|m| m.0)),
            (Id::StoreMaxValue, self.max_value.map(|m| m.0)),
            (Id::NetMaxConnections, self.connections),
            (Id::EdgeThreads, self.threads),
            (Id::NetBacklog, self.backlog),
            (Id::NetPipeline, self.pipeline),
            (Id::StoreMode, self.no_evictions.then_some(1)),
            (Id::StorePages, self.large_pages.then_some(2)),
            (Id::StoreFlushAll, self.no_flush.then_some(0)),
            (Id::StoreDumps, self.no_dumps.then_some(0)),
        ];
        for (id, number) in numbers {
            if let Some(number) = number {
                registers.write(id, number)?;
            }
        }
        config.notes = self.ignored.notes().map_err(FlagError::Memcached)?;
        config.notes.extend(self.extended.apply(registers).map_err(FlagError::Memcached)?);
        let buffer = self.extended.watcher_buffer().map_err(FlagError::Memcached)?;
        if self.no_watch || buffer.is_some() {
            let buffer_bytes = buffer.unwrap_or(config.watchers.plan().buffer_bytes);
            config.watchers = Watchers::new(WatchPlan { is_allowed: !self.no_watch, buffer_bytes });
        }
        assign(registers, &self.set)?;
        config.login = self.login.over(std::mem::take(&mut config.login));
        config.detail = self.detail.map_or_else(Detail::default, Detail::by);
        config.allow_shutdown = self.allow_shutdown;
        config.home = self.home.clone();
        config.durable = self.durable.clone();
        config.memory_file = self.memory_file.clone().or(config.memory_file.take());
        Ok(())
    }

    fn apply_addresses(&self, config: &mut Config) -> Result<(), FlagError> {
        let files = self.tls.files(self.extended.tls()).map_err(FlagError::Tls)?;
        let has_tls = files.is_some();
        config.tls = files.or(config.tls.take());
        let listen = &mut config.listen;
        let file_port = listen.tcp.first().map_or(MEMCACHED_PORT, SocketAddr::port);
        let port = self.port.unwrap_or(file_port);
        if !self.listen.is_empty() {
            (listen.tls, listen.tcp) = addresses(&self.listen, port, config.tls.is_some())?;
        } else {
            if self.port.is_some() {
                listen.tcp.iter_mut().for_each(|address| address.set_port(port));
            }
            if has_tls {
                // A certificate of flags is for what flags would listen at.
                listen.tls.append(&mut listen.tcp);
            }
        }
        if let Some(path) = &self.unix {
            listen.unix = Some(path.clone());
            if self.port.is_none() && self.listen.is_empty() {
                listen.tcp.clear();
                listen.tls.clear();
            }
        }
        if let Some(udp) = self.udp_port {
            listen.udp =
                listen.tcp.iter().chain(&listen.tls).map(|tcp| SocketAddr::new(tcp.ip(), udp)).collect();
            if udp == 0 {
                listen.udp.clear();
            }
        }
        listen.shm = self.shm.clone().or(listen.shm.take());
        listen.unix_mask = self.unix_mask.unwrap_or(listen.unix_mask);
        Ok(())
    }
}

/// Those for TLS, and those without.
fn addresses(
    texts: &[String],
    port: u16,
    has_certificate: bool,
) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>), FlagError> {
    let (mut tls, mut plain) = (Vec::new(), Vec::new());
    for text in texts.iter().flat_map(|text| text.split(',')) {
        let text = text.trim();
        let (all, text) = match (text.strip_prefix("tls:"), text.strip_prefix("notls:")) {
            (Some(text), _) => (&mut tls, text),
            (None, Some(text)) => (&mut plain, text),
            (None, None) if has_certificate => (&mut tls, text),
            (None, None) => (&mut plain, text),
        };
        let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
        let bare = if bare == "localhost" { "127.0.0.1" } else { bare };
        match bare.parse::<IpAddr>() {
            Ok(ip) => all.push(SocketAddr::new(ip, port)),
            Err(_) => match address(text.trim()) {
                Ok(address) => all.push(address),
                Err(wrong) => all.extend(named(text.trim(), port)?.ok_or(wrong)?),
            },
        }
    }
    Ok((tls, plain))
}

/// Addresses of `NAME` or `NAME:PORT`; none where that is no name of a machine.
fn named(text: &str, port: u16) -> Result<Option<Vec<SocketAddr>>, FlagError> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (text, Some(port)),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let Some(port) = port.filter(|_| is_name) else { return Ok(None) };
    let found = (name, port).to_socket_addrs().map_err(|e| FlagError::Name(text.to_owned(), e))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.dedup();
    Ok(Some(addresses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::tls::MinVersion;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn config(line: &str) -> Result<Config, String> {
        let words = std::iter::once("up").chain(line.split_whitespace());
        let parsed = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        let mut config = Config::default();
        parsed.flags.apply(&mut config).map_err(|e| e.to_string())?;
        Ok(config)
    }

    #[test]
    fn memcached_flags_mean_what_they_mean_there() {
        let c = config("-p 0 -m 100 -M -c 10 -t 2 -I 2m -b 5 -R 7 -F -A -e /dev/shm/m").expect("good flags");
        let r = &c.registers;
        assert_eq!(r.read(Id::StoreMemory), 100 << 20);
        assert_eq!(r.read(Id::StoreMode), 1);
        assert_eq!((r.read(Id::NetMaxConnections), r.read(Id::EdgeThreads)), (10, 2));
        assert_eq!((r.read(Id::StoreMaxValue), r.read(Id::NetPipeline)), (2 << 20, 7));
        assert_eq!((c.allow_shutdown, r.is_on(Id::StoreFlushAll)), (true, false));
        assert_eq!(c.memory_file.as_deref(), Some(std::path::Path::new("/dev/shm/m")));
        assert_eq!(c.listen.tcp[0].port(), 0);
        assert!(c.listen.udp.is_empty());
    }

    #[test]
    fn addresses_take_the_port_and_a_unix_socket_replaces_tcp() {
        let c = config("-p 99 -l localhost,[::1] -U 98").expect("good flags");
        assert_eq!(
            c.listen.tcp.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["127.0.0.1:99", "[::1]:99"]
        );
        assert_eq!(c.listen.udp[0].port(), 98);
        assert!(config("-s /tmp/x.sock").expect("good flags").listen.tcp.is_empty());
        assert_eq!(config("-s /tmp/x.sock -p 5").expect("good flags").listen.tcp.len(), 1);
    }

    #[test]
    fn names_are_resolved() {
        let resolved = |text: &str| named(text, 7).expect("every machine has it");
        for (text, port) in [("localhost", 7), ("localhost:8", 8)] {
            let addresses = resolved(text).expect("a name");
            assert!(
                !addresses.is_empty() && addresses.iter().all(|a| a.ip().is_loopback() && a.port() == port)
            );
        }
        for text in ["", "10.0.0.x", "[::1", "localhost:x", "a b", "-x"] {
            assert_eq!(resolved(text), None, "{text}");
        }
    }

    #[test]
    fn flags_without_effect_are_noted() {
        let c = config("-X -C -k -f 1.1 -n 64 -o modern,idle_timeout=9 -S -Y users").expect("good flags");
        assert!(!c.registers.is_on(Id::StoreDumps));
        assert_eq!(c.registers.read(Id::NetIdleTimeout), 9);
        let flags: Vec<&str> = c.notes.iter().filter_map(|note| note.split(' ').next()).collect();
        assert_eq!(flags, ["-f", "-n", "-C", "-k", "-o"]);
        assert!(c.login.has_users());
        assert_eq!(config("-p 0").expect("good flags").notes, Vec::<String>::new());
    }

    #[test]
    fn a_certificate_makes_listeners_speak_tls() {
        let c = config("--tls-cert c.pem --tls-key k.pem").expect("good flags");
        assert_eq!((c.listen.tls.len(), c.listen.tcp.len(), c.listen.tls[0].port()), (1, 0, MEMCACHED_PORT));
        let c = config("-p 7 -l 127.0.0.1,notls:127.0.0.2:8 --tls-cert c.pem").expect("good flags");
        assert_eq!((c.listen.tls[0].port(), c.listen.tcp[0].port()), (7, 8));
        assert_eq!(c.tls.expect("files").key, PathBuf::from("c.pem"), "the key is in the same file");
        let c = config(
            "-Z -o ssl_chain_cert=c.pem,ssl_key=k.pem,ssl_ca_cert=ca.pem,ssl_min_version=2 -o ssl_verify_mode=2",
        );
        let files = c.expect("memcached's flags").tls.expect("files");
        assert_eq!((files.cert, files.key), (PathBuf::from("c.pem"), PathBuf::from("k.pem")));
        assert_eq!((files.client_ca, files.min_version), (Some(PathBuf::from("ca.pem")), MinVersion::Tls12));
        let c = config("-Z -o ssl_chain_cert=c.pem,ssl_ca_cert=ca.pem").expect("memcached's flags");
        assert_eq!(c.tls.expect("files").client_ca, None, "memcached does not verify unless told to");
        assert!(config("-s /tmp/x.sock --tls-cert c.pem").expect("good flags").listen.tls.is_empty());
    }

    #[test]
    fn wrong_flags_say_what_is_wanted() {
        for (line, part) in [
            ("-m lots", "not a size"),
            ("-c 0", "1 to"),
            ("-a 9", "octal"),
            ("--set engine.group", "NAME=VALUE"),
            ("--set engine.group=0", "1 to 64"),
            ("-l 127.0.0.1:x", "127.0.0.1:11211"),
            ("-l tls:127.0.0.1:99999 --tls-cert c", "127.0.0.1:11211"),
            ("-l no+where", "127.0.0.1:11211"),
            ("-D ab", "one character"),
            ("-f 1", "greater than 1"),
            ("-n 0", "greater than 0"),
            ("-B udp", "ascii"),
            ("-o ext_path=/x:1g", "--durability log"),
            ("--tls-key k.pem", "--tls-cert FILE"),
            ("-Z", "ssl_chain_cert=FILE"),
            ("-o ssl_chain_cert=c.pem", "without -Z"),
            ("-Z -o ssl_chain_cert=c.pem,ssl_ciphers=x", "ssl_ciphers=x is not understood"),
            ("-Z -o ssl_chain_cert=c.pem,ssl_verify_mode=2", "ssl_ca_cert=FILE"),
            ("-Z -o ssl_chain_cert=c.pem,ssl_min_version=0", "2 is TLS 1.2"),
            ("--tls-cert c.pem --tls-min-version 1.1", "1.2 or 1.3"),
            ("--bogus", "unexpected argument"),
        ] {
            let error = config(line).expect_err(line);
            assert!(error.contains(part), "{line:?} gave {error:?}");
        }
    }
}
