//! `millrace model platforms` and `check`: which files there are, and whether one is right.

use super::{Failure, of_file, platform, read};
use crate::print;
use bench::report::Table;
use clap::Args;
use model::experiment::file::FileExperiment;
use model::experiment::published::Results;
use model::platform::shipped::SHIPPED;
use model::platform::{Class, Number};
use model::sweep::Sweep;
use model::{Platform, Platforms};
use serde_json::{Value, json};

/// List the shipped platforms, or the numbers of one
#[derive(Args, Debug)]
pub struct List {
    /// A shipped platform or a platform file: shows its numbers
    #[arg(value_name = "PLATFORM")]
    platform: Option<String>,

    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

impl List {
    /// Prints the list.
    pub fn run(&self) -> Result<(), Failure> {
        if self.json {
            let all = match &self.platform {
                Some(name) => platform(name)?.numbers().map(number_json).collect(),
                None => platforms_json()?,
            };
            return print(&(serde_json::to_string_pretty(&all)? + "\n"));
        }
        let table = match &self.platform {
            Some(name) => numbers(&platform(name)?),
            None => platforms()?,
        };
        print(&table.to_string())
    }
}

fn platforms() -> Result<Table, Failure> {
    let mut table =
        Table::new(["platform", "family", "numbers"].into_iter().chain(Class::ALL.map(Class::name)));
    for (name, _) in SHIPPED {
        let platform = platform(name)?;
        let all = platform.numbers().count().to_string();
        let by_class = Class::ALL
            .map(|class| platform.numbers().filter(|(_, number)| number.class == class).count().to_string());
        table.row([format!("{name:20}{}", platform.title), platform.family, all].into_iter().chain(by_class));
    }
    Ok(table)
}

fn platforms_json() -> Result<Vec<Value>, Failure> {
    let one = |(name, _): &(&str, &str)| {
        let platform = platform(name)?;
        let of_class = |class: Class| platform.numbers().filter(|(_, number)| number.class == class).count();
        let classes = Class::ALL.into_iter().map(|class| (class.name().to_owned(), json!(of_class(class))));
        Ok(json!({
            "platform": name,
            "title": platform.title,
            "family": platform.family,
            "numbers": platform.numbers().count(),
            "classes": classes.collect::<serde_json::Map<String, Value>>(),
        }))
    };
    SHIPPED.iter().map(one).collect()
}

fn number_json((name, number): (&str, &Number)) -> Value {
    json!({
        "number": name,
        "value": number.value,
        "unit": number.unit.name,
        "range": [number.range.0, number.range.1],
        "class": number.class.name(),
        "source": number.source,
    })
}

fn numbers(platform: &Platform) -> Table {
    let mut table = Table::new(["number", "value", "unit", "range", "class", "source"]);
    for (name, number) in platform.numbers() {
        let range = format!("{} – {}", number.range.0, number.range.1);
        let value = number.value.to_string();
        table.row([name, &value, number.unit.name, &range, number.class.name(), &number.source]);
    }
    table
}

/// Check a file of a platform, of an experiment, of published results or of a sweep: what is wrong is said with its line
#[derive(Args, Debug)]
pub struct Check {
    /// The file
    #[arg(value_name = "FILE")]
    file: String,
}

impl Check {
    /// Prints what the file is.
    pub fn run(&self) -> Result<(), Failure> {
        let text = read(&self.file)?;
        // What is wrong is said with the line of the file as it was written; then what a sweep takes from another file.
        checked(&text, &self.file)?;
        let said = checked(&of_file::whole(text, &self.file)?, &self.file)?;
        print(&format!("{}: {said}\n", self.file))
    }
}

/// What the text of `file` is.
fn checked(text: &str, file: &str) -> Result<String, Failure> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{file}:{}: {}", 1 + text[..at].matches('\n').count(), error.message())
    })?;
    if table.contains_key("result") {
        let results = Results::parse(text, file)?;
        return Ok(format!("{} results of {}", results.all.len(), results.source));
    }
    if table.contains_key("axis") {
        let sweep = Sweep::parse(text, file, &Platforms::shipped())?;
        return Ok(format!(
            "sweep of {} over {} numbers, {} runs",
            sweep.experiment,
            sweep.axes.len(),
            sweep.runs()
        ));
    }
    if table.contains_key("platforms") {
        let own = FileExperiment::parse(text, file)?;
        let platforms = own.platforms.join(", ");
        return Ok(format!("experiment {} on {platforms}: {}", own.id, own.title));
    }
    let platform = Platform::parse(text, file)?;
    model::machine::check(&platform)?;
    let (name, numbers) = (&platform.name, platform.numbers().count());
    if !platform.parts.is_empty() {
        let parts: Vec<_> =
            platform.parts.iter().map(|part| format!("{} ({})", part.name, part.kind)).collect();
        return Ok(format!("platform {name} of parts {}, {numbers} numbers", parts.join(", ")));
    }
    Ok(format!("platform {name} of family {}, {numbers} numbers", platform.family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_what_is_in_it() {
        let (_, text) = SHIPPED[0];
        assert!(checked(text, "a.toml").is_ok_and(|said| said.starts_with("platform bluefield2-ib")));
        let rack = SHIPPED.iter().find(|(name, _)| *name == "rack-of-this-host").expect("it is shipped").1;
        assert!(
            checked(rack, "a.toml")
                .is_ok_and(|said| said.contains("of parts clients (clients), uplink (link), tor (box)"))
        );
        let header = "packet.header = { value = 160, unit = \"B\", class = \"datasheet\", source = \"docs/wire.md: the header\", range = [160, 160] }\n";
        let lacking = checked(&rack.replacen(header, "", 1), "a.toml").expect_err("it lacks one").to_string();
        assert!(lacking.contains("part tor has no number packet.header"), "{lacking}");
        let wrong = |text: &str| checked(text, "a.toml").expect_err("it is wrong").to_string();
        assert!(wrong("name = \"x\"\n[a\n").starts_with("a.toml:2: "));
        assert!(wrong(&text.replacen("range = [2.2, 2.2]", "", 1)).contains("no range"));
        assert!(wrong("[[result]]\nid = 3\n").starts_with("a.toml:"));
    }
}
