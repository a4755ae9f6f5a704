//! The service of a soak: it notes each call that it runs, by number, and answers what only this call is answered with.
//!
//! A request is the client's number, the call's, and bytes that follow from both; so is a reply, with other bytes.
//!
//! Other ledgers hold other promises: `bench::load::ledger` that a value read was written, `soak::ledger` which states a key may have after deaths.
//!
//! Bounds: a bit for each call, [`MOST`] calls of a client.

use base::prng::mix64;
use fabric::service::{Incoming, MethodDescriptor, Service, ServiceDescriptor};
use fabric::status::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of one client.
pub(super) const MOST: u32 = 1 << 26;

/// Which calls ran.
pub(super) struct Ledger {
    ran: Vec<Box<[AtomicU64]>>,
    again: AtomicU64,
}

impl Ledger {
    pub(super) fn new(clients: usize) -> Ledger {
        let bits = || (0..MOST / 64).map(|_| AtomicU64::new(0)).collect();
        Ledger { ran: (0..clients).map(|_| bits()).collect(), again: AtomicU64::new(0) }
    }

    /// Notes a call; false if there is no such client or number.
    fn note(&self, client: u32, call: u32) -> bool {
        let Some(word) = self.word(client, call) else { return false };
        let bit = 1 << (call % 64);
        // Relaxed: the reply that a client looks at this for comes over a link, which orders the two.
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Whether a call ran.
    pub(super) fn has_run(&self, client: u32, call: u32) -> bool {
        self.word(client, call).is_some_and(|word| word.load(Ordering::Relaxed) >> (call % 64) & 1 != 0)
    }

    /// Calls that ran, and how many did again.
    pub(super) fn totals(&self) -> (u64, u64) {
        let words = self.ran.iter().flat_map(|bits| bits.iter());
        let ran = words.map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        (ran, self.again.load(Ordering::Relaxed))
    }

    fn word(&self, client: u32, call: u32) -> Option<&AtomicU64> {
        self.ran.get(client as usize)?.get(call as usize / 64)
    }
}

/// The request of a call.
pub(super) fn request(client: u32, call: u32, into: &mut Vec<u8>) {
    write(client, call, 1, into);
}

/// The reply that it is to have.
pub(super) fn reply(client: u32, call: u32, into: &mut Vec<u8>) {
    write(client, call, 2, into);
}

fn write(client: u32, call: u32, what: u64, into: &mut Vec<u8>) {
    let word = mix64(u64::from(client) << 32 ^ u64::from(call) ^ what << 56);
    // Most fit a slot, some do not, and a few are longer than a datagram.
    let len = match word % 1024 {
        0 => 20_000,
        1..128 => 200 + word as usize / 1024 % 1000,
        _ => word as usize / 1024 % 64,
    };
    into.clear();
    into.extend_from_slice(&client.to_le_bytes());
    into.extend_from_slice(&call.to_le_bytes());
    into.extend_from_slice(&word.to_le_bytes());
    into.resize(into.len() + len, word as u8);
}

pub(super) const METHOD: &str = "millrace.Soak/Count";

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "millrace.Soak",
    methods: &[MethodDescriptor::new("Count", false, false)],
    hash: 0,
    descriptors: b"",
};

/// What is served.
pub(super) struct Soaking(pub(super) Arc<Ledger>);

impl Service for Soaking {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body();
        let word = |at: usize| body.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (Some(client), Some(number)) = (word(0), word(4)) else {
            return Err(Status::new(Code::DataLoss, "a request without its number"));
        };
        let mut bytes = Vec::new();
        request(client, number, &mut bytes);
        if body != bytes || !self.0.note(client, number) {
            return Err(Status::new(Code::DataLoss, format!("request {number} is not what was sent")));
        }
        reply(client, number, &mut bytes);
        call.reply_bytes(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_twice_is_seen() {
        let ledger = Ledger::new(2);
        assert!(ledger.note(0, 5) && ledger.note(1, 5) && ledger.note(1, 6));
        assert_eq!((ledger.totals(), ledger.has_run(0, 5), ledger.has_run(0, 6)), ((3, 0), true, false));
        assert!(ledger.note(1, 6));
        assert_eq!(ledger.totals(), (3, 1));
        assert!(!ledger.note(2, 0) && !ledger.note(0, MOST));
    }

    #[test]
    fn calls_are_told_apart() {
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        request(0, 1, &mut one);
        for (client, call) in [(0, 2), (1, 1)] {
            request(client, call, &mut other);
            assert_ne!(one, other);
        }
        reply(0, 1, &mut other);
        assert_ne!(one, other);
    }
}
