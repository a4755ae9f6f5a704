//! What is asked, as people write it: `20us`, `5M`, `p99=20us,host-cores=4`.

use model::plan::{Limits, Objective};
use model::platform::unit::{Dimension, Unit, quantity};
pub(super) use model::workload::edit::rate;

/// An objective by its name.
pub(super) fn objective(text: &str) -> Result<Objective, String> {
    let known = Objective::ALL.iter().find(|(name, _)| *name == text);
    known.map(|(_, objective)| *objective).ok_or_else(|| {
        let names: Vec<_> = Objective::ALL.iter().map(|(name, _)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// A number above 0 and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    quantity(text).filter(|(number, _)| *number > 0.0)
}

/// A number above 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    amount(text, "")
}

fn span(text: &str) -> Result<f64, String> {
    let known = |(number, unit): (f64, &str)| {
        let unit = Unit::named(if unit == "µs" { "us" } else { unit })?;
        (unit.dimension == Dimension::Time).then_some(number * unit.scale)
    };
    split(text).and_then(known).ok_or_else(|| format!("{text:?} is no span of time: try 20us or 1.5ms"))
}

fn amount(text: &str, unit: &str) -> Result<f64, String> {
    let known = |(number, rest): (f64, &str)| (rest.is_empty() || rest == unit).then_some(number);
    split(text).and_then(known).ok_or_else(|| format!("{text:?} is no number above 0"))
}

/// Limits, separated by commas.
pub(crate) fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let (name, value) =
            one.split_once('=').ok_or_else(|| format!("{one:?} is no limit: try p99=20us"))?;
        let value = value.trim();
        let (place, value) = match name.trim() {
            "mean" => (&mut limits.mean, span(value)?),
            "p50" => (&mut limits.p50, span(value)?),
            "p99" => (&mut limits.p99, span(value)?),
            "host-cores" => (&mut limits.host_cores, amount(value, "")?),
            "watts" => (&mut limits.watts, amount(value, "W")?),
            "throughput" => (&mut limits.throughput, rate(value)?),
            other => {
                return Err(format!(
                    "there is no limit of {other}; there are mean, p50, p99, host-cores, watts, throughput"
                ));
            }
        };
        if place.replace(value).is_some() {
            return Err(format!("{} is limited twice", name.trim()));
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_people_write_them() {
        let read = limits("p99=20us, host-cores=4,watts=150W,throughput=1.5M").expect("it is right");
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a / b - 1.0).abs() < 1e-12);
        assert!(close(read.p99, 20e-6) && close(read.host_cores, 4.0) && close(read.watts, 150.0));
        assert!(close(read.throughput, 1.5e6) && read.mean.is_none());
        assert_eq!(limits(""), Ok(Limits::default()));
        for (wrong, why) in [
            ("p99", "no limit"),
            ("p99=20", "no span"),
            ("p99=-1us", "no span"),
            ("p98=20us", "there is no limit of p98"),
            ("p99=1us,p99=2us", "twice"),
            ("watts=many", "no number"),
            ("throughput=0", "no rate"),
        ] {
            assert!(limits(wrong).is_err_and(|said| said.contains(why)), "{wrong}");
        }
        assert_eq!((rate("800k"), rate("5Mops"), objective("p99")), (Ok(8e5), Ok(5e6), Ok(Objective::P99)));
        assert!(objective("best").is_err_and(|said| said.contains("host-cpu")));
    }
}
