//! Everything that crosses between host memory and accelerator memory goes through here, and is counted.
//!
//! Why a trait: today the two memories are ordinary memory and a crossing is a copy; a model of PCIe gives each one a cost
//! and a time, a GPU makes it a transfer. The verbs are those of PCIe, because the mechanisms that this crate copies were
//! built to spare them:
//!
//! | verb | who → whom | PCIe | cost there |
//! |---|---|---|---|
//! | [`write`](Crossing::write) | accelerator → host memory | posted write | one transaction, nobody waits |
//! | [`read`](Crossing::read) | accelerator ← host memory | read | one transaction, the reader waits a round trip |
//! | [`doorbell`](Crossing::doorbell) | host → accelerator | MMIO write | one transaction of the CPU's |
//! | [`notify`](Crossing::notify) | accelerator → host | posted write of a ring entry | one transaction |
//! | [`give_back`](Crossing::give_back) | host → accelerator | MMIO write to a free list | as a doorbell; counted apart |
//!
//! [`Shared`] copies and counts. [`Charged`] does the same and tells a [`Charge`] of every transaction: what a link would take for it is the charge's
//! matter, in virtual time or any other; it sees no addresses and needs no `unsafe`.
//!
//! A doorbell's and a notification's message travels in a ring of its own (`ring::pair`); the call here says that it does,
//! and how long it is. Addresses are host addresses: those are what a model translates (RPCAcc III-B, TLB).
//!
//! Invariants: a call is exactly one transaction, however long; a zero-length write or read is none and is not counted.
//! Ordering: counters are relaxed; a snapshot is exact once the threads that cross are quiet. The copies are plain: whoever
//! passes an address from one thread to another does it through a ring, whose release/acquire pair orders the bytes too.
//! Cost: two uncontended atomic additions for a write or a read, one for the others. Each direction has its own cache line,
//! since one thread rings and another one writes.
//! Sources: RPCAcc II-C, III-B, III-C.

use std::mem::MaybeUninit;
use std::ops::{Add, Sub};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The boundary between the two memories, from either side.
pub trait Crossing: Sync {
    /// The accelerator writes `bytes` to host memory at `to`: one posted transaction.
    ///
    /// # Safety
    /// `to` is the first of `bytes.len()` bytes of host memory that are the caller's to write, and that `bytes` is not in.
    unsafe fn write(&self, to: NonNull<u8>, bytes: &[u8]);

    /// The accelerator reads `into.len()` bytes of host memory at `from`: one transaction and one round trip. All of
    /// `into` is as initialised afterwards as the bytes at `from` are.
    ///
    /// # Safety
    /// `from` is the first of `into.len()` bytes of host memory that are alive, that nobody writes meanwhile, and that
    /// `into` is not in.
    unsafe fn read(&self, from: NonNull<u8>, into: &mut [MaybeUninit<u8>]);

    /// The host tells the accelerator something in one MMIO write of `bytes` bytes.
    fn doorbell(&self, bytes: usize);

    /// The accelerator tells the host something: one ring entry of `bytes` bytes.
    fn notify(&self, bytes: usize);

    /// The host returns `chunks` chunks to the accelerator's free list in one MMIO write.
    fn give_back(&self, chunks: usize);

    /// What has crossed so far.
    fn counts(&self) -> Counts;
}

/// What has crossed, or with `-` what crossed between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes of the accelerator to host memory.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Reads by the accelerator of host memory, each a round trip.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// MMIO writes of the host.
    pub doorbells: u64,
    /// Bytes of them.
    pub doorbell_bytes: u64,
    /// Entries that the accelerator wrote to rings of the host.
    pub notifications: u64,
    /// Bytes of them.
    pub notify_bytes: u64,
    /// MMIO writes that returned chunks.
    pub returns: u64,
    /// Chunks that they returned.
    pub chunks_returned: u64,
}

impl Counts {
    /// Transactions of every kind.
    pub fn transactions(&self) -> u64 {
        self.writes + self.reads + self.doorbells + self.notifications + self.returns
    }

