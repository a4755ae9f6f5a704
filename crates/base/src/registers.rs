//! Registers: what an operator may tune, as one list per program or library.
//!
//! Why here: each layer that has something to tune declares its own list with [`registers!`](crate::registers!), and whoever embeds the layer
//! shows and sets it by name, with the same syntax, ranges and errors everywhere.
//!
//! Shape: a list is an enum (the registers' places) with a [`Spec`] for each; [`Registers`] holds the values, one atomic word
//! each, and a *version* that every change raises. A *live* register may change while the program runs and is read by its users
//! again and again; the others are read once at start.
//!
//! Ordering: **change**: a write stores the value, then raises the version (Release); a reader that sees the version ([`Watch`],
//! Acquire) sees that value. Reading a single value needs no order (Relaxed).
//!
//! Cost: a read is one load; a hot loop that reads several keeps a [`Watch`] and pays one load per pass until something changes.

use crate::units::Bytes;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a register's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain count.
    Count,
    /// Bytes; written `64k`, `1GiB`.
    Size,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// Events per second.
    PerSecond,
    /// Hundredths of something else.
    Percent,
    /// `off` or `on`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// The unit as metrics and JSON name it.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Count => "count",
            Kind::Size => "bytes",
            Kind::Micros => "us",
            Kind::Seconds => "s",
            Kind::PerSecond => "per_s",
            Kind::Percent => "percent",
            Kind::Switch => "switch",
            Kind::Choice(_) => "choice",
        }
    }

    /// What a value is, for an error that says what was wanted.
    fn wants(self) -> String {
        match self {
            Kind::Count => "a whole number".into(),
            Kind::Size => "a size such as 64k or 2GiB".into(),
            Kind::Micros => "a whole number of microseconds".into(),
            Kind::Seconds => "a whole number of seconds".into(),
            Kind::PerSecond => "a whole number per second".into(),
            Kind::Percent => "a whole number of percent".into(),
            Kind::Switch => "on or off".into(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// What is known of a register before anyone sets it.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Dotted name, as in a config file: `engine.group` is key `group` of table `[engine]`.
    pub name: &'static str,
    /// Type and unit.
    pub kind: Kind,
    /// Smallest value allowed.
    pub min: u64,
    /// Largest value allowed.
    pub max: u64,
    /// Value at start.
    pub default: u64,
    /// Whether it may change while the program runs.
    pub live: bool,
    /// One or two sentences for people.
    pub help: &'static str,
}

impl Spec {
    /// Reads what people write for this register.
    ///
    /// # Errors
    /// When the text is no value of the register's kind, or outside its range.
    pub fn parse(&'static self, text: &str) -> Result<u64, SetError> {
        let text = text.trim();
        let bad = || SetError::NotAValue(self, text.to_string());
        let number = match self.kind {
            Kind::Size => text.parse::<Bytes>().map_err(|_| bad())?.0,
            Kind::Count | Kind::Micros | Kind::Seconds | Kind::PerSecond | Kind::Percent => {
                text.parse().map_err(|_| bad())?
            }
            Kind::Switch => match text {
                "on" | "true" | "yes" | "1" => 1,
                "off" | "false" | "no" | "0" => 0,
                _ => return Err(bad()),
            },
            Kind::Choice(words) => words.iter().position(|&w| w == text).ok_or_else(bad)? as u64,
        };
        self.check(number)
    }

    /// Writes `number`, which is in the register's range, as people read it.
    pub fn show(&self, number: u64) -> String {
        match self.kind {
            Kind::Size if number.is_multiple_of(1 << 20) && number > 0 => format!("{}MiB", number >> 20),
            Kind::Size if number.is_multiple_of(1 << 10) && number > 0 => format!("{}KiB", number >> 10),
            Kind::Switch => ["off", "on"][usize::from(number != 0)].to_string(),
            Kind::Choice(words) => words[number as usize].to_string(),
            _ => number.to_string(),
        }
    }

    fn check(&'static self, number: u64) -> Result<u64, SetError> {
        let allowed = (self.min..=self.max).contains(&number);
        if allowed { Ok(number) } else { Err(SetError::OutOfRange(self, number)) }
    }
}

/// A register of a list that [`registers!`](crate::registers!) made: each value of the type is one.
pub trait Register: Copy + Send + Sync + 'static {
    /// All registers, in order.
    const SPECS: &'static [Spec];
    /// Where people find the list, as the end of a sentence: "`millrace registers` lists them".
    const LISTED: &'static str;

    /// The register's place in the list.
    fn index(self) -> usize;
}

/// Declares a list of registers: the enum `Id`, which is a [`Register`].
///
/// ```
/// use base::registers::{Kind, Registers};
/// base::registers! {
///     listed by "the manual lists them";
///     PumpRate "pump.rate" Kind::Count, 1, 64, 16, live, "Litres a minute.";
///     PumpOn "pump.on" Kind::Switch, 0, 1, 0, start, "Whether it pumps.";
/// }
/// let registers = Registers::<Id>::default();
/// registers.set("pump.rate", "32").unwrap();
/// assert_eq!(registers.read(Id::PumpRate), 32);
/// ```
#[macro_export]
macro_rules! registers {
    (listed by $listed:literal; $($id:ident $name:literal $kind:expr, $min:expr, $max:expr, $default:expr, $live:ident, $help:literal;)*) => {
        /// A register's place in the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // each carries its help text in SPECS
        pub enum Id { $($id),* }

        impl $crate::registers::Register for Id {
            const SPECS: &'static [$crate::registers::Spec] = &[$($crate::registers::Spec {
                name: $name, kind: $kind, min: $min, max: $max, default: $default,
                live: $crate::registers!(@live $live), help: $help,
            }),*];
            const LISTED: &'static str = $listed;

            #[inline]
            fn index(self) -> usize {
                self as usize
            }
        }
    };
    (@live live) => { true };
    (@live start) => { false };
}

