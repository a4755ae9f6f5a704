//! What a controller's admin port shows (`--admin`): who leads, who is in the chain. Its loop is asked between two turns.

use super::process::Process;
use crate::admin::ask::{Asker, questions};
use crate::admin::{JSON, Routes};
use crate::chain::registers::{Registers, Shared};
use crate::metrics::Page;
use ::client::chain::directory::Directory;
use base::Nanos;
use protocol::chain::{Epoch, Part, ReplicaId};
use std::sync::Arc;

crate::families! { "millrace_chain_controller_";
    LEADS gauge "leads" count ["chain", "controller"] "Whether it leads; of several controllers one does.";
    EPOCH gauge "epoch" count ["chain", "controller"] "Number of the configuration that it knows.";
    MEMBERS gauge "members" count ["chain", "controller", "part"] "Members of the chain: serving, and syncing (catching up).";
    HEARD gauge "replicas_heard" count ["chain", "controller"] "Replicas that have told it lately that they live.";
    SILENT gauge "silent" seconds ["chain", "controller", "replica"] "How long it has heard nothing of a replica; none of one that it never heard.";
    SLOW gauge "replicas_slow" count ["chain", "controller"] "Replicas that live, and whose log has been at one write for long.";
    BLOCKED gauge "nobody_serves" count ["chain", "controller"] "Whether the chain waits, and nobody serves.";
    TROUBLE gauge "registry_fails" count ["chain", "controller"] "Whether its registry fails.";
}

/// What a controller says of itself.
#[derive(Debug)]
pub struct Seen {
    chain: u32,
    controller: u16,
    leads: bool,
    epoch: u64,
    serving: usize,
    syncing: usize,
    silences: Vec<(ReplicaId, Nanos)>,
    slow: usize,
    is_blocked: bool,
    is_troubled: bool,
    /// Where replicas serve, for clients.
    directory: Directory,
}

impl Process {
    /// What operators are shown of it.
    pub fn routes(&mut self, registers: Arc<Registers>) -> Routes {
        let (asker, asked) = questions();
        self.questions = Some(asked);
        let (asks, finds) = (Asker::clone(&asker), Asker::clone(&asker));
        let chain = self.chain;
        Routes::default()
            .registers(Arc::new(Shared(registers)))
            .metrics(move |page| {
                if let Some(seen) = asker.ask() {
                    add(page, &seen);
                }
            })
            .ready(move || match asks.ask() {
                Some(seen) if seen.is_troubled => Err("its registry fails".to_owned()),
                Some(_) => Ok(()),
                None => Err("the controller's loop does not answer".to_owned()),
            })
            .text("GET /chain", "where the chain's replicas serve clients", JSON, move || {
                let nothing = Directory { chain, epoch: Epoch(0), replicas: Vec::new() };
                finds.ask().map_or(nothing, |seen| seen.directory).text()
            })
            .loops([self.beat.pulse("controller")])
    }

    /// Answers whoever asked meanwhile.
    pub(super) fn answer_questions(&self) {
        let Some(questions) = &self.questions else { return };
        questions.answer(|| {
            let now = self.clock.now();
            let view = self.driver.view(now);
            let members = view.configuration.iter().flat_map(|configuration| &configuration.members);
            let count = |part: Part| members.clone().filter(|member| member.part == part).count();
            Seen {
                chain: self.chain,
                controller: self.number,
                leads: self.driver.leads(now),
                epoch: view.configuration.as_ref().map_or(0, |configuration| configuration.epoch.0),
                serving: count(Part::Serving),
                syncing: count(Part::Syncing),
                silences: view.heard.iter().map(|(replica, .., at)| (*replica, now.since(*at))).collect(),
                slow: view.slow.len(),
                is_blocked: view.waiting.is_some(),
                is_troubled: self.driver.trouble().is_some(),
                directory: self.directory(now),
            }
        });
    }
}

fn add(page: &mut Page, seen: &Seen) {
    let (chain, controller) = (&*seen.chain.to_string(), &*seen.controller.to_string());
    let labels = [chain, controller];
    page.add(LEADS, &labels, seen.leads);
    page.add(EPOCH, &labels, seen.epoch);
    page.add(MEMBERS, &[chain, controller, "serving"], seen.serving);
    page.add(MEMBERS, &[chain, controller, "syncing"], seen.syncing);
    page.add(HEARD, &labels, seen.silences.len());
    for (replica, silent) in &seen.silences {
        page.add(SILENT, &[chain, controller, &replica.0.to_string()], silent.0 as f64 / 1e9);
    }
    page.add(SLOW, &labels, seen.slow);
    page.add(BLOCKED, &labels, seen.is_blocked);
    page.add(TROUBLE, &labels, seen.is_troubled);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::lint;

    #[test]
    fn a_controller_shows_all_its_families() {
        let mut page = Page::default();
        let seen = Seen {
            chain: 7,
            controller: 1,
            leads: true,
            epoch: 3,
            serving: 2,
            syncing: 1,
            silences: vec![(ReplicaId(1), Nanos::from_millis(20)), (ReplicaId(2), Nanos::from_secs(3))],
            slow: 0,
            is_blocked: false,
            is_troubled: false,
            directory: Directory { chain: 7, epoch: Epoch(3), replicas: Vec::new() },
        };
        add(&mut page, &seen);
        let text = page.text();
        lint::hold(&text);
        assert!(text.contains("members{chain=\"7\",controller=\"1\",part=\"syncing\"} 1"), "{text}");
        assert!(text.contains("silent_seconds{chain=\"7\",controller=\"1\",replica=\"2\"} 3"), "{text}");
        assert!(FAMILIES.iter().all(|family| text.contains(&format!("# TYPE {} ", family.name))), "{text}");
    }
}