    fn join(self, other: Counts, with: impl Fn(u64, u64) -> u64) -> Counts {
        Counts {
            writes: with(self.writes, other.writes),
            write_bytes: with(self.write_bytes, other.write_bytes),
            reads: with(self.reads, other.reads),
            read_bytes: with(self.read_bytes, other.read_bytes),
            doorbells: with(self.doorbells, other.doorbells),
            doorbell_bytes: with(self.doorbell_bytes, other.doorbell_bytes),
            notifications: with(self.notifications, other.notifications),
            notify_bytes: with(self.notify_bytes, other.notify_bytes),
            returns: with(self.returns, other.returns),
            chunks_returned: with(self.chunks_returned, other.chunks_returned),
        }
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// What crossed after `before` was taken.
    fn sub(self, before: Counts) -> Counts {
        self.join(before, |now, before| now - before)
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        self.join(other, |one, other| one + other)
    }
}

/// Two memories that are both ordinary memory: a crossing is a copy, and a count.
#[derive(Debug, Default)]
pub struct Shared {
    accelerator: FromAccelerator,
    host: FromHost,
}

/// What the accelerator's thread counts.
#[derive(Debug, Default)]
#[repr(align(64))]
struct FromAccelerator {
    writes: AtomicU64,
    write_bytes: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    notifications: AtomicU64,
    notify_bytes: AtomicU64,
}

/// What the host's threads count.
#[derive(Debug, Default)]
#[repr(align(64))]
struct FromHost {
    doorbells: AtomicU64,
    doorbell_bytes: AtomicU64,
    returns: AtomicU64,
    chunks_returned: AtomicU64,
}

impl Crossing for Shared {
    #[inline]
    unsafe fn write(&self, to: NonNull<u8>, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.accelerator.writes.fetch_add(1, Relaxed);
        self.accelerator.write_bytes.fetch_add(bytes.len() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { to.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    #[inline]
    unsafe fn read(&self, from: NonNull<u8>, into: &mut [MaybeUninit<u8>]) {
        if into.is_empty() {
            return;
        }
        self.accelerator.reads.fetch_add(1, Relaxed);
        self.accelerator.read_bytes.fetch_add(into.len() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { into.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), into.len()) }
    }

    #[inline]
    fn doorbell(&self, bytes: usize) {
        self.host.doorbells.fetch_add(1, Relaxed);
        self.host.doorbell_bytes.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    fn notify(&self, bytes: usize) {
        self.accelerator.notifications.fetch_add(1, Relaxed);
        self.accelerator.notify_bytes.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    fn give_back(&self, chunks: usize) {
        self.host.returns.fetch_add(1, Relaxed);
        self.host.chunks_returned.fetch_add(chunks as u64, Relaxed);
    }

    fn counts(&self) -> Counts {
        Counts {
            writes: self.accelerator.writes.load(Relaxed),
            write_bytes: self.accelerator.write_bytes.load(Relaxed),
            reads: self.accelerator.reads.load(Relaxed),
            read_bytes: self.accelerator.read_bytes.load(Relaxed),
            notifications: self.accelerator.notifications.load(Relaxed),
            notify_bytes: self.accelerator.notify_bytes.load(Relaxed),
            doorbells: self.host.doorbells.load(Relaxed),
            doorbell_bytes: self.host.doorbell_bytes.load(Relaxed),
            returns: self.host.returns.load(Relaxed),
            chunks_returned: self.host.chunks_returned.load(Relaxed),
        }
    }
}

/// One transaction, with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// The accelerator wrote to host memory: posted.
    Write(u64),
    /// The accelerator read host memory, and waited for it.
    Read(u64),
    /// The host told the accelerator something.
    Doorbell(u64),
    /// The accelerator told the host something.
    Notify(u64),
    /// The host returned chunks; the number is theirs.
    GiveBack(u64),
}

/// What hears of transactions, each once, in the order of the thread that made it, after its bytes have crossed.
pub trait Charge: Sync {
    /// This one took place.
    fn charge(&self, transaction: Transaction);
}

/// [`Shared`], with somebody who hears of every transaction.
#[derive(Debug, Default)]
pub struct Charged<T> {
    shared: Shared,
    charge: T,
}

impl<T: Charge> Charged<T> {
    /// Nothing has crossed yet.
    pub fn new(charge: T) -> Charged<T> {
        Charged { shared: Shared::default(), charge }
    }

    /// Who hears of transactions.
    pub fn charge(&self) -> &T {
        &self.charge
    }
}

impl<T: Charge> Crossing for Charged<T> {
    unsafe fn write(&self, to: NonNull<u8>, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.write(to, bytes) };
        if !bytes.is_empty() {
            self.charge.charge(Transaction::Write(bytes.len() as u64));
        }
    }

    unsafe fn read(&self, from: NonNull<u8>, into: &mut [MaybeUninit<u8>]) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.read(from, into) };
        if !into.is_empty() {
            self.charge.charge(Transaction::Read(into.len() as u64));
        }
    }

