//! What the [admin port](crate::admin) shows of a key-value server: its registers, metrics, edges; besides, everything counted as JSON.
//!
//! Metrics and statistics take the engine's lock for microseconds.

use super::chains;
use super::metrics;
use super::shared::Shared;
use crate::admin::health::Pulse;
use crate::admin::{JSON, Routes, Tuned};
use crate::cluster;
use crate::inc;
use crate::kv::registers::{Id, Registers};
use base::registers::Register as _;
use std::sync::Arc;

impl Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Memory that the store cannot have: what the register says it then does not have.
    fn refuses(&self, name: &str, text: &str) -> Option<String> {
        let spec = Registers::spec(name)
            .ok()
            .filter(|spec| spec.name == Id::SPECS[Id::StoreMemory as usize].name)?;
        // What is no size, or out of range, is said by who reads it.
        let bytes = spec.parse(text).ok()? as usize;
        // Whoever is told that it may be so has it so: asked first and set then, another could come between.
        self.on_core.ask(|kv, _| kv.apply_memory_limit(bytes)).err().map(|why| why.to_string())
    }

    fn register_changed(&self, name: &str) {
        self.register_changed(name);
    }
}

/// What it shows.
pub fn routes(shared: &Arc<Shared>, loops: impl IntoIterator<Item = Pulse>) -> Routes {
    let (collected, reported) = (Arc::clone(shared), Arc::clone(shared));
    let mut routes = Routes::default().registers(Arc::clone(shared));
    if let Some(home) = &shared.home {
        let asked = Arc::clone(shared);
        let ready = move || {
            asked.post.as_ref().and_then(|post| post.silent()).map_or(Ok(()), |why| Err(why.to_owned()))
        };
        let registers = Arc::new(inc::registers::Shared(home.topology.registers()));
        routes =
            routes.service(None, cluster::live::routes(home.file.clone())).registers(registers).ready(ready);
    }
    if shared.chain.is_some() {
        let asked = Arc::clone(shared);
        routes = routes.ready(move || asked.chain.as_deref().map_or(Ok(()), chains::check_ready));
        let asked = Arc::clone(shared);
        routes = routes.alive(move || asked.chain.iter().flatten().try_for_each(|chain| chain.check_claim()));
    }
    routes.metrics(move |page| metrics::collect(&collected, page)).loops(loops).text(
        "GET /stats.json",
        "everything counted, as JSON",
        JSON,
        move || serde_json::to_string(&reported.report()).expect("a report of numbers and strings is JSON"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Server;
    use crate::kv::config::Config;

    /// The register says what the store goes by, and nothing else.
    #[test]
    fn memory_that_a_store_cannot_have_is_refused() {
        let mut config = Config::default();
        config.listen.tcp = vec!["127.0.0.1:0".parse().expect("an address")];
        let node = Server::start(&config).expect("it starts");
        let limit = || node.shared().report().kv.store.limit_bytes;
        let name = "store.memory";
        // Four times what it began with is its ceiling.
        let why = node.shared().refuses(name, "1g").expect("too much");
        assert!(why.contains("ceiling") && limit() == 64 << 20, "{why}");
        assert_eq!((node.shared().refuses(name, "32m"), limit()), (None, 32 << 20));
        assert_eq!(
            (node.shared().refuses(name, "much"), node.shared().refuses("engine.group", "8")),
            (None, None)
        );
    }
}
