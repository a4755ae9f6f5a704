//! What a run found, as tables or as one line of JSON.

use base::{Bytes, cpu};
use store::Stats;

pub struct Row {
    pub name: &'static str,
    pub ns: f64,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Times as fast as dashmap in the same turn, the median; not a number where dashmap had no room.
    pub to_dashmap: f64,
}

/// A run: every variant without work, and with it.
pub struct Report {
    pub items: u64,
    /// How they are drawn, in words.
    pub keys: String,
    pub core: usize,
    pub stats: Stats,
    /// Bytes on huge pages in the process.
    pub huge: Bytes,
    /// Of dependent work in a request.
    pub work_ns: f64,
    pub bare: Vec<Row>,
    pub worked: Vec<Row>,
}

impl Report {
    fn bytes_per_item(&self) -> f64 {
        self.stats.memory as f64 / self.items as f64
    }

    /// As one line.
    pub fn json(&self) -> String {
        let rows = |rows: &[Row]| {
            let rows = rows.iter().map(|r| {
                format!(
                    r#"{{"variant":"{}","ns":{:.1},"ratio":{:.3},"low":{:.3},"high":{:.3},"to_dashmap":{}}}"#,
                    r.name,
                    r.ns,
                    r.ratio,
                    r.low,
                    r.high,
                    if r.to_dashmap.is_nan() { "null".into() } else { format!("{:.3}", r.to_dashmap) }
                )
            });
            rows.collect::<Vec<_>>().join(",")
        };
        format!(
            r#"{{"items":{},"keys":"{}","core":{},"cpu":"{}","bytes_per_item":{:.1},"huge_bytes":{},"work_ns":{:.1},"bare":[{}],"with_work":[{}]}}"#,
            self.items,
            self.keys,
            self.core,
            cpu::model_name(),
            self.bytes_per_item(),
            self.huge.0,
            self.work_ns,
            rows(&self.bare),
            rows(&self.worked)
        )
    }

    /// For people.
    pub fn print(&self) {
        let (items, keys, core, stats) = (self.items, &self.keys, self.core, &self.stats);
        println!("{items} items of 64 B (key 16, value 48), {keys}, core {core} of {}", cpu::model_name());
        println!(
            "store: {:.1} B per item, {} buckets ({} overflow), heap and index on {}; huge pages of the process: {}",
            self.bytes_per_item(),
            stats.buckets,
            stats.overflow_buckets,
            stats.heap_pages,
            self.huge
        );
        let with_work = format!("with {:.0} ns of dependent work per request", self.work_ns);
        for (title, rows) in [("bare", &self.bare), (&*with_work, &self.worked)] {
            println!(
                "\n{title}\n{:<14} {:>8} {:>8}   ratio to plain (5 %..95 %)   to dashmap",
                "", "ns/op", "Mops/s"
            );
            for r in rows {
                println!(
                    "{:<14} {:>8.1} {:>8.2}   {:>5.2} ({:.2}..{:.2}) {:>16.2}",
                    r.name,
                    r.ns,
                    1e3 / r.ns,
                    r.ratio,
                    r.low,
                    r.high,
                    r.to_dashmap
                );
            }
        }
    }
}
