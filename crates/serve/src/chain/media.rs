//! What a replica's log and image are kept on, as the command line says it: `file`, `dsync`, `pmem`, `memory`, `emulated[:LATENCY[,BANDWIDTH]]`.

use base::{Bytes, Nanos};
use std::fmt;
use std::str::FromStr;

/// A medium. Each says in every reply what it survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Media {
    /// Files, made durable by fdatasync: survive a power cut, as far as the device keeps its word.
    #[default]
    File,
    /// Files, each write of the log made durable by O_DSYNC.
    Dsync,
    /// Mapped memory, made durable by flushing cache lines: on a DAX file system it survives a power cut, elsewhere the end of the process.
    Pmem,
    /// Memory of the process: survives nothing.
    Memory,
    /// Memory that is as slow as persistent memory is said to be; survives nothing.
    Emulated {
        /// Added to each persist.
        latency: Nanos,
        /// Bytes a second that can be written.
        bandwidth: Bytes,
    },
}

/// Published for a DIMM of Intel Optane persistent memory: 62 to 90 ns until a write is safe, 2.3 GB/s of writes (FAST '20).
const OPTANE: Media = Media::Emulated { latency: Nanos(90), bandwidth: Bytes(2_300_000_000) };

impl Media {
    /// Whether it needs a directory.
    pub fn needs_directory(self) -> bool {
        matches!(self, Media::File | Media::Dsync | Media::Pmem)
    }
}

impl FromStr for Media {
    type Err = String;

    fn from_str(text: &str) -> Result<Media, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("file", None) => Ok(Media::File),
            ("dsync", None) => Ok(Media::Dsync),
            ("pmem", None) => Ok(Media::Pmem),
            ("memory", None) => Ok(Media::Memory),
            ("emulated", None) => Ok(OPTANE),
            ("emulated", Some(rest)) => {
                let (latency, bandwidth) = rest.split_once(',').unwrap_or((rest, "2300000000"));
                let latency = latency.strip_suffix("ns").unwrap_or(latency);
                let latency =
                    latency.parse().map_err(|_| format!("'{latency}' is no latency in nanoseconds"))?;
                let bandwidth = bandwidth.parse().map_err(|error| format!("'{bandwidth}': {error}"))?;
                if bandwidth == Bytes(0) {
                    return Err("a medium of 0 bytes a second never ends to write".into());
                }
                Ok(Media::Emulated { latency: Nanos(latency), bandwidth })
            }
            _ => Err(format!(
                "'{text}' is no medium: write file, dsync, pmem, memory or emulated[:LATENCY_NS[,BYTES_PER_SECOND]]"
            )),
        }
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Media::File => f.write_str("file"),
            Media::Dsync => f.write_str("dsync"),
            Media::Pmem => f.write_str("pmem"),
            Media::Memory => f.write_str("memory"),
            Media::Emulated { latency, bandwidth } => write!(f, "emulated:{},{}", latency.0, bandwidth.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_read_as_they_print() {
        for text in ["file", "dsync", "pmem", "memory", "emulated:300,1000000000"] {
            assert_eq!(text.parse::<Media>().map(|media| media.to_string()), Ok(text.to_string()));
        }
        assert_eq!("emulated".parse(), Ok(OPTANE));
        let slow = Media::Emulated { latency: Nanos(1000), bandwidth: Bytes(1 << 30) };
        assert_eq!("emulated:1000ns,1g".parse(), Ok(slow));
    }

    #[test]
    fn what_is_no_medium_says_what_would_be() {
        for (text, says) in [
            ("disk", "write file, dsync"),
            ("file:3", "no medium"),
            ("emulated:fast", "no latency"),
            ("emulated:1,0", "never ends"),
            ("emulated:1,x", "'x'"),
        ] {
            let error = text.parse::<Media>().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
