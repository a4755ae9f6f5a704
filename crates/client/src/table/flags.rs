//! A table as the flags of a command.

use super::{Entry, Table, Wrong};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;

/// Whether a flag has this name, or had it.
fn is_called(arg: &clap::Arg, flag: &str) -> bool {
    arg.get_long() == Some(flag) || arg.get_all_aliases().is_some_and(|all| all.contains(&flag))
}

impl Table<'_> {
    /// Reads all keys that are no tables as flags; but not those of `others`.
    ///
    /// # Errors
    /// There is no such flag, or it has no such value, or one is missing.
    pub fn flags<T: clap::Args>(&self, others: &[&str]) -> Result<T, Wrong> {
        let command = clap::Command::new("file").no_binary_name(true).disable_help_flag(true);
        let command = T::augment_args(command).disable_version_flag(true);
        let mut words = Vec::new();
        let is_plain = |entry: &Entry<'_>| !others.contains(&entry.key) && entry.table().is_err();
        for entry in self.entries().filter(is_plain) {
            let flag = entry.key.replace('_', "-");
            let known = || command.get_arguments().filter_map(|arg| arg.get_long());
            let Some(arg) = command.get_arguments().find(|arg| is_called(arg, &flag)) else {
                let keys: Vec<String> = known().map(|flag| flag.replace('-', "_")).collect();
                let keys = keys.iter().map(String::as_str).chain(others.iter().copied());
                return Err(entry.unknown(&self.title(), keys));
            };
            if !arg.get_action().takes_values() {
                words.extend(entry.is_on()?.then(|| format!("--{flag}")));
                continue;
            }
            let values = entry.scalars()?;
            match arg.get_value_delimiter() {
                // An empty list is as good as none.
                Some(_) if values.is_empty() => {}
                Some(delimiter) => words.push(format!("--{flag}={}", values.join(&delimiter.to_string()))),
                None => words.extend(values.iter().map(|value| format!("--{flag}={value}"))),
            }
        }
        let matches = command.try_get_matches_from(words).map_err(|error| self.refused(&error))?;
        T::from_arg_matches(&matches).map_err(|error| self.refused(&error))
    }

    /// A flag's complaint as one of its key.
    fn refused(&self, error: &clap::Error) -> Wrong {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
            _ => None,
        };
        let key_of = |flag: &str| {
            let flag = flag.trim_start_matches('-').split([' ', '=', '<', '[']).next().unwrap_or_default();
            flag.replace('-', "_")
        };
        let flag = context(ContextKind::InvalidArg).unwrap_or_default();
        let key = key_of(&flag);
        let entry = self.entries().find(|entry| entry.key.replace('-', "_") == key);
        let what = match error.kind() {
            ErrorKind::MissingRequiredArgument => {
                let keys: Vec<String> = flag.split(", ").map(key_of).collect();
                format!("{} needs {}", self.title(), keys.join(", "))
            }
            ErrorKind::ArgumentConflict => {
                let other =
                    context(ContextKind::PriorArg).map_or("another key".to_owned(), |prior| key_of(&prior));
                format!("{key} does not go together with {other}")
            }
            _ => {
                let value = context(ContextKind::InvalidValue).unwrap_or_default();
                let cause = error.source().map(ToString::to_string);
                let valid = context(ContextKind::ValidValue).map(|valid| format!("one of {valid} is wanted"));
                let why = cause.or(valid).unwrap_or_else(|| error.kind().to_string());
                format!("{key} cannot be {value:?}: {why}")
            }
        };
        entry.map_or_else(|| self.wrong(&what), |entry| entry.wrong(&what))
    }
}
