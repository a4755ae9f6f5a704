//! `millrace metrics`: what every server counts, of all programs; and `docs/metrics.md`, which is this list.

use serve::metrics::{Family, process};
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
fn lists() -> [(&'static str, Vec<&'static Family>); 11] {
    use serve::{chain, inc, kv, otlp, proxy, rec, rpc};
    [
        ("Every server", [process::own::FAMILIES, process::FAMILIES].concat()),
        ("Every server that sends to a collector (`--otlp`)", otlp::FAMILIES.into()),
        ("A memcached node (`up`)", kv::metrics::FAMILIES.into()),
        (
            "Nodes of the in-network cache (`box`, `home`, `controller`, `inc run`)",
            inc::metrics::FAMILIES.into(),
        ),
        ("Its proxy (`proxy`)", proxy::metrics::FAMILIES.into()),
        ("A replica of a chain (`chain replica`, `chain up`)", chain::metrics::FAMILIES.into()),
        ("A controller of a chain (`chain controller`)", chain::controller::metrics::FAMILIES.into()),
        ("A recommendation server (`rec serve`)", rec::metrics::FAMILIES.into()),
        ("RPC servers and the gateway (`rpc serve`, `rpc gateway`)", rpc::metrics::FAMILIES.into()),
        ("A server with replies in the cache besides (`rpc serve --cache`)", rpc::replies::FAMILIES.into()),
        ("The gateway besides (`rpc gateway`)", rpc::gateway::metrics::FAMILIES.into()),
    ]
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
    let all = lists().into_iter().flat_map(|(_, families)| families);
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

    /// What comes before the lists is written by hand.
    const BEGIN: &str = "<!-- millrace metrics --markdown -->\n";

    /// `MILLRACE_BLESS=1` writes it anew.
    #[test]
    fn the_document_is_the_list() {
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
