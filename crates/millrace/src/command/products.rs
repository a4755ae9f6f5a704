//! Which of millrace's products, each a feature of this crate, has which commands; a command that this program was built without is
//! answered by what has it.

use clap::Parser;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

#[cfg(not(any(feature = "kv", feature = "rpc", feature = "rec", feature = "model", feature = "lab")))]
compile_error!(
    "millrace has no product without a feature: leave out --no-default-features for all, or choose with --features: \
     kv, rpc, rec, model, lab (several by commas)"
);

/// A feature, and the commands that are there by it.
struct Product {
    feature: &'static str,
    /// Whether this program was built with it.
    is_here: bool,
    commands: &'static [&'static str],
}

const PRODUCTS: [Product; 5] = [
    Product {
        feature: "kv",
        is_here: cfg!(feature = "kv"),
        commands: &[
            "up",
            "bench",
            "inc",
            "chain",
            "cluster",
            "box",
            "home",
            "controller",
            "key",
            "proxy",
            "txn",
            "wire",
        ],
    },
    Product { feature: "rpc", is_here: cfg!(feature = "rpc"), commands: &["rpc"] },
    Product { feature: "rec", is_here: cfg!(feature = "rec"), commands: &["rec"] },
    Product {
        feature: "model",
        is_here: cfg!(feature = "model"),
        commands: &["model", "place", "plan", "repro", "sweep"],
    },
    Product {
        feature: "lab",
        is_here: cfg!(feature = "lab"),
        commands: &["demo", "tour", "check", "sim", "lab", "soak"],
    },
];

/// What was said on the command line. It does not come back from `--help`, nor from what is wrong.
pub fn parse<C: Parser>() -> C {
    C::try_parse().unwrap_or_else(|error| with_product(error, &PRODUCTS).exit())
}

/// An error that says which product has the command that is not here.
fn with_product(mut error: Error, products: &[Product]) -> Error {
    let said =
        (error.kind() == ErrorKind::InvalidSubcommand).then(|| error.get(ContextKind::InvalidSubcommand));
    let Some(Some(ContextValue::String(command))) = said else { return error };
    let missing = products.iter().find(|of| !of.is_here && of.commands.contains(&command.as_str()));
    if let Some(Product { feature, .. }) = missing {
        let advice = format!(
            "this program was built without feature '{feature}', which has it: cargo install millrace --features {feature}"
        );
        // In place of commands whose names are like it.
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    /// What every product has.
    const ALWAYS: [&str; 6] = ["completions", "man", "metrics", "probe", "registers", "trace"];

    #[test]
    fn the_table_has_the_commands_that_there_are() {
        let cli = Cli::command();
        let there: BTreeSet<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        let built = PRODUCTS.iter().filter(|product| product.is_here);
        let listed: BTreeSet<&str> =
            built.flat_map(|product| product.commands).chain(&ALWAYS).copied().collect();
        assert_eq!(there, listed);
    }

    #[test]
    fn a_command_of_another_product_is_answered_by_which() {
        let without = [Product { is_here: false, ..PRODUCTS[3] }, Product { is_here: true, ..PRODUCTS[4] }];
        let said = |command: &str| {
            let error = clap::Command::new("millrace").subcommand(clap::Command::new("up"));
            let error = error.try_get_matches_from(["millrace", command]).expect_err("no such command");
            with_product(error, &without).to_string()
        };
        let plan = said("plan");
        assert!(plan.contains("unrecognized subcommand 'plan'"), "{plan}");
        assert!(plan.contains("without feature 'model', which has it: cargo install"), "{plan}");
        // One that was built, asked where it is not; one that nobody has; and what is no command.
        for command in ["soak", "upp", "--frob"] {
            assert!(!said(command).contains("feature"), "{command}");
        }
    }
}
