//! The model that is served, and its replacement by another while requests go on.
//!
//! Invariants: who takes the model has it for as long as it likes, so a request is checked against and computed by one and the same model, and
//! the old one goes when the last request that came before the swap is answered. A load that fails changes nothing. One load at a time.
//!
//! Cost: a lock and a count for each request, uncontended but during a swap, which is two moves. While a model is loaded there is memory for both.

use super::counters::{Counters, add};
use rec::request::Served;
use std::sync::{Arc, Mutex, PoisonError};

/// Where models come from.
pub type Source = Box<dyn Fn() -> Result<Served, String> + Send + Sync>;

/// See the head of the file.
pub struct Shelf {
    current: Mutex<Arc<Served>>,
    source: Source,
    counters: Arc<Counters>,
    /// Held while one is loaded; the generation of the last.
    loading: Mutex<u64>,
}

impl Shelf {
    /// With the first model of `source`.
    ///
    /// # Errors
    /// It does not load.
    pub fn new(source: Source, counters: &Arc<Counters>) -> Result<Shelf, String> {
        let mut first = source()?;
        first.generation = 1;
        let (current, loading) = (Mutex::new(Arc::new(first)), Mutex::new(1));
        Ok(Shelf { current, source, counters: Arc::clone(counters), loading })
    }

    /// The model.
    pub fn current(&self) -> Arc<Served> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads a model beside the one that is served, and puts it in its place. It keeps the name under which it is served.
    ///
    /// # Errors
    /// It does not load; the old one goes on.
    pub fn reload(&self) -> Result<Arc<Served>, String> {
        let mut generation = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = (self.source)().inspect_err(|_| add(&self.counters.failed_loads, 1))?;
        add(&self.counters.loads, 1);
        *generation += 1;
        next.generation = *generation;
        next.name.clone_from(&self.current().name);
        let next = Arc::new(next);
        let old = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&next))
        };
        // Given back outside of the lock: tables are large.
        drop(old);
        Ok(next)
    }
}
