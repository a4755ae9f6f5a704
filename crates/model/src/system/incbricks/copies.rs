//! Who has a copy of which key: the boxes' tables and the homes' directory, as the published protocol changes them.
//!
//! * A box keeps what a GET's reply brings by, and drops what an invalidation names. Nothing else fills it.
//! * A home's directory has the clients whose reads were answered since the key was written (the source addresses of the paper). Evictions
//!   are told to nobody, so it may name a client whose box has no copy any more.
//! * The paper does not say how a home learns of a copy that a root's box gave (gap G1 of its review). Here it counts as told at once: the
//!   directory is one.
//!
//! After a long run a table has the most wanted of the keys that come by it ([`Copies::new`] begins with them, their counts in proportion to how
//! wanted they are); which of them have a value just now is what [`Copies::settle`] plays, without time.

use super::lfu::{HIGHEST, Lfu};
use super::rack::{Deployment, ROOTS, Rack, TORS};
use crate::platform::{LoadError, Platform};
use crate::random::power;
use base::Prng;
use base::zipf::Zipf;

/// Reads and writes of keys.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Of popularity.
    pub zipf: Zipf,
    /// Its theta.
    pub skew: f64,
    /// Share of reads.
    pub reads: f64,
}

impl Traffic {
    /// The platform's, with this skew.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform, skew: f64) -> Result<Traffic, LoadError> {
        let keys = platform.count("load.keys")?;
        Ok(Traffic { zipf: Zipf::new(keys, skew), skew, reads: platform.ratio("load.reads")? })
    }
}

/// A key, where it lives, and over which root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Of all homes together.
    pub number: u32,
    /// Its server.
    pub home: usize,
    /// The root that is designated for it.
    pub root: usize,
}

/// Entries of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// Of each ToR's box.
    pub tor: u64,
    /// Of each root's.
    pub root: u64,
}

impl Entries {
    /// The platform's.
    ///
    /// # Errors
    /// The platform lacks a number.
    pub fn new(platform: &Platform) -> Result<Entries, LoadError> {
        Ok(Entries { tor: platform.count("cache.tor_entries")?, root: platform.count("cache.root_entries")? })
    }
}

/// Copies.
#[derive(Clone, Debug)]
pub struct Copies {
    boxes: Vec<Lfu>,
    /// By key: a bit for each client.
    sharers: Vec<u32>,
}

impl Copies {
    /// Every box has the most wanted keys that come by it.
    pub fn new(rack: &Rack, traffic: &Traffic, entries: Entries) -> Copies {
        let mut copies = Copies::empty(rack, traffic, entries);
        let mut left: Vec<usize> = copies.boxes.iter().map(Lfu::room).collect();
        let largest = entries.tor.max(entries.root);
        // No box is passed by fewer than one in `ROOTS` of the keys, unless none of them passes it.
        for rank in 0..traffic.zipf.ranks().min(largest * ROOTS as u64) {
            // Of the least wanted two uses are known, of others more.
            let wanted = power(largest as f64 / (rank + 1) as f64, traffic.skew);
            let uses = (2.0 * wanted).clamp(2.0, f64::from(HIGHEST)) as u16;
            for client in 0..rack.client_tors() {
                let key = Copies::key(rack, traffic, client, rank);
                for at in rack.switches(client, key.home, key.root).iter().copied() {
                    if left[at] > 0 && !copies.boxes[at].has(key.number) {
                        left[at] -= 1;
                        copies.boxes[at].put_used(key.number, uses);
                        copies.share(key, client);
                    }
                }
            }
        }
        copies
    }

    /// No box has anything.
    pub fn empty(rack: &Rack, traffic: &Traffic, entries: Entries) -> Copies {
        let boxes = (0..TORS + ROOTS).map(|at| Lfu::new(if at < TORS { entries.tor } else { entries.root }));
        // Within clusters each server has all keys to itself; else they are spread over all servers.
        let spaces = if rack.deployment == Deployment::Within { rack.servers() as u64 } else { 1 };
        Copies { boxes: boxes.collect(), sharers: vec![0; (traffic.zipf.ranks() * spaces) as usize] }
    }

    /// The key of this rank, for a client.
    pub fn key(rack: &Rack, traffic: &Traffic, client: usize, rank: u64) -> Key {
        let servers = rack.servers() as u64;
        let (home, number) = match rack.deployment {
            Deployment::Within => {
                let home = rack.tor_of(client) as u64;
                (home, home * traffic.zipf.ranks() + rank)
            }
            Deployment::Cross | Deployment::Full => (rank % servers, rank),
        };
        Key { number: number as u32, home: home as usize, root: (rank / servers) as usize % ROOTS }
    }

