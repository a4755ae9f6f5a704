//! `GET /cluster` at a member's admin port: what `millrace cluster status --json` says, for its live page.
//!
//! Why asked by the server: a page in a browser may ask no port but its own.

use super::ask::ask_all;
use super::file::File;
use super::report::Report;
use crate::admin::Routes;
use std::path::PathBuf;

/// The cluster of this file, as its members say it is now. Read anew each time, since homes move and members come.
pub fn routes(file: PathBuf) -> Routes {
    Routes::default().cluster(move || {
        let file = File::read(&file).map_err(|error| error.to_string())?;
        Ok(Report::of(&file, &ask_all(&file.members)).json())
    })
}
