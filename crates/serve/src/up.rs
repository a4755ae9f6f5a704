//! `millrace up`: run a node until it is told to stop.

use crate::kv::Server;
use crate::kv::config::{Config, ConfigError, MEMCACHED_PORT};
use crate::kv::registers::{Id, SetError};
use crate::process::logger::LogArgs;
use crate::process::parse::{AssignError, address, assign};
use base::Bytes;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Run a node that memcached clients can use.
///
/// Flags are memcached's where they make sense. Anything else is a register: `--set NAME=VALUE`, listed by `millrace
/// registers`. Order: defaults, then the config file, then flags.
#[derive(Args, Debug, Default)]
pub struct Up {
    /// TCP port for memcached clients; 0 picks a free one
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,

    /// Address to listen on; loopback unless told otherwise. May be repeated, and may carry a port
    #[arg(short = 'l', long = "listen", value_name = "ADDR[:PORT]")]
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

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = crate::admin::parse_address)]
    admin: Option<SocketAddr>,

    /// Memory for items and index, in MiB, or with a unit (64m, 2g)
    #[arg(short = 'm', long = "memory-limit", value_name = "MIB", value_parser = mebibytes)]
    memory: Option<Bytes>,

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

    /// Write the process id to this file
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,

    /// Run as this user, given by name or number, once the sockets are open (root only)
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,

    #[command(flatten)]
    log: LogArgs,

    /// Config file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set a register; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).map_err(|_| "an octal number such as 700".to_string())
}

/// memcached's `-m 64` is MiB; `-m 64m` and `-m 1g` are what they say.
fn mebibytes(text: &str) -> Result<Bytes, String> {
    match text.parse::<u64>() {
        Ok(mib) => mib.checked_mul(1 << 20).map(Bytes).ok_or_else(|| "a number of MiB".to_string()),
        Err(_) => text.parse::<Bytes>().map_err(|e| e.to_string()),
    }
}

/// Why a node could not be run.
#[derive(Debug)]
pub enum UpError {
    /// The config file or an address.
    Config(ConfigError),
    /// A register.
    Register(AssignError),
    /// The node.
    Start(crate::kv::StartError),
    /// The pid file, the user, the signals.
    System(String),
}

impl fmt::Display for UpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpError::Config(e) => e.fmt(f),
            UpError::Register(e) => e.fmt(f),
            UpError::Start(e) => e.fmt(f),
            UpError::System(e) => f.write_str(e),
        }
    }
}

impl std::error::Error for UpError {}

impl From<SetError> for UpError {
    fn from(e: SetError) -> UpError {
        UpError::Register(e.into())
    }
}

impl From<AssignError> for UpError {
    fn from(e: AssignError) -> UpError {
        UpError::Register(e)
    }
}

impl From<ConfigError> for UpError {
    fn from(e: ConfigError) -> UpError {
        UpError::Config(e)
    }
}