/// The values of all registers of a list. Shared by reference; reading one is a relaxed load.
pub struct Registers<R> {
    values: Box<[AtomicU64]>,
    version: AtomicU64,
    list: PhantomData<R>,
}

/// A register as people and programs are shown it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Dotted name.
    pub name: &'static str,
    /// Value as people write it.
    pub value: String,
    /// Value as a number.
    pub number: u64,
    /// Unit of the number.
    pub unit: &'static str,
    /// Smallest and largest number allowed.
    pub range: [u64; 2],
    /// Words allowed, for a choice.
    pub choices: &'static [&'static str],
    /// Default as people write it.
    pub default: String,
    /// Whether it may change while the program runs.
    pub live: bool,
    /// What it does.
    pub help: &'static str,
}

impl fmt::Display for Shown {
    /// Two lines: name, default, range; and below what it does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = match self.choices {
            [] => format!("{} to {} {}", self.range[0], self.range[1], self.unit),
            words => words.join(" | "),
        };
        let live = if self.live { "live" } else { "at start" };
        write!(f, "{} = {}   ({range}, {live})\n    {}", self.name, self.default, self.help)
    }
}

/// Why a register was not set.
#[derive(Clone, Debug)]
pub enum SetError {
    /// No register has this name.
    Unknown {
        /// The name that was given.
        name: String,
        /// The nearest name, if one is near.
        near: Option<&'static str>,
        /// [`Register::LISTED`].
        listed: &'static str,
    },
    /// The text is not a value of the register's kind.
    NotAValue(&'static Spec, String),
    /// The number is outside the register's range.
    OutOfRange(&'static Spec, u64),
    /// The register is read once at start, and the program has started.
    NotLive(&'static Spec),
    /// The program has no use for that value: why, and what to do.
    Refused(&'static Spec, String),
}

impl<R: Register> Default for Registers<R> {
    fn default() -> Registers<R> {
        let values = R::SPECS.iter().map(|spec| AtomicU64::new(spec.default)).collect();
        Registers { values, version: AtomicU64::new(0), list: PhantomData }
    }
}

impl<R: Register> Registers<R> {
    /// The value now.
    #[inline]
    pub fn read(&self, id: R) -> u64 {
        self.values[id.index()].load(Ordering::Relaxed)
    }

    /// The value now, as a size or count.
    #[inline]
    pub fn size(&self, id: R) -> usize {
        self.read(id) as usize
    }

    /// Whether a switch is on.
    #[inline]
    pub fn is_on(&self, id: R) -> bool {
        self.read(id) != 0
    }

    /// Sets a register of this program's own choosing.
    ///
    /// # Errors
    /// When `number` is outside its range.
    pub fn write(&self, id: R, number: u64) -> Result<(), SetError> {
        let number = R::SPECS[id.index()].check(number)?;
        self.store(id.index(), number);
        Ok(())
    }

    /// Sets a register by name, from text, before the program starts to use it.
    ///
    /// # Errors
    /// When there is no such register or no such value.
    pub fn set(&self, name: &str, text: &str) -> Result<(), SetError> {
        let at = Self::find(name)?;
        self.store(at, R::SPECS[at].parse(text)?);
        Ok(())
    }

    /// Sets a register by name, from text, while the program runs.
    ///
    /// # Errors
    /// As [`Registers::set`], and when the register is not live.
    pub fn set_live(&self, name: &str, text: &str) -> Result<(), SetError> {
        let spec = &R::SPECS[Self::find(name)?];
        if spec.live { self.set(name, text) } else { Err(SetError::NotLive(spec)) }
    }

    /// All registers, for people and programs.
    pub fn show(&self) -> Vec<Shown> {
        (0..R::SPECS.len()).map(|at| self.show_at(at)).collect()
    }

    /// One register by name.
    ///
    /// # Errors
    /// When there is no such register.
    pub fn show_one(&self, name: &str) -> Result<Shown, SetError> {
        Ok(self.show_at(Self::find(name)?))
    }

    /// What is known of a register, by name.
    ///
    /// # Errors
    /// When there is no such register.
    pub fn spec(name: &str) -> Result<&'static Spec, SetError> {
        Ok(&R::SPECS[Self::find(name)?])
    }

    fn store(&self, at: usize, number: u64) {
        self.values[at].store(number, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release); // label: change
    }

    fn show_at(&self, at: usize) -> Shown {
        let spec = &R::SPECS[at];
        let number = self.values[at].load(Ordering::Relaxed);
        Shown {
            name: spec.name,
            value: spec.show(number),
            number,
            unit: spec.kind.unit(),
            range: [spec.min, spec.max],
            choices: if let Kind::Choice(words) = spec.kind { words } else { &[] },
            default: spec.show(spec.default),
            live: spec.live,
            help: spec.help,
        }
    }

    fn find(name: &str) -> Result<usize, SetError> {
        let names = || R::SPECS.iter().map(|spec| spec.name);
        names().position(|known| known == name).ok_or_else(|| {
            let tail = name.rsplit('.').next().unwrap_or(name);
            let near = names().find(|known| known.rsplit('.').next() == Some(tail));
            let near = near.or_else(|| names().find(|known| !tail.is_empty() && known.contains(tail)));
            SetError::Unknown { name: name.to_string(), near, listed: R::LISTED }
        })
    }
}

impl<R: Register> fmt::Debug for Registers<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.show().into_iter().map(|r| (r.name, r.value))).finish()
    }
}

