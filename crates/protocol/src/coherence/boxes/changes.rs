//! Which copies changed, for whoever keeps a second table of them: a faster tier, which has to be told before anything is sent.
//!
//! Nothing is noted unless [`Box::watch_copies`](super::Box::watch_copies) was called. What is noted are hashes, not what happened to them: who
//! mirrors looks at what is there now.
//!
//! Bounds: [`Changes::MOST`] hashes; beyond them *all* may have changed, as after the flush of a large home.

use crate::wire::KeyHash;

/// Since they were taken last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changes {
    hashes: Vec<KeyHash>,
    all: bool,
}

impl Changes {
    /// Hashes that are told one by one.
    pub const MOST: usize = 64;

    /// Those whose copies may have come, gone or been replaced; none where it may be any.
    pub fn hashes(&self) -> Option<&[KeyHash]> {
        (!self.all).then_some(&self.hashes)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty() && !self.all
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.all = false;
    }

    pub(super) fn note(&mut self, hash: KeyHash) {
        if self.hashes.len() < Changes::MOST {
            self.hashes.push(hash);
        } else {
            self.all = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_all() {
        let mut changes = Changes::default();
        assert!(changes.is_empty());
        (0..Changes::MOST as u32).for_each(|i| changes.note(KeyHash(i)));
        assert_eq!(changes.hashes().map(<[KeyHash]>::len), Some(Changes::MOST));
        changes.note(KeyHash(0));
        assert_eq!(changes.hashes(), None);
        changes.clear();
        assert_eq!(changes, Changes::default());
    }
}
