//! What can be tuned of an in-network cache: leases, timeouts, sizes. The file of a topology sets them for all its nodes, for leases
//! must agree.

use base::registers::Kind::{Choice, Count, Micros, Size};
use base::{Bytes, Nanos};
use protocol::coherence::{Compute, Config, Policy};

pub use base::registers::{Register, SetError, Shown};

/// The values of the cache's registers.
pub type Registers = base::registers::Registers<Id>;

base::registers! {
    listed by "`millrace registers --inc` lists them";
    Lease "coherence.lease" Micros, 1000, 3_600_000_000, 500_000, start,
        "How long a box may keep a copy; also the longest that a write waits for a dead box, and that a home is silent after a restart.";
    MinGrant "coherence.min_grant" Micros, 1, 3_600_000_000, 20_000, start,
        "An upper box with less left of its lease asks for a new one, rather than to grant the rest to those below it.";
    Retransmit "coherence.retransmit" Micros, 100, 60_000_000, 5_000, start,
        "What is not answered is sent again after this, then after twice that, and so on.";
    RetransmitMax "coherence.retransmit_max" Micros, 100, 60_000_000, 100_000, start,
        "The longest pause between two sendings.";
    Placement "coherence.policy" Choice(&["inclusive", "exclusive"]), 0, 1, 0, start,
        "inclusive: every box on the way keeps a copy. exclusive: a box leaves it to the one below and stays its directory; better with one box below, worse with several.";
    Admission "coherence.admission" Count, 0, 16, 0, start,
        "A box keeps what was asked for so often lately; 0 and 1 are everything.";
    Copies "coherence.copies" Count, 1, 1 << 22, 4096, start,
        "Items that a box keeps.";
    Fills "coherence.fills" Count, 1, 1 << 20, 1024, start,
        "Answers that a box waits for in order to keep them.";
    FillPatience "coherence.fill_patience" Micros, 100, 60_000_000, 100_000, start,
        "How long it waits.";
    Holders "coherence.holders" Count, 1, 1 << 26, 1 << 20, start,
        "Keys that a home or box has in its directory of who keeps copies; beyond it nothing is granted.";
    Rounds "coherence.rounds" Count, 1, 1 << 20, 1 << 12, start,
        "Invalidations that a home or box has under way; beyond it writes are told to come later.";
    Queue "coherence.queue" Count, 1, 1 << 20, 1 << 14, start,
        "Writes that wait at a home.";
    QueuePerKey "coherence.queue_per_key" Count, 1, 1 << 20, 1 << 10, start,
        "Writes that wait for one key.";
    Sessions "coherence.sessions" Count, 1, 1 << 20, 1 << 12, start,
        "Clients that a home tells apart; beyond it those not heard of for longest begin anew.";
    Window "coherence.window" Count, 1, 1 << 16, 256, start,
        "Writes of one client that a home can tell apart, from its oldest under way to its newest.";
    Operations "coherence.operations" Count, 1, 1 << 16, 256, start,
        "Operations that a client has under way.";
    Patience "coherence.patience" Micros, 1000, 3_600_000_000, 3_000_000, start,
        "A client gives an operation up after this.";
    Bypass "coherence.bypass" Micros, 0, 3_600_000_000, 500_000, start,
        "How long a client passes a silent box by.";
    Worth "coherence.worth" Count, 0, 99, 10, start,
        "Percent of its reads that a client's box must answer; below that the client asks the home, and the box for one read in eight. 0: always the box.";
    Computing "coherence.compute" Choice(&["at_home", "try_first", "own_lossy"]), 0, 2, 1, start,
        "Where operations that compute are done. at_home: at the home. try_first: those that may change nothing (cond_put, cas, add, append, min, max, or) first in a box's copy. own_lossy: incr, decr, cond_put, min, max and or in the client's box, to which the home gives a key that is asked for again and again; a box that dies takes the keys with it that it has then, acknowledged increments included.";
    Owned "coherence.owned" Count, 1, 1 << 20, 256, start,
        "Keys that a box has at a time with coherence.compute = own_lossy.";
    Heartbeat "coherence.heartbeat" Micros, 1000, 60_000_000, 50_000, start,
        "How often the controller asks for signs of life.";
    Health "coherence.health" Micros, 1000, 600_000_000, 200_000, start,
        "Whoever was silent for this long is taken for dead.";
    Cores "coherence.cores" Count, 1, 8, 1, start,
        "Cores of a box: so many threads, each with the keys of its hashes, its share of coherence.copies and of all other places, and its socket at the box's port.";
    Memory "coherence.memory" Size, 1 << 20, 1 << 40, 64 << 20, start,
        "Bytes of memory that a home of its own process has for items, their index included; beyond it those not asked for lately go.";
    Filter "coherence.filter" Count, 0, 255, 0, start,
        "A box's XDP program sends a client's GET of a key that it does not have on to the home, without waking the box, until the key was seen so often lately; 0 and 1: the box hears of all.";
    PadWaste "coherence.pad_waste" Count, 0, 10_000, 100, start,
        "Rust clients pad GETs so that a box's XDP program can write long values over them: so many bytes in vain for a hundred useful ones; 0: never.";
    ValueMax "coherence.value_max" Size, 65_056, 128 << 20, 1 << 20, start,
        "Bytes of the longest value that Rust clients and proxies read or write, if homes have streams: what is too long for a packet goes by them.";
}

/// The machines' configuration.
pub fn config(registers: &Registers) -> Config {
    let micros = |id| Nanos::from_micros(registers.read(id));
    let size = |id| registers.size(id);
    Config {
        lease: micros(Id::Lease),
        min_grant: micros(Id::MinGrant),
        retransmit: micros(Id::Retransmit),
        retransmit_max: micros(Id::RetransmitMax),
        policy: if registers.is_on(Id::Placement) { Policy::Exclusive } else { Policy::Inclusive },
        admission: registers.read(Id::Admission) as u32,
        copies: size(Id::Copies),
        fills: size(Id::Fills),
        fill_patience: micros(Id::FillPatience),
        holders: size(Id::Holders),
        rounds: size(Id::Rounds),
        queue: size(Id::Queue),
        queue_per_key: size(Id::QueuePerKey),
        sessions: size(Id::Sessions),
        window: registers.read(Id::Window),
        operations: size(Id::Operations),
        patience: micros(Id::Patience),
        bypass: micros(Id::Bypass),
        worth: registers.read(Id::Worth) as u32,
        compute: match registers.read(Id::Computing) {
            0 => Compute::AtHome,
            1 => Compute::TryFirst,
            _ => Compute::Own,
        },
        owned: size(Id::Owned),
        heartbeat: micros(Id::Heartbeat),
        health: micros(Id::Health),
    }
}

/// Cores of a box.
pub fn cores(registers: &Registers) -> u8 {
    registers.read(Id::Cores) as u8
}

/// Sights of a key before a box's XDP program tells the box of it.
pub fn filter(registers: &Registers) -> u8 {
    registers.read(Id::Filter) as u8
}

/// Bytes that clients pad in vain, for a hundred useful ones.
pub fn pad_waste(registers: &Registers) -> u64 {
    registers.read(Id::PadWaste)
}

/// Bytes of the longest value that clients read or write by streams.
pub fn value_max(registers: &Registers) -> usize {
    registers.size(Id::ValueMax)
}

/// Bytes of items that a home keeps.
pub fn memory(registers: &Registers) -> Bytes {
    Bytes(registers.read(Id::Memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound_and_says_what_the_machines_do_by_themselves() {
        base::registers::check::<Id>();
        assert_eq!(config(&Registers::default()), Config::default());
    }
}
