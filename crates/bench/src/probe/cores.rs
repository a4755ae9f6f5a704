//! Running something on a given core without leaving the caller pinned there.

use std::io;

/// Runs `f` on a thread of its own, pinned to `core`.
///
/// # Errors
/// The system's, when the core is not allowed to this process.
pub fn on<T: Send>(core: usize, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let run = || base::cpu::pin_to(core).map(|()| f());
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_pinned_and_the_caller_is_not() {
        let before = base::cpu::allowed_cores();
        let core = *before.last().expect("a process has a core");
        assert_eq!(on(core, base::cpu::allowed_cores).expect("an allowed core"), [core]);
        assert_eq!(base::cpu::allowed_cores(), before);
        assert!(on(usize::MAX, || ()).is_err());
    }
}
