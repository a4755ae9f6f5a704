//! Config files: tables of TOML whose every complaint says file and line, and the name that was meant.
//!
//! A table's plain keys are what the command of the same service has as flags (`Table::flags`, with feature `flags`: `--row-format int8` is
//! `row_format = "int8"`), its tables are families of registers ([`Table::registers`]). So there is one list of each, behind flags and files alike.

use crate::controllers::{self, Controllers};
use base::registers::{Register, Registers, SetError};
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[cfg(feature = "flags")]
mod flags;

/// What is wrong with a file, and where.
#[derive(Clone, Debug)]
pub struct Wrong {
    path: PathBuf,
    /// From 1; none: the whole file.
    line: Option<usize>,
    what: String,
}

impl Wrong {
    /// The whole file is.
    fn whole(path: &Path, what: String) -> Wrong {
        Wrong { path: path.to_owned(), line: None, what }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Wrong {}

/// A file's text.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Source, Wrong> {
        let shown = path.display();
        if Controllers::named(path).is_some() {
            return Err(Wrong::whole(
                path,
                format!(
                    "{shown} is a place of controllers: whoever is a member, or changes the file, needs the file itself"
                ),
            ));
        }
        let failed = |error| Wrong::whole(path, format!("cannot read the config file {shown}: {error}"));
        std::fs::read_to_string(path).map(|text| Source::of(path, text)).map_err(failed)
    }

    /// The file of a cluster, for whoever is not one of its members: read, or had from the controllers that are named instead.
    ///
    /// # Errors
    /// It cannot be read, or no controller has it.
    pub fn of_cluster(path: &Path) -> Result<Source, Wrong> {
        let Some(named) = Controllers::named(path) else { return Source::read(path) };
        let text = named.and_then(|controllers| controllers.text(controllers::TIMEOUT));
        text.map(|text| Source::of(path, text)).map_err(|why| Wrong::whole(path, why))
    }

    /// Of a text, for errors at `path`.
    pub fn of(path: &Path, text: impl Into<String>) -> Source {
        Source { path: path.to_owned(), text: text.into() }
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it holds.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn parse(&self) -> Result<Spanned<DeTable<'_>>, Wrong> {
        DeTable::parse(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, format!("not valid TOML: {}", error.message()))
        })
    }

    /// The whole of it.
    pub fn table<'a>(&'a self, parsed: &'a Spanned<DeTable<'a>>) -> Table<'a> {
        Table { source: self, name: String::new(), at: 0, content: parsed.get_ref() }
    }

    fn wrong(&self, at: usize, what: impl Into<String>) -> Wrong {
        let line =
            1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count();
        Wrong { path: self.path.clone(), line: Some(line), what: what.into() }
    }
}

/// A table of a file.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    source: &'a Source,
    /// Dotted, empty for the whole file.
    name: String,
    at: usize,
    content: &'a DeTable<'a>,
}

