//! `millrace model rank`: free constants of each system beside its independent results.

use super::{Failure, SYSTEMS};
use crate::print;
use bench::report::Table;
use clap::Args;
use model::Platforms;
use model::experiment::rank::{Account, RESULTS_OF_ONE};
use model::platform::Class;
use serde_json::json;

/// Count constants that were fitted or chosen against results that they could be chosen by
///
/// A number is free if a published result has something to do with its value: classes `fitted` and `chosen`. A result is independent if it does not restate
/// an input or another result; orders that one sentence states are one. A system may have one free constant for every three independent results. With a
/// system's name, its free constants are listed.
#[derive(Args, Debug)]
pub struct Rank {
    /// A system, as `millrace repro list` shows it; all if none is named
    #[arg(value_name = "SYSTEM")]
    system: Option<String>,

    /// Fail if a system has more than it may
    #[arg(long)]
    check: bool,

    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

impl Rank {
    /// Does it.
    ///
    /// # Errors
    /// There is no such system; or, with `--check`, one has too many.
    pub fn run(&self) -> Result<(), Failure> {
        let platforms = Platforms::shipped();
        let systems = match &self.system {
            Some(name) => vec![super::system(name)?],
            None => SYSTEMS.iter().collect(),
        };
        let accounts = systems.into_iter().map(|system| Account::of(system, &platforms));
        let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
        if self.json {
            let all: Vec<_> = accounts.iter().map(as_json).collect();
            print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
        } else {
            print(&table(&accounts).to_string())?;
            if self.system.is_some() {
                print(&format!("\n{}", constants(&accounts[0], &platforms)?))?;
            }
        }
        let over: Vec<_> = accounts.iter().filter(|account| account.too_many() > 0).collect();
        if !self.check || over.is_empty() {
            return Ok(());
        }
        let said: Vec<_> =
            over.iter().map(|account| format!("{} by {}", account.system, account.too_many())).collect();
        Err(format!(
            "more than one free constant for every {RESULTS_OF_ONE} independent results: {}; `millrace model rank SYSTEM` lists them",
            said.join(", ")
        )
        .into())
    }
}

fn table(accounts: &[Account]) -> Table {
    let head = [
        "system",
        "numbers",
        "fitted",
        "chosen",
        "assumed",
        "single numbers",
        "ranges",
        "orders",
        "restated",
    ];
    let mut table = Table::new(head.into_iter().chain(["free", "may be", "too many"]));
    for account in accounts {
        let [numbers, ranges, orders] = account.results;
        let may = (numbers + ranges + orders) / RESULTS_OF_ONE;
        let count = |class| account.count(class);
        let counts = [
            account.numbers.len(),
            count(Class::Fitted),
            count(Class::Chosen),
            count(Class::Assumed),
            numbers,
            ranges,
            orders,
            account.restated,
            account.free().count(),
            may,
            account.too_many(),
        ];
        table.row([account.system.to_string()].into_iter().chain(counts.map(|count| count.to_string())));
    }
    table
}

fn constants(account: &Account, platforms: &Platforms) -> Result<Table, Failure> {
    let mut table = Table::new(["free constant", "class", "value", "range", "source"]);
    for (place, class) in account.free() {
        let number = platforms.number(place)?;
        let (least, most) = number.range;
        table.row([
            place.to_string(),
            class.name().into(),
            format!("{} {}", number.value, number.unit.name),
            format!("{least} – {most}"),
            number.source,
        ]);
    }
    Ok(table)
}

fn as_json(account: &Account) -> serde_json::Value {
    let [numbers, ranges, orders] = account.results;
    let free: Vec<_> = account
        .free()
        .map(|(place, class)| json!({"number": place.to_string(), "class": class.name()}))
        .collect();
    json!({
        "system": account.system, "numbers": account.numbers.len(), "free": free,
        "results": {"numbers": numbers, "ranges": ranges, "orders": orders}, "restated": account.restated,
        "too_many": account.too_many(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_with_too_many_is_named_with_how_many() {
        let rank = |system: &str| Rank { system: Some(system.into()), check: true, json: true };
        let said = rank("offpath").run().expect_err("it has too many").to_string();
        assert!(said.contains("offpath by ") && said.contains("for every 3"), "{said}");
        assert!(rank("offpat").run().is_err_and(|said| said.to_string().contains("there are offpath")));
        let account = Account::of(&SYSTEMS[0], &Platforms::shipped()).expect("its files are sound");
        let shown = constants(&account, &Platforms::shipped()).expect("all are there").to_string();
        assert!(shown.contains("bluefield2-ib | dma.post") && shown.contains("chosen"), "{shown}");
        assert_eq!(as_json(&account)["free"].as_array().map(Vec::len), Some(account.free().count()));
        assert!(table(&[account]).to_string().contains("offpath"));
    }
}
