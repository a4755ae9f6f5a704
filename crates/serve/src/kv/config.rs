//! What a node is told at start: where to listen, and every register. From defaults, then the config file, then flags.

use crate::kv::registers::{Registers, SetError};
use crate::process::parse::{WrongAddress, address};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// memcached's port.
pub const MEMCACHED_PORT: u16 = 11211;

/// Where a node listens. `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// TCP addresses for memcached clients. Port 0 picks a free one.
    pub tcp: Vec<SocketAddr>,
    /// UDP addresses for memcached clients; off by default, as amplification attacks taught memcached.
    pub udp: Vec<SocketAddr>,
    /// Unix stream socket for memcached clients.
    pub unix: Option<PathBuf>,
    /// Unix socket at which clients on this machine ask for shared-memory rings.
    pub shm: Option<PathBuf>,
    /// Access mask of the Unix sockets, octal as with `umask`.
    pub unix_mask: u32,
    /// HTTP: metrics, registers, health.
    pub admin: Option<SocketAddr>,
}

impl Default for Listen {
    fn default() -> Listen {
        Listen {
            tcp: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), MEMCACHED_PORT)],
            udp: vec![],
            unix: None,
            shm: None,
            unix_mask: 0o700,
            admin: None,
        }
    }
}

/// Everything a node needs to start.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// Its registers, shared with whoever may turn them later.
    pub registers: Arc<Registers>,
    /// Whether the `shutdown` command may stop the node (memcached's -A).
    pub allow_shutdown: bool,
    /// Lines about each connection (1) and each command (2) on standard error (memcached's -v, -vv).
    pub verbosity: u8,
}

