//! Where results go: standard output, as text or as JSON, and a page for those who ask for one.

use super::Report;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// A result that did not get where it should.
#[derive(Debug)]
pub struct Undelivered {
    /// Where it should go.
    pub place: String,
    /// What the system said.
    pub cause: io::Error,
}

impl std::fmt::Display for Undelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be written: {}", self.place, self.cause)
    }
}

/// Prints a result as JSON or as text.
///
/// # Errors
/// Standard output is closed.
pub fn print<R: Serialize + ?Sized>(
    result: &R,
    as_json: bool,
    text: impl FnOnce() -> String,
) -> Result<(), Undelivered> {
    let text = match as_json {
        true => serde_json::to_string_pretty(result).expect("results are plain data") + "\n",
        false => text(),
    };
    let written = io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|cause| Undelivered { place: "standard output".to_owned(), cause })
}

/// The same, and writes its page where one is asked for ([`Report::write`]).
///
/// # Errors
/// One of them cannot be written.
pub fn deliver<R: Serialize + ?Sized>(
    result: &R,
    as_json: bool,
    text: impl FnOnce() -> String,
    page: impl FnOnce() -> Report,
    path: Option<&Path>,
) -> Result<(), Undelivered> {
    print(result, as_json, text)?;
    let Some(path) = path else { return Ok(()) };
    let place = path.display().to_string();
    page().write(path).map_err(|cause| Undelivered { place: place.clone(), cause })?;
    print(result, false, || if as_json { String::new() } else { format!("\n  report: {place}\n") })
}
