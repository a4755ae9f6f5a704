//! What can be tuned of a chain: bounds and times of the machines, and when a replica writes checkpoints. `--set NAME=VALUE` sets them; times
//! must be the same at all nodes of a chain.

use base::Nanos;
use base::registers::Kind::{Count, Micros, Size, Switch};
use protocol::chain::{Config, Slots};
use std::sync::Arc;

pub use base::registers::{Register, SetError, Shown};

/// The values of a chain's registers.
pub type Registers = base::registers::Registers<Id>;

base::registers! {
    listed by "`millrace registers --chain` lists them";
    Window "chain.window" Count, 1, 1 << 20, 1024, start,
        "Transactions that the head has under way: logged and not committed.";
    WindowBytes "chain.window_bytes" Size, 2 << 20, 1 << 30, 16 << 20, start,
        "Bytes of their entries.";
    Queue "chain.queue" Count, 1, 1 << 20, 4096, start,
        "Transactions that wait at the head for keys or for the window; beyond it they are told to come later.";
    QueueBytes "chain.queue_bytes" Size, 1 << 20, 1 << 32, 64 << 20, start,
        "Bytes of their keys and values; beyond it likewise.";
    Sessions "chain.sessions" Count, 1, 1 << 20, 4096, start,
        "Sessions that the chain remembers; opening one more forgets the one used least recently.";
    SessionWindow "chain.session_window" Count, 1, 1 << 12, 64, start,
        "Requests of a session that may be under way, and replies that are remembered for each. The same for the life of a chain's data.";
    Retransmit "chain.retransmit" Micros, 100, 60_000_000, 20_000, start,
        "What is not acknowledged is sent again after this, then after twice that, and so on. More than a log takes to write.";
    RetransmitMax "chain.retransmit_max" Micros, 100, 60_000_000, 320_000, start,
        "The longest pause between two sendings.";
    ChunkBytes "chain.chunk_bytes" Size, 4 << 10, 4 << 20, 256 << 10, start,
        "Bytes of the image that a joining replica is sent at a time.";
    Chunks "chain.chunks" Count, 1, 64, 4, start,
        "How many such pieces are on their way at once.";
    Kept "chain.kept" Count, 0, 1 << 20, 4096, start,
        "Committed entries that are kept in memory for a replica that was away shortly; what is older is read from the log.";
    Heartbeat "chain.heartbeat" Micros, 1000, 60_000_000, 50_000, start,
        "How often a replica tells the controller that it lives.";
    Lease "chain.lease" Micros, 3000, 600_000_000, 500_000, start,
        "How long a replica serves reads after it asked for its lease. A replica that is silent for this and the drift is replaced.";
    Drift "chain.drift_percent" Count, 0, 50, 1, start,
        "How much the clocks of two machines may differ in speed.";
    Gather "chain.gather" Micros, 1000, 600_000_000, 2_000_000, start,
        "After all replicas were down: how long the controller waits for more of them before it goes on with those that are there.";
    Patience "chain.patience" Micros, 1000, 3_600_000_000, 10_000_000, start,
        "A client gives up after this.";
    CheckpointPercent "log.checkpoint_percent" Count, 5, 90, 50, live,
        "A replica writes a checkpoint, after which its log may forget, when so much of the log is in use.";
    CheckpointStep "log.checkpoint_step" Size, 64 << 10, 64 << 20, 1 << 20, live,
        "Bytes of a checkpoint that are written between two looks at requests.";
    Spin "wait.spin" Switch, 0, 1, 0, live,
        "Never sleep: lower latency for a whole core.";
}

/// The registers of a member, for its admin port.
pub(crate) struct Shared(pub Arc<Registers>);

impl crate::admin::Tuned for Shared {
    type Id = Id;

    fn registers(&self) -> &Registers {
        &self.0
    }
}

/// The machines' configuration for a chain.
pub fn config(chain: u32, registers: &Registers) -> Config {
    let micros = |id| Nanos::from_micros(registers.read(id));
    let size = |id| registers.size(id);
    Config {
        chain,
        // Its configuration says which it has; a controller, which those of a new chain are.
        slots: Slots::default(),
        window: size(Id::Window),
        window_bytes: size(Id::WindowBytes),
        queue: size(Id::Queue),
        queue_bytes: size(Id::QueueBytes),
        sessions: size(Id::Sessions),
        session_window: registers.read(Id::SessionWindow),
        retransmit: micros(Id::Retransmit),
        retransmit_max: micros(Id::RetransmitMax),
        chunk_bytes: size(Id::ChunkBytes),
        chunks: size(Id::Chunks),
        kept: size(Id::Kept),
        heartbeat: micros(Id::Heartbeat),
        lease: micros(Id::Lease),
        drift_percent: registers.read(Id::Drift),
        gather: micros(Id::Gather),
        patience: micros(Id::Patience),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound_and_says_what_the_machines_do_by_themselves() {
        base::registers::check::<Id>();
        let default = Config::default();
        assert_eq!(config(default.chain, &Registers::default()), default);
    }
}
