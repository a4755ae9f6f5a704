//! Whose messages are logged, from which level on: `info,connections=debug,serve::chain=trace`.
//!
//! A part is a target of the facade or what a target begins with, module by module; the longest that fits counts. Of crates that are not ours and not named
//! only what is wrong is of interest to an operator.

use ::log::LevelFilter;
use std::str::FromStr;

/// Targets that messages of ours have, by their first word.
const OURS: &[&str] = &[
    "millrace",
    "serve",
    "bench",
    "prove",
    "plan",
    "fabric",
    "engine",
    "store",
    "protocol",
    "xdp",
    "rec",
    "ring",
    "base",
    "client",
    "codec",
    base::closing::TARGET,
];
/// Parts that one filter may name.
const PARTS_MAX: usize = 64;

/// From which level on the messages of each part are logged; `info` unless it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    default: LevelFilter,
    parts: Vec<(String, LevelFilter)>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { default: LevelFilter::Info, parts: Vec::new() }
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let wrong = |word: &str| {
            format!(
                "{word:?} is no level; write error, warn, info, debug, trace or off, or PART=LEVEL, for example info,connections=debug"
            )
        };
        let mut filter = Filter::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (part, level) =
                word.split_once('=').map_or(("", word), |(part, level)| (part.trim(), level.trim()));
            let level = level.parse().map_err(|_| wrong(word))?;
            match part {
                "" if word.contains('=') => return Err(wrong(word)),
                "" => filter.default = level,
                _ if filter.parts.len() == PARTS_MAX => {
                    return Err(format!("at most {PARTS_MAX} parts may be named"));
                }
                part => filter.parts.push((part.to_owned(), level)),
            }
        }
        Ok(filter)
    }
}

impl Filter {
    /// The same, but all of ours from this level on at least.
    #[must_use]
    pub fn raised(mut self, level: LevelFilter) -> Filter {
        self.default = self.default.max(level);
        self
    }

    /// From which level on messages of a target are logged.
    pub fn level_of(&self, target: &str) -> LevelFilter {
        let is_of = |part: &str| {
            target.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let named = self.parts.iter().filter(|(part, _)| is_of(part)).max_by_key(|(part, _)| part.len());
        match named {
            Some((_, level)) => *level,
            None if OURS.iter().any(|part| is_of(part)) => self.default,
            None => self.default.min(LevelFilter::Warn),
        }
    }

    /// Of all targets the level of which most is logged.
    pub fn max_level(&self) -> LevelFilter {
        self.parts.iter().map(|(_, level)| *level).fold(self.default, Ord::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LevelFilter::{Debug, Error, Info, Off, Trace, Warn};
    use proptest::prelude::*;

    #[test]
    fn the_longest_part_that_fits_counts() {
        let filter: Filter =
            "warn, serve=info,serve::chain=trace,connections=off,h2=debug".parse().expect("it is one");
        for (target, level) in [
            ("serve::kv", Info),
            ("serve::chain", Trace),
            ("serve::chain::links", Trace),
            ("serve::chains", Info),
            ("server", Warn),
            ("fabric::link", Warn),
            ("connections", Off),
            ("h2::proto", Debug),
            ("hyper", Warn),
        ] {
            assert_eq!(filter.level_of(target), level, "{target}");
        }
        assert_eq!(filter.max_level(), Trace);
        assert_eq!(Filter::default().level_of("hyper"), Warn);
        assert_eq!("error".parse::<Filter>().map(|filter| filter.level_of("hyper")), Ok(Error));
        assert_eq!("DEBUG".parse::<Filter>().map(|filter| filter.level_of("serve")), Ok(Debug));
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        for text in ["loud", "info,serve=loud", "=info", "serve="] {
            assert!(text.parse::<Filter>().is_err_and(|why| why.contains("connections=debug")), "{text}");
        }
        let many = "a=info,".repeat(PARTS_MAX + 1);
        assert!(many.parse::<Filter>().is_err_and(|why| why.contains("64")));
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_is_refused(text in "(info|warn|serve|::|=|,| |é|off){0,20}", target in "(serve|::|kv|é){0,4}") {
            if let Ok(filter) = text.parse::<Filter>() {
                prop_assert!(filter.level_of(&target) <= filter.max_level());
            }
        }
    }
}
