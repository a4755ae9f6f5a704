//! Work that handlers have done by name: on a compute unit where there is one, else by the same kernel on their own thread.

use codec::unit::{Kernel, run_growing};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Bytes of a result, at most: those of the longest message.
pub(crate) const MOST: usize = crate::frame::MAX_MESSAGE;

type Make = Arc<dyn Fn() -> Box<dyn Kernel> + Send + Sync>;

/// The kernels of a server, by the names that its handlers use: `compress`, `encrypt`, `checksum`, `thumbnail`, whatever the service wants.
/// Each thread and each compute unit makes one of its own. The first registered are the first to get a unit.
#[derive(Clone, Default)]
pub struct Kernels {
    all: Vec<(String, Make)>,
}

impl Kernels {
    /// No kernels.
    pub fn new() -> Kernels {
        Kernels::default()
    }

    /// These and one more.
    ///
    /// # Panics
    /// If there is one of that name.
    #[must_use]
    pub fn with<K: Kernel + 'static>(
        mut self,
        name: &str,
        make: impl Fn() -> K + Send + Sync + 'static,
    ) -> Kernels {
        assert!(self.number(name).is_none(), "there is a kernel {name} already");
        self.all.push((name.to_owned(), Arc::new(move || Box::new(make()))));
        self
    }

    /// Its number, in the order of registration.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|(known, _)| known == name)
    }

    /// The names, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn make(&self, number: usize) -> Box<dyn Kernel> {
        (self.all[number].1)()
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The kernels of one thread, each made when it is first asked for.
#[derive(Default)]
pub(crate) struct OnThisThread {
    made: HashMap<usize, Box<dyn Kernel>>,
    out: Vec<u8>,
}

impl OnThisThread {
    fn kernel(&mut self, kernels: &Kernels, number: usize) -> &mut Box<dyn Kernel> {
        self.made.entry(number).or_insert_with(|| kernels.make(number))
    }

    /// Bytes that are enough for the result of every input of that length.
    pub(crate) fn bound(&mut self, kernels: &Kernels, number: usize, input_len: usize) -> usize {
        self.kernel(kernels, number).output_bound(input_len)
    }

    /// Runs a kernel here: the result, until the next call.
    pub(crate) fn run(
        &mut self,
        kernels: &Kernels,
        number: usize,
        input: &[u8],
    ) -> Result<&[u8], codec::unit::KernelError> {
        let mut out = std::mem::take(&mut self.out);
        let len = run_growing(&mut **self.kernel(kernels, number), input, &mut out, MOST);
        self.out = out;
        Ok(&self.out[..len?])
    }
}
