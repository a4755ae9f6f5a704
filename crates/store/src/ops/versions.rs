//! VERSIONS: taken from the store's counter by whoever writes with versions of his own, so that there is one counter.

use crate::store::Store;

impl Store {
    /// Versions that are given from now on are above `last`.
    pub fn begin_versions(&mut self, last: u64) {
        self.version = self.version.max(last);
    }

    /// Versions that are given from now on are above `last`, and those that were given before are forgotten: for a store whose items come from elsewhere, with
    /// their versions, and go there again.
    pub fn restart_versions(&mut self, last: u64) {
        self.version = last;
    }

    /// The last version that was given.
    pub fn last_version(&self) -> u64 {
        self.version
    }

    /// Takes `count` versions, all higher than those given before: the first of them. With 0 none is taken, and the answer is the next.
    pub fn take_versions(&mut self, count: u64) -> u64 {
        let first = self.version + 1;
        self.version += count;
        first
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Mode};
    use crate::ops::set::{SetHow, SetOutcome};
    use crate::store::Store;

    #[test]
    fn what_is_taken_is_given_to_nobody_else() {
        let mut store = Store::new(Config::new(Mode::Cache, 64 << 20)).expect("a store");
        store.begin_versions(1 << 32);
        let first = store.take_versions(10);
        assert_eq!((first, store.take_versions(0)), ((1 << 32) + 1, first + 10));
        let key = store.key(b"k").expect("a key");
        let outcome = store.set(1, key, b"v", &SetHow::default()).expect("there is room");
        assert_eq!(outcome, SetOutcome::Stored { version: first + 10, size: 1 });
        store.begin_versions(5);
        assert_eq!(store.take_versions(1), first + 11, "it never goes back");
        store.restart_versions(5);
        assert_eq!(store.take_versions(1), 6, "but where that is said");
        assert!(
            store.mark(1, key, true, false)
                && store.peek(1, key).is_some_and(|item| item.stale && !item.win_sent)
        );
    }
}
