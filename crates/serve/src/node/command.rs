//! `millrace up`: serve until told to stop.

use super::builder::lines;
use super::daemon::{self, Process};
use super::file::{self, Said};
use super::system::{Pidfile, allow_core_files, become_user};
use crate::kv::Kv;
use crate::kv::config::Config;
use crate::kv::flags::{FlagError, Flags};
use crate::process::listen::access;
use crate::process::logger::LogArgs;
use crate::process::table::Wrong;
use crate::process::{Stop, say};
use crate::reach;
use crate::rights::RightsArgs;
use crate::shell::{Served, Shell, ShellError};
use clap::Args;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve: a key-value store for memcached clients, or all services of a config file.
///
/// Flags are memcached's where they make sense. Anything else is a register: `--set NAME=VALUE`, listed by `millrace
/// registers`. Order: defaults, then the config file, then flags.
///
/// A config file with services has services of any kind, in this one process, with one admin port, one log and one stop; flags of the
/// key-value server are not for it.
#[derive(Args, Debug, Default)]
#[command(after_long_help = "\
Examples:
  millrace up -m 1g
  millrace up --config node.toml --check

A file with two services:
  [admin]
  listen = \"127.0.0.1:9211\"
  [engine]
  cores = 2
  [services.cache]
  kind = \"kv\"
  [services.cache.store]
  memory = \"256m\"
  [services.rank]
  kind = \"rec\"
  engine_core = 1
  rows = \"10k\"
  [[listen]]
  service = \"cache\"
  address = \"tcp:127.0.0.1:11211\"
  [[listen]]
  service = \"rank\"
  protocol = \"http\"
  address = \"127.0.0.1:8000\"")]
pub struct Up {
    #[command(flatten)]
    flags: Flags,

    /// HTTP port for metrics, registers and health; on loopback unless an address is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = crate::admin::parse_address)]
    admin: Option<SocketAddr>,

    /// Listen beyond loopback although nothing is encrypted and nobody is asked who he is
    #[arg(long, help_heading = "TLS")]
    insecure: bool,

    #[command(flatten)]
    rights: RightsArgs,

    /// Serve in the background: returns once it serves there
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Raise the limit of core files as far as this user may
    #[arg(short = 'r', long)]
    enable_coredumps: bool,

    /// Write the process id to this file
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,

    /// Run as this user, given by name or number, from the start (root only): ports below 1024 and files must be open to it
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,

    #[command(flatten)]
    log: LogArgs,

    /// Config file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Say what would be served, or what is wrong with the config file, the rights, users and certificates that it would use, and end
    #[arg(long)]
    check: bool,
}

/// Why nothing could be served.
#[derive(Debug)]
pub enum UpError {
    /// The config file.
    Config(Wrong),
    /// The flags.
    Flags(FlagError),
    /// Both: flags of one server, and a file with several.
    Both(PathBuf),
    /// The services.
    Shell(ShellError),
    /// What the file says and `--admin` does not fit.
    Admin(String),
    /// The pid file, the user.
    System(String),
}

impl fmt::Display for UpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpError::Config(e) => e.fmt(f),
            UpError::Flags(e) => e.fmt(f),
            UpError::Both(path) => write!(
                f,
                "{} has [services]: what flags say of a key-value server stands in its table there",
                path.display()
            ),
            UpError::Shell(e) => e.fmt(f),
            UpError::Admin(e) | UpError::System(e) => f.write_str(e),
        }
    }
}

impl std::error::Error for UpError {}

impl From<ShellError> for UpError {
    fn from(e: ShellError) -> UpError {
        UpError::Shell(e)
    }
}

