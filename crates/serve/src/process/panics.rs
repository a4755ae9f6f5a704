//! Panics of machines, caught with what they say, and not shown on the terminal.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// What the panic said that is being caught on this thread; none where panics are none of ours.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `it`; a panic is an error that says what and where.
pub fn caught<T>(it: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_ours = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            });
            if !is_ours {
                before(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    // What was touched is looked at only for what was recorded before the panic.
    let result = panic::catch_unwind(AssertUnwindSafe(it));
    let text = CAUGHT.take().unwrap_or_default();
    result.map_err(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(caught(|| 3), Ok(3));
        let error = caught(|| panic!("a broken promise")).expect_err("it panics");
        assert!(error.contains("a broken promise"), "{error}");
        assert_eq!(caught(|| 4), Ok(4));
    }
}
