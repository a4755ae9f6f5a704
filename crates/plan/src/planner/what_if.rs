//! `--set`: another value for a number of the platform or of the workload, and what the answer is then against what it was.

use bench::report::format::{micros, short};
use model::plan::answer::Plan;
use model::plan::cost::{Cost, PRICES};
use model::platform::Number;
use model::platform::unit::{Dimension, Unit, quantity};
use model::workload::Workload;
use model::workload::edit::{Fault, edited};
use model::{Platform, plan::Objective};
use serde_json::json;
use serve::process::table::nearest;

/// Numbers of the workload begin so; of a class `workload.GET.reply`.
const WORKLOAD: &str = "workload.";
/// Numbers that any platform may be given, whether its file has them or not.
const GIVEN: [(&str, Dimension); 2] = [("watts.idle", Dimension::Power), ("watts.busy", Dimension::Power)];
/// And numbers that any part of a composed machine may be given.
const GIVEN_OF_PART: [(&str, Dimension); 4] = [
    ("count", Dimension::Count),
    ("price", Dimension::Money),
    ("watts.idle", Dimension::Power),
    ("watts.busy", Dimension::Power),
];

/// A number that is another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// Its name.
    pub(super) name: String,
    /// What it was, where it was.
    before: Option<String>,
    after: String,
}

/// Why there is no change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refused {
    /// There is no such number.
    Unknown(String),
    /// Its value is wrong.
    Wrong(String),
}

impl Refused {
    /// The sentence.
    pub(super) fn why(self) -> String {
        match self {
            Refused::Unknown(why) | Refused::Wrong(why) => why,
        }
    }
}

/// Platform and workload with one number changed: `PART.KEY=VALUE`.
pub(super) fn set(
    text: &str,
    platform: &Platform,
    workload: &Workload,
) -> Result<(Platform, Workload, Change), Refused> {
    let Some((name, value)) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
        return Err(Refused::Wrong(format!("--set {text}: write PART.KEY=VALUE, for example soc.cores=16")));
    };
    let failed = |why: String| Refused::Wrong(format!("--set {name}: {why}"));
    if let Some(key) = name.strip_prefix(WORKLOAD) {
        let (changed, before) = edited(workload, key, value).map_err(|fault| match fault {
            Fault::Unknown(known) => {
                let near = near(key, known.iter().map(String::as_str));
                let known = known.join(", ");
                Refused::Unknown(format!(
                    "--set {name}: the workload has no such number{near}; there are {known}"
                ))
            }
            Fault::Wrong(why) => Refused::Wrong(format!("--set {WORKLOAD}{why}")),
        })?;
        changed.check().map_err(failed)?;
        let change = Change { name: name.into(), before, after: value.into() };
        return Ok((platform.clone(), changed, change));
    }
    let before = platform.numbers().find(|(known, _)| *known == name).map(|(_, number)| number.clone());
    let free = GIVEN.iter().find(|(known, _)| *known == name).map(|(_, dimension)| *dimension);
    let free = free.or(name.starts_with(PRICES).then_some(Dimension::Money));
    let of_parts = || {
        platform.parts.iter().flat_map(|part| GIVEN_OF_PART.map(|(known, kind)| (part.number(known), kind)))
    };
    let free = free.or_else(|| of_parts().find(|(known, _)| known == name).map(|(_, dimension)| dimension));
    let dimension = before.as_ref().map(|number| number.unit.dimension).or(free).ok_or_else(|| {
        let known = platform.numbers().map(|(name, _)| name);
        let near = near(name, known.chain(GIVEN.iter().map(|(name, _)| *name)));
        Refused::Unknown(format!(
            "--set {name}: {} has no such number{near}; `millrace model platforms {}` lists all; those of the workload begin with {WORKLOAD}",
            platform.name, platform.name
        ))
    })?;
    let unit = |named: &str| match (named, &before) {
        ("", Some(number)) => Some(number.unit),
        ("", None) => Unit::named(dimension.units().split(", ").last()?),
        (named, _) => Unit::named(if named == "µs" { "us" } else { named }),
    };
    let given = quantity(value).and_then(|(number, named)| Some((number, unit(named)?)));
    let given = given.filter(|(_, unit)| unit.dimension == dimension);
    let (number, unit) = given.ok_or_else(|| {
        failed(format!("{value:?} is no value for it: a number and one of {}", dimension.units()))
    })?;
    if dimension == Dimension::Count && number.fract() != 0.0 {
        return Err(failed(format!("{number} is no whole number")));
    }
    let written = |number: &Number| format!("{} {}", number.value, number.unit.name);
    let new = Number::given(number, unit, "--set", (number, number));
    let change = Change { name: name.into(), before: before.as_ref().map(written), after: written(&new) };
    Ok((platform.given(name, new), workload.clone(), change))
}

