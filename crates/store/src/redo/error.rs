//! What can go wrong with a log, and what to do then.

use std::fmt;
use std::io;

/// What the log was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Writing records.
    Writing,
    /// Making them durable.
    Persisting,
    /// Writing or making durable where the log begins and ends.
    Marking,
}

/// The medium failed, and the log is not used any more: what of the last records is durable is not known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broken {
    /// At this.
    pub doing: Doing,
    /// What kind of error.
    pub kind: io::ErrorKind,
    /// What the system said.
    pub message: String,
}

impl Broken {
    pub(crate) fn new(doing: Doing, error: &io::Error) -> Broken {
        Broken { doing, kind: error.kind(), message: error.to_string() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match self.doing {
            Doing::Writing => "writing the redo log",
            Doing::Persisting => "making the redo log durable",
            Doing::Marking => "writing the redo log's superblock",
        };
        write!(
            f,
            "{doing} failed: {}; it is not known what is durable, so the log takes nothing more: make room or repair the medium, then start \
             again, which recovers what is there",
            self.message
        )
    }
}

impl std::error::Error for Broken {}

/// Why a record was not appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room: there is again when older ones are released and that is durable.
    Full,
    /// The log is not used any more.
    Broken(Broken),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full => f.write_str("the redo log is full: it needs a checkpoint"),
            Refused::Broken(broken) => broken.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a log cannot be made or opened.
#[derive(Debug)]
pub enum OpenError {
    /// The medium failed.
    Media(io::Error),
    /// The medium has fewer bytes than [`super::MIN_MEDIUM`].
    TooSmall(u64),
    /// No superblock can be read: no log, or one of which both are damaged.
    NoLog,
    /// A program of another version made it.
    Version(String),
    /// It is the log of another, with this identity.
    Foreign(u64),
    /// The medium does not have as many bytes as when the log was made: the ring had this many.
    Resized(u64),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Media(e) => write!(f, "the redo log's medium: {e}"),
            OpenError::TooSmall(len) => {
                write!(f, "{len} bytes are too few for a redo log; it needs {}", super::MIN_MEDIUM)
            }
            OpenError::NoLog => f.write_str(
                "no redo log is there, or both of its superblocks are damaged: make a new one, and let the replica join as a new one",
            ),
            OpenError::Version(version) => write!(
                f,
                "the redo log has version {version}, and this program reads 02: use the program that made it; it is not changed"
            ),
            OpenError::Foreign(identity) => {
                write!(f, "the redo log is that of {identity:#x}: check which replica's files these are")
            }
            OpenError::Resized(capacity) => {
                write!(f, "the medium is not as long as when the redo log was made (a ring of {capacity} bytes)")
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Media(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(e: io::Error) -> OpenError {
        OpenError::Media(e)
    }
}