    fn doorbell(&self, bytes: usize) {
        self.shared.doorbell(bytes);
        self.charge.charge(Transaction::Doorbell(bytes as u64));
    }

    fn notify(&self, bytes: usize) {
        self.shared.notify(bytes);
        self.charge.charge(Transaction::Notify(bytes as u64));
    }

    fn give_back(&self, chunks: usize) {
        self.shared.give_back(chunks);
        self.charge.charge(Transaction::GiveBack(chunks as u64));
    }

    fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    impl Charge for Mutex<Vec<Transaction>> {
        fn charge(&self, transaction: Transaction) {
            self.lock().expect("no test panics with it").push(transaction);
        }
    }

    #[test]
    fn a_charge_hears_of_what_is_counted_and_of_nothing_else() {
        let charged = Charged::new(Mutex::new(Vec::new()));
        let mut host = [0_u8; 8];
        let start = NonNull::from(&mut host).cast::<u8>();
        let mut back = [MaybeUninit::new(9_u8); 3];
        // SAFETY: eight bytes are there, and only this thread touches them.
        unsafe {
            charged.write(start, &[1, 2, 3, 4, 5]);
            charged.write(start, &[]);
            charged.read(start.add(1), &mut back);
            charged.read(start, &mut []);
        }
        charged.doorbell(24);
        charged.notify(16);
        charged.give_back(3);
        let heard = charged.charge().lock().expect("no test panics with it").clone();
        use Transaction::{Doorbell, GiveBack, Notify, Read, Write};
        assert_eq!(heard, [Write(5), Read(3), Doorbell(24), Notify(16), GiveBack(3)]);
        assert_eq!(charged.counts().transactions(), heard.len() as u64);
        assert_eq!(host, [1, 2, 3, 4, 5, 0, 0, 0]);
    }

    #[test]
    fn bytes_cross_and_each_call_is_one_transaction() {
        let shared = Shared::default();
        let mut host = [0_u8; 8];
        let start = NonNull::from(&mut host).cast::<u8>();
        let mut back = [MaybeUninit::new(9_u8); 3];
        // SAFETY: eight bytes are there, and only this thread touches them.
        unsafe {
            shared.write(start, &[1, 2, 3, 4, 5]);
            shared.write(start, &[]);
            shared.read(start.add(1), &mut back);
            shared.read(start, &mut []);
        }
        // SAFETY: each was initialised, and then copied over from initialised bytes.
        assert_eq!(back.map(|byte| unsafe { byte.assume_init() }), [2, 3, 4]);
        assert_eq!(host, [1, 2, 3, 4, 5, 0, 0, 0]);
        shared.notify(16);
        let middle = shared.counts();
        shared.doorbell(24);
        shared.give_back(3);
        let first = Counts {
            writes: 1,
            write_bytes: 5,
            reads: 1,
            read_bytes: 3,
            notifications: 1,
            notify_bytes: 16,
            ..Counts::default()
        };
        let second =
            Counts { doorbells: 1, doorbell_bytes: 24, returns: 1, chunks_returned: 3, ..Counts::default() };
        assert_eq!(middle, first);
        assert_eq!(shared.counts() - middle, second);
        assert_eq!(first + second, shared.counts());
        assert_eq!(shared.counts().transactions(), 5);
    }
}
