//! The number of a node's life, higher than that of any earlier one: versions, rounds and sessions of a home have it in their upper half, and
//! what nodes say is known by it.
//!
//! It is what the clock says in seconds, or one more than the last, whichever is higher: so it rises although the clock is set back. The
//! last is in a file, which all nodes of a topology on this machine share; whoever reads it has it locked until the next is on disk.

use super::IncError;
use base::Nanos;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Digits of a number, so that each replaces the last in place.
const DIGITS: usize = 10;

/// The number of the life that begins now, by a clock that gives the time since 1970.
#[derive(Debug, PartialEq, Eq)]
pub struct Number {
    /// Higher than all before.
    pub number: u32,
    /// The clock is behind the last life, by so many seconds.
    pub behind: u32,
}

/// Takes the next number. Where no file says which was the last, whoever may have lived before waits for a second that no earlier life
/// can have taken: `wait` does.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
pub fn next(
    path: &Path,
    lived: bool,
    clock: impl Fn() -> Nanos,
    wait: impl FnOnce(Nanos),
) -> Result<Number, IncError> {
    let failed = |cause| IncError::Life(path.to_path_buf(), cause);
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    let last = last(&file).map_err(failed)?;
    const SECOND: u64 = 1_000_000_000;
    if last.is_none() && lived {
        wait(Nanos(SECOND - clock().0 % SECOND));
    }
    let now = u32::try_from(clock().0 / SECOND).unwrap_or(u32::MAX);
    let next = match last {
        Some(last) => last.checked_add(1).ok_or_else(|| failed(io::Error::other("no number is left")))?,
        None => 0,
    };
    let number = next.max(now);
    file.write_all_at(format!("{number:0DIGITS$}\n").as_bytes(), 0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(Number { number, behind: number - now })
}

fn last(file: &File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    file.take(DIGITS as u64 + 2).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it holds no number of a life");
    text.trim_end().parse().map(Some).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn next_of(file: &Path, seconds: u64) -> Number {
        let no_wait = |_| panic!("the last number is known");
        next(file, true, || Nanos::from_secs(seconds), no_wait).expect("a file")
    }

    #[test]
    fn numbers_rise_though_the_clock_goes_back() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("life");
        let mut waited = None;
        let first = next(&file, true, || Nanos(1_000_000_000_250_000_000), |span| waited = Some(span));
        assert_eq!(first.expect("a new file"), Number { number: 1_000_000_000, behind: 0 });
        assert_eq!(waited, Some(Nanos(750_000_000)), "an earlier life may have taken this second");
        let numbers =
            [1_000_000_000, 999_999_000, 1_000_000_001, 5, 1_000_000_100].map(|now| next_of(&file, now));
        let seen = numbers.map(|number| (number.number, number.behind));
        assert_eq!(
            seen,
            [
                (1_000_000_001, 1),
                (1_000_000_002, 1_002),
                (1_000_000_003, 2),
                (1_000_000_004, 999_999_999),
                (1_000_000_100, 0)
            ]
        );
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_a_word() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("life");
        std::fs::write(&file, "none").expect("a file");
        let clock = || Nanos::from_secs(7);
        let error = next(&file, false, clock, |_| {}).expect_err("it is no number").to_string();
        assert!(error.contains("--state"), "{error}");
        let nowhere = file.join("x");
        let error = next(&nowhere, false, clock, |_| {}).expect_err("there is no such folder").to_string();
        assert!(error.contains("--state"), "{error}");
    }
}