/// The same with several numbers changed, one after the other, and what is another.
pub(super) fn all(
    texts: &[String],
    platform: &Platform,
    workload: &Workload,
) -> Result<(Platform, Workload, Vec<Change>), Refused> {
    let mut changes = Vec::new();
    let (mut platform, mut workload) = (platform.clone(), workload.clone());
    for text in texts {
        let (next, work, change) = set(text, &platform, &workload)?;
        (platform, workload) = (next, work);
        changes.push(change);
    }
    Ok((platform, workload, changes))
}

/// What `--what-if` says: another machine, numbers of it, or both.
#[derive(Debug, PartialEq)]
pub(super) struct Scenario {
    /// A platform's name or file.
    pub(super) machine: Option<String>,
    /// As in `--set`.
    pub(super) sets: Vec<String>,
}

impl Scenario {
    /// Items separated by `;`.
    ///
    /// # Errors
    /// An item is neither `machine=NAME` nor `PART.KEY=VALUE`; a sentence that says what there is.
    pub(super) fn parse(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario { machine: None, sets: Vec::new() };
        for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
            let wrong = |why: &str| {
                format!(
                    "--what-if {item:?}: {why}: items are machine=NAME (a platform) and PART.KEY=VALUE, separated by ;"
                )
            };
            let Some((key, value)) = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            else {
                return Err(wrong("there is no ="));
            };
            if key == "machine" {
                if value.is_empty() || scenario.machine.replace(value.into()).is_some() {
                    return Err(wrong("one machine is wanted"));
                }
            } else if key.contains('.') {
                scenario.sets.push(item.into());
            } else {
                let known = model::platform::shipped::SHIPPED.iter().map(|(name, _)| *name);
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(wrong(&format!(
                    "{key} cannot be put into a machine by itself; there are machines {known}"
                )));
            }
        }
        if scenario.machine.is_none() && scenario.sets.is_empty() {
            return Err(
                "--what-if says nothing: write for example \"machine=bluefield2-ib\" or \"soc.cores=16\""
                    .into(),
            );
        }
        Ok(scenario)
    }
}

/// The name that may have been meant.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |near| format!("; is {near} meant?"))
}

/// What came of the changes: a plan with its cost, before and after.
pub(super) fn sentences(changes: &[Change], before: (&Plan, &Cost), after: (&Plan, &Cost)) -> Vec<String> {
    let mut said: Vec<String> = changes.iter().map(Change::sentence).collect();
    let advice = |plan: &Plan| match (plan.advice.possible, plan.advice.offload) {
        (false, _) => "nothing serves it".to_string(),
        (true, true) => format!("offload: {}", plan.ranking[0].name),
        (true, false) => format!("do not offload: {} is first", plan.ranking[0].name),
    };
    let (was, is) = (advice(before.0), advice(after.0));
    said.push(if was == is {
        format!("  advice: as before, {is}")
    } else {
        format!("  advice: {was} → {is}")
    });
    let figures = values(before).into_iter().zip(values(after));
    said.extend(figures.map(|((name, was), (_, is))| {
        let shown = |value: Option<f64>| value.map_or("not known".into(), |value| written(name, value));
        let by = was.zip(is).filter(|(was, _)| *was != 0.0).map(|(was, is)| (is / was - 1.0) * 100.0);
        let by = by.map_or(String::new(), |by| format!(" ({by:+.1} %)"));
        format!("  {name}: {} → {}{by}", shown(was), shown(is))
    }));
    said
}

impl Change {
    fn sentence(&self) -> String {
        match &self.before {
            Some(before) => format!("what if {} were {} and not {before}:", self.name, self.after),
            None => format!("what if {} were {}, which nothing says yet:", self.name, self.after),
        }
    }
}

fn written(name: &str, value: f64) -> String {
    match name {
        "throughput" => format!("{}/s", short(value)),
        "p99" => micros(value * 1e6),
        "price" => format!("{value:.0} USD"),
        _ => format!("{value:.3e} USD"),
    }
}

