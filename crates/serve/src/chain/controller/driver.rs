//! The controller's machine with its registry: messages in, messages out. Whoever has links drives it.
//!
//! The registry works on a thread of its own, and wakes the loop that turns this; so an etcd that does not answer stops new configurations and,
//! when leadership has run out, leases, and nothing else.

use crate::chain::registry::Registry;
use crate::chain::registry::worker::{Event, Worker};
use base::Nanos;
use protocol::chain::controller::{Controller, ResetRefused, View};
use protocol::chain::{Config, Epoch, Message, NodeId, Out, ReplicaAddress, ReplicaId};
use std::io;

/// See the file's head.
pub struct Driver {
    controller: Controller,
    worker: Worker,
    /// A proposal is on its way, and what became of it not known.
    is_proposed: bool,
    trouble: Option<String>,
}

impl Driver {
    /// Controller `number` of a chain with these replicas, in the order in which a new chain has them. `wake` is called from another
    /// thread when [`Driver::turn`] has something to do.
    ///
    /// # Errors
    /// The system's: no thread can be had.
    pub fn start(
        config: &Config,
        number: u16,
        replicas: Vec<ReplicaAddress>,
        registry: Box<dyn Registry>,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Driver> {
        let controller = Controller::standby_at(config, number, replicas);
        let worker = Worker::start(registry, wake)?;
        Ok(Driver { controller, worker, is_proposed: false, trouble: None })
    }

    /// Takes a message.
    pub fn handle(&mut self, now: Nanos, from: NodeId, message: Message, out: &mut Out) {
        self.controller.handle(now, from, message, out);
        self.propose();
    }

    /// Takes what the registry has to tell, and serves what is due; how much that was.
    pub fn turn(&mut self, now: Nanos, out: &mut Out) -> usize {
        let mut done = 0;
        while let Some(event) = self.worker.next_event() {
            done += 1;
            match event {
                Event::Leads(until, stored) => self.controller.lead(now, until, stored),
                Event::Extended(until) => self.controller.extend(until),
                Event::Lost => self.controller.resign(),
                Event::Stored(result) => {
                    self.is_proposed = false;
                    self.controller.stored(now, result, out);
                }
                Event::Trouble(trouble) => self.trouble = Some(trouble),
                Event::Well => self.trouble = None,
            }
        }
        if self.controller.next_deadline() <= now {
            self.controller.tick(now, out);
            done += 1;
        }
        self.propose();
        done
    }

    /// Whether the registry has something to tell; [`Driver::turn`] takes it.
    pub fn has_events(&mut self) -> bool {
        self.worker.has_events()
    }

    /// When [`Driver::turn`] wants to be called, whatever the registry says.
    pub fn next_deadline(&self) -> Nanos {
        self.controller.next_deadline()
    }

    /// Says to clients where replicas serve, where its registry is one that clients read.
    pub fn publish(&self, directory: String) {
        self.worker.publish(directory);
    }

    /// As [`Controller::reset`].
    ///
    /// # Errors
    /// [`ResetRefused`].
    pub fn reset(&mut self, now: Nanos, serve: Option<ReplicaId>) -> Result<ReplicaId, ResetRefused> {
        let chosen = self.controller.reset(now, serve)?;
        self.propose();
        Ok(chosen)
    }

    /// What the controller knows.
    pub fn view(&self, now: Nanos) -> View {
        self.controller.view(now)
    }

    /// Whether it leads.
    pub fn leads(&self, now: Nanos) -> bool {
        self.controller.leads(now)
    }

    /// What the registry fails at, if it does.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn propose(&mut self) {
        if let Some(next) = self.controller.proposal().filter(|_| !self.is_proposed) {
            let expected = self.controller.configuration().map_or(Epoch(0), |current| current.epoch);
            self.worker.propose(expected, next.clone());
            self.is_proposed = true;
        }
    }
}
