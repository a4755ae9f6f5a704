//! Ctrl-C: the first ends the run early, and what was measured so far is still printed; the second ends the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that becomes true at the first Ctrl-C.
///
/// # Errors
/// The system's, when the signal cannot be caught.
pub fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let sigint = signal_hook::consts::SIGINT;
    // In this order: at the second signal the flag is already true, and the first handler ends the program.
    signal_hook::flag::register_conditional_shutdown(sigint, 130, Arc::clone(&flag))?;
    signal_hook::flag::register(sigint, Arc::clone(&flag))?;
    Ok(flag)
}