/// What is compared.
fn values((plan, cost): (&Plan, &Cost)) -> [(&'static str, Option<f64>); 4] {
    let first = &plan.ranking[0];
    let throughput = if plan.objective == Objective::Throughput { first.value } else { first.most };
    [
        ("throughput", Some(throughput)),
        ("p99", first.at_rate.map(|seen| seen.p99)),
        ("price", cost.price),
        ("a million requests", cost.per_million),
    ]
}

/// The same for programs.
pub(super) fn json(changes: &[Change], before: (&Plan, &Cost), after: (&Plan, &Cost)) -> serde_json::Value {
    let changes: Vec<_> = changes
        .iter()
        .map(|one| json!({"number": one.name, "before": one.before, "after": one.after}))
        .collect();
    let side = |of: (&Plan, &Cost)| {
        let values: serde_json::Map<_, _> =
            values(of).into_iter().map(|(name, value)| (name.replace(' ', "_"), json!(value))).collect();
        json!({"first": of.0.ranking[0].name, "advice": of.0.advice, "values": values})
    };
    json!({"set": changes, "before": side(before), "after": side(after)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> (Platform, Workload) {
        let platform = model::platform::shipped::shipped("bluefield2-ib").expect("it is shipped");
        let workload = model::workload::shipped::shipped("disaggregated-kv").expect("it is shipped");
        (platform.expect("it is sound"), workload.expect("it is sound"))
    }

    #[test]
    fn numbers_are_set_with_their_units() {
        let (platform, workload) = shipped();
        let of = |text: &str| set(text, &platform, &workload).map_err(Refused::why);
        let (faster, _, change) = of("network.latency=0.4us").expect("it is there");
        assert_eq!(faster.span("network.latency"), Ok(model::Picos::from_nanos(400)));
        assert_eq!(change.sentence(), "what if network.latency were 0.4 us and not 200 ns:");
        // Without a unit it is the number's own; what somebody sets is certain.
        let (faster, ..) = of("network.latency=300").expect("it is there");
        assert_eq!(faster.number("network.latency").map(|of| of.range), Ok((300.0, 300.0)));
        let (priced, _, change) = of("price.card=1_500USD").expect("anything may have a price");
        assert_eq!(priced.value("price.card", Dimension::Money), Ok(1500.0));
        assert!(change.sentence().contains("nothing says yet"), "{}", change.sentence());
        let (_, larger, _) = of("workload.GET.reply=1KiB").expect("it is there");
        assert_eq!(larger.classes[0].reply, 1024);
        let (_, asked, _) = of("workload.rate=5M").expect("it may be given");
        assert_eq!(asked.rate, Some(5e6));
        assert_eq!(of("workload.skew=0.5").expect("it is there").1.skew, 0.5);
    }

    #[test]
    fn a_scenario_is_a_machine_and_numbers() {
        let scenario = Scenario::parse(" machine = connectx6 ; network.latency=1us;; ").expect("it is right");
        assert_eq!(scenario.machine.as_deref(), Some("connectx6"));
        assert_eq!(scenario.sets, ["network.latency=1us"]);
        for (text, why) in [
            (
                "nic = bluefield2-ib",
                "nic cannot be put into a machine by itself; there are machines bluefield2-ib",
            ),
            ("machine=a;machine=b", "one machine is wanted"),
            ("machine=", "one machine is wanted"),
            ("fast", "there is no ="),
            (" ; ", "says nothing"),
        ] {
            let said = Scenario::parse(text);
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{text}: {said:?}");
        }
    }

    #[test]
    fn a_part_of_a_machine_has_numbers_of_its_own() {
        let (_, workload) = shipped();
        let rack = model::platform::shipped::shipped("rack-of-bluefield2")
            .expect("it is shipped")
            .expect("it is sound");
        let of = |text: &str| set(text, &rack, &workload).map(|(platform, ..)| platform);
        let cores = of("nic.soc.cores=16").map(|rack| rack.count("nic.soc.cores")).expect("it is there");
        assert_eq!(cores, Ok(16));
        for text in ["server.count=4", "tor.count=2", "tor.watts.idle=20W", "server.price=9000USD"] {
            assert!(of(text).is_ok(), "{text}");
        }
        for text in ["soc.cores=16", "rack.price=1USD", "tor.watts=20W"] {
            assert!(matches!(of(text), Err(Refused::Unknown(_))), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_set_is_said_with_what_was_meant() {
        let (platform, workload) = shipped();
        for (text, why) in [
            ("network.latency", "PART.KEY=VALUE"),
            ("network.latncy=1us", "is network.latency meant?"),
            ("network.latency=5W", "one of ps, ns, us"),
            ("network.latency=soon", "one of ps, ns, us"),
            ("network.latency=-1us", "one of ps, ns, us"),
            ("client.cores=2.5", "no whole number"),
            ("price.card=5us", "one of USD"),
            ("workload.GET.replay=1", "is GET.reply meant?"),
            ("workload.windw=1", "is window meant?"),
            ("workload.window=0", "window must be at least 1"),
            ("workload.keys=0.5", "a whole number"),
            ("workload.GET.share=0.5", "add up to"),
        ] {
            let said = set(text, &platform, &workload).map(|_| ()).map_err(Refused::why);
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{text}: {said:?}");
        }
    }
}
