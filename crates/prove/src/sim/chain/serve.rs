//! A replica's driver: log and checkpoints become durable after a while, fail, or do not; and a controller's: what it asks of the registry.
//!
//! After each call of a replica what was appended is written, and is durable some time later; then the replica is ticked. Two are never under
//! way at once: what is appended meanwhile waits for the next, which is group commit. A checkpoint is begun after so many entries, or bytes, and
//! at once of an image that was copied; it is written a block at a time, and entries are applied in between. What a failed medium brought a
//! replica to say is not sent: it stops.

use super::disk::{self, Disk, End, Machine};
use super::registry::{Answer, Request};
use super::script::DELAY;
use super::shape::Role;
use super::world::{Actor, Happening, World};
use base::{Nanos, Picos};
use protocol::chain::{Image as _, Incarnation, Lsn, Out};
use serve::chain::disk::Progress;
use serve::chain::disk::start::Parts;
use sim::NodeSet;
use sim::faults::Trouble;
use sim::nodes::Node;
use store::image::BLOCK;
use store::redo::media::{Crashing, Fault};

/// A leader's lease with the registry, in leases of replicas.
const LEADERSHIP: u64 = 2;

/// A log that is so full keeps nothing for neighbours, as that of processes.
const SCARCE_PERCENT: u64 = 85;
/// A log that is so full needs a checkpoint.
const FULL_PERCENT: u64 = 50;

/// What a replica's driver is doing.
#[derive(Clone, Debug, Default)]
pub struct Driver {
    syncing: bool,
    /// The next step of a checkpoint is to come.
    stepping: bool,
    /// The checkpoint that is under way has an image that was copied.
    saves_copy: bool,
    /// What was applied when it, or the one before, began.
    begun: Lsn,
    /// What the newest whole one has.
    checkpointed: Lsn,
}

impl World {
    // ---- a replica's media

    /// After each call of a replica: begins what must become durable.
    pub(super) fn serve_disk(&mut self, node: Node) {
        let now = self.now();
        let index = self.index(node);
        let life = self.places[node as usize].life;
        let is_slow = self.has_trouble(node, Trouble::Slow);
        let Some(Actor::Replica(machine)) = self.places[node as usize].actor.as_mut() else { return };
        let driver = &mut self.drivers[index];
        let disk = self.disks[index].as_mut().expect("every replica has a disk");
        let made = *disk.made();
        // Long enough for a lease that was not renewed meanwhile to be over.
        let slow = is_slow.then(|| Picos(2 * self.script.lease().0));
        let after = |random: &mut base::Prng| {
            let usual = random.below(made.sync.0.max(1));
            if let Some(slow) = slow {
                return now.plus(slow).plus(Picos(usual));
            }
            now.plus(Picos(if random.below(16) == 0 { 8 * usual } else { usual }))
        };
        driver.release(machine);
        if !driver.syncing && machine.log().is_behind() {
            driver.syncing = true;
            machine.log_mut().begin_sync();
            let at = after(&mut self.luck[index]);
            self.queue.push(at, node, Happening::Synced { life });
        }
        if !driver.stepping && driver.begin_checkpoint(machine, made.checkpoint) {
            driver.stepping = true;
            let at = after(&mut self.luck[index]);
            self.queue.push(at, node, Happening::Saved { life });
        }
        if self.has_failed(node) {
            self.stop(node);
        }
    }

    /// What was being made durable is, unless the medium failed.
    pub(super) fn synced(&mut self, node: Node, life: u32) {
        if !self.lives(node, life) {
            return;
        }
        let index = self.index(node);
        self.drivers[index].syncing = false;
        let Some(Actor::Replica(machine)) = self.places[node as usize].actor.as_mut() else { return };
        machine.log_mut().end_sync();
        self.tick(node);
    }

    /// A block of a checkpoint, or the end of it, is durable, unless the medium failed.
    pub(super) fn saved(&mut self, node: Node, life: u32) {
        if !self.lives(node, life) {
            return;
        }
        let index = self.index(node);
        let driver = &mut self.drivers[index];
        driver.stepping = false;
        let Some(Actor::Replica(machine)) = self.places[node as usize].actor.as_mut() else { return };
        if let Progress::Done(redo_from) = machine.image_mut().step_checkpoint(BLOCK) {
            driver.checkpointed = redo_from;
            if driver.saves_copy && !machine.view().copying && machine.image().check().is_ok() {
                machine.checkpointed();
            }
        }
        self.tick(node);
    }

