//! GETs of the store: two dependent places in memory, the bucket of the index and the item of the log.

use super::Host;
use crate::component::CoreMemory;
use crate::kernel::{Kernel, ProgramId, Step};
use base::Picos;

/// Bytes that may be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// By buckets.
    pub index: u64,
    /// By items.
    pub items: u64,
    /// Of one item: its first line is waited for, the others follow.
    pub item: u64,
}

/// In which form requests are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each waits for its own misses, the next begins when it has its answer.
    Plain,
    /// So many at a time: all buckets, then all items, then all answers.
    Staged(u32),
}

/// A core that looks items up.
#[derive(Debug)]
pub struct Lookup {
    /// With its resources.
    pub kernel: Kernel,
    /// Where lines are waited for.
    pub memory: CoreMemory,
    /// Fetches a bucket.
    pub bucket: ProgramId,
    /// Fetches an item.
    pub item: ProgramId,
}

const LINE: u64 = 64;

impl Lookup {
    /// On this host, for a store of this size.
    pub fn new(host: &Host, sets: Sets, seed: u64) -> Lookup {
        let mut kernel = Kernel::new(seed);
        let memory = CoreMemory::new(&mut kernel, "misses");
        let fetch = |bytes| {
            let (latency, line) = host.miss(bytes);
            memory.fetch(latency, line)
        };
        let bucket = kernel.program("bucket", [fetch(sets.index)]);
        let follow = memory.follow(sets.item.saturating_sub(LINE), host.stream);
        let item = kernel.program("item", [fetch(sets.items), follow]);
        Lookup { kernel, memory, bucket, item }
    }

    /// Seconds for each GET, one after the other in this form.
    pub fn seconds(&mut self, host: &Host, form: Form) -> f64 {
        let (group, code) = match form {
            Form::Plain => (1, host.get),
            Form::Staged(group) => (group, Picos(host.get_staged.0 * u64::from(group))),
        };
        let steps = [Step::Each(self.bucket, group), Step::Each(self.item, group), Step::Wait(code)];
        let all = self.kernel.program("group", steps);
        self.kernel.unloaded(all).as_secs_f64() / f64::from(group)
    }
}
