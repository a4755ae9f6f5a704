//! What a step of an edge takes: its acts, in their order, at the processors of the node.
//!
//! | act | takes |
//! |---|---|
//! | a step | a look at all sockets |
//! | a read, a write | the call, and its bytes at the pace of the kernel's copying |
//! | requests that an edge takes to where they are executed | the code around sockets and store, each |
//! | requests handed to a core | see below; replies come back the same way |
//! | an access of so many requests at once | a miss of the working set, and a line's time for each other |
//! | requests executed | a GET's code in the first-level cache each, and what was read at the pace of memory |
//!
//! Handing over: half a message of the ring at the edge, a line to the other processor, the thread's wake-up, the other half there. What was read counts as
//! stored: of a GET that is its key, a nanosecond.

use super::World;
use base::Picos;
use model::platform::transfer;
use model::system::host::Link;
use protocol::planted::Bugs;
use serve::kv::by_hand::{Act, Planted};

/// What is under way in a step.
struct Played {
    /// Work since the processor was had last.
    busy: Picos,
    /// Bytes that were read and not yet executed.
    read: u64,
    /// The core that goes on, and since when the edge waits for it.
    core: Option<(usize, Picos)>,
    /// Requests of its pass.
    passed: u64,
}

impl<B: Bugs<Planted> + 'static> World<B> {
    /// Plays the acts of a step of this edge.
    pub(super) async fn play(&self, acts: &[Act]) {
        let mut played = Played { busy: self.host.epoll, read: 0, core: None, passed: 0 };
        for (at, act) in acts.iter().enumerate() {
            match *act {
                Act::Read(bytes) => {
                    played.read += bytes as u64;
                    played.add(self.host.receiving(Link::Tcp, bytes as u64));
                }
                Act::Core(core) => {
                    played.passed = admitted_by(&acts[at + 1..]);
                    if played.passed > 0 {
                        self.hand_over(&mut played, core).await;
                    }
                }
                Act::Edge => self.take_back(&mut played).await,
                Act::Admitted(count) if played.core.is_none() => {
                    played.add(Picos(self.host.request.0 * count as u64));
                    self.count(|counts| counts.requests += count as u64);
                }
                Act::Admitted(count) => self.count(|counts| counts.requests += count as u64),
                Act::Touched(count) => played.add(self.host.misses(self.working_set, count as u64)),
                Act::Executed(count) => {
                    let read = std::mem::take(&mut played.read);
                    played.add(Picos(self.host.get.0 * count as u64));
                    played.add(transfer(read, self.host.stream));
                }
                Act::Sent(client, bytes) => {
                    played.add(self.host.sending(Link::Tcp, bytes as u64));
                    self.work(&mut played).await;
                    if bytes > 0 {
                        self.deliver(client, bytes).await;
                    }
                }
            }
        }
        self.work(&mut played).await;
        self.count(|counts| counts.steps += 1);
    }

    /// What is to be done is done, at a processor of the node.
    async fn work(&self, played: &mut Played) {
        self.pay(self.processors[0], std::mem::take(&mut played.busy)).await;
    }

    /// A line of memory goes to the other processor.
    async fn line_over(&self) {
        self.sim.sleep(Picos(self.host.ping_pong.0 / 2)).await;
    }

    /// A thread of the node that has waited since then goes on.
    async fn woken(&self, since: Picos) {
        let how = self.host.wake_within(self.threads.processors < 2);
        if let Some(way) = how.way_of(self.sim.now().since(since), self.threads.ring_awake) {
            self.count(|counts| counts.wakes += 1);
            self.pay(self.processors[0], how.call).await;
            self.sim.sleep(way).await;
        }
    }

    /// The edge hands requests to a core, whose pass follows.
    async fn hand_over(&self, played: &mut Played, core: usize) {
        let (ring, count) = (self.host.ring.0, played.passed);
        played.add(Picos(self.host.request.0 * count));
        played.add(Picos(ring / 2 * count));
        self.work(played).await;
        let waits = self.sim.now();
        self.line_over().await;
        self.woken(self.cores[core].get()).await;
        played.add(Picos(ring * count));
        played.core = Some((core, waits));
    }

    /// The core has passed, and the edge goes on, if it had waited.
    async fn take_back(&self, played: &mut Played) {
        let Some((core, waits)) = played.core.take() else { return };
        self.work(played).await;
        self.cores[core].set(self.sim.now());
        self.line_over().await;
        self.woken(waits).await;
        played.add(Picos(self.host.ring.0 / 2 * played.passed));
    }
}

impl Played {
    fn add(&mut self, span: Picos) {
        self.busy = self.busy.plus(span);
    }
}

/// Requests that a core takes before its edge goes on.
fn admitted_by(acts: &[Act]) -> u64 {
    let of_core = acts.iter().take_while(|act| **act != Act::Edge);
    of_core.map(|act| if let Act::Admitted(count) = act { *count as u64 } else { 0 }).sum()
}
