//! The requests to an admin port.

use super::Reading;
use serve::trace::Port;
use std::time::Duration;

/// Bytes of a page at most.
const PAGE_MAX: u64 = 16 << 20;
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the node behind this port says now, which is `at_us` by whoever asks.
///
/// # Errors
/// Nobody answers, or it is no node of this version. A sentence.
pub(crate) fn ask(port: Port, at_us: u64) -> Result<Reading, String> {
    let metrics = port.get_within("/metrics", TIMEOUT, PAGE_MAX)?;
    let registers = port.get_within("/registers", TIMEOUT, PAGE_MAX)?;
    Reading::of(at_us, &metrics, &registers)
        .map_err(|why| format!("what answers at {port} is no admin port of this version of millrace: {why}"))
}
