//! The registry of configurations: durable, one at a time, by compare-and-swap on the epoch; and who may lead.
//!
//! It fails at nothing; what is asked of it takes its time, and whoever asked may be dead when the answer comes.

use base::Picos;
use protocol::chain::Configuration;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// To lead, or to go on leading, for so long.
    Lead(Picos),
    /// To make this the configuration.
    Store(Configuration),
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Whether it leads now, and the configuration that is stored.
    Lead(bool, Option<Configuration>),
    /// It is stored; or this is there instead.
    Store(Result<(), Option<Configuration>>),
}

/// The registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    configuration: Option<Configuration>,
    leader: Option<(u16, Picos)>,
    /// Configurations that were stored.
    pub stored: u64,
}

impl Registry {
    /// The configuration that is stored.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.configuration.as_ref()
    }

    /// Controller `number` asks.
    pub fn ask(&mut self, now: Picos, number: u16, request: Request) -> Answer {
        match request {
            Request::Lead(ttl) => {
                let is_free = self.leader.is_none_or(|(leader, until)| leader == number || until < now);
                if is_free {
                    self.leader = Some((number, now.plus(ttl)));
                }
                Answer::Lead(is_free, self.configuration.clone())
            }
            Request::Store(new) => {
                let before = self.configuration.as_ref().map_or(0, |stored| stored.epoch.0);
                if self.configuration.is_some() && new.epoch.0 != before + 1 {
                    return Answer::Store(Err(self.configuration.clone()));
                }
                self.configuration = Some(new);
                self.stored += 1;
                Answer::Store(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chain::Epoch;

    #[test]
    fn one_leads_and_epochs_follow_each_other() {
        let mut registry = Registry::default();
        let mut leads = |at, number| match registry.ask(Picos(at), number, Request::Lead(Picos(10))) {
            Answer::Lead(leads, _) => leads,
            Answer::Store(_) => panic!("it was not asked that"),
        };
        assert!(leads(0, 1) && !leads(5, 2) && leads(8, 1) && !leads(12, 2) && leads(19, 2) && !leads(20, 1));
        let mut store = |epoch| {
            let new = Configuration { epoch: Epoch(epoch), ..Configuration::default() };
            matches!(registry.ask(Picos(30), 1, Request::Store(new)), Answer::Store(Ok(())))
        };
        assert!(store(1) && !store(1) && store(2) && !store(4));
        assert_eq!(registry.stored, 2);
    }
}