impl Up {
    /// What the flags and the config file say together.
    ///
    /// # Errors
    /// Says which of them is wrong and what is wanted.
    pub fn config(&self) -> Result<Config, UpError> {
        let mut config = Config::default();
        if let Some(path) = &self.config {
            config.apply_file(path)?;
        }
        self.apply_addresses(&mut config)?;
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
        ];
        for (id, number) in numbers {
            if let Some(number) = number {
                registers.write(id, number)?;
            }
        }
        assign(registers, &self.set)?;
        config.allow_shutdown = self.allow_shutdown;
        config.verbosity = self.log.verbose;
        Ok(config)
    }

    fn apply_addresses(&self, config: &mut Config) -> Result<(), UpError> {
        let listen = &mut config.listen;
        let file_port = listen.tcp.first().map_or(MEMCACHED_PORT, SocketAddr::port);
        let port = self.port.unwrap_or(file_port);
        if !self.listen.is_empty() {
            listen.tcp = addresses(&self.listen, port)?;
        } else if self.port.is_some() {
            listen.tcp.iter_mut().for_each(|address| address.set_port(port));
        }
        if let Some(path) = &self.unix {
            listen.unix = Some(path.clone());
            if self.port.is_none() && self.listen.is_empty() {
                listen.tcp.clear();
            }
        }
        if let Some(udp) = self.udp_port {
            listen.udp = listen.tcp.iter().map(|tcp| SocketAddr::new(tcp.ip(), udp)).collect();
            if udp == 0 {
                listen.udp.clear();
            }
        }
        listen.shm = self.shm.clone().or(listen.shm.take());
        listen.unix_mask = self.unix_mask.unwrap_or(listen.unix_mask);
        if let Some(admin) = &self.admin {
            listen.admin = Some(*admin);
        }
        Ok(())
    }

    /// Runs the node until SIGINT, SIGTERM or SIGHUP, then answers what has arrived and returns.
    ///
    /// # Errors
    /// When it could not start.
    pub fn run(&self) -> Result<(), UpError> {
        self.log.start("kv");
        let config = self.config()?;
        let system = |what: &str, e: std::io::Error| UpError::System(format!("cannot {what}: {e}"));
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|e| system("handle signals", e))?;
        if let Some(user) = &self.user {
            become_user(user)?;
        }
        let node = Server::start(&config).map_err(UpError::Start)?;
        let pidfile = self.pidfile.as_deref().map(Pidfile::write).transpose()?;
        announce(&config, &node);
        warn_of_descriptors(descriptors_wanted(&config));
        let signal = signals.forever().next();
        log::info!("{}, draining", signal.map_or("stopped", name_of));
        node.stop();
        drop(pidfile);
        Ok(())
    }
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        _ => "SIGHUP",
    }
}

fn addresses(texts: &[String], port: u16) -> Result<Vec<SocketAddr>, UpError> {
    let mut all = Vec::new();
    for text in texts.iter().flat_map(|text| text.split(',')) {
        let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
        let bare = if bare == "localhost" { "127.0.0.1" } else { bare };
        match bare.parse::<IpAddr>() {
            Ok(ip) => all.push(SocketAddr::new(ip, port)),
            Err(_) => all.push(address(text.trim()).map_err(ConfigError::Address)?),
        }
    }
    Ok(all)
}

fn announce(config: &Config, node: &Server) {
    let registers = &config.registers;
    for address in node.tcp() {
        log::info!(address:% = address; "serving memcached clients on {address}");
        crate::reach::warn("memcached", *address);
    }
    for address in node.udp() {
        log::info!(address:% = address; "serving memcached clients on UDP {address}");
        crate::reach::warn("memcached over UDP", *address);
    }
    if let Some(path) = &config.listen.unix {
        log::info!("serving memcached clients on {}", path.display());
    }
    if let Some(path) = &config.listen.shm {
        log::info!("handing out shared-memory rings on {}", path.display());
    }
    if let Some(address) = node.admin() {
        log::info!(address:% = address; "metrics and registers on http://{address}/");
    }
    if let Some(token) = node.admin_token() {
        log::info!("changing a register wants the token in {}", token.display());
    }
    if log::log_enabled!(log::Level::Debug) {
        let store = node.report().kv.store;
        log::debug!(
            "{} of memory, {}, {} edge thread(s)",
            Bytes(registers.read(Id::StoreMemory)),
            store.heap_pages,
            registers.read(Id::EdgeThreads)
        );
    }
}

/// Descriptors that as many connections as are allowed want, and everything else besides.
fn descriptors_wanted(config: &Config) -> u64 {
    // Per edge an epoll and a wake-up; libraries, listeners, the admin port and its reserve.
    let beside = 64 + 4 * config.registers.read(Id::EdgeThreads);
    config.registers.read(Id::NetMaxConnections).saturating_add(beside)
}

/// Says so if this process may not have that many descriptors.
fn warn_of_descriptors(wanted: u64) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.filter(|&limit| limit < wanted) {
        log::warn!(
            "this process may open {limit} descriptors, but its connections (-c) want {wanted}: clients beyond are turned away. Raise the \
             limit (`ulimit -Hn`, LimitNOFILE= of systemd), or lower -c"
        );
    }
}

/// A file with our process id; gone when we are.
struct Pidfile(PathBuf);