    /// Whether a replica's medium failed.
    pub(super) fn has_failed(&self, node: Node) -> bool {
        self.replica(node)
            .is_some_and(|machine| !machine.log().is_usable() || machine.image().check().is_err())
    }

    fn index(&self, node: Node) -> usize {
        (node - self.shape.clients) as usize
    }

    /// Recovery. If that fails, so does the medium, and it is tried again when it does no more; or what is there makes no sense, and it begins
    /// with nothing, as is said to whoever operates it.
    pub(super) fn open_disk(&mut self, node: Node, life: Incarnation) -> Option<Parts<Crashing>> {
        let index = self.index(node);
        let planted = self.script.planted;
        let disk = self.disks[index].as_mut().expect("every replica has a disk");
        let why = match disk.open(life, planted) {
            Ok(parts) => return Some(parts),
            Err(why) => why,
        };
        self.note(|shape| format!("{:<13} cannot start: {why}", shape.name(node)));
        if self.has_trouble(node, Trouble::Full) || self.has_trouble(node, Trouble::BadSync) {
            self.places[node as usize].has_stopped = true;
            return None;
        }
        let disk = self.disks[index].as_mut().expect("every replica has a disk");
        disk.lose();
        Some(disk.open(life, planted).expect("new media work"))
    }

    /// A replica's medium failed: it says nothing more, until somebody starts it.
    pub(super) fn stop(&mut self, node: Node) {
        self.note(|shape| format!("{:<13} stops: its medium failed", shape.name(node)));
        self.crash(node);
        self.places[node as usize].has_stopped = true;
    }

    /// Power fails: media lose what was not durable, also of processes that are gone already. Those that are there crash next.
    pub(super) fn cut_power(&mut self, nodes: NodeSet) {
        let replicas = self.shape.replicas();
        for node in nodes.iter().filter(|node| replicas.contains(node)) {
            self.end_replica(node, End::Power);
            self.places[node as usize].actor = None;
        }
    }

    /// A replica's process ends, or its machine has no power.
    pub(super) fn end_replica(&mut self, node: Node, end: End) {
        let index = (node - self.shape.clients) as usize;
        let disk = self.disks[index].as_mut().expect("every replica has a disk");
        match &self.places[node as usize].actor {
            Some(Actor::Replica(machine)) => disk.close(machine, end, &mut self.luck[index]),
            _ if end == End::Power => disk.end(end, &mut self.luck[index]),
            _ => {}
        }
        self.drivers[index] = Driver::default();
        self.watch.forget(node);
    }

    /// Does something to the media of a replica, wherever they are, if they are not lost.
    fn with_media(&mut self, node: Node, deed: impl FnOnce((&mut Crashing, &mut Crashing))) {
        let index = self.index(node);
        let disk = self.disks[index].as_mut().expect("every replica has a disk");
        if let Some(Actor::Replica(machine)) = &mut self.places[node as usize].actor {
            Disk::borrow(machine, deed);
        } else if let Some(media) = disk.media_mut() {
            deed(media);
        }
    }

    /// Something happens to a medium.
    pub(super) fn trouble(&mut self, node: Node, trouble: Trouble) {
        if !self.shape.replicas().contains(&node) {
            return;
        }
        let index = self.index(node);
        let mut luck = self.luck[index].clone();
        match trouble {
            Trouble::Rot if self.is_all_there_is() => {}
            Trouble::Rot => self.with_media(node, |media| disk::decay(media, &mut luck)),
            Trouble::Full => self.with_media(node, |media| disk::spoil(media, Fault::Full, &mut luck)),
            Trouble::BadSync => {
                let fault = if luck.below(3) == 0 { Fault::PowerCut } else { Fault::Error };
                self.with_media(node, |media| disk::spoil(media, fault, &mut luck));
            }
            Trouble::Lost => {
                self.crash(node);
                self.disks[index].as_mut().expect("every replica has a disk").lose();
                self.places[node as usize].has_stopped = true;
            }
            Trouble::Pause | Trouble::Slow => {}
        }
        self.luck[index] = luck;
    }

    /// Whether a chain behind a home is down to one replica. A decayed end of its log, which nothing says was durable, looks as one that was torn, and nobody
    /// else has it: that such a chain keeps what it acknowledged is not promised.
    fn is_all_there_is(&self) -> bool {
        let newest = self.configurations.last_key_value();
        self.behind.is_some() && newest.is_some_and(|(_, configuration)| configuration.members.len() < 2)
    }

    /// Media that failed do so no more.
    pub(super) fn heal(&mut self, node: Node) {
        if self.shape.replicas().contains(&node) {
            self.with_media(node, |(log, data)| {
                log.heal();
                data.heal();
            });
        }
    }