/// What one reader has seen of a block of registers: tells it when to read them again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// The version seen, plus one; 0 before the first look.
    seen: u64,
}

impl Watch {
    /// Whether something was set since the last time this was asked; true the first time.
    #[inline]
    pub fn changed<R: Register>(&mut self, registers: &Registers<R>) -> bool {
        let version = registers.version.load(Ordering::Acquire) + 1; // label: change
        std::mem::replace(&mut self.seen, version) != version
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown { name, near: Some(near), .. } => {
                write!(f, "there is no register {name:?}; did you mean {near:?}?")
            }
            SetError::Unknown { name, near: None, listed } => {
                write!(f, "there is no register {name:?}; {listed}")
            }
            SetError::NotAValue(spec, text) => {
                write!(f, "register {} takes {}, not {text:?}", spec.name, spec.kind.wants())
            }
            SetError::OutOfRange(spec, number) => {
                let [min, max] = [spec.min, spec.max].map(|bound| spec.show(bound));
                write!(f, "register {} takes {min} to {max}, not {number}", spec.name)
            }
            SetError::Refused(spec, why) => write!(f, "register {}: {why}", spec.name),
            SetError::NotLive(spec) => write!(
                f,
                "register {} is read once at start; set it in the config file or with --set and restart",
                spec.name
            ),
        }
    }
}