impl Pidfile {
    /// Writes it beside its place and moves it there: what was there is replaced, and if that was a link, the link and not the file it leads to.
    fn write(path: &Path) -> Result<Pidfile, UpError> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let write = || {
            let mut file = std::fs::File::create_new(&fresh)?;
            writeln!(file, "{}", std::process::id())?;
            std::fs::rename(&fresh, path)
        };
        write().map_err(|e| {
            // Nobody else has this name.
            let _ = std::fs::remove_file(&fresh);
            UpError::System(format!("cannot write the pid file {}: {e}", path.display()))
        })?;
        Ok(Pidfile(path.to_path_buf()))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Somebody may have removed it already, or replaced it by their own.
        if std::fs::read_to_string(&self.0).is_ok_and(|id| id.trim() == std::process::id().to_string()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Becomes `user` for good. Called before any other thread exists.
fn become_user(user: &str) -> Result<(), UpError> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry =
        passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|fields| fields.first() == Some(&user));
    let number = |text: Option<&&str>| text.and_then(|t| t.parse::<u32>().ok());
    let (uid, gid) = match (&entry, user.parse::<u32>()) {
        (Some(fields), _) => (number(fields.get(2)), number(fields.get(3))),
        (None, Ok(id)) => (Some(id), Some(id)),
        (None, Err(_)) => (None, None),
    };
    let (Some(uid), Some(gid)) = (uid, gid) else {
        return Err(UpError::System(format!("there is no user {user:?}; see /etc/passwd, or give a number")));
    };
    if rustix::process::getuid().as_raw() != 0 {
        return Err(UpError::System("only root can become another user; leave -u out".to_string()));
    }
    let (uid, gid) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
        .map_err(|e| UpError::System(format!("cannot become {user}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        up: Up,
    }

    fn config(line: &str) -> Result<Config, String> {
        let words = std::iter::once("up").chain(line.split_whitespace());
        let parsed = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        parsed.up.config().map_err(|e| e.to_string())
    }

    #[test]
    fn memcached_flags_mean_what_they_mean_there() {
        let c = config("-p 0 -m 100 -M -c 10 -t 2 -I 2m -b 5 -R 7 -F -A -vv").expect("good flags");
        let r = &c.registers;
        assert_eq!(r.read(Id::StoreMemory), 100 << 20);
        assert_eq!(r.read(Id::StoreMode), 1);
        assert_eq!((r.read(Id::NetMaxConnections), r.read(Id::EdgeThreads)), (10, 2));
        assert_eq!((r.read(Id::StoreMaxValue), r.read(Id::NetPipeline)), (2 << 20, 7));
        assert_eq!((c.allow_shutdown, c.verbosity, r.is_on(Id::StoreFlushAll)), (true, 2, false));
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
        assert_eq!(
            config("--admin 0").expect("good flags").listen.admin.map(|a| a.ip().is_loopback()),
            Some(true)
        );
    }

    #[test]
    fn a_pid_file_replaces_a_link_and_not_what_it_leads_to() {
        let place = std::env::temp_dir().join(format!("millrace-pid-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let (precious, path) = (place.join("precious"), place.join("pid"));
        std::fs::write(&precious, "kept").expect("a file");
        std::os::unix::fs::symlink(&precious, &path).expect("a link");
        let pidfile = Pidfile::write(&path).expect("it is written");
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!((read(&precious), read(&path)), ("kept".into(), format!("{}\n", std::process::id())));
        drop(pidfile);
        assert!(!path.exists() && precious.exists());
        std::fs::remove_dir_all(&place).expect("it is ours");
    }

    #[test]
    fn wrong_flags_say_what_is_wanted() {
        for (line, part) in [
            ("-m lots", "not a size"),
            ("-c 0", "1 to"),
            ("-a 9", "octal"),
            ("--set engine.group", "NAME=VALUE"),
            ("--set engine.group=0", "1 to 64"),
            ("-l nowhere", "127.0.0.1:11211"),
            ("--config /does/not/exist", "cannot read the config file"),
            ("--bogus", "unexpected argument"),
        ] {
            let error = config(line).expect_err(line);
            assert!(error.contains(part), "{line:?} gave {error:?}");
        }
    }
}
