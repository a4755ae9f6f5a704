//! Measured figures by the platform's names, and the platform file that they make.
//!
//! Each becomes a number of class *measured*: the median, with the 10th and 90th percentile of its samples as range.

use base::spread::Spread;
use bench::probe::date;
use bench::probe::facts::Machine;
use model::Platform;
use model::platform::LoadError;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was seen.
    pub summary: Spread,
    /// As platform files write it.
    pub unit: &'static str,
    /// How it was measured.
    pub method: String,
}

/// Figures by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(BTreeMap<String, Figure>);

/// What is not measured but said: `(name, value, unit, class, source, range)`.
const SAID: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("link.bandwidth", "10", "Gbps", "assumed", "a common rack link; loopback has none", "[1, 100]"),
    ("link.mtu", "1472", "B", "datasheet", "UDP payload of an Ethernet frame of 1500 B", "[1472, 8972]"),
    ("link.overhead", "66", "B", "datasheet", "preamble, Ethernet, IPv4, UDP, gap", "[66, 86]"),
];

impl Figures {
    /// Notes a figure, instead of an earlier one of its name; nothing without a sample.
    pub fn note(&mut self, name: &str, samples: &[f64], unit: &'static str, method: &str) {
        if let Some(summary) = Spread::of_all(samples) {
            self.note_summary(name, summary, unit, method);
        }
    }

    /// The same of samples that are summed up already.
    pub fn note_summary(&mut self, name: &str, summary: Spread, unit: &'static str, method: &str) {
        self.0.insert(name.into(), Figure { summary, unit, method: method.into() });
    }

    /// Notes a number of things.
    pub fn note_count(&mut self, name: &str, count: u64, unit: &'static str, method: &str) {
        self.note(name, &[count as f64], unit, method);
    }

    /// As a platform file.
    pub fn to_toml(&self, machine: &Machine) -> String {
        let mut text = format!(
            "# Written by `millrace model this-host`, {}, on {}, Linux {}, {}; others had {} % of its cores before.\n\
             # Ranges are the 10th and 90th percentile of samples.\n\n\
             name = \"this-host\"\n\
             title = \"{} as measured by millrace probe\"\n\
             family = \"host\"\n",
            date::now(),
            one_line(&machine.cpu),
            one_line(&machine.kernel),
            one_line(&machine.hypervisor),
            machine.busy_before_percent,
            one_line(&machine.cpu),
        );
        let mut table = "";
        for (name, figure) in &self.0 {
            let (head, rest) = name.split_once('.').unwrap_or(("", name));
            if head != table {
                let _ = write!(text, "\n[{head}]\n");
                table = head;
            }
            let Figure { summary: Spread { median, p10, p90, samples, .. }, unit, method } = figure;
            let samples = if *samples == 1 { String::new() } else { format!("; {samples} samples") };
            // Rounded alike, so that the median stays within.
            let [value, low, high] = [*median, *p10, *p90].map(digits);
            let _ = writeln!(
                text,
                "{rest} = {{ value = {value}, unit = \"{unit}\", class = \"measured\", source = \"{}{samples}\", range = [{low}, {high}] }}",
                one_line(method)
            );
        }
        let mut table = "";
        for (name, value, unit, class, source, range) in SAID {
            let (head, rest) = name.split_once('.').unwrap_or(("", name));
            if head != table {
                let _ = write!(text, "\n[{head}]\n");
                table = head;
            }
            let _ = writeln!(
                text,
                "{rest} = {{ value = {value}, unit = \"{unit}\", class = \"{class}\", source = \"{source}\", range = {range} }}"
            );
        }
        text
    }

    /// As a platform.
    ///
    /// # Errors
    /// What the loader of platforms refuses.
    pub fn platform(&self, machine: &Machine) -> Result<Platform, LoadError> {
        Platform::parse(&self.to_toml(machine), "this-host.toml")
    }
}

/// Without what would end a TOML text.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect()
}

/// Five digits, as a decimal number.
fn digits(value: f64) -> String {
    let places = if value == 0.0 { 0 } else { (4 - value.abs().log10().floor() as i32).clamp(0, 9) };
    format!("{value:.*}", places as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// Reading it takes a tenth of a second.
    static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::read);

    #[test]
    fn a_file_says_what_was_measured_and_what_was_not() {
        let mut figures = Figures::default();
        figures.note("kernel.wake", &[5.0, 6.0, 7.0], "us", "sleeper idle 60 us, \"quoted\"");
        figures.note("kernel.nothing", &[], "us", "no sample");
        figures.note_count("memory.sets", 6, "count", "those of the probe");
        let platform = figures.platform(&MACHINE).expect("it is sound");
        assert_eq!((platform.name.as_str(), platform.family.as_str()), ("this-host", "host"));
        let wake = platform.number("kernel.wake").expect("it was noted");
        assert_eq!((wake.value, wake.unit.name, wake.class.name()), (6.0, "us", "measured"));
        assert!(platform.number("kernel.nothing").is_err());
        assert_eq!(platform.number("link.mtu").map(|n| n.class.name()).ok(), Some("datasheet"));
    }

    proptest! {
        #[test]
        fn every_figure_is_in_its_range(samples in prop::collection::vec(1e-4..1e9f64, 1..40)) {
            let mut figures = Figures::default();
            figures.note("a.b", &samples, "ns", "drawn");
            let platform = figures.platform(&MACHINE).expect("it is sound");
            let number = platform.number("a.b").expect("it was noted");
            prop_assert!(number.range.0 <= number.value && number.value <= number.range.1);
        }
    }
}
