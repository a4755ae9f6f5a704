//! Reads platform files. What is wrong is said with its line.

use super::parts::{self, Part, Said};
use super::unit::{Dimension, Unit};
use super::{COMPOSED, Class, Number, NumberPlace, Platform};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why there is no platform, or no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file is wrong.
    File {
        /// Which.
        file: String,
        /// Counted from 1; 0 of what is in no file.
        line: usize,
        /// What is wrong and what would be right.
        why: String,
    },
    /// There is no platform of this name.
    Unknown {
        /// The name.
        platform: String,
        /// Those that there are.
        known: String,
    },
    /// A component needs a number that is not there.
    Missing {
        /// Of which platform.
        platform: String,
        /// Its name.
        number: String,
    },
    /// A number is of another kind than a component needs.
    Dimension {
        /// Of which platform.
        platform: String,
        /// Of its file.
        line: usize,
        /// The number's name.
        number: String,
        /// Its unit.
        unit: &'static str,
        /// Units that would do.
        wanted: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::File { file, line: 0, why } => write!(f, "{file}: {why}"),
            LoadError::File { file, line, why } => write!(f, "{file}:{line}: {why}"),
            LoadError::Unknown { platform, known } => {
                write!(f, "there is no platform {platform}; there are {known}")
            }
            LoadError::Missing { platform, number } => {
                write!(f, "platform {platform} has no number {number}, which what is made of it needs")
            }
            LoadError::Dimension { platform, line, number, unit, wanted } => {
                write!(f, "{platform}, line {line}: {number} is in {unit}; it must be in one of {wanted}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// The parts of a number, all of which must be there.
const PARTS: [&str; 5] = ["value", "unit", "class", "source", "range"];

/// Counts of what a machine may lack; of all else it has at least one.
const MAY_LACK: &str = "soc.cores";

/// Why a count cannot be 0.
pub(super) fn no_count(name: &str) -> String {
    format!("{name} is 0: what is made of it needs at least 1")
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    /// Of the platform: whose numbers those are that the file states.
    name: String,
    numbers: BTreeMap<String, Number>,
}

pub(super) fn parse(text: &str, file: &str) -> Result<Platform, LoadError> {
    let mut reader = Reader { text, file, name: String::new(), numbers: BTreeMap::new() };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reader.wrong(at, error.message().to_string())
    })?;
    let table = table.get_ref();
    if let Some(name) = table.get("name") {
        reader.name = reader.word("name", name)?;
    }
    let mut words = ["name", "title", "family", "base"].map(|word| (word, None));
    if let Some(base) = table.get("base") {
        reader.numbers = reader.base(base)?;
    }
    let parts = match table.get("part") {
        Some(parts) => reader.parts(parts, table)?,
        None => Vec::new(),
    };
    for (key, value) in table {
        let name: &str = key.get_ref();
        if name == "part" {
            continue;
        }
        match words.iter_mut().find(|(word, _)| *word == name) {
            Some((_, place)) => *place = Some(reader.word(name, value)?),
            None => reader.table(name, value)?,
        }
    }
    let [(_, name), (_, title), (_, family), _] = words;
    let family = if parts.is_empty() { family } else { Some(COMPOSED.to_string()) };
    let needed = |word: &str, found: Option<String>| {
        found.ok_or_else(|| reader.wrong(0, format!("it needs a line {word} = \"…\" at its head")))
    };
    let (name, title, family) = (needed("name", name), needed("title", title), needed("family", family));
    Ok(Platform {
        name: name?,
        title: title?,
        family: family?,
        parts,
        numbers: reader.numbers,
        read: RefCell::default(),
    })
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text[..at.min(self.text.len())].matches('\n').count()
    }

    fn wrong(&self, at: usize, why: String) -> LoadError {
        LoadError::File { file: self.file.into(), line: self.line(at), why }
    }

    fn word(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String, LoadError> {
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => Ok(text.to_string()),
            _ => Err(self.wrong(value.span().start, format!("{name} must be a text in quotes"))),
        }
    }

    /// The numbers of the shipped platform that this file completes.
    fn base(&self, value: &Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Number>, LoadError> {
        let name = self.word("base", value)?;
        Ok(self.shipped("base", &name, value.span().start)?.numbers)
    }

    /// The shipped platform that `who` names.
    fn shipped(&self, who: &str, name: &str, at: usize) -> Result<Platform, LoadError> {
        super::shipped::shipped(name).unwrap_or_else(|| {
            let known: Vec<_> = super::shipped::SHIPPED.iter().map(|(name, _)| *name).collect();
            let why = format!("{who}: there is no shipped platform {name}; there are {}", known.join(", "));
            Err(self.wrong(at, why))
        })
    }

    /// The parts, whose numbers are then there; what else the file says must be about one of them.
    fn parts(&mut self, value: &Spanned<DeValue<'_>>, whole: &DeTable<'_>) -> Result<Vec<Part>, LoadError> {
        for word in ["family", "base"] {
            if let Some(other) = whole.get(word) {
                let why = format!(
                    "a platform with parts has no {word}: each part says whose numbers it has (from)"
                );
                return Err(self.wrong(other.span().start, why));
            }
        }
        let DeValue::Array(entries) = value.get_ref() else {
            return Err(
                self.wrong(value.span().start, "parts are written [[part]], one after the other".into())
            );
        };
        let all = entries.iter().map(|entry| self.part(entry)).collect::<Result<Vec<_>, _>>()?;
        self.numbers = parts::numbers(&all);
        let at = all.iter().map(|said| said.at).collect::<Vec<_>>();
        let all: Vec<Part> = all.into_iter().map(|said| said.part).collect();
        parts::joined(&all).map_err(|(which, why)| self.wrong(at[which], why))?;
        let of_all = ["name", "title", "part", "price", "watts"];
        let known = |name: &str| of_all.contains(&name) || all.iter().any(|part| part.name == name);
        if let Some((key, _)) = whole.iter().find(|(key, _)| !known(key.get_ref())) {
            let names: Vec<_> = all.iter().map(|part| &*part.name).collect();
            let why = format!("{} is no part of this machine; it has {}", key.get_ref(), names.join(", "));
            return Err(self.wrong(key.span().start, why));
        }
        Ok(all)
    }

    fn part(&self, entry: &Spanned<DeValue<'_>>) -> Result<Said, LoadError> {
        let at = entry.span().start;
        let DeValue::Table(table) = entry.get_ref() else {
            return Err(self.wrong(at, "a part is a table: [[part]]".into()));
        };
        let words = ["name", "kind", "from"];
        if let Some((key, _)) = table.iter().find(|(key, _)| !words.contains(&&**key.get_ref())) {
            let why = format!(
                "a part says {}; numbers of its own are in tables that begin with its name; not {}",
                words.join(", "),
                key.get_ref()
            );
            return Err(self.wrong(key.span().start, why));
        }
        let word = |name: &str| match table.get(name) {
            Some(value) => self.word(name, value).map(|word| (word, value.span().start)),
            None => Err(self.wrong(at, format!("a part needs a line {name} = \"…\""))),
        };
        let ((name, name_at), (kind, kind_at), (from, from_at)) =
            (word("name")?, word("kind")?, word("from")?);
        if ["name", "title", "part", "price", "watts"].contains(&&*name) || name.contains('.') {
            return Err(self.wrong(
                name_at,
                format!("{name:?} cannot be a part's name: it means something else, or has a dot in it"),
            ));
        }
        let kind = parts::kind(&kind).map_err(|why| self.wrong(kind_at, format!("part {name}: {why}")))?;
        let from = self.shipped(&format!("part {name}"), &from, from_at)?;
        let family = from.family.clone();
        parts::made_by(&family, kind, &from.name)
            .map_err(|why| self.wrong(from_at, format!("part {name}: {why}")))?;
        Ok(Said { part: Part { name, kind, family }, from, at })
    }

    fn table(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<(), LoadError> {
        let DeValue::Table(table) = value.get_ref() else {
            let why = format!(
                "{name} is no table; a number is {{ value = …, unit = \"…\", class = \"…\", source = \"…\", range = [least, most] }}"
            );
            return Err(self.wrong(value.span().start, why));
        };
        if PARTS.iter().any(|part| table.contains_key(*part)) {
            let number = self.number(name, value.span().start, table)?;
            self.numbers.insert(name.into(), number);
            return Ok(());
        }
        for (key, value) in table {
            self.table(&format!("{name}.{}", key.get_ref()), value)?;
        }
        Ok(())
    }

    fn number(&self, name: &str, at: usize, table: &DeTable<'_>) -> Result<Number, LoadError> {
        if let Some((key, _)) = table.iter().find(|(key, _)| !PARTS.contains(&&**key.get_ref())) {
            let known = PARTS.join(", ");
            return Err(self.wrong(key.span().start, format!("{name} has {known}; not {}", key.get_ref())));
        }
        let part = |part: &str| {
            table.get(part).ok_or_else(|| self.wrong(at, format!("number {name} has no {part}")))
        };
        let value = self.float(name, part("value")?)?;
        let unit = self.word("unit", part("unit")?)?;
        let unit = Unit::named(&unit).ok_or_else(|| {
            let all: Vec<_> = super::unit::UNITS.iter().map(|unit| unit.name).collect();
            self.wrong(at, format!("{name}: {unit:?} is no unit; there are {}", all.join(", ")))
        })?;
        let class = self.word("class", part("class")?)?;
        let class = Class::ALL.into_iter().find(|known| known.name() == class).ok_or_else(|| {
            let all = Class::ALL.map(Class::name).join(", ");
            self.wrong(at, format!("{name}: {class:?} is no class; there are {all}"))
        })?;
        let source = self.word("source", part("source")?)?;
        let range = self.range(name, part("range")?)?;
        if !(range.0..=range.1).contains(&value) {
            let why = format!("{name}: {value} is not in its range [{}, {}]", range.0, range.1);
            return Err(self.wrong(at, why));
        }
        let whole = unit.dimension != Dimension::Count || value.fract() == 0.0;
        if !whole || value < 0.0 || !(value * unit.scale).is_finite() {
            return Err(self.wrong(at, format!("{name}: {value} {} cannot be", unit.name)));
        }
        let may_lack = name == MAY_LACK || name.ends_with(&format!(".{MAY_LACK}"));
        if unit.dimension == Dimension::Count && range.0 < 1.0 && !(value == 0.0 && may_lack) {
            let range =
                format!("{name}: its range begins at {}; of what is counted there is at least 1", range.0);
            return Err(self.wrong(at, if value == 0.0 { no_count(name) } else { range }));
        }
        let origin = NumberPlace { platform: self.name.clone(), number: name.into() };
        Ok(Number { value, unit, class, source, origin, range, line: self.line(at) })
    }

    fn range(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<(f64, f64), LoadError> {
        let bad = || self.wrong(value.span().start, format!("{name}: range must be [least, most]"));
        let DeValue::Array(ends) = value.get_ref() else { return Err(bad()) };
        let [least, most] = &ends[..] else { return Err(bad()) };
        let (least, most) = (self.float(name, least)?, self.float(name, most)?);
        if least <= most { Ok((least, most)) } else { Err(bad()) }
    }

    fn float(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<f64, LoadError> {
        let text = match value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => "",
        };
        let number = text.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(value.span().start, format!("{name}: a decimal number belongs here")))
    }
}
