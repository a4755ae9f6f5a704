//! The accelerator's side: frames come and go here, packets are passed to and from the host, and kernels run in units.
//!
//! Bounds: [`CAPACITY`] packets, each in one slot of either memory, and in a second one of the accelerator's while a unit works on it; so
//! slots never run out, nor does room in the ring.

use super::stages::{Moved, Stages, Step};
use super::{Answer, CAPACITY, Counters, Ground, Request, WAITING};
use crate::net::{Made, Meta, Net, Next, Out, Reason, Stage};
use crate::place::slots::{MOST_FRAME, ROOM, SLOT};
use crate::registers::Placement;
use crate::tunnel::Job;
use codec::crossing::Crossing;
use codec::memory::Place;
use codec::unit::kernels::{Open, Seal};
use codec::unit::{KernelError, Options, Outcome, Task, TaskError, Unit};
use ring::pair::Client;
use ring::wait::WaitPolicy;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Where frames go.
pub trait Wire {
    /// Sends a frame by an interface; whether it was taken.
    fn send(&mut self, interface: u8, frame: &[u8]) -> bool;
}

/// A packet in a slot of the accelerator's memory.
struct Packet {
    slot: u32,
    meta: Meta,
}

/// A packet that a unit works on.
struct Under {
    task: Task,
    job: Job,
    packet: Packet,
    result: u32,
}

/// See the head of the file.
pub struct Lane<C> {
    client: Client<Request, Answer>,
    ground: Arc<Ground<C>>,
    net: Arc<Net>,
    stages: Stages,
    placement: Placement,
    wanted: Placement,
    /// Stages that were asked of the host, or given to it, and of which it has said nothing yet.
    moving: u32,
    /// The host was told to do what is due, and has not said that it did.
    is_ticking: bool,
    host_free: Vec<u32>,
    acc_free: Vec<u32>,
    /// For sealing, for opening.
    units: [Unit; 2],
    programmed: Option<u32>,
    under: [VecDeque<Under>; 2],
    on_way: usize,
    /// With the memory that they are in.
    waiting: VecDeque<(Place, Made)>,
    counters: Arc<Counters>,
}

