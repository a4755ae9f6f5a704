//! A workload with another value for one of its numbers: `GET.reply=1KiB`, `skew=0.5`, as `--set` and files of experiments say it.

use super::{Class, Workload};
use crate::platform::unit::{bytes_of, quantity};

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such number; those that there are.
    Unknown(Vec<String>),
    /// The value is none for it: a sentence that begins with the number's name.
    Wrong(String),
}

/// A field of the workload: what reads and writes it.
type Field<T> = (&'static str, fn(&T) -> f64, fn(&mut T, f64));

const FIELDS: &[Field<Workload>] = &[
    ("keys", |of| of.keys as f64, |of, value| of.keys = value as u64),
    ("skew", |of| of.skew, |of, value| of.skew = value),
    ("working_set", |of| of.working_set as f64, |of, value| of.working_set = value as u64),
    ("window", |of| of.window as f64, |of, value| of.window = value as u64),
    ("rate", |of| of.rate.unwrap_or(f64::NAN), |of, value| of.rate = Some(value)),
    (
        "host_cores",
        |of| of.host_cores.map_or(f64::NAN, |n| n as f64),
        |of, value| {
            of.host_cores = Some(value as u64);
        },
    ),
];

const CLASS_FIELDS: &[Field<Class>] = &[
    ("share", |of| of.share, |of, value| of.share = value),
    ("request", |of| of.request as f64, |of, value| of.request = value as u64),
    ("reply", |of| of.reply as f64, |of, value| of.reply = value as u64),
    ("lookups", |of| of.lookups as f64, |of, value| of.lookups = value as u64),
    ("lookup", |of| of.lookup as f64, |of, value| of.lookup = value as u64),
    ("rows", |of| of.rows as f64, |of, value| of.rows = value as u64),
    ("row", |of| of.row as f64, |of, value| of.row = value as u64),
    ("store", |of| of.store as f64, |of, value| of.store = value as u64),
    ("copies", |of| of.copies as f64, |of, value| of.copies = value as u64),
    ("cycles", |of| of.cycles, |of, value| of.cycles = value),
    ("fields", |of| of.fields as f64, |of, value| of.fields = value as u64),
];

/// Those that may be fractions.
const FRACTIONS: [&str; 4] = ["skew", "rate", "share", "cycles"];

/// Requests per second: `800k`, `5M`, `5Mops`.
///
/// # Errors
/// A sentence: it is none above 0.
pub fn rate(text: &str) -> Result<f64, String> {
    let known = |(number, unit): (f64, &str)| {
        let unit = unit.trim_end_matches("/s").trim_end_matches("ops");
        let scale = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "g" | "G" => 1e9,
            _ => return None,
        };
        Some(number * scale).filter(|rate| *rate > 0.0)
    };
    let wrong = || format!("{text:?} is no rate above 0: try 800k or 5M");
    quantity(text).and_then(known).ok_or_else(wrong)
}

/// A value of the workload: bytes with their unit, a rate as `5M`, else a number.
fn amount(name: &str, text: &str) -> Result<f64, Fault> {
    let number = match quantity(text) {
        Some((number, "")) => Some(number),
        _ if name == "rate" => rate(text).ok(),
        Some((number, unit)) => bytes_of(&format!("{number} {unit}")).map(|bytes| bytes as f64),
        None => None,
    };
    let whole = |value: &f64| FRACTIONS.contains(&name) || (value.fract() == 0.0 && *value < 1e18);
    number.filter(whole).ok_or_else(|| {
        let kind =
            if FRACTIONS.contains(&name) { "a number" } else { "a whole number, or bytes as 64B or 10GiB" };
        Fault::Wrong(format!("{name}: {text:?} is no value for it: {kind}"))
    })
}

fn change<T>(
    of: &mut T,
    fields: &[Field<T>],
    key: &str,
    text: &str,
) -> Option<Result<Option<String>, Fault>> {
    let (name, get, put) = fields.iter().find(|(name, ..)| *name == key)?;
    Some(amount(name, text).map(|value| {
        let before = Some(get(of)).filter(|before| before.is_finite());
        put(of, value);
        before.map(|before| before.to_string())
    }))
}

/// The workload with this value, and what it was, where it was; `key` is a number's name, of a class `CLASS.NAME`. Whether it still makes sense
/// [`Workload::check`] says.
///
/// # Errors
/// See [`Fault`].
pub fn edited(workload: &Workload, key: &str, text: &str) -> Result<(Workload, Option<String>), Fault> {
    let mut changed = workload.clone();
    let done = match key.rsplit_once('.') {
        None => change(&mut changed, FIELDS, key, text),
        Some((class, field)) => {
            let class = changed.classes.iter_mut().find(|of| of.name == class);
            class.and_then(|class| change(class, CLASS_FIELDS, field, text))
        }
    };
    let before = done.unwrap_or_else(|| {
        let own = FIELDS.iter().map(|(name, ..)| (*name).to_string());
        let classes = workload
            .classes
            .iter()
            .flat_map(|class| CLASS_FIELDS.iter().map(|(name, ..)| format!("{}.{name}", class.name)));
        Err(Fault::Unknown(own.chain(classes).collect()))
    })?;
    Ok((changed, before))
}