impl std::error::Error for SetError {}

/// Panics unless every register of the list has a default in its range that survives showing and parsing, a name of its own
/// with a table and a key, and a whole sentence of help: for the test of each list.
pub fn check<R: Register>() {
    for (at, spec) in R::SPECS.iter().enumerate() {
        let name = spec.name;
        assert!((spec.min..=spec.max).contains(&spec.default), "{name}: default in range");
        assert_eq!(spec.parse(&spec.show(spec.default)).ok(), Some(spec.default), "{name}");
        if let Kind::Choice(words) = spec.kind {
            assert_eq!((spec.min, spec.max), (0, words.len() as u64 - 1), "{name}: one number a word");
        }
        assert!(name.split_once('.').is_some(), "{name} has a table and a key");
        assert!(spec.help.ends_with('.'), "{name} has a whole sentence of help");
        assert!(R::SPECS[..at].iter().all(|other| other.name != name), "{name} is there twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::registers! {
        listed by "the manual lists them";
        Form "mill.form" Kind::Choice(&["plain", "staged"]), 0, 1, 1, live, "How it mills.";
        Group "mill.group" Kind::Count, 1, 64, 16, live, "How much at once.";
        Entries "ring.entries" Kind::Count, 16, 1 << 16, 1024, start, "Slots.";
        Memory "mill.memory" Kind::Size, 8 << 20, 1 << 46, 64 << 20, live, "Bytes.";
        Threshold "poll.threshold" Kind::PerSecond, 0, 1 << 40, 1000, live, "Where it turns.";
        Band "poll.band" Kind::Percent, 10, 100, 50, live, "How far below.";
        Wait "wait.block" Kind::Switch, 0, 1, 1, live, "Whether it sleeps.";
    }

    #[test]
    fn a_list_checks_itself() {
        check::<Id>();
    }

    #[test]
    fn setting_checks_name_kind_range_and_liveness() {
        let registers = Registers::<Id>::default();
        registers.set("mill.memory", "1GiB").expect("a size");
        assert_eq!(registers.read(Id::Memory), 1 << 30);
        assert_eq!(registers.show_one("mill.memory").expect("known").value, "1024MiB");
        registers.set_live("mill.form", "plain").expect("live");
        assert_eq!(registers.size(Id::Form), 0);
        registers.set_live("wait.block", "off").expect("live");
        assert!(!registers.is_on(Id::Wait));
        let error = |r: Result<(), SetError>| r.expect_err("refused").to_string();
        assert!(error(registers.set("mill.grup", "1")).contains("the manual lists them"));
        assert!(error(registers.set("group", "1")).contains("mill.group"));
        assert!(error(registers.set("mill.group", "many")).contains("whole number"));
        assert!(error(registers.set("mill.group", "65")).contains("1 to 64"));
        assert!(error(registers.write(Id::Band, 101)).contains("10 to 100"));
        assert!(error(registers.set("poll.threshold", "1.5")).contains("per second"));
        assert!(error(registers.set("mill.form", "magic")).contains("plain, staged"));
        assert!(error(registers.set_live("ring.entries", "64")).contains("restart"));
        assert_eq!(registers.read(Id::Group), 16, "a refused value changes nothing");
    }

    #[test]
    fn a_watch_tells_of_each_change_once() {
        let registers = Registers::<Id>::default();
        let mut watch = Watch::default();
        assert!(watch.changed(&registers), "the first time there is all to read");
        assert!(!watch.changed(&registers));
        registers.write(Id::Group, 8).expect("in range");
        registers.set("poll.band", "20").expect("in range");
        registers.write(Id::Entries, 64).expect("in range");
        registers.write(Id::Threshold, 0).expect("in range");
        assert!(watch.changed(&registers) && !watch.changed(&registers));
        registers.set("mill.group", "0").expect_err("out of range");
        assert!(!watch.changed(&registers), "a refused value is no change");
    }
}
