//! What comes from C is checked here, and what must not get there stops here.

use crate::Status;
use std::cell::{RefCell, UnsafeCell};
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Why this thread's last session or channel could not be opened.
    static NOT_OPENED: RefCell<CString> = RefCell::default();
}

/// Why a function fails: its status, and a sentence.
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) why: String,
}

impl Failure {
    pub(crate) fn argument(why: impl Into<String>) -> Failure {
        Failure { status: Status::Argument, why: why.into() }
    }
}

impl From<client::kv::Error> for Failure {
    fn from(error: client::kv::Error) -> Failure {
        Failure { status: Status::of(&error), why: error.to_string() }
    }
}

/// A literal that ends with its zero.
pub(crate) fn text(literal: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(literal.as_bytes()).expect("the literal ends with its only zero")
}

fn owned(why: String) -> CString {
    CString::new(why.replace('\0', "\\0")).expect("it has no zeros any more")
}

/// What a handle of C points to: a value for one thread at a time, and the text of its last failure.
pub(crate) struct Guarded<T> {
    is_in_use: AtomicBool,
    state: UnsafeCell<State<T>>,
}

struct State<T> {
    value: T,
    error: CString,
    has_panicked: bool,
}

impl<T> Guarded<T> {
    pub(crate) fn boxed(value: T) -> *mut Guarded<T> {
        let state = UnsafeCell::new(State { value, error: CString::default(), has_panicked: false });
        Box::into_raw(Box::new(Guarded { is_in_use: AtomicBool::new(false), state }))
    }

    /// Runs `action` on what `handle` points to, unless another thread does.
    ///
    /// # Safety
    /// `handle` is null, or came from [`Guarded::boxed`] and was not closed.
    pub(crate) unsafe fn with(
        handle: *const Guarded<T>,
        action: impl FnOnce(&mut T) -> Result<Status, Failure>,
    ) -> Status {
        // SAFETY: the caller's promise.
        let Some(guarded) = (unsafe { handle.as_ref() }) else { return Status::Argument };
        if guarded.is_in_use.swap(true, Ordering::Acquire) {
            return Status::Busy;
        }
        // SAFETY: whoever turned `is_in_use` to true is alone until it is false again.
        let state = unsafe { &mut *guarded.state.get() };
        let status = state.run(action);
        guarded.is_in_use.store(false, Ordering::Release);
        status
    }

    /// The text of the last failure, until the next; of no handle that of the last that could not be opened.
    ///
    /// # Safety
    /// As [`Guarded::with`].
    pub(crate) unsafe fn error(handle: *const Guarded<T>) -> *const c_char {
        // SAFETY: the caller's promise.
        let Some(guarded) = (unsafe { handle.as_ref() }) else {
            return NOT_OPENED.with_borrow(|text| text.as_ptr());
        };
        if guarded.is_in_use.swap(true, Ordering::Acquire) {
            return Status::Busy.text().as_ptr();
        }
        // SAFETY: as above: nobody else is there.
        let error = unsafe { &(*guarded.state.get()).error }.as_ptr();
        guarded.is_in_use.store(false, Ordering::Release);
        error
    }

    /// Ends it, unless a thread uses it.
    ///
    /// # Safety
    /// As [`Guarded::with`]; it is not used afterwards, unless this says [`Status::Busy`].
    pub(crate) unsafe fn close(handle: *mut Guarded<T>) -> Status {
        // SAFETY: the caller's promise.
        let Some(guarded) = (unsafe { handle.as_ref() }) else { return Status::Ok };
        if guarded.is_in_use.swap(true, Ordering::Acquire) {
            return Status::Busy;
        }
        // SAFETY: it came from `Box::into_raw`, nobody uses it, and the caller will not.
        let guarded = unsafe { Box::from_raw(handle) };
        stopped(|| drop(guarded)).map_or(Status::Internal, |()| Status::Ok)
    }
}

impl<T> State<T> {
    fn run(&mut self, action: impl FnOnce(&mut T) -> Result<Status, Failure>) -> Status {
        if self.has_panicked {
            return Status::Internal;
        }
        let value = &mut self.value;
        let failure = match stopped(|| action(value)) {
            Some(Ok(status)) => return status,
            Some(Err(failure)) => failure,
            None => {
                // What it left behind may be anything.
                self.has_panicked = true;
                Failure {
                    status: Status::Internal,
                    why: Status::Internal.text().to_string_lossy().into_owned(),
                }
            }
        };
        self.error = owned(failure.why);
        failure.status
    }
}

/// What `action` returns; nothing where it panicked.
fn stopped<R>(action: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(action)).ok()
}

/// Has `open` make what a handle points to, and `handle` point there; or null, and why.
///
/// # Safety
/// `handle` is null or can be written.
pub(crate) unsafe fn opened<T>(
    handle: *mut *mut Guarded<T>,
    open: impl FnOnce() -> Result<T, Failure>,
) -> Status {
    // SAFETY: the caller's promise.
    let made = match unsafe { handle.as_mut() } {
        None => Err(Failure::argument("where the handle goes is null")),
        Some(handle) => {
            *handle = std::ptr::null_mut();
            let internal = || Failure {
                status: Status::Internal,
                why: Status::Internal.text().to_string_lossy().into(),
            };
            stopped(open).unwrap_or_else(|| Err(internal())).map(|value| *handle = Guarded::boxed(value))
        }
    };
    made.map_or_else(
        |failure| {
            NOT_OPENED.set(owned(failure.why));
            failure.status
        },
        |()| Status::Ok,
    )
}

/// Bytes of C.
///
/// # Safety
/// `bytes` is null, or `len` bytes can be read there until `'a` is over.
pub(crate) unsafe fn slice<'a>(what: &str, bytes: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || len > isize::MAX as usize {
        return Err(Failure::argument(format!("{what} is null, or its length no length")));
    }
    // SAFETY: not null, of a length that can be, and readable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
}

/// A text of C; none where it is null.
///
/// # Safety
/// `string` is null, or ends with a zero and can be read until `'a` is over.
pub(crate) unsafe fn string<'a>(what: &str, string: *const c_char) -> Result<Option<&'a str>, Failure> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map(Some).map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// A place that C gave for an answer.
///
/// # Safety
/// `place` is null, or can be written as a `T` until `'a` is over.
pub(crate) unsafe fn place<'a, T>(what: &str, place: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { place.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is null")))
}
