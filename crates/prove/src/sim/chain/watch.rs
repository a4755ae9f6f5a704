//! What must hold after every event, seen from above all nodes.
//!
//! 1. All replicas apply the same entries: whoever applies an LSN applies what the first did that applied it.
//! 2. What is committed is durable in the log of every member that serves in the configuration in which it was committed, unless its medium was lost since.
//! 3. An image is, byte for byte, what the committed entries make of an empty one.
//! 4. `applied ≤ committed ≤ last` and `durable ≤ last` at each replica; tables are never fuller than they were made.
//! 5. What a client is told of a write is committed.
//! 6. No two nodes are head, or tail, in one epoch.

use super::disk::{SimImage, empty};
use super::world::World;
use protocol::chain::message::RequestId;
use protocol::chain::replica::View;
use protocol::chain::{Entry, Image as _, Key, Log as _, Lsn, Outcome, Space};
use sim::nodes::Node;
use std::collections::{BTreeMap, HashMap};

/// What is known of all that is committed.
#[derive(Debug)]
pub struct Watch {
    /// Committed entries: that of LSN n is at n − 1.
    entries: Vec<Entry>,
    /// What they make of an empty image, and what it was after each.
    image: SimImage,
    digests: Vec<u64>,
    requests: HashMap<RequestId, Lsn>,
    /// Up to where each replica's image was looked at, by node.
    looked: BTreeMap<Node, Lsn>,
    heads: BTreeMap<u64, Node>,
    tails: BTreeMap<u64, Node>,
    /// What was answered to requests that write, where that is kept: with the window of sessions.
    outcomes: Option<(u64, HashMap<RequestId, Outcome>)>,
}

impl Watch {
    /// Of a world in which nothing has happened.
    pub fn new() -> Watch {
        let image = empty();
        let digests = vec![image.digest()];
        Watch {
            entries: Vec::new(),
            image,
            digests,
            requests: HashMap::new(),
            looked: BTreeMap::new(),
            heads: BTreeMap::new(),
            tails: BTreeMap::new(),
            outcomes: None,
        }
    }

    /// Where a request was done, if it was.
    pub fn lsn_of(&self, id: RequestId) -> Option<Lsn> {
        self.requests.get(&id).copied()
    }

    /// From now on it is kept what was answered to requests, of sessions with this window.
    pub fn keep_outcomes(&mut self, window: u64) {
        self.outcomes = Some((window, HashMap::new()));
    }

    /// What was answered to a request that was done, whoever knows.
    pub fn outcome_of(&self, id: RequestId) -> Option<&Outcome> {
        self.outcomes.as_ref()?.1.get(&id)
    }

    /// The version and value of a key, as of all that is committed.
    pub fn read(&self, key: &[u8]) -> Option<(Lsn, Vec<u8>)> {
        let item = self.image.read(&Key { space: Space::User, bytes: key.to_vec() })?;
        Some((item.version, item.value.to_vec()))
    }

    /// What an entry has the image remember of its request.
    fn note_outcome(&mut self, id: RequestId) {
        let Some((window, outcomes)) = &mut self.outcomes else { return };
        let mut bytes = id.session.to_bytes().to_vec();
        bytes.extend_from_slice(&(id.sequence % *window).to_be_bytes());
        let remembered = self.image.read(&Key { space: Space::Reply, bytes });
        let outcome = remembered.and_then(|item| Outcome::parse(item.value.get(8..)?));
        outcomes.extend(outcome.map(|outcome| (id, outcome)));
    }

    /// The last entry that is known to be committed.
    pub fn committed(&self) -> Lsn {
        Lsn(self.entries.len() as u64)
    }

    /// A life of a replica is over.
    pub fn forget(&mut self, node: Node) {
        self.looked.remove(&node);
    }

