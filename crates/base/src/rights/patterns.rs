//! Names that are allowed: whole ones, and all that begin in a certain way.
//!
//! Cost: a look is two binary searches, whatever the names are; a list without whole names, as those of keys are, one.

/// What a list of names and beginnings takes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    /// In order, and none begins as another does.
    prefixes: Vec<Box<[u8]>>,
    /// In order.
    exact: Vec<Box<[u8]>>,
}

impl Patterns {
    /// All that begin as one of these.
    pub fn of_prefixes<'p>(prefixes: impl IntoIterator<Item = &'p [u8]>) -> Patterns {
        let mut all = Patterns::default();
        prefixes.into_iter().for_each(|prefix| all.add_prefix(prefix));
        all
    }

    /// All that begin so, too.
    pub fn add_prefix(&mut self, prefix: &[u8]) {
        if self.covering(prefix).is_some() {
            return;
        }
        // What begins as it does stands in a row behind its place.
        let from = self.prefixes.partition_point(|known| &**known < prefix);
        let covered = self.prefixes[from..].iter().take_while(|known| known.starts_with(prefix)).count();
        self.prefixes.splice(from..from + covered, [prefix.into()]);
    }

    /// This one, too.
    pub fn add_exact(&mut self, name: &[u8]) {
        if let Err(at) = self.exact.binary_search_by(|known| (**known).cmp(name)) {
            self.exact.insert(at, name.into());
        }
    }

    /// As people write it: a name, or a beginning and a `*`.
    ///
    /// # Errors
    /// There is a `*` elsewhere, or nothing at all.
    pub fn add_glob(&mut self, glob: &str) -> Result<(), &'static str> {
        let (name, is_prefix) = glob.strip_suffix('*').map_or((glob, false), |prefix| (prefix, true));
        match () {
            () if name.contains('*') => Err("a * may stand at the end alone"),
            () if glob.is_empty() => Err("an empty name is none; * is all of them"),
            () if is_prefix => {
                self.add_prefix(name.as_bytes());
                Ok(())
            }
            () => {
                self.add_exact(name.as_bytes());
                Ok(())
            }
        }
    }

    /// The beginning of `name` that is in the list.
    #[inline]
    fn covering(&self, name: &[u8]) -> Option<&[u8]> {
        // Whatever stands between a beginning of a name and the name begins so, too, and would not be in the list beside it.
        let behind = self.prefixes.partition_point(|known| &**known <= name);
        let last = &**self.prefixes.get(behind.checked_sub(1)?)?;
        name.starts_with(last).then_some(last)
    }

    /// Whether it takes in `name`.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.covering(name).is_some()
            || !self.exact.is_empty() && self.exact.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }

    /// Whether it takes in every name.
    #[inline]
    pub fn has_all(&self) -> bool {
        self.prefixes.first().is_some_and(|prefix| prefix.is_empty())
    }

    /// Whether it takes in none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && self.exact.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Vec<u8>> {
        // Few letters, so that many names begin alike.
        prop::collection::vec(prop::sample::select(&b"ab:"[..]), 0..6)
    }

    proptest! {
        #[test]
        fn a_name_is_in_if_it_is_one_or_begins_as_one(
            prefixes in prop::collection::vec(names(), 0..8),
            exact in prop::collection::vec(names(), 0..4),
            asked in prop::collection::vec(names(), 1..20),
        ) {
            let mut patterns = Patterns::of_prefixes(prefixes.iter().map(Vec::as_slice));
            exact.iter().for_each(|name| patterns.add_exact(name));
            for name in &asked {
                let is_in = prefixes.iter().any(|prefix| name.starts_with(prefix)) || exact.contains(name);
                prop_assert_eq!(patterns.has(name), is_in, "{:?} of {:?}", name, patterns);
            }
            prop_assert_eq!(patterns.has_all(), prefixes.iter().any(Vec::is_empty));
            prop_assert_eq!(patterns.is_empty(), prefixes.is_empty() && exact.is_empty());
            prop_assert!(patterns.prefixes.is_sorted() && patterns.exact.is_sorted());
        }
    }

    #[test]
    fn a_star_stands_at_the_end() {
        let mut patterns = Patterns::default();
        for glob in ["shop.Cart/*", "shop.Stock/Get"] {
            assert_eq!(patterns.add_glob(glob), Ok(()));
        }
        for (path, is_in) in [
            ("shop.Cart/Add", true),
            ("shop.Cart/", true),
            ("shop.Cart", false),
            ("shop.Stock/Get", true),
            ("shop.Stock/GetAll", false),
        ] {
            assert_eq!(patterns.has(path.as_bytes()), is_in, "{path}");
        }
        assert!(patterns.add_glob("*.Cart/Add").is_err() && patterns.add_glob("**").is_err());
        assert!(patterns.add_glob("").is_err() && !patterns.has_all());
        assert_eq!(patterns.add_glob("*"), Ok(()));
        assert!(patterns.has_all() && patterns.has(b""));
    }
}
