//! TATP: subscribers with an index by number, access information, special facilities and call forwarding.

use super::{Task, value};
use base::Prng;
use protocol::chain::Transaction;

/// Hours at which a call forwarding may begin.
const STARTS: [u64; 3] = [0, 8, 16];
/// Kinds of access information, and of facilities.
const KINDS: u64 = 4;

fn subscriber(id: u64) -> String {
    format!("sub:{id:08}")
}

fn index(id: u64) -> String {
    format!("nbr:{id:015}")
}

fn access(id: u64, kind: u64) -> String {
    format!("acc:{id:08}:{kind}")
}

fn facility(id: u64, kind: u64) -> String {
    format!("fac:{id:08}:{kind}")
}

fn forwarding(id: u64, kind: u64, start: u64) -> String {
    format!("fwd:{id:08}:{kind}:{start}")
}

/// With one to four of each kind, and for each facility one forwarding.
pub(super) fn put_subscriber(id: u64, into: &mut Transaction, prng: &mut Prng) {
    let mut row = std::mem::take(into).put(subscriber(id), value(40, prng)).put(index(id), id.to_string());
    for kind in 0..=prng.below(KINDS) {
        row = row.put(access(id, kind), value(16, prng));
    }
    for kind in 0..=prng.below(KINDS) {
        let start = STARTS[prng.below(3) as usize];
        row = row.put(facility(id, kind), value(8, prng)).put(forwarding(id, kind, start), value(16, prng));
    }
    *into = row;
}

pub(super) fn task(subscribers: u64, prng: &mut Prng) -> Task {
    let id = prng.below(subscribers);
    let kind = prng.below(KINDS);
    let start = prng.below(3) as usize;
    Task::Once(match prng.below(100) {
        0..35 => Transaction::new().get(subscriber(id)),
        35..70 => Transaction::new().get(access(id, kind)),
        70..80 => {
            let read = Transaction::new().get(facility(id, kind));
            STARTS[..=start].iter().fold(read, |read, start| read.get(forwarding(id, kind, *start)))
        }
        80..82 => {
            Transaction::new().put(subscriber(id), value(40, prng)).put(facility(id, kind), value(8, prng))
        }
        82..96 => Transaction::new()
            .get(index(id))
            .if_value(index(id), id.to_string())
            .put(subscriber(id), value(40, prng)),
        96..98 => Transaction::new()
            .get(index(id))
            .get(facility(id, kind))
            .if_value(index(id), id.to_string())
            .put(forwarding(id, kind, STARTS[start]), value(16, prng)),
        _ => Transaction::new().get(index(id)).if_value(index(id), id.to_string()).delete(forwarding(
            id,
            kind,
            STARTS[start],
        )),
    })
}
