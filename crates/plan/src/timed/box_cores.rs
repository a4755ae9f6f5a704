//! M-E3: misses of one box by the number of its cores, in virtual time.
//!
//! Each core is a core of its own, which has the keys of its hashes as production gives them out; a miss costs it what a box of this kind of host pays:
//! a request taken, looked at and sent on, and the same for the reply. Clients and home bound nothing here: between the two halves passes what a home
//! that is never busy takes. So the rows say how work divides, and what the hottest key costs where popularity is skewed: it has one core, and all of
//! its misses.
//!
//! Real boxes keep the hottest keys, and their program answers them: the skewed rows are the worst case, in which nothing may be kept.

use base::{Picos, Prng};
use model::experiment::Rows;
use model::kernel::{Kernel, Service};
use model::platform::{LoadError, Platforms};
use model::system::host::Host;
use model::{ResourceId, Sim};
use protocol::coherence::boxes::shards::Shard;
use protocol::wire::key_hash;
use sim::workload::Keys;
use std::cell::Cell;
use std::rc::Rc;

const EXPERIMENT: &str = "M-E3";
const SPAN: Picos = Picos::from_millis(20);
const KEYS: u64 = 1 << 20;
/// Requests under way for each core: none waits for want of them.
const WINDOW: u64 = 32;
/// Zipf's theta: all alike, and as memcached's users are.
const SKEWS: [f64; 2] = [0.0, 0.99];

/// The experiment.
///
/// # Errors
/// `this-host` lacks a number.
pub fn run(platforms: &Platforms, seed: u64) -> Result<Rows, LoadError> {
    let platform = platforms.named("this-host")?;
    let host = Host::of(&platform)?;
    let way = host.udp_receive.plus(host.machine).plus(host.udp_send);
    let mut rows = Rows::default();
    for skew in SKEWS {
        let variant = format!("skew {skew}");
        let one = misses(way, (1, skew), seed);
        for cores in 1..=Shard::MOST {
            let count = misses(way, (cores, skew), seed);
            let point = format!("{cores} cores");
            let at = (EXPERIMENT, &*variant, &*point);
            rows.add(at, "misses", "Kops", count as f64 / SPAN.as_secs_f64() / 1e3);
            rows.add(at, "of one core", "x", count as f64 / one as f64);
        }
    }
    Ok(rows)
}

/// Misses of a box with so many cores that are done within the span; `way` is what a packet and what it causes cost.
fn misses(way: Picos, (cores, skew): (u8, f64), seed: u64) -> u64 {
    let mut kernel = Kernel::new(seed);
    let at: Vec<ResourceId> = (0..cores).map(|core| kernel.resource(&format!("core {core}"), 1)).collect();
    let sim = Sim::new(kernel);
    let (at, done) = (Rc::new(at), Rc::new(Cell::new(0)));
    let keys = Rc::new(Keys::new(KEYS, skew, seed));
    for number in 0..WINDOW * u64::from(cores) {
        let mut prng = Prng::for_entity(seed, number, 1);
        let (inner, at, done, keys) = (sim.clone(), Rc::clone(&at), Rc::clone(&done), Rc::clone(&keys));
        sim.spawn(async move {
            loop {
                let hash = key_hash(format!("key:{:08}", keys.draw(&mut prng)).as_bytes());
                let core = at[usize::from(Shard::of_hash(hash, cores))];
                inner.serve(core, Service::Fixed(way), 1).await;
                inner.sleep(way).await;
                inner.serve(core, Service::Fixed(way), 1).await;
                done.set(done.get() + 1);
            }
        });
    }
    sim.run_until(SPAN);
    sim.end_processes();
    done.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_divide_misses_of_keys_that_are_asked_for_alike() {
        let way = Picos::from_nanos(4_000);
        let [one, two, eight] = [1, 2, 8].map(|cores| misses(way, (cores, 0.0), 1) as f64);
        let most = SPAN.as_secs_f64() / (2.0 * way.as_secs_f64());
        assert!(one > 0.98 * most && one <= most, "{one} of {most}");
        // The window is the box's, and requests wait where chance sends more of them.
        assert!((1.85..=2.0).contains(&(two / one)) && (6.0..=8.0).contains(&(eight / one)), "{two} {eight}");
        let hot = misses(way, (8, 0.99), 1) as f64;
        assert!(hot < eight, "the hottest key has one core: {hot}");
    }
}
