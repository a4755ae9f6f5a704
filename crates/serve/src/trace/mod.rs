//! `millrace trace`: what became of single requests, as a waterfall: a bar for each of their spans, parts below what they are parts of.
//!
//! ```text
//!  GET /trace (Chrome's events) ──▶ read: traces, trees ──▶ waterfall: text
//!                                                       └─▶ --json; --chrome writes what was read
//! ```
//! | file | what it is |
//! |---|---|
//! | `mod` | the command |
//! | `fetch` | a request to an admin port; why there is nothing to show |
//! | `read` | Chrome's events as traces |
//! | `waterfall` | a trace as text, or as JSON |

mod fetch;
mod read;
mod waterfall;

pub use fetch::Port;
pub use read::{Span, Trace, together, traces};
pub use waterfall::text;

use crate::process::tls::TlsClientArgs;
use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

/// Print the last requests that were traced, as waterfalls: where each was, and when. `docs/tracing.md` says how to switch tracing on
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// The admin port: what follows --admin, or http://ADDR:PORT as the server printed it. Of several processes of one machine the parts of a request are
    /// put together
    #[arg(value_name = "ADMIN", required = true)]
    admin: Vec<Port>,

    #[command(flatten)]
    tls: TlsClientArgs,

    /// Of this service only
    #[arg(long, value_name = "NAME")]
    service: Option<String>,

    /// The last so many
    #[arg(long, value_name = "N", default_value_t = 10)]
    last: usize,

    /// Those that took longest, of all that the server has
    #[arg(long, value_name = "N", conflicts_with = "last")]
    slowest: Option<usize>,

    /// As JSON
    #[arg(long)]
    json: bool,

    /// Write all that the server has to a file, which Perfetto (ui.perfetto.dev) and chrome://tracing open
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    chrome: Option<PathBuf>,
}

impl TraceArgs {
    /// Prints them.
    ///
    /// # Errors
    /// There is nothing to show, and what to do for it; nobody answers; standard output is gone.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        self.tls.apply()?;
        let path = match &self.service {
            None => "/trace".to_owned(),
            Some(name) => format!("/services/{name}/trace"),
        };
        if self.chrome.is_some() && self.admin.len() > 1 {
            return Err("--chrome writes what one process has: give one admin port".into());
        }
        let pages = self.admin.iter().map(|admin| admin.get(&path)).collect::<Result<Vec<_>, _>>()?;
        let mut found = together(pages.iter().map(|page| &**page))?;
        if found.is_empty() {
            return Err(self.admin[0].why_nothing().into());
        }
        if let Some(file) = &self.chrome {
            std::fs::write(file, &pages[0]).map_err(|cause| format!("{}: {cause}", file.display()))?;
        }
        self.choose(&mut found);
        let mut out = std::io::stdout().lock();
        if self.json {
            return Ok(writeln!(out, "{:#}", waterfall::json(&found))?);
        }
        if let Some(file) = &self.chrome {
            return Ok(writeln!(out, "{}: open it at ui.perfetto.dev", file.display())?);
        }
        for (n, trace) in found.iter().enumerate() {
            let between = if n > 0 { "\n" } else { "" };
            write!(out, "{between}{}", waterfall::text(trace))?;
        }
        Ok(())
    }

    /// Those that were asked for: the last in their order, or the slowest first.
    fn choose(&self, traces: &mut Vec<Trace>) {
        if let Some(most) = self.slowest {
            traces.sort_by_key(|trace| std::cmp::Reverse(trace.spent_ns()));
            traces.truncate(most);
        } else {
            traces.drain(..traces.len().saturating_sub(self.last));
        }
    }
}
