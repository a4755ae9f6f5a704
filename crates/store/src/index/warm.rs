//! The index in a file, as the next process finds it: checked before anything follows its links.

use super::bucket::{BUCKET, Bucket, Buckets, WAYS, occupancy};
use super::{Index, Slot, offset_in};
use base::pages::Region;

/// What an index knows beside its buckets. All are numbers: of buckets, and of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Main buckets in use.
    pub(crate) count: usize,
    /// Main buckets that there is memory for.
    pub(crate) main: usize,
    /// Overflow buckets that there is memory for.
    pub(crate) overflow: usize,
    pub(crate) entries: usize,
}

/// Which overflow buckets chains have.
pub(crate) struct Used(Vec<bool>);

impl Index {
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            count: self.count,
            main: self.main.backed,
            overflow: self.overflow.backed,
            entries: self.entries,
        }
    }

    /// The index of `shape` in two files, if every chain is sound and every entry refers to a place that `is_inside` accepts, given its
    /// offset. Changes nothing; [`Index::adopt`] does what is left to do.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub(crate) fn resumed(
        main: Region,
        overflow: Region,
        shape: Shape,
        is_inside: impl Fn(usize) -> bool,
    ) -> Result<(Index, Used), &'static str> {
        let (main, overflow) = (Buckets::new(main), Buckets::new(overflow));
        let fits = |buckets: &Buckets, backed: usize| backed <= buckets.region.len() / BUCKET;
        if !fits(&main, shape.main) || !fits(&overflow, shape.overflow) || shape.overflow >= u32::MAX as usize
        {
            return Err("the index is longer than its file");
        }
        if shape.count < 64 || shape.count > shape.main {
            return Err("the index has more buckets than it has memory for");
        }
        let index = Index {
            main: Buckets { backed: shape.main, ..main },
            count: shape.count,
            mask: 2 * (1 << shape.count.ilog2()) - 1,
            overflow: Buckets { backed: shape.overflow, ..overflow },
            free: 0,
            free_count: 0,
            overflow_used: 0,
            entries: shape.entries,
            scratch: Vec::with_capacity(64),
        };
        let mut used = Used(vec![false; shape.overflow]);
        let entries = index.look_at_chains(&mut used.0, is_inside)?;
        if entries != shape.entries {
            return Err("the index has lost or found entries");
        }
        Ok((index, used))
    }

    fn look_at_chains(
        &self,
        used: &mut [bool],
        is_inside: impl Fn(usize) -> bool,
    ) -> Result<usize, &'static str> {
        let mut entries = 0;
        for number in 0..self.count {
            let (mut bucket, mut is_main) = (self.main.at(number), true);
            loop {
                // SAFETY: a bucket of a region that has memory for it: `number` and links were compared with what is backed.
                let Bucket { entries: all, link, .. } = unsafe { *bucket };
                let full = occupancy(bucket);
                if all[full..].iter().any(|&entry| entry != 0) || full == 0 && !is_main {
                    return Err("a bucket of the index has a hole");
                }
                for &entry in &all[..full] {
                    if entry << 16 == 0 || !is_inside(offset_in(entry)) {
                        return Err("an index entry points outside of the items");
                    }
                }
                entries += full;
                if link == 0 {
                    break;
                }
                let next = link as usize - 1;
                if full < WAYS || next >= used.len() || std::mem::replace(&mut used[next], true) {
                    return Err("a chain of the index leads astray");
                }
                (bucket, is_main) = (self.overflow.at(next), false);
            }
        }
        Ok(entries)
    }

    /// Puts the overflow buckets that no chain has on the free list.
    pub(crate) fn adopt(&mut self, used: &Used) {
        for number in (0..self.overflow.backed).rev() {
            if used.0[number] {
                self.overflow_used += 1;
                continue;
            }
            let bucket = self.overflow.at(number);
            // SAFETY: a backed overflow bucket that no chain uses.
            unsafe { (*bucket).link = self.free };
            self.free = number as u32 + 1;
            self.free_count += 1;
        }
    }

    /// Whether an entry of `hash` refers to `offset`.
    pub(crate) fn refers(&self, hash: u64, offset: usize) -> bool {
        self.find(hash, |at| at == offset).map(Slot::entry) == Some(super::entry_of(hash, offset))
    }
}
