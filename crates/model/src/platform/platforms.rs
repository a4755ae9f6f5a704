//! The platforms that an experiment runs on, by name: those that are shipped, some of them changed.
//!
//! Experiments ask for their machines here and not at [`shipped`], so that a fit, a sweep or an audit can run the same experiment on a machine
//! with another number in it. A set belongs to one run: it remembers which numbers were read.

use super::shipped::{SHIPPED, shipped};
use super::{LoadError, NumberPlace, Platform};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A set of platforms; making one costs nothing, each is read when it is asked for.
#[derive(Clone, Debug, Default)]
pub struct Platforms {
    /// In place of the shipped ones of these names, or beside them.
    changed: BTreeMap<String, Platform>,
    /// Numbers that have another value, wherever they are taken over.
    values: BTreeMap<NumberPlace, f64>,
    taken: RefCell<BTreeMap<String, Rc<Platform>>>,
}

impl Platforms {
    /// As they are shipped.
    pub fn shipped() -> Platforms {
        Platforms::default()
    }

    /// The same with this one instead of the one of its name, or beside the others if there is none; nothing read.
    #[must_use]
    pub fn with(&self, platform: Platform) -> Platforms {
        let mut changed = self.changed.clone();
        changed.insert(platform.name.clone(), platform);
        Platforms { changed, values: self.values.clone(), taken: RefCell::default() }
    }

    /// The same with these values there, in the numbers' units, and in all platforms that take these numbers over from there.
    ///
    /// # Errors
    /// There is no such platform, or no such number.
    pub fn with_values<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a NumberPlace, f64)>,
    ) -> Result<Platforms, LoadError> {
        let mut all = self.values.clone();
        for (at, value) in values {
            self.number(at)?;
            all.insert(at.clone(), value);
        }
        Ok(Platforms { changed: self.changed.clone(), values: all, taken: RefCell::default() })
    }

    /// The platform of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, name: &str) -> Result<Rc<Platform>, LoadError> {
        if let Some(platform) = self.taken.borrow().get(name) {
            return Ok(Rc::clone(platform));
        }
        let mut platform = match self.changed.get(name) {
            Some(platform) => platform.unread(),
            None => shipped(name).unwrap_or_else(|| Err(self.unknown(name)))?,
        };
        platform.set(&self.values);
        let platform = Rc::new(platform);
        self.taken.borrow_mut().insert(name.into(), Rc::clone(&platform));
        Ok(platform)
    }

    /// Those that were asked for so far, by name; [`Platform::were_read`] says which of their numbers were read.
    pub fn taken(&self) -> Vec<Rc<Platform>> {
        self.taken.borrow().values().cloned().collect()
    }

    fn unknown(&self, name: &str) -> LoadError {
        let shipped = SHIPPED.iter().map(|(name, _)| (*name).to_string());
        let known: Vec<_> = shipped.chain(self.changed.keys().cloned()).collect();
        LoadError::Unknown { platform: name.into(), known: known.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_platform_stands_in_for_the_shipped_one_and_reads_are_kept() {
        let all = Platforms::shipped();
        let before = all.named("bluefield2-ib").expect("it is shipped");
        assert!(before.were_read().is_empty() && all.taken().len() == 1);
        let span = before.span("pcie.latency").expect("it has one");
        let changed = all.with(before.with("pcie.latency", 1000.0));
        let after = changed.named("bluefield2-ib").expect("it is there");
        assert!(after.span("pcie.latency").expect("it has one") > span);
        assert_eq!(changed.taken()[0].were_read(), ["pcie.latency"]);
        let nobodys = all.named("nobody's").map_err(|error| error.to_string());
        assert!(nobodys.is_err_and(|why| why.contains("nobody's") && why.contains("bluefield2-ib")));
    }
}