    /// Somebody applied this entry; the first one makes it the committed one.
    fn applied(&mut self, entry: &Entry) -> Result<(), String> {
        let lsn = entry.lsn;
        if lsn > self.committed().next() {
            return Err(format!("LSN {} is applied before {}", lsn.0, self.committed().0 + 1));
        }
        if lsn <= self.committed() {
            let known = &self.entries[lsn.0 as usize - 1];
            let same = (known.session, known.sequence, &known.tuples)
                == (entry.session, entry.sequence, &entry.tuples);
            return if same {
                Ok(())
            } else {
                Err(format!("LSN {} is {entry:?} here, and was {known:?}", lsn.0))
            };
        }
        self.image.apply(lsn, &entry.tuples).map_err(|bad| format!("LSN {} does not fit: {bad:?}", lsn.0))?;
        self.digests.push(self.image.digest());
        let id = RequestId { session: entry.session, sequence: entry.sequence };
        self.entries.push(entry.clone());
        self.note_outcome(id);
        match self.requests.insert(id, lsn) {
            Some(before) if entry.session.0 != 0 => {
                Err(format!("{id:?} is done twice, at LSN {} and {}", before.0, lsn.0))
            }
            _ => Ok(()),
        }
    }
}

impl World {
    /// Looks at a replica to which something happened.
    pub(super) fn look_at_replica(&mut self, node: Node) {
        let Some(machine) = self.replica(node) else { return };
        let view = machine.view();
        let name = self.shape.name(node);
        if view.broken || machine.log().check().is_err() {
            return self.broken(format!("{name}: an entry fits neither image nor log: {view:?}"));
        }
        if let Err(what) = self.check_view(node, &view) {
            return self.broken(format!("{name}: {what}"));
        }
        if view.applied > view.committed
            || view.committed > view.last.max(view.applied)
            || view.durable > view.last
        {
            return self.broken(format!("{name} contradicts itself: {view:?}"));
        }
        if let Err(what) = self.look_at_image(node, &view) {
            self.broken(format!("{name}: {what}"));
        }
    }

    fn check_view(&mut self, node: Node, view: &View) -> Result<(), String> {
        let config = &self.script.config;
        if view.waiting > config.queue || view.under_way > config.window {
            return Err(format!("its tables are overfull: {view:?}"));
        }
        let epoch = view.epoch.0;
        for (is_it, of, what) in
            [(view.is_head, &mut self.watch.heads, "head"), (view.is_tail, &mut self.watch.tails, "tail")]
        {
            if is_it && *of.entry(epoch).or_insert(node) != node {
                return Err(format!("a second {what} of epoch {epoch}"));
            }
        }
        Ok(())
    }

    /// What was applied since it was looked at last.
    fn look_at_image(&mut self, node: Node, view: &View) -> Result<(), String> {
        let before = self.watch.looked.get(&node).copied().unwrap_or_default();
        if view.applied == before || view.copying {
            return Ok(());
        }
        let Some(machine) = self.replica(node).filter(|machine| machine.image().is_indexed()) else {
            return Ok(());
        };
        let first = before.next().max(machine.log().first());
        let entries: Vec<Entry> =
            (first.0..=view.applied.0).filter_map(|lsn| self.read_anywhere(node, Lsn(lsn))).collect();
        let digest = machine.image().digest();
        let known = self.watch.committed();
        for entry in &entries {
            self.watch.applied(entry)?;
        }
        if self.watch.committed() > known {
            self.check_durable(view)?;
        }
        self.watch.looked.insert(node, view.applied);
        match self.watch.digests.get(view.applied.0 as usize) {
            Some(right) if *right == digest => Ok(()),
            Some(_) => Err(format!("its image is not what the entries up to LSN {} make", view.applied.0)),
            None => Err(format!("its image has LSN {}, which nobody has committed", view.applied.0)),
        }
    }

    /// Whether a replica has entries to apply that neither it nor another can read.
    fn lacks_for_good(&self, node: Node) -> bool {
        let Some(view) = self.replica(node).map(|machine| machine.view()) else { return false };
        let mut missing = view.applied.next().0..=view.last.0;
        view.missing > 0 && missing.any(|lsn| self.read_anywhere(node, Lsn(lsn)).is_none())
    }