/// A key of a table, and what stands there.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    source: &'a Source,
    /// Dotted.
    name: String,
    /// The key alone.
    pub key: &'a str,
    at: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Table<'a> {
    /// What is in it.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let (source, name) = (self.source, self.name.clone());
        self.content.iter().map(move |(key, value)| {
            let at = key.span().start;
            let key = &**key.get_ref();
            let name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            Entry { source, name, key, at, value: value.get_ref() }
        })
    }

    /// What stands at a key.
    pub fn get(&self, key: &str) -> Option<Entry<'a>> {
        self.entries().find(|entry| entry.key == key)
    }

    /// What stands at a key that must be there.
    ///
    /// # Errors
    /// It is not there.
    pub fn need(&self, key: &str, what: &str) -> Result<Entry<'a>, Wrong> {
        self.get(key).ok_or_else(|| self.wrong(format!("{} needs {key}: {what}", self.title())))
    }

    /// Something is wrong with it.
    pub fn wrong(&self, what: impl Into<String>) -> Wrong {
        self.source.wrong(self.at, what)
    }

    /// Where its content begins, in bytes of the file.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Refuses keys that are not of these.
    ///
    /// # Errors
    /// The first that is not.
    pub fn only(&self, keys: &[&str]) -> Result<(), Wrong> {
        match self.entries().find(|entry| !keys.contains(&entry.key)) {
            Some(entry) => Err(entry.unknown(&self.title(), keys.iter().copied())),
            None => Ok(()),
        }
    }

    /// As it stands in the file.
    pub fn title(&self) -> String {
        if self.name.is_empty() { "the file".to_owned() } else { format!("[{}]", self.name) }
    }

    /// Sets registers: each table here is a family, but not those of `others`, where a key of a family is named with it (`store.memory_file`). A
    /// register's name may be written as a key in quotes or as tables in tables: `place."rec.preprocess"` and `place.rec.preprocess` are one.
    ///
    /// # Errors
    /// There is no such register, or it has no such value.
    pub fn registers<R: Register>(&self, registers: &Registers<R>, others: &[&str]) -> Result<(), Wrong> {
        for family in self.entries().filter(|entry| !others.contains(&entry.key)) {
            if let Ok(table) = family.table() {
                table.family(family.key, registers, others)?;
            }
        }
        Ok(())
    }

    fn family<R: Register>(
        &self,
        name: &str,
        registers: &Registers<R>,
        others: &[&str],
    ) -> Result<(), Wrong> {
        for entry in self.entries() {
            let name = format!("{name}.{}", entry.key);
            if others.contains(&&*name) {
                continue;
            }
            if let Ok(table) = entry.table() {
                table.family(&name, registers, others)?;
                continue;
            }
            match registers.set(&name, &entry.scalar()?) {
                Ok(()) => {}
                Err(SetError::Unknown { listed, .. }) => {
                    let near = nearest(&name, R::SPECS.iter().map(|spec| spec.name));
                    let near = near.map_or(listed.to_owned(), |near| format!("did you mean {near:?}?"));
                    return Err(entry.wrong(format!("there is no register {name:?}; {near}")));
                }
                Err(error) => return Err(entry.wrong(error.to_string())),
            }
        }
        Ok(())
    }

    /// Refuses tables: there are no registers here, `why`.
    ///
    /// # Errors
    /// There is a table.
    pub fn no_registers(&self, why: &str) -> Result<(), Wrong> {
        match self.entries().find(|entry| entry.table().is_ok()) {
            Some(entry) => Err(entry.wrong(format!("{} has no table {:?}: {why}", self.title(), entry.key))),
            None => Ok(()),
        }
    }
}

impl<'a> Entry<'a> {
    /// Something is wrong with it.
    pub fn wrong(&self, what: impl Into<String>) -> Wrong {
        self.source.wrong(self.at, what)
    }

