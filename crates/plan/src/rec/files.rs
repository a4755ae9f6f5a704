//! Files of query lists, and figures of them, as the tools of `millrace rec` read, write and show them.

use bench::report::format::whole;
use rec::lists::{Lists, Style};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

pub(super) type Failure = Box<dyn Error>;

/// The lists in a file, or on standard input if it is named `-`.
///
/// # Errors
/// It cannot be read or is wrong, with the file's name and the line.
pub(super) fn read(file: &Path, plain: bool) -> Result<Lists, Failure> {
    let style = if plain { Style::Plain } else { Style::Weighted };
    let named = |cause: &dyn Error| format!("{}: {cause}", file.display());
    let lists = match file.to_str() {
        Some("-") => Lists::read(io::stdin().lock(), style),
        _ => Lists::read(BufReader::new(File::open(file).map_err(|cause| named(&cause))?), style),
    };
    Ok(lists.map_err(|error| named(&error))?)
}

/// Writes a file all or not: to one beside it, which then takes its name.
///
/// # Errors
/// It cannot be written, with its name.
pub(super) fn write(
    file: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let all = || -> io::Result<()> {
        let mut sink = io::BufWriter::new(File::create(&beside)?);
        content(&mut sink)?;
        sink.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, file)
    };
    all().map_err(|cause| {
        // There may be none, if it could not be created.
        let _ = fs::remove_file(&beside);
        format!("{}: {cause}", file.display()).into()
    })
}

/// Writes lists to `file`.
///
/// # Errors
/// As [`write`].
pub(super) fn write_lists(file: &Path, lists: &Lists) -> Result<(), Failure> {
    write(file, |sink| lists.write(sink))
}

/// What there is in lists, for people.
pub(super) fn summary(lists: &Lists) -> String {
    let (queries, pins) = (lists.len() as u64, lists.pins() as u64);
    format!("{} lists, {} ids of {} rows", whole(queries), whole(pins), whole(lists.features().into()))
}

/// What there is in lists, for programs.
pub(super) fn counts(lists: &Lists) -> serde_json::Value {
    serde_json::json!({ "lists": lists.len(), "ids": lists.pins(), "rows": lists.features() })
}

/// A part of a whole, between 0 and 1 without both.
///
/// # Errors
/// It is none.
pub(super) fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part < 1.0 => Ok(part),
        _ => Err(format!("{text} is not a number between 0 and 1, for example 0.2")),
    }
}