    /// An entry that a replica has, or had: what decayed in its log may be in another's.
    fn read_anywhere(&self, node: Node, lsn: Lsn) -> Option<Entry> {
        let others = self.shape.replicas().filter(|other| *other != node);
        std::iter::once(node).chain(others).find_map(|node| self.replica(node)?.log().read(lsn))
    }

    /// Something is committed that was not: all members of this epoch have it.
    fn check_durable(&self, view: &View) -> Result<(), String> {
        let Some(configuration) = self.configurations.get(&view.epoch) else { return Ok(()) };
        for member in configuration.serving() {
            let Some(node) = self.shape.node_of_replica(member.replica) else { continue };
            let place = &self.places[node as usize];
            let disk = self.disks[(node - self.shape.clients) as usize].as_ref();
            let durable = match self.replica(node) {
                Some(machine) if machine.incarnation() == member.incarnation => machine.log().durable(),
                // Another life: what it lost is another rule's business.
                _ => continue,
            };
            let is_copying = self.replica(node).is_some_and(|machine| machine.view().copying);
            if durable < view.applied && !is_copying && disk.is_some() {
                return Err(format!(
                    "it commits LSN {}, of which {} (life {}) has only {} durable",
                    view.applied.0,
                    self.shape.name(node),
                    place.life,
                    durable.0
                ));
            }
        }
        Ok(())
    }

    /// A client was told that its write is done.
    pub(super) fn check_committed(&mut self, lsn: Lsn, number: usize) {
        if lsn > self.watch.committed() {
            self.broken(format!(
                "operation {number} is answered as LSN {}, which nobody has committed",
                lsn.0
            ));
        }
    }

    /// The nodes of the replicas that belong to the chain, as the last order has it.
    pub(super) fn belonging(&self) -> Vec<Node> {
        let stored = self.registry.configuration().filter(|stored| !stored.roster.is_empty());
        let ids = match stored {
            Some(stored) => stored.roster.iter().map(|at| at.replica).collect(),
            None => self.shape.replica_ids(),
        };
        ids.into_iter().filter_map(|id| self.shape.node_of_replica(id)).collect()
    }

    /// When all is well every replica that belongs to the chain serves, by the same configuration.
    pub(in crate::sim) fn check_all_serve(&mut self) {
        let Some(stored) = self.registry.configuration().cloned() else {
            return self.broken("there is no configuration".to_string());
        };
        for node in self.belonging() {
            let view = self.replica(node).map(|machine| machine.view());
            let serves = view.as_ref().is_some_and(|view| {
                view.epoch == stored.epoch && view.part == Some(protocol::chain::Part::Serving)
            });
            if !serves {
                let what = format!(
                    "{} does not serve though all is well since long: {view:?} in {stored:?}",
                    self.shape.name(node)
                );
                return self.broken(what);
            }
        }
    }

    /// At rest every replica that is up and belongs to the chain has applied all that is committed.
    pub(in crate::sim) fn check_images(&mut self) {
        let committed = self.watch.committed();
        for node in self.belonging() {
            let Some(view) = self.replica(node).map(|machine| machine.view()) else { continue };
            if view.applied != committed {
                return self.broken(format!(
                    "{} has applied {} of {}",
                    self.shape.name(node),
                    view.applied.0,
                    committed.0
                ));
            }
        }
    }

    /// Whether no replica can have everything that was answered: media were lost, or what decayed is nowhere else.
    pub(in crate::sim) fn is_lost(&self) -> bool {
        let Some(stored) = self.registry.configuration() else { return false };
        stored.serving().all(|member| {
            let Some(node) = self.shape.node_of_replica(member.replica) else { return false };
            let disk = self.disks[(node - self.shape.clients) as usize].as_ref();
            disk.is_some_and(|disk| disk.has_lost_since(member.incarnation)) || self.lacks_for_good(node)
        })
    }
}
