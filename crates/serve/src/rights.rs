//! The file of rights of a process: read at the start and at SIGHUP, told to its services and to its admin port.
//!
//! What stands in it: [`client::rights`]; what it means: [`base::rights`]. Services that keep no rights are not served where there is a file: nobody is to
//! believe that they do.

use crate::http::PortAt;
use crate::metrics::Page;
use crate::process::table::Wrong;
use base::rights::{Rights, ServiceRights};
use clap::Args;
use client::rights::{Facts, read};
use std::path::PathBuf;
use std::sync::Arc;

/// What every server shows of them, where there is a file.
pub mod metrics {
    crate::families! { "millrace_rights_";
        REFUSED counter "refused" count ["right", "identity"] "Requests refused for want of a right: which was missing, and by what their sender had proved who it is.";
    }
}

/// The name of [`RightsArgs`] in tables of config files.
pub const RIGHTS_KEYS: &[&str] = &["rights"];

/// What a server is told.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct RightsArgs {
    /// Let clients do what this file (TOML) allows them, and nothing else; it is read again at SIGHUP. docs/security.md has its form
    #[arg(long, value_name = "FILE", help_heading = "Rights")]
    pub rights: Option<PathBuf>,
}

/// Where operators ask, and who may do what.
#[derive(Debug, Default)]
pub struct Access {
    /// The admin port, if there is to be one.
    pub admin: Option<PortAt>,
    /// The file of rights, if there is one.
    pub rights: Option<RightsPlan>,
}

impl From<Option<PortAt>> for Access {
    /// Without a file of rights.
    fn from(admin: Option<PortAt>) -> Access {
        Access { admin, rights: None }
    }
}

/// A file of rights that is not read yet.
#[derive(Clone, Debug)]
pub struct RightsPlan {
    /// Where it is.
    pub path: PathBuf,
    /// Clients are asked for certificates.
    pub asks_certificates: bool,
}

/// The file, in use.
#[derive(Debug)]
pub struct RightsFile {
    path: PathBuf,
    facts: Facts,
    rights: Arc<Rights>,
}

impl RightsFile {
    /// Reads it, for a process with services of these names.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn open(plan: RightsPlan, services: impl IntoIterator<Item = String>) -> Result<RightsFile, Wrong> {
        let RightsPlan { path, asks_certificates } = plan;
        let facts = Facts { services: services.into_iter().collect(), asks_certificates };
        let rules = read(&path, &facts)?;
        let rights = Rights::new(rules);
        Ok(RightsFile { path, facts, rights })
    }

    /// Reads it again. One that is wrong changes nothing, and is said.
    pub fn reload(&self) {
        match read(&self.path, &self.facts) {
            Ok(rules) => {
                let count = rules.rules.len();
                self.rights.replace(rules);
                log::info!("{count} rules of {} are in use now", self.path.display());
            }
            Err(wrong) => log::warn!("{wrong}; the rights that were in use stay"),
        }
    }

    /// Those in a service.
    pub fn of(&self, service: Option<&str>) -> ServiceRights {
        self.rights.of(service)
    }

    /// Adds what was refused.
    pub fn collect(&self) -> impl Fn(&mut Page) + Send + Sync + 'static {
        let rights = Arc::clone(&self.rights);
        move |page| {
            for (right, proof, count) in rights.refusals() {
                page.add(metrics::REFUSED, &[right, proof], count);
            }
        }
    }
}
