//! `millrace chain status --cluster FILE`: all chains of a cluster, each with the slots of its keys. Only the file has these: a replica knows its own chain.

use super::{Answers, StatusCommand, Whom};
use crate::chain::error::ChainError;
use crate::process::cluster_file::{self, Chain};
use fabric::link::Address;
use std::path::Path;

impl StatusCommand {
    /// Prints all chains of a file, or of controllers that have it; one of which nobody answers does not keep the others from being shown.
    ///
    /// # Errors
    /// The file is wrong, or nobody answers of one of them.
    pub(super) fn run_all(&self, file: &Path) -> Result<(), ChainError> {
        let chains = cluster_file::all(file).map_err(ChainError::Cluster)?;
        let asked: Vec<(Chain, Result<Answers, ChainError>)> =
            chains.into_iter().map(|chain| (chain.clone(), ask(&chain))).collect();
        if self.whom.json {
            let all: Vec<_> = asked.iter().map(|(chain, answers)| json(chain, answers)).collect();
            println!("{:#}", serde_json::json!({ "chains": all }));
        } else {
            let texts: Vec<_> =
                asked.iter().map(|(chain, answers)| text(chain, answers, self.figures)).collect();
            print!("{}", texts.join("\n"));
        }
        asked.into_iter().find_map(|(_, answers)| answers.err()).map_or(Ok(()), Err)
    }
}

/// Asks a chain's replicas, and those that they name.
fn ask(chain: &Chain) -> Result<Answers, ChainError> {
    let addresses: Vec<Address> = chain.replicas.iter().map(|(_, address)| address.clone()).collect();
    let answers = Whom { connect: addresses.clone(), json: false }.ask()?;
    match answers.here.values().find(|(_, info)| info.chain != chain.number) {
        Some((address, info)) => {
            let why =
                format!("at {address} is a replica of chain {}, and not of {}", info.chain, chain.number);
            Err(ChainError::Nobody(addresses, why))
        }
        None => Ok(answers),
    }
}

fn text(chain: &Chain, answers: &Result<Answers, ChainError>, figures: bool) -> String {
    let slots = format!("slots {}", chain.slots);
    match answers {
        Ok(answers) => {
            let text = answers.text(figures);
            let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
            format!("{head}, {slots}\n{rest}")
        }
        Err(why) => format!("chain {}, {slots}: {why}\n", chain.number),
    }
}

fn json(chain: &Chain, answers: &Result<Answers, ChainError>) -> serde_json::Value {
    let mut said = match answers {
        Ok(answers) => answers.json(),
        Err(why) => serde_json::json!({ "why": why.to_string() }),
    };
    said["chain"] = chain.number.into();
    said["slots"] = chain.slots.to_string().into();
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chain::ReplicaId;

    #[test]
    fn slots_are_shown_of_a_chain_that_answers_and_of_one_that_does_not() {
        let slots = "0-99, 200-16383";
        let chain = Chain {
            number: 7,
            slots: slots.parse().expect("slots"),
            replicas: vec![(ReplicaId(1), "tcp:127.0.0.1:9".parse().expect("an address"))],
        };
        let addresses = vec![chain.replicas[0].1.clone()];
        let silent = || Err(ChainError::Nobody(addresses.clone(), "it is silent".to_owned()));
        let shown = text(&chain, &silent(), false);
        assert!(shown.starts_with(&format!("chain 7, slots {}: ", chain.slots)), "{shown}");
        assert!(shown.contains("it is silent"), "{shown}");
        let said = json(&chain, &silent());
        assert_eq!((&said["chain"], &said["slots"]), (&7.into(), &chain.slots.to_string().into()));
        assert!(said["why"].as_str().is_some_and(|why| why.contains("it is silent")), "{said}");
        let said = json(&chain, &Ok(Answers::default()));
        assert!(said["slots"].is_string() && said["replicas"].is_array(), "{said}");
    }
}