impl Up {
    /// What the config file and the flags say together.
    fn said(&self) -> Result<Said, UpError> {
        let file = self.config.as_deref().map(file::read).transpose().map_err(UpError::Config)?;
        match file.unwrap_or_else(|| Said::One(Box::default(), None)) {
            Said::One(mut config, admin) => {
                self.flags.apply(&mut config).map_err(UpError::Flags)?;
                config.verbosity = self.log.verbose;
                config.rights_file.rights = self.rights.rights.clone().or(config.rights_file.rights.take());
                let admin = self.admin.or(admin).or_else(|| config.home.admin());
                Ok(Said::One(config, admin))
            }
            Said::Several(_) if self.flags != Flags::default() => {
                Err(UpError::Both(self.config.clone().unwrap_or_default()))
            }
            Said::Several(mut plan) => {
                if let Some(address) = self.admin {
                    plan.admin = None;
                    plan.set_admin(address).map_err(UpError::Admin)?;
                }
                plan.rights.rights = self.rights.rights.clone().or(plan.rights.rights.take());
                Ok(Said::Several(plan))
            }
        }
    }

    /// Serves until SIGINT, SIGTERM or SIGHUP, then answers what has arrived and returns.
    ///
    /// # Errors
    /// When it could not start, or a service failed.
    pub fn run(&self) -> Result<(), UpError> {
        let said = self.said()?;
        if self.check {
            check(said)?.iter().for_each(|line| say(line));
            return Ok(());
        }
        if self.daemon && daemon::detach().map_err(UpError::System)? == Process::Starter {
            return Ok(());
        }
        if self.enable_coredumps {
            allow_core_files().map_err(UpError::System)?;
        }
        let stop = Stop::on_signals().map_err(ShellError::Signal)?;
        if let Some(user) = &self.user {
            become_user(user).map_err(UpError::System)?;
        }
        let (shell, is_one) = match said {
            Said::One(config, admin) => {
                self.log.start("kv");
                reach::set_insecure(self.insecure);
                let access = access(admin, config.tls.as_ref(), &config.rights_file)?;
                (Shell::of(Kv::new(*config), access, stop)?, true)
            }
            Said::Several(plan) => {
                self.log.start("node");
                reach::set_insecure(self.insecure);
                (plan.start(stop)?, false)
            }
        };
        let pidfile = self.pidfile.as_deref().map(Pidfile::write).transpose().map_err(UpError::System)?;
        if !is_one {
            lines(&shell).iter().for_each(|line| say(line));
        }
        tell_of_admin(&shell);
        if self.daemon {
            daemon::ready(self.log.verbose > 0).map_err(UpError::System)?;
        }
        let ended = shell.wait();
        drop(pidfile);
        Ok(ended?)
    }
}

/// What would be served, once all files are read that say who may come in.
fn check(said: Said) -> Result<Vec<String>, UpError> {
    match said {
        Said::One(config, admin) => {
            let lines = lines_of_one(&config, admin);
            let access = access(admin, config.tls.as_ref(), &config.rights_file)?;
            Shell::check([Served::alone(Kv::new(*config))], access)?;
            Ok(lines)
        }
        Said::Several(plan) => {
            let lines = plan.lines();
            plan.check()?;
            Ok(lines)
        }
    }
}

fn lines_of_one(config: &Config, admin: Option<SocketAddr>) -> Vec<String> {
    let Config { listen, .. } = config;
    let tcp = listen.tcp.iter().map(|address| format!("kv: memcached at tcp:{address}"));
    let tls = listen.tls.iter().map(|address| format!("kv: memcached at tls:{address}"));
    let udp = listen.udp.iter().map(|address| format!("kv: memcached at udp:{address}"));
    let unix = listen.unix.iter().map(|path| format!("kv: memcached at unix:{}", path.display()));
    let shm = listen.shm.iter().map(|path| format!("kv: memcached at shm:{}", path.display()));
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let admin = admin.map(|address| format!("admin: {scheme}://{address}"));
    tcp.chain(tls).chain(udp).chain(unix).chain(shm).chain(admin).collect()
}

fn tell_of_admin(shell: &Shell) {
    if let Some(admin) = shell.admin() {
        log::info!(address:% = admin.address(); "metrics and registers on {}/", admin.url());
        log::info!("changing a register wants the token in {}", admin.token().display());
    }
}