    /// Where its key begins, in bytes of the file.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Its table has no such key.
    pub fn unknown<'b>(&self, table: &str, known: impl Iterator<Item = &'b str>) -> Wrong {
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        let near = nearest(self.key, known.iter().copied());
        let near = near.map_or_else(
            || format!("it knows {}", known.join(", ")),
            |near| format!("did you mean {near:?}?"),
        );
        self.wrong(format!("{table} has no key {:?}; {near}", self.key))
    }

    fn wants(&self, what: &str) -> Wrong {
        self.wrong(format!("{} must be {what}", self.name))
    }

    /// The table that stands here.
    ///
    /// # Errors
    /// It is none.
    pub fn table(&self) -> Result<Table<'a>, Wrong> {
        let content = self.value.as_table().ok_or_else(|| self.wants("a table"))?;
        Ok(Table { source: self.source, name: self.name.clone(), at: self.at, content })
    }

    /// The tables of a list.
    ///
    /// # Errors
    /// It is no list of tables.
    pub fn tables(&self) -> Result<Vec<Table<'a>>, Wrong> {
        let wrong = || self.wants(&format!("a list of tables: [[{}]]", self.name));
        let all = self.value.as_array().ok_or_else(wrong)?;
        let table = |value: &'a Spanned<DeValue<'a>>| {
            let content = value.get_ref().as_table().ok_or_else(wrong)?;
            // What stands in it is where it is: the head's span may be that of the list.
            let at = content.iter().map(|(key, _)| key.span().start).min().unwrap_or(value.span().start);
            Ok(Table { source: self.source, name: self.name.clone(), at, content })
        };
        all.iter().map(table).collect()
    }

    /// The string that stands here.
    ///
    /// # Errors
    /// It is none.
    pub fn text(&self) -> Result<&'a str, Wrong> {
        self.value.as_str().ok_or_else(|| self.wants("a string"))
    }

    /// The string, or all of a list.
    ///
    /// # Errors
    /// It is neither.
    pub fn texts(&self) -> Result<Vec<&'a str>, Wrong> {
        let wrong = || self.wants("a string or a list of strings");
        match self.value {
            DeValue::Array(all) => all.iter().map(|one| one.get_ref().as_str().ok_or_else(wrong)).collect(),
            _ => Ok(vec![self.value.as_str().ok_or_else(wrong)?]),
        }
    }

    /// The number that stands here: of things, from 0.
    ///
    /// # Errors
    /// It is none.
    pub fn count(&self) -> Result<usize, Wrong> {
        let number = matches!(self.value, DeValue::Integer(_)).then(|| scalar(self.value)).flatten();
        number.and_then(|number| number.parse().ok()).ok_or_else(|| self.wants("a number from 0"))
    }

    /// The numbers of a list.
    ///
    /// # Errors
    /// It is none.
    pub fn counts(&self) -> Result<Vec<usize>, Wrong> {
        let wrong = || self.wants("a list of numbers from 0");
        let all = self.value.as_array().ok_or_else(wrong)?;
        let count = |one: &Spanned<DeValue<'_>>| scalar(one.get_ref())?.parse().ok();
        all.iter().map(|one| count(one).ok_or_else(wrong)).collect()
    }

    /// Numbers, strings or switches, of a list or one alone, as people write them on a command line.
    ///
    /// # Errors
    /// It is none of them.
    pub fn scalars(&self) -> Result<Vec<String>, Wrong> {
        let wrong = || self.wants("a number, a string, or a list of them");
        match self.value {
            DeValue::Array(all) => all.iter().map(|one| scalar(one.get_ref()).ok_or_else(wrong)).collect(),
            one => Ok(vec![scalar(one).ok_or_else(wrong)?]),
        }
    }

    /// Whether the switch that stands here is on.
    ///
    /// # Errors
    /// It is none.
    pub fn is_on(&self) -> Result<bool, Wrong> {
        self.value.as_bool().ok_or_else(|| self.wants("true or false"))
    }

    /// What `read` makes of what stands here.
    ///
    /// # Errors
    /// It makes nothing of it.
    pub fn read<T, E: fmt::Display>(&self, read: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Wrong> {
        let text = self.scalar()?;
        read(&text).map_err(|why| self.wrong(format!("{} cannot be {text:?}: {why}", self.key)))
    }

    /// What `read` makes of each of a list, which may be written as one text with commas.
    ///
    /// # Errors
    /// It makes nothing of one of them.
    pub fn read_all<T, E: fmt::Display>(&self, read: impl Fn(&str) -> Result<T, E>) -> Result<Vec<T>, Wrong> {
        let texts = self.scalars()?;
        let each = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
        each.map(|text| {
            read(text).map_err(|why| self.wrong(format!("{} cannot be {text:?}: {why}", self.key)))
        })
        .collect()
    }

    /// A number, a string or a switch, as people write it on a command line.
    ///
    /// # Errors
    /// It is none of them.
    pub fn scalar(&self) -> Result<String, Wrong> {
        scalar(self.value).ok_or_else(|| self.wants("a number, a string or true/false"))
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is) => Some(if *is { "on" } else { "off" }.to_owned()),
        _ => None,
    }
}

/// The name that is most like `name`, if one is like it.
pub fn nearest<'b>(name: &str, all: impl Iterator<Item = &'b str>) -> Option<&'b str> {
    let last = |dotted: &str| dotted.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |other: &&str| {
        let is_slip = strsim::osa_distance(name, other) == 1;
        let whole = if is_slip { 0.95 } else { strsim::jaro_winkler(name, other) };
        whole.max(strsim::jaro_winkler(&last(name), &last(other)) - 0.02)
    };
    let rated = all.map(|other| (likeness(&other), other)).filter(|(likeness, _)| *likeness > 0.75);
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}
