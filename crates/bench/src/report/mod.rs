//! Results for people: tables for the terminal, and one HTML file with plots that needs nothing from outside.
//!
//! Shape: [`table`] prints both ways; [`plot`], [`fit`] and [`chart`] draw SVG from plain numbers on the scales of [`axis`]; [`html`] puts a
//! page together, [`data`] makes rows of it, [`deliver`] brings it where it was asked for. What becomes of whose results is theirs to know:
//! `load::pages`, `model::evaluation`.
//!
//! Why hand-written SVG: three kinds of plot, styled by the page's own light and dark colours, are shorter than
//! teaching a plotting library to leave colours alone.

pub mod axis;
pub mod chart;
pub mod data;
mod deliver;
pub mod environment;
pub mod fit;
pub mod format;
pub mod html;
mod parquet;
pub mod plot;
pub mod table;

pub use data::Drawing;
pub use deliver::{Undelivered, deliver, print};
pub use html::{Block, Moved, Report, Section, Tile};
pub use table::Table;

use serde::Serialize;

/// How long requests spent in one stage on their way through the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageBreakdown {
    /// The stage's name.
    pub name: String,
    /// How many requests passed it.
    pub count: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// All requests together, in nanoseconds.
    pub total_ns: u64,
}
