//! `millrace metrics`: what every server counts, of all programs; and `docs/metrics.md`, which is this list.

use serve::metrics::{Family, process};
use serve::{chain, inc, kv, otlp, proxy, recorder, rights};
use std::fmt::Write as _;
use std::io::Write as _;

/// List all metrics: name, type, labels, what each says.
#[derive(clap::Args, Debug)]
pub struct List {
    /// As the tables of docs/metrics.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Who shows them, and which.
const LISTS: &[(&str, &[&[&Family]])] = &[
    ("Every server", &[process::own::FAMILIES, process::FAMILIES]),
    ("Every server with a file of rights (`--rights`)", &[rights::metrics::FAMILIES]),
    ("Every server that sends to a collector (`--otlp`)", &[otlp::FAMILIES]),
    ("Every server that records requests (`--record`)", &[recorder::FAMILIES]),
    ("A memcached node (`up`)", &[kv::metrics::FAMILIES]),
    ("Nodes of the in-network cache (`box`, `home`, `controller`, `inc run`)", &[inc::metrics::FAMILIES]),
    ("Its proxy (`proxy`)", &[proxy::metrics::FAMILIES]),
    ("A replica of a chain (`chain replica`, `chain up`)", &[chain::metrics::FAMILIES]),
    ("A controller of a chain (`chain controller`)", &[chain::controller::metrics::FAMILIES]),
    #[cfg(feature = "rec")]
    ("A recommendation server (`rec serve`)", &[serve::rec::metrics::FAMILIES]),
    #[cfg(feature = "rpc")]
    ("RPC servers and the gateway (`rpc serve`, `rpc gateway`)", &[serve::rpc::metrics::FAMILIES]),
    #[cfg(feature = "rpc")]
    ("A server with replies in the cache besides (`rpc serve --cache`)", &[serve::rpc::replies::FAMILIES]),
    #[cfg(feature = "rpc")]
    ("The gateway besides (`rpc gateway`)", &[serve::rpc::gateway::metrics::FAMILIES]),
    #[cfg(feature = "model")]
    ("The placer (`place --admin`)", &[plan::placer::metrics::FAMILIES]),
];

fn lists() -> impl Iterator<Item = (&'static str, Vec<&'static Family>)> {
    LISTS.iter().map(|(who, families)| (*who, families.concat()))
}

impl List {
    /// Prints the list.
    ///
    /// # Errors
    /// When standard output is gone.
    pub fn run(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.markdown {
            return out.write_all(markdown().as_bytes());
        }
        if self.json {
            return writeln!(out, "{:#}", json());
        }
        for (who, families) in lists() {
            writeln!(out, "{who}")?;
            for Family { name, kind, labels, help, .. } in families {
                writeln!(out, "  {name}   ({}{})\n      {help}", kind.word(), labelled(labels))?;
            }
        }
        Ok(())
    }
}

fn labelled(labels: &[&str]) -> String {
    if labels.is_empty() { String::new() } else { format!(", by {}", labels.join(", ")) }
}

fn json() -> serde_json::Value {
    let all = lists().flat_map(|(_, families)| families);
    let row = |family: &Family| {
        serde_json::json!({
            "name": family.name, "type": family.kind.word(), "labels": family.labels, "help": family.help,
        })
    };
    all.map(row).collect()
}

fn markdown() -> String {
    let mut out = String::new();
    for (who, families) in lists() {
        let _ = writeln!(out, "\n### {who}\n\n| name | type | labels | |\n|---|---|---|---|");
        for Family { name, kind, labels, help, .. } in families {
            let _ = writeln!(out, "| `{name}` | {} | {} | {help} |", kind.word(), labels.join(", "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `MILLRACE_BLESS=1` writes it anew.
    #[cfg(all(feature = "rec", feature = "rpc", feature = "model"))]
    #[test]
    fn the_document_is_the_list() {
        // What comes before the lists is written by hand.
        const BEGIN: &str = "<!-- millrace metrics --markdown -->\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(path).expect("the document");
        let (head, lists) = text.split_once(BEGIN).expect("where the lists begin");
        if std::env::var_os("MILLRACE_BLESS").is_some() {
            std::fs::write(path, format!("{head}{BEGIN}{}", markdown())).expect("it can be written");
            return;
        }
        assert_eq!(
            lists,
            markdown(),
            "MILLRACE_BLESS=1 cargo test -p millrace --bin millrace writes docs/metrics.md anew"
        );
    }

    #[test]
    fn no_two_servers_have_a_name_for_two_things() {
        let mut names = BTreeSet::new();
        for (who, families) in lists() {
            assert!(families.iter().all(|family| names.insert(family.name)), "{who}");
        }
        assert_eq!(json().as_array().map(Vec::len), Some(names.len()));
    }
}
