//! What ends the process of a server at once, with a word: a panic in one of its threads, and what makes it break a promise.
//!
//! A panic is a broken invariant of ours, and has said which. Threads of a server share what it was about: a process that goes on with fewer of them
//! serves wrongly, or not at all while it seems to live. One that ends is started anew by whoever runs it.

/// Ends the process when the thread that holds it panics.
pub struct AbortOnPanic(
    /// Whose thread it is: `the node`.
    pub &'static str,
);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!("a thread of {} panicked; stopping at once", self.0);
            std::process::abort();
        }
    }
}

/// Ends the process because what it promises cannot be kept any more, which is no fault of its code: status 1.
pub fn end_process(who: &str, why: &dyn std::fmt::Display) -> ! {
    log::error!("{who} stops at once: {why}");
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Makes this test the process that panics.
    const VICTIM: &str = "MILLRACE_TEST_PANICS";

    #[test]
    fn a_panic_in_one_thread_ends_the_process() {
        if std::env::var_os(VICTIM).is_some() {
            crate::process::logger::install();
            let thread = std::thread::spawn(|| {
                let _guard = AbortOnPanic("the test");
                panic!("as planned");
            });
            let _ = thread.join();
            return;
        }
        let program = std::env::current_exe().expect("this program");
        let name = "guard::tests::a_panic_in_one_thread_ends_the_process";
        let child = Command::new(program).args(["--exact", name, "--nocapture"]).env(VICTIM, "1").output();
        let output = child.expect("it runs");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("a thread of the test panicked"), "{text}");
    }
}