    /// Uses a box's copy; whether there is one.
    pub fn touch(&mut self, at: usize, key: Key) -> bool {
        self.boxes[at].touch(key.number)
    }

    /// Whether there is one.
    pub fn has(&self, at: usize, key: Key) -> bool {
        self.boxes[at].has(key.number)
    }

    /// A reply comes by a box.
    pub fn keep(&mut self, at: usize, key: Key) {
        self.boxes[at].put(key.number);
    }

    /// An invalidation comes by.
    pub fn drop_copy(&mut self, at: usize, key: Key) {
        self.boxes[at].invalidate(key.number);
    }

    /// A client was answered by a home or root.
    pub fn share(&mut self, key: Key, client: usize) {
        self.sharers[key.number as usize] |= 1 << client;
    }

    /// Clients that are to be told; there are none after that.
    pub fn take_sharers(&mut self, key: Key) -> impl Iterator<Item = usize> + use<> {
        let bits = std::mem::take(&mut self.sharers[key.number as usize]);
        (0..u32::BITS as usize).filter(move |client| bits >> client & 1 == 1)
    }

    /// `operations` of all clients, one after the other, without time.
    pub fn settle(&mut self, rack: &Rack, traffic: &Traffic, operations: u64, prng: &mut Prng) {
        for _ in 0..operations {
            let client = prng.below(rack.clients() as u64) as usize;
            let key = Copies::key(rack, traffic, client, traffic.zipf.sample(prng));
            let path = rack.switches(client, key.home, key.root);
            if prng.unit_f64() < traffic.reads {
                self.read(&path, key, client);
            } else {
                for sharer in self.take_sharers(key) {
                    let path = rack.switches(sharer, key.home, key.root);
                    path.iter().for_each(|at| self.drop_copy(*at, key));
                }
            }
        }
    }

    fn read(&mut self, path: &[usize], key: Key, client: usize) {
        let found = path.iter().position(|at| self.touch(*at, key));
        if found != Some(0) {
            self.share(key, client);
        }
        for at in &path[..found.unwrap_or(path.len())] {
            self.keep(*at, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::shipped;

    fn hit_share(entries: u64, skew: f64) -> f64 {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        let platform = platform.with("load.keys", 20_000.0);
        let rack = Rack::new(&platform, Deployment::Within, 1).expect("it is complete");
        let traffic = Traffic::new(&platform, skew).expect("it is complete");
        let mut copies = Copies::new(&rack, &traffic, Entries { tor: entries, root: 0 });
        let prng = &mut Prng::new(7);
        copies.settle(&rack, &traffic, 200_000, prng);
        let hits = (0..20_000).filter(|i| {
            let key = Copies::key(&rack, &traffic, i % 20, traffic.zipf.sample(prng));
            copies.has(rack.tor_of(i % 20), key)
        });
        hits.count() as f64 / 20_000.0
    }

    #[test]
    fn more_entries_and_more_skew_answer_more() {
        let by_size = [64, 256, 1024, 4096].map(|entries| hit_share(entries, 0.99));
        assert!(by_size.windows(2).all(|pair| pair[0] < pair[1]), "{by_size:?}");
        let by_skew = [0.01, 0.5, 0.8, 0.99].map(|skew| hit_share(1024, skew));
        assert!(by_skew.windows(2).all(|pair| pair[0] < pair[1]), "{by_skew:?}");
    }

    #[test]
    fn after_a_write_no_box_has_the_key() {
        let platform = shipped("xpliant-octeon").expect("it is shipped").expect("it is sound");
        for deployment in [Deployment::Within, Deployment::Cross, Deployment::Full] {
            let rack = Rack::new(&platform, deployment, 1).expect("it is complete");
            let traffic = Traffic { reads: 1.0, ..Traffic::new(&platform, 0.99).expect("it is complete") };
            let mut copies = Copies::new(&rack, &traffic, Entries { tor: 64, root: 256 });
            copies.settle(&rack, &traffic, 20_000, &mut Prng::new(3));
            assert!((0..TORS).any(|at| copies.boxes[at].len() == 64), "{deployment:?}");
            for rank in 0..traffic.zipf.ranks() {
                for client in 0..rack.client_tors() {
                    let key = Copies::key(&rack, &traffic, client, rank);
                    for sharer in copies.take_sharers(key) {
                        let path = rack.switches(sharer, key.home, key.root);
                        path.iter().for_each(|at| copies.drop_copy(*at, key));
                    }
                }
            }
            assert!(copies.boxes.iter().all(Lfu::is_empty), "{deployment:?}");
        }
    }
}
