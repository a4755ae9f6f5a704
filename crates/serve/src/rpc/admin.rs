//! What the [admin ports](crate::admin) of `millrace rpc serve` and `rpc gateway` show: what the fabric's monitor saw, and its registers.
//!
//! | request | answer |
//! |---|---|
//! | `GET /stats.json` | the monitor's figures, as JSON |
//! | `GET /connections` | those that are open, and what went over them, as JSON |
//!
//! Calls are sampled as `monitor.sample` and `trace.sample` say, which this port sets; their spans are among those of the whole process.

use super::metrics;
use crate::admin::{JSON, Routes, Tuned};
use fabric::monitor::Monitor;
use fabric::registers::{Id, Registers};
use std::sync::Arc;

/// What the port shows.
struct Seen(Monitor);

impl Tuned for Seen {
    type Id = Id;

    fn registers(&self) -> &Registers {
        self.0.registers()
    }
}

/// What the port of `monitor` shows.
pub fn routes(monitor: &Monitor) -> Routes {
    let [collected, stats, connections] = [(); 3].map(|()| monitor.clone());
    Routes::default()
        .registers(Arc::new(Seen(monitor.clone())))
        .metrics(move |page| {
            metrics::collect(&collected.snapshot(), page);
            metrics::collect_accelerators(&collected.accelerators(), page);
        })
        .text("GET /stats.json", "the monitor's figures, as JSON", JSON, move || stats.snapshot().to_json())
        .text("GET /connections", "open connections, and what went over them, as JSON", JSON, move || {
            connections.snapshot().connections_json()
        })
        .traces(&monitor.tracer())
}
