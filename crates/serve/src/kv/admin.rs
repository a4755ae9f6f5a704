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
use std::sync::Arc;

impl Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.registers
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