impl<C: Crossing + Send + Sync + 'static> Lane<C> {
    pub(super) fn new(
        client: Client<Request, Answer>,
        ground: Arc<Ground<C>>,
        net: Arc<Net>,
        stages: Stages,
        placement: Placement,
        wait: WaitPolicy,
    ) -> Lane<C> {
        let options = Options { tasks: CAPACITY as u32, wait, core: None };
        let units = ["gw-seal", "gw-open"].map(|name| Unit::new(name, ground.acc.memory(), options));
        Lane {
            client,
            ground,
            net,
            stages,
            placement,
            wanted: placement,
            moving: 0,
            is_ticking: false,
            host_free: (0..CAPACITY as u32).collect(),
            acc_free: (0..2 * CAPACITY as u32).collect(),
            units,
            programmed: None,
            under: Default::default(),
            on_way: 0,
            waiting: VecDeque::new(),
            counters: Arc::default(),
        }
    }

    /// What it counts.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// What crosses.
    pub fn ground(&self) -> &Arc<Ground<C>> {
        &self.ground
    }

    /// Where the stages are now.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Where they are wanted.
    pub fn wanted(&self) -> Placement {
        self.wanted
    }

    /// Has stages move, as soon as no packet is on its way.
    pub fn set_placement(&mut self, wanted: Placement) {
        self.wanted = wanted;
    }

    /// Whether a frame can be admitted.
    pub fn has_room(&self) -> bool {
        self.on_way < CAPACITY && self.moving == 0 && self.wanted == self.placement
    }

    /// Packets on their way, and those that wait to be.
    pub fn in_flight(&self) -> usize {
        self.on_way + self.waiting.len()
    }

    /// Whether the host has answered, or has died.
    pub fn is_ready(&mut self) -> bool {
        self.client.is_ready() || self.client.is_abandoned()
    }

    /// The host's thread has ended.
    pub fn is_abandoned(&self) -> bool {
        self.client.is_abandoned()
    }

    /// Whether units work on packets.
    pub fn has_tasks(&self) -> bool {
        self.under.iter().any(|under| !under.is_empty())
    }

    /// A frame came by an interface, and [`Lane::has_room`]: `fill` writes it, and says its length, at most that of what it is given.
    pub fn admit(
        &mut self,
        interface: u8,
        now_ns: u64,
        wire: &mut impl Wire,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) {
        assert!(self.has_room(), "a frame is admitted when there is room");
        let slot = self.acc_slot();
        // SAFETY: the slot was free.
        let bytes = unsafe { self.ground.acc.slot(slot) };
        let len = fill(&mut bytes[ROOM..]).min(MOST_FRAME);
        Counters::frame(&self.counters.received, len);
        let meta = Meta { start: ROOM as u16, len: len as u16, ..self.net.arrival(interface) };
        self.on_way += 1;
        self.run(Packet { slot, meta }, now_ns, wire);
    }

    /// Does what there is to do; whether there was anything.
    pub fn turn(&mut self, now_ns: u64, wire: &mut impl Wire) -> bool {
        let mut worked = false;
        while let Some((_, answer)) = self.client.poll() {
            worked = true;
            self.hear(answer, now_ns, wire);
        }
        worked |= self.finish_tasks(now_ns, wire, false);
        worked |= self.move_stages();
        while self.has_room()
            && let Some((place, made)) = self.waiting.pop_front()
        {
            worked = true;
            self.admit_made(place, made, now_ns, wire);
        }
        self.client.flush();
        worked
    }

    /// Waits for the unit that has had a packet longest.
    pub fn wait_for_unit(&mut self, now_ns: u64, wire: &mut impl Wire) {
        self.finish_tasks(now_ns, wire, true);
        self.client.flush();
    }

    /// Has the stages do what is due, on both sides.
    pub fn tick(&mut self, now_ns: u64) {
        let mut out = Out::default();
        self.stages.tick(now_ns, &mut out);
        self.keep(Place::Acc, out);
        if let Some(flows) = self.stages.flows() {
            self.counters.flows.store(flows as u64, Relaxed);
        }
        self.note_session();
        if !self.is_ticking && Stage::ALL.iter().any(|stage| !self.stages.has(*stage)) {
            self.is_ticking = true;
            self.ask(Request::Tick { now_ns });
            self.client.flush();
        }
    }

    fn note_session(&self) {
        if let Some(crypto) = &self.stages.crypto {
            self.counters.session.store(crypto.session().map_or(0, |id| u64::from(id).max(1)), Relaxed);
        }
    }

    fn ask(&mut self, request: Request) {
        assert!(self.client.try_send(request).is_ok(), "the ring is as long as what is on its way, twice");
    }

    fn acc_slot(&mut self) -> u32 {
        self.acc_free.pop().expect("two slots for each packet on its way")
    }

    fn end(&mut self, slot: u32) {
        self.acc_free.push(slot);
        self.on_way -= 1;
    }

    /// Takes a packet through the stages here, and to whoever is next.
    fn run(&mut self, mut packet: Packet, now_ns: u64, wire: &mut impl Wire) {
        let mut out = Out::default();
        // SAFETY: the packet's slot is in this hand.
        let bytes = unsafe { self.ground.acc.slot(packet.slot) };
        let step = self.stages.run(&mut packet.meta, bytes, now_ns, &mut out);
        self.keep(Place::Acc, out);
        match step {
            Step::Kernel(job) => self.submit(job, packet),
            Step::Next(next) => self.settle(next, packet, now_ns, wire),
        }
    }

    fn settle(&mut self, next: Next, mut packet: Packet, now_ns: u64, wire: &mut impl Wire) {
        match next {
            Next::Stage(stage) if self.stages.has(stage) => {
                packet.meta.stage = stage;
                return self.run(packet, now_ns, wire);
            }
            Next::Stage(stage) => {
                packet.meta.stage = stage;
                return self.cross_to_host(packet, now_ns);
            }
            Next::Send => self.send(&packet, wire),
            Next::Taken => {
                self.counters.taken.fetch_add(1, Relaxed);
            }
            Next::Drop(reason) => self.counters.end(reason),
        }
        self.end(packet.slot);
    }

    fn send(&self, packet: &Packet, wire: &mut impl Wire) {
        // SAFETY: the packet's slot is in the caller's hand.
        let bytes = unsafe { &*self.ground.acc.slot(packet.slot) };
        let frame = &bytes[packet.meta.range()];
        if wire.send(packet.meta.interface, frame) {
            Counters::frame(&self.counters.sent, frame.len());
        } else {
            self.counters.end(Reason::NotSent);
        }
    }

    fn cross_to_host(&mut self, packet: Packet, now_ns: u64) {
        let slot = self.host_free.pop().expect("a slot of the host's for each packet on its way");
        let range = packet.meta.range();
        // SAFETY: both slots are in this hand, and the host's is not in the accelerator's memory.
        unsafe {
            let bytes = &self.ground.acc.slot(packet.slot)[range.clone()];
            self.ground.crossing.write(self.ground.host.at(slot, range), bytes);
        }
        self.ground.crossing.notify(Meta::BYTES);
        self.acc_free.push(packet.slot);
        self.ask(Request::Packet { slot, meta: packet.meta, now_ns });
    }

    fn cross_from_host(&mut self, slot: u32, meta: Meta) -> Packet {
        let to = self.acc_slot();
        // SAFETY: the host has given its slot, the accelerator's was free.
        let into = unsafe { &mut self.ground.acc.slot(to)[meta.range()] };
        self.read_across(self.ground.host.at(slot, meta.range()), into);
        self.host_free.push(slot);
        Packet { slot: to, meta }
    }

    /// The host rang: reads what it has.
    fn read_across(&self, from: std::ptr::NonNull<u8>, into: &mut [u8]) {
        self.ground.crossing.doorbell(Meta::BYTES);
        // SAFETY: bytes of the same layout, initialised before and, as the source is, after; the host writes no more to what it has given.
        unsafe {
            let into =
                std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<MaybeUninit<u8>>(), into.len());
            self.ground.crossing.read(from, into);
        }
    }

    fn hear(&mut self, answer: Answer, now_ns: u64, wire: &mut impl Wire) {
        match answer {
            Answer::Packet { slot, meta, next, out } => {
                if let Some(out) = out {
                    self.keep(Place::Host, *out);
                }
                match next {
                    Next::Stage(_) | Next::Send => {
                        let packet = self.cross_from_host(slot, meta);
                        self.settle(next, packet, now_ns, wire);
                    }
                    ended => {
                        match ended {
                            Next::Drop(reason) => self.counters.end(reason),
                            _ => _ = self.counters.taken.fetch_add(1, Relaxed),
                        }
                        self.ground.crossing.give_back(1);
                        self.host_free.push(slot);
                        self.on_way -= 1;
                    }
                }
            }
            Answer::Ticked { out } => {
                self.is_ticking = false;
                if let Some(out) = out {
                    self.keep(Place::Host, *out);
                }
            }
            Answer::Moved(moved) => {
                if let Some(moved) = moved {
                    self.arrive(moved);
                }
                self.moving -= 1;
            }
        }
    }

    /// What a stage made or gave up.
    fn keep(&mut self, place: Place, out: Out) {
        for reason in out.dropped {
            // It was taken when it was kept.
            self.counters.made.fetch_add(1, Relaxed);
            self.counters.end(reason);
        }
        for made in out.made {
            self.counters.made.fetch_add(1, Relaxed);
            if self.waiting.len() < WAITING {
                self.waiting.push_back((place, made));
            } else {
                self.counters.end(Reason::Busy);
            }
        }
    }

    fn admit_made(&mut self, place: Place, made: Made, now_ns: u64, wire: &mut impl Wire) {
        let Made { meta, is_ready, frame } = made;
        let meta = Meta { start: ROOM as u16, len: frame.len() as u16, ..meta };
        let slot = self.acc_slot();
        self.on_way += 1;
        // SAFETY: the slot was free.
        let into = unsafe { &mut self.ground.acc.slot(slot)[meta.range()] };
        match place {
            Place::Acc => into.copy_from_slice(&frame),
            Place::Host => self.read_across(std::ptr::NonNull::from(&frame[..]).cast(), into),
        }
        let packet = Packet { slot, meta };
        if is_ready {
            self.settle(Next::Send, packet, now_ns, wire);
        } else {
            self.run(packet, now_ns, wire);
        }
    }

    /// Gives a packet to the unit that it is for.
    fn submit(&mut self, job: Job, packet: Packet) {
        if job.output + job.result() > SLOT {
            return self.lose(packet, Reason::TooLong);
        }
        if !self.program() {
            return self.lose(packet, Reason::UnitLost);
        }
        let unit = usize::from(!job.seals);
        let result = self.acc_slot();
        let input = self.ground.acc.span(packet.slot, job.input.clone());
        let output = self.ground.acc.span(result, job.output..job.output + job.result());
        // SAFETY: both slots are in this hand, and stay in `under` until the outcome is seen; nobody else knows their numbers.
        match unsafe { self.units[unit].submit_task(input, output) } {
            Ok(task) => self.under[unit].push_back(Under { task, job, packet, result }),
            Err(_) => {
                self.acc_free.push(result);
                self.programmed = None;
                self.lose(packet, Reason::UnitLost);
            }
        }
    }

    fn lose(&mut self, packet: Packet, reason: Reason) {
        self.counters.end(reason);
        self.end(packet.slot);
    }

    /// Has the units seal and open with the session's keys: tasks that were submitted before finish with the old ones.
    fn program(&mut self) -> bool {
        let Some((keys, sealing)) = self.stages.crypto.as_ref().and_then(|crypto| crypto.keys()) else {
            return false;
        };
        if self.programmed != Some(keys.id) {
            let [seal, open] = &mut self.units;
            let is_there =
                seal.program(Seal::new(sealing)).is_ok() && open.program(Open::new(&keys.open)).is_ok();
            self.programmed = is_there.then_some(keys.id);
        }
        self.programmed.is_some()
    }

    /// Takes packets from units that are done with them; waits for one of them if `waits`.
    fn finish_tasks(&mut self, now_ns: u64, wire: &mut impl Wire, mut waits: bool) -> bool {
        let mut worked = false;
        for unit in 0..self.units.len() {
            while let Some(first) = self.under[unit].front() {
                let task = first.task;
                let outcome = match std::mem::take(&mut waits) {
                    true => self.units[unit].wait(task),
                    false => match self.units[unit].poll(task) {
                        Some(outcome) => outcome,
                        None => break,
                    },
                };
                let under = self.under[unit].pop_front().expect("it was there");
                worked = true;
                self.finish_task(under, outcome, now_ns, wire);
            }
        }
        worked
    }

    fn finish_task(&mut self, under: Under, outcome: Outcome, now_ns: u64, wire: &mut impl Wire) {
        let Under { job, mut packet, result, .. } = under;
        let outcome = match outcome {
            Ok(len) => Ok(len),
            Err(TaskError::Kernel(error)) => Err(error),
            Err(TaskError::OutOfBounds | TaskError::Overlap) => Err(KernelError::TooLarge),
            Err(TaskError::Died | TaskError::Unknown) => {
                self.programmed = None;
                self.acc_free.push(result);
                return self.lose(packet, Reason::UnitLost);
            }
        };
        let crypto = self.stages.crypto.as_mut().expect("a stage stays while packets are on their way");
        // SAFETY: the unit is done with both slots, which are two and in this hand.
        let (before, after) = unsafe { (&*self.ground.acc.slot(packet.slot), self.ground.acc.slot(result)) };
        let next = crypto.finish(&job, &mut packet.meta, before, after, outcome);
        self.acc_free.push(packet.slot);
        self.settle(next, Packet { slot: result, meta: packet.meta }, now_ns, wire);
    }

    /// Moves stages to where they are wanted, once no packet is on its way; whether something was done.
    fn move_stages(&mut self) -> bool {
        if self.wanted == self.placement || self.on_way > 0 || self.moving > 0 {
            return false;
        }
        for stage in Stage::ALL {
            let (now, then) = (self.placement[stage as usize], self.wanted[stage as usize]);
            if now == then {
                continue;
            }
            self.moving += 1;
            self.counters.moves.fetch_add(1, Relaxed);
            match self.stages.take(stage) {
                Some(moved) => {
                    if stage == Stage::Crypto {
                        self.rest_units();
                    }
                    self.ask(Request::Give(moved));
                }
                None => self.ask(Request::Take(stage)),
            }
        }
        self.placement = self.wanted;
        true
    }

    fn arrive(&mut self, moved: Moved) {
        self.stages.give(moved);
        self.note_session();
    }

    /// Takes the kernels away; a unit that has too many orders under way keeps its own until it is programmed again.
    fn rest_units(&mut self) {
        for unit in &mut self.units {
            let _ = unit.take_away();
        }
        self.programmed = None;
    }
}