    // ---- a controller's registry

    /// After each call of a controller: asks the registry to store what it proposes.
    pub(super) fn serve_registry(&mut self, node: Node) {
        let place = &mut self.places[node as usize];
        let Some(Actor::Controller(controller)) = &place.actor else { return };
        let Some(proposal) = controller.proposal() else { return };
        if !place.is_storing {
            let request = Request::Store(proposal.clone());
            place.is_storing = true;
            self.ask_registry(node, request);
        }
    }

    /// A controller wants to lead, or to go on leading.
    pub(super) fn campaign(&mut self, node: Node, life: u32) {
        if !self.lives(node, life) {
            return;
        }
        let ttl = Picos(self.script.lease().0 * LEADERSHIP);
        self.ask_registry(node, Request::Lead(ttl));
        self.queue.push(self.now().plus(Picos(ttl.0 / 4)), node, Happening::Campaign { life });
    }

    fn ask_registry(&mut self, node: Node, request: Request) {
        let life = self.places[node as usize].life;
        let asked = self.read_clock(node);
        let at = self.registry_delay();
        self.queue.push(at, self.shape.count(), Happening::Asked { node, life, asked, request });
    }

    /// The registry takes its time.
    fn registry_delay(&mut self) -> Picos {
        let lease = self.script.lease().0;
        let random = &mut self.registry_luck;
        let late = if random.below(16) == 0 && !self.is_calm { random.below(lease) } else { 0 };
        self.queue.now().plus(Picos(DELAY.0 + random.below(4 * DELAY.0) + late))
    }

    /// A request reaches the registry, whatever became of who asked.
    pub(super) fn asked(&mut self, node: Node, life: u32, asked: Nanos, request: Request) {
        let Role::Controller(number) = self.shape.role(node) else { return };
        let now = self.now();
        let answer = self.registry.ask(now, (number, life), request);
        if let Some(stored) = self.registry.configuration() {
            self.configurations.entry(stored.epoch).or_insert_with(|| stored.clone());
        }
        let at = self.registry_delay();
        self.queue.push(at, node, Happening::Answered { life, asked, answer });
    }

    /// An answer of the registry reaches a controller.
    pub(super) fn answered(&mut self, node: Node, life: u32, asked: Nanos, answer: Answer) {
        if !self.lives(node, life) {
            return;
        }
        let now = self.read_clock(node);
        self.note(|shape| format!("{:<13} hears from the registry: {answer:?}", shape.name(node)));
        let ttl = Nanos(self.script.lease().0 / 1_000 * LEADERSHIP);
        // By its own clock, which may be slow, since before it asked.
        let until = asked.plus(Nanos(ttl.0 - ttl.0 * self.script.config.drift_percent / 100));
        let place = &mut self.places[node as usize];
        let Some(Actor::Controller(controller)) = &mut place.actor else { return };
        let mut out = Out::new();
        match answer {
            Answer::Lead(false, _) => {}
            Answer::Lead(true, _) if controller.leads(now) => controller.extend(until),
            Answer::Lead(true, stored) if now < until => controller.lead(now, until, stored),
            Answer::Lead(true, _) => {}
            Answer::Store(result) => {
                place.is_storing = false;
                controller.stored(now, result, &mut out);
            }
        }
        self.acted(node, &mut out);
    }
}

impl Driver {
    /// Has the log forget what the checkpoint has. A neighbour that lacks entries is given them as long as there is room; else the image.
    fn release(&self, machine: &mut Machine) {
        let is_scarce = machine.log().percent_used() >= SCARCE_PERCENT;
        let kept = if is_scarce { Lsn(u64::MAX) } else { machine.view().needed };
        machine.log_mut().release(self.checkpointed.min(Lsn(kept.0.saturating_sub(1))));
    }

    /// Whether a checkpoint is under way. Begins one that is due: there are so many new entries, or the log is full of them.
    fn begin_checkpoint(&mut self, machine: &mut Machine, entries: u64) -> bool {
        if machine.image().is_checkpointing() {
            return true;
        }
        let view = machine.view();
        let many = view.applied.0 >= self.begun.0 + entries || machine.log().percent_used() >= FULL_PERCENT;
        let is_due = view.unsaved || (many && view.applied > self.begun);
        if view.copying || !is_due || !machine.image_mut().begin_checkpoint() {
            return false;
        }
        (self.begun, self.saves_copy) = (machine.image().applied(), view.unsaved);
        true
    }
}
