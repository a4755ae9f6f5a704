//! The registry of configurations: durable, one at a time, by compare-and-swap on the epoch and on who leads; and who may lead.
//!
//! As etcd is asked in production, leadership is of one life of a controller: its next life waits until that is over, and what a life asked to be stored
//! before it died is not stored once another leads.
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

/// A controller, by its number, in one of its lives.
pub type Candidate = (u16, u32);

/// The registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    configuration: Option<Configuration>,
    leader: Option<(Candidate, Picos)>,
    /// Configurations that were stored.
    pub stored: u64,
}

impl Registry {
    /// The configuration that is stored.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.configuration.as_ref()
    }

    /// A controller asks.
    pub fn ask(&mut self, now: Picos, who: Candidate, request: Request) -> Answer {
        match request {
            Request::Lead(ttl) => {
                let is_free = self.leader.is_none_or(|(leader, until)| leader == who || until < now);
                if is_free {
                    self.leader = Some((who, now.plus(ttl)));
                }
                Answer::Lead(is_free, self.configuration.clone())
            }
            Request::Store(new) => {
                let before = self.configuration.as_ref().map_or(0, |stored| stored.epoch.0);
                let leads = self.leader.is_some_and(|(leader, _)| leader == who);
                if !leads || self.configuration.is_some() && new.epoch.0 != before + 1 {
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
        let mut leads = |at, who| match registry.ask(Picos(at), who, Request::Lead(Picos(10))) {
            Answer::Lead(leads, _) => leads,
            Answer::Store(_) => panic!("it was not asked that"),
        };
        let ([one, two], next) = ([(1, 1), (2, 1)], (1, 2));
        assert!(leads(0, one) && !leads(5, two) && leads(8, one) && !leads(9, next) && !leads(12, two));
        assert!(leads(19, two) && !leads(20, one));
        let mut store = |who, epoch| {
            let new = Configuration { epoch: Epoch(epoch), ..Configuration::default() };
            matches!(registry.ask(Picos(30), who, Request::Store(new)), Answer::Store(Ok(())))
        };
        assert!(store(two, 1) && !store(two, 1) && store(two, 2) && !store(two, 4) && !store(one, 3));
        assert_eq!(registry.stored, 2);
    }
}
