//! Standard output that whoever read it has closed: `millrace registers | head -3` ends without a word, as other tools do.

use std::any::Any;
use std::error::Error;
use std::{io, panic, process};

/// What a shell says of a program that SIGPIPE ended.
pub const CLOSED: u8 = 128 + 13;

/// From now on a `print!` to a closed pipe ends the process with [`CLOSED`] instead of a panic's text.
pub fn end_quietly_when_closed() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if is_closed_output(panic.payload()) {
            process::exit(CLOSED.into());
        }
        before(panic);
    }));
}

/// Whether the standard library's macros could not print because nobody reads.
fn is_closed_output(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>().map_or("", String::as_str);
    text.starts_with("failed printing to stdout") && text.contains("Broken pipe")
}

/// Whether an error is that nobody reads what a command prints that does nothing else.
pub fn is_closed(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_output_is_quiet() {
        let text = |text: &str| is_closed_output(&text.to_owned());
        assert!(text("failed printing to stdout: Broken pipe (os error 32)"));
        assert!(!text("failed printing to stdout: No space left on device (os error 28)"));
        assert!(!text("index out of bounds"));
        assert!(is_closed(&io::Error::from(io::ErrorKind::BrokenPipe)));
        assert!(!is_closed(&io::Error::from(io::ErrorKind::StorageFull)));
    }
}