/// What is wrong with a config file.
#[derive(Debug)]
pub enum ConfigError {
    /// It could not be read.
    Read(PathBuf, std::io::Error),
    /// It is not TOML.
    Syntax(PathBuf, toml::de::Error),
    /// A key has a value of the wrong type.
    WrongType {
        /// Dotted name.
        key: String,
        /// What is wanted there.
        wants: &'static str,
    },
    /// A register was refused.
    Register(SetError),
    /// An address could not be read.
    Address(WrongAddress),
    /// No such key in `[listen]`.
    UnknownListen(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Read(path, e) => write!(f, "cannot read the config file {}: {e}", path.display()),
            ConfigError::Syntax(path, e) => {
                write!(f, "the config file {} is not valid TOML: {e}", path.display())
            }
            ConfigError::WrongType { key, wants } => write!(f, "{key} in the config file must be {wants}"),
            ConfigError::Register(e) => e.fmt(f),
            ConfigError::Address(wrong) => wrong.fmt(f),
            ConfigError::UnknownListen(key) => {
                write!(f, "[listen] has no key {key:?}; it knows tcp, udp, unix, unix_mask, shm and admin")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<WrongAddress> for ConfigError {
    fn from(wrong: WrongAddress) -> ConfigError {
        ConfigError::Address(wrong)
    }
}

impl Config {
    /// Applies the file at `path`: table `[listen]`, and one table per family of registers.
    ///
    /// # Errors
    /// Says which key is wrong and what is wanted there.
    pub fn apply_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Read(path.to_path_buf(), e))?;
        self.apply_toml(&text).map_err(|e| match e {
            TomlError::Syntax(e) => ConfigError::Syntax(path.to_path_buf(), e),
            TomlError::Content(e) => e,
        })
    }

    fn apply_toml(&mut self, text: &str) -> Result<(), TomlError> {
        let tables: toml::Table = text.parse().map_err(TomlError::Syntax)?;
        for (table, content) in &tables {
            let toml::Value::Table(content) = content else {
                let wants = "inside a table such as [engine] or [listen]";
                return Err(ConfigError::WrongType { key: table.clone(), wants }.into());
            };
            for (key, value) in content {
                if table == "listen" {
                    self.apply_listen(key, value)?;
                } else {
                    let name = format!("{table}.{key}");
                    let text = scalar(&name, value)?;
                    self.registers.set(&name, &text).map_err(ConfigError::Register)?;
                }
            }
        }
        Ok(())
    }

    fn apply_listen(&mut self, key: &str, value: &toml::Value) -> Result<(), ConfigError> {
        let texts = || strings(key, value);
        let text = || match value {
            toml::Value::String(s) => Ok(s.clone()),
            _ => Err(ConfigError::WrongType { key: format!("listen.{key}"), wants: "a string" }),
        };
        match key {
            "tcp" => self.listen.tcp = addresses(&texts()?)?,
            "udp" => self.listen.udp = addresses(&texts()?)?,
            "unix" => self.listen.unix = Some(text()?.into()),
            "shm" => self.listen.shm = Some(text()?.into()),
            "admin" => self.listen.admin = Some(address(&text()?)?),
            "unix_mask" => {
                let wants = "an octal string such as \"700\"";
                let wrong = |_| ConfigError::WrongType { key: "listen.unix_mask".into(), wants };
                self.listen.unix_mask = u32::from_str_radix(&text()?, 8).map_err(wrong)?;
            }
            _ => return Err(ConfigError::UnknownListen(key.to_string())),
        }
        Ok(())
    }
}

enum TomlError {
    Syntax(toml::de::Error),
    Content(ConfigError),
}

impl From<ConfigError> for TomlError {
    fn from(e: ConfigError) -> TomlError {
        TomlError::Content(e)
    }
}

fn addresses(texts: &[String]) -> Result<Vec<SocketAddr>, ConfigError> {
    texts.iter().map(|text| Ok(address(text)?)).collect()
}

fn strings(key: &str, value: &toml::Value) -> Result<Vec<String>, ConfigError> {
    let wrong =
        || ConfigError::WrongType { key: format!("listen.{key}"), wants: "a string or a list of strings" };
    match value {
        toml::Value::String(s) => Ok(vec![s.clone()]),
        toml::Value::Array(all) => {
            all.iter().map(|v| v.as_str().map(str::to_string).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

fn scalar(name: &str, value: &toml::Value) -> Result<String, ConfigError> {
    match value {
        toml::Value::String(s) => Ok(s.clone()),
        toml::Value::Integer(i) => Ok(i.to_string()),
        toml::Value::Boolean(b) => Ok(if *b { "on" } else { "off" }.to_string()),
        _ => Err(ConfigError::WrongType { key: name.to_string(), wants: "a number, a string or true/false" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::registers::Id;

    fn apply(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        match config.apply_toml(text) {
            Ok(()) => Ok(config),
            Err(TomlError::Syntax(e)) => Err(e.to_string()),
            Err(TomlError::Content(e)) => Err(e.to_string()),
        }
    }

    #[test]
    fn a_file_sets_registers_and_addresses() {
        let config = apply(
            "[listen]\ntcp = ['127.0.0.1:0', '[::1]:0']\nunix = '/run/m.sock'\nunix_mask = '770'\nadmin = 'localhost:0'\n\
             [engine]\ngroup = 32\nform = 'plain'\n[store]\nmemory = '1g'\npopulate = true\n",
        )
        .expect("a good file");
        assert_eq!(config.listen.tcp.len(), 2);
        assert_eq!(config.listen.unix_mask, 0o770);
        assert_eq!(config.registers.read(Id::EngineGroup), 32);
        assert_eq!(config.registers.read(Id::EngineForm), 0);
        assert_eq!(config.registers.read(Id::StoreMemory), 1 << 30);
        assert!(config.registers.is_on(Id::StorePopulate));
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        for (text, part) in [
            ("x = 1", "inside a table"),
            ("[engine]\ngroup = 99", "1 to 64"),
            ("[engine]\ngrup = 9", "no register"),
            ("[engine]\ngroup = [1]", "a number, a string"),
            ("[listen]\ntcp = 'nowhere'", "127.0.0.1:11211"),
            ("[listen]\nport = 1", "tcp, udp, unix"),
            ("[listen]\nunix_mask = '9'", "octal"),
            ("[listen", ""),
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
