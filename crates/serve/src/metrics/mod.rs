//! Metrics: what a server counts, as families that are declared in one list per service, and the page that shows them.
//!
//! ```text
//!  families! { … }  names, kinds, units, labels, help ─┐
//!  a service's `collect`, when somebody asks ──────────┴─▶ Page ──▶ Prometheus' text or OpenMetrics
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | [`Family`], and [`families!`](crate::families!), which makes a list of them |
//! | `page` | [`Page`]: samples of one moment, and how they are written |
//! | `buckets` | [`Buckets`]: a histogram of any make in Prometheus' shape, in seconds |
//! | `process` | what every process shows: processor time, memory, descriptors, version, registers, lines logged |
//! | `read` | a page of another process, read again |
//! | `lint` | the rules that every page keeps, for tests |
//!
//! A name is `millrace_SERVICE_WHAT[_UNIT][_total]`: the macro puts unit and `_total` there, so a name says what its kind and unit say. Units are
//! base units. All of them: `docs/metrics.md`, which a test holds to the lists.
//!
//! Formats are `prometheus-client`'s, the official library. Its own counters and histograms are not used: what is counted is where the requests are, in
//! cells that one thread writes, and is read here when somebody asks.

mod buckets;
#[cfg(test)]
pub(crate) mod lint;
mod page;
pub mod process;
pub mod read;

pub use buckets::Buckets;
pub use page::{Format, Number, Page, Sample, Value};

/// What a family's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bounds, in the family's unit.
    Histogram,
}

impl Kind {
    /// As the page says it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A family of samples: one name, told apart by labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// With prefix, unit and `_total`.
    pub name: &'static str,
    /// What its samples are.
    pub kind: Kind,
    /// What they are in, if they are no plain counts.
    pub unit: Option<&'static str>,
    /// Names of the labels, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// A sentence for people.
    pub help: &'static str,
}

impl Family {
    /// The name without unit and `_total`.
    pub fn base_name(&self) -> &'static str {
        let whole =
            self.name.strip_suffix("_total").filter(|_| self.kind == Kind::Counter).unwrap_or(self.name);
        let without = self.unit.and_then(|unit| whole.strip_suffix(unit)?.strip_suffix('_'));
        without.unwrap_or(whole)
    }
}

/// Declares a service's families: a constant for each, and `FAMILIES`, all of them. Units are `count` (none), `seconds`, `bytes`, `ratio`.
///
/// ```
/// serve::families! { "millrace_pump_";
///     LITRES counter "litres" count ["direction"] "Litres pumped.";
///     RUNNING counter "running" seconds [] "Time with the motor on.";
/// }
/// assert_eq!((LITRES.name, RUNNING.name), ("millrace_pump_litres_total", "millrace_pump_running_seconds_total"));
/// assert_eq!(FAMILIES.len(), 2);
/// ```
#[macro_export]
macro_rules! families {
    ($prefix:literal; $($id:ident $kind:ident $what:literal $unit:ident [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $id: &$crate::metrics::Family = &$crate::metrics::Family {
            name: concat!($prefix, $what, $crate::families!(@unit $unit), $crate::families!(@end $kind)),
            kind: $crate::families!(@kind $kind),
            unit: $crate::families!(@base $unit),
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All families of this list.
        #[allow(dead_code)] // Lists that are no service's are read by nobody.
        pub const FAMILIES: &[&$crate::metrics::Family] = &[$($id),*];
    };
    (@base count) => { None };
    (@base $unit:ident) => { Some(stringify!($unit)) };
    (@unit count) => { "" };
    (@unit seconds) => { "_seconds" };
    (@unit bytes) => { "_bytes" };
    (@unit ratio) => { "_ratio" };
    (@end counter) => { "_total" };
    (@end gauge) => { "" };
    (@end histogram) => { "" };
    (@kind counter) => { $crate::metrics::Kind::Counter };
    (@kind gauge) => { $crate::metrics::Kind::Gauge };
    (@kind histogram) => { $crate::metrics::Kind::Histogram };
}
