//! A thread of a service that ends with it.

use crate::guard::AbortOnPanic;
use crate::process::Stop;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A loop of a service on a thread of its own.
pub struct Loop<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Loop<T> {
    /// Starts it: `work` goes on until its flag is set. When it ends by itself the whole process stops; a panic ends it at once.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        name: impl Into<String>,
        stop: &Stop,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<Loop<T>> {
        let (flag, stop) = (Arc::new(AtomicBool::new(false)), stop.clone());
        let own = Arc::clone(&flag);
        let run = move || {
            let _guard = AbortOnPanic("this server");
            let result = work(&own);
            if !own.load(Ordering::Relaxed) {
                stop.stop();
            }
            result
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Loop { stop: flag, thread: Some(thread) })
    }

    /// Tells it to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Tells it to end, and waits for it; none: that was done before.
    pub fn finish(&mut self) -> Option<T> {
        self.stop();
        self.thread.take().map(|thread| thread.join().expect("a panic ends the process"))
    }
}

impl<T> Drop for Loop<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it ends the process.
            let _ = thread.join();
        }
    }
}
