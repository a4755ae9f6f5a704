//! Config files of a node:
//!
//! ```toml
//! [admin]
//! listen = "127.0.0.1:9211"
//!
//! [engine]                        # what is not said is one core, and the host threads that services wish
//! cores = 2
//! pin = [2, 3]                    # processors, one for each
//! host_threads = 2
//!
//! [services.cache]                # a name of your own
//! kind = "kv"
//! engine_core = 1                 # kv, rec and rpc; 0 unless it is said
//! [services.cache.store]          # its registers, by family
//! memory = "256m"
//!
//! [rights]
//! file = "rights.toml"            # who may do what (docs/security.md)
//!
//! [[listen]]
//! service = "cache"
//! protocol = "memcached"          # the first of its kind, unless it is said
//! address = "tcp:127.0.0.1:11211"
//! ```
//! Besides `kind` and registers a service has the keys that its command has as flags: `millrace rec serve --row-format int8` is
//! `row_format = "int8"`. Paths are from the folder in which the program is started, as on a command line.
//!
//! A file without `[services]` is of one key-value server, as `millrace up` always had them.

use super::kinds::KINDS;
use super::plan::Plan;
use crate::admin::{Row, parse_address, rows};
use crate::engine_cores::EnginePlan;
use crate::kv::config::Config;
use crate::process::table::{Entry, Source, Table, Wrong, nearest};
use crate::process::tls::{TLS_KEYS, TlsArgs};
use std::net::SocketAddr;
use std::path::Path;

/// What a file says.
pub enum Said {
    /// One key-value server, and where operators find it.
    One(Box<Config>, Option<SocketAddr>),
    /// Services with names.
    Several(Plan),
}

/// Reads a file.
///
/// # Errors
/// What is wrong with it, where, and what may have been meant.
pub fn read(path: &Path) -> Result<Said, Wrong> {
    said(&Source::read(path)?)
}

/// The same, of a text.
///
/// # Errors
/// As [`read`].
pub fn said(source: &Source) -> Result<Said, Wrong> {
    let parsed = source.parse()?;
    let file = source.table(&parsed);
    let is_list = |entry: Entry<'_>| entry.table().is_err();
    if file.get("services").is_none() && !file.get("listen").is_some_and(is_list) {
        let mut config = Config::default();
        let admin = config.apply(&file)?;
        return Ok(Said::One(Box::new(config), admin));
    }
    plan(&file).map(Said::Several)
}

/// The registers that a file's services have, in one list.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn registers(path: &Path) -> Result<Vec<Row>, Wrong> {
    Ok(match read(path)? {
        Said::One(config, _) => rows(None, config.registers.show()),
        Said::Several(plan) => {
            let all = plan.services.iter();
            all.flat_map(|one| rows(Some(&one.name), one.service.registers())).collect()
        }
    })
}

fn plan(file: &Table<'_>) -> Result<Plan, Wrong> {
    file.only(&["admin", "engine", "services", "listen", "tls", "rights"])?;
    let mut plan = Plan::default();
    if let Some(entry) = file.get("engine") {
        engine(&mut plan, &entry)?;
    }
    let services = file.need("services", "a table for each, as [services.cache]")?;
    for (at, entry) in services.table()?.entries().enumerate() {
        let service = service(&entry)?;
        plan.add(entry.key, service).map_err(|why| entry.wrong(why))?;
        if let Some(core) = entry.table()?.get("engine_core") {
            plan.put_on(at, core.count()?).map_err(|why| core.wrong(why))?;
        }
    }
    if let Some(tls) = file.get("tls") {
        let tls = tls.table()?;
        tls.only(TLS_KEYS)?;
        let args: TlsArgs = tls.flags(&[])?;
        plan.tls = args.files().map_err(|why| tls.wrong(why))?;
    }
    if let Some(entry) = file.get("rights") {
        let rights = entry.table()?;
        rights.only(&["file"])?;
        plan.rights.rights = Some(rights.need("file", "who may do what")?.text()?.into());
    }
    if let Some(admin) = file.get("admin") {
        let admin = admin.table()?;
        admin.only(&["listen"])?;
        let listen = admin.need("listen", "a port, or ADDR:PORT")?;
        let address = parse_address(&listen.scalar()?).map_err(|why| listen.wrong(why))?;
        plan.set_admin(address).map_err(|why| listen.wrong(why))?;
    }
    let listeners = file.get("listen").map_or(Ok(Vec::new()), |listen| listen.tables())?;
    for listener in listeners {
        listen(&mut plan, &listener)?;
    }
    if let Some(silent) = plan.silent() {
        let table = services.table()?;
        let entry = table.get(&silent.name).expect("it was made of this entry");
        let name = &silent.name;
        return Err(entry.wrong(format!(
            "nobody can reach service {name:?}: add [[listen]] with service = {name:?} and an address"
        )));
    }
    Ok(plan)
}

fn engine(plan: &mut Plan, entry: &Entry<'_>) -> Result<(), Wrong> {
    let table = entry.table()?;
    table.only(&["cores", "pin", "host_threads"])?;
    let count = |key| table.get(key).map(|entry| entry.count()).transpose();
    let pin = table.get("pin").map(|entry| entry.counts()).transpose()?.unwrap_or_default();
    let (cores, host_threads) = (count("cores")?.unwrap_or(1), count("host_threads")?);
    plan.set_engine(EnginePlan { cores, pin, host_threads })
        .map_err(|(key, why)| table.get(key).unwrap_or_else(|| entry.clone()).wrong(why))
}

fn service(entry: &Entry<'_>) -> Result<Box<dyn crate::shell::Service>, Wrong> {
    let table = entry.table()?;
    let all = || KINDS.iter().map(|(kind, _)| *kind);
    let known = all().collect::<Vec<_>>().join(", ");
    let kind = table.need("kind", &format!("one of {known}"))?;
    let word = kind.text()?;
    let Some((_, make)) = KINDS.iter().find(|(known, _)| *known == word) else {
        let near = nearest(word, all())
            .map_or(format!("there are {known}"), |near| format!("did you mean {near:?}?"));
        return Err(kind.wrong(format!("there is no kind {word:?}; {near}")));
    };
    make(&table)
}

fn listen(plan: &mut Plan, listener: &Table<'_>) -> Result<(), Wrong> {
    listener.only(&["service", "protocol", "address"])?;
    let service = listener.need("service", "the name of one")?;
    let at = plan.find(service.text()?).map_err(|why| service.wrong(why))?;
    let address = listener.need("address", "as in tcp:127.0.0.1:11211")?;
    let protocol = listener.get("protocol");
    let spoken = protocol.as_ref().map(Entry::text).transpose()?;
    let wrong = plan.listen(at, spoken, address.text()?);
    wrong.map_err(|why| match &protocol {
        Some(protocol) if why.contains("does not speak") => protocol.wrong(why),
        _ => address.wrong(why),
    })
}
