//! Lines for standard error of commands that are no servers: what a command says beside its result. Servers log ([`crate::process::logger`]).

/// Writes a line to standard error. Unlike with `eprintln!`, one that cannot be written (the disk that the stream goes to is full, nobody
/// reads it any more) ends nothing: a process that ends keeps its exit status.
#[macro_export]
macro_rules! complain {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}
