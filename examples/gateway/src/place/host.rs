//! The host's side: takes packets on, and says what is next for each.

use super::stages::{Stages, Step};
use super::{Answer, CAPACITY, Counters, Ground, Request};
use crate::net::{Meta, Next, Out, Reason};
use crate::place::slots::SLOT;
use crate::tunnel::Job;
use codec::crossing::Crossing;
use codec::unit::Kernel;
use codec::unit::kernels::{Open, Seal};
use ring::pair::Server;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// See the head of the file.
pub struct Host<C> {
    server: Server<Request, Answer>,
    ground: Arc<Ground<C>>,
    stages: Stages,
    /// A slot that no packet is in: for what a kernel writes.
    spare: u32,
    kernels: Option<(u32, Seal, Open)>,
    counters: Arc<Counters>,
}

impl<C: Crossing> Host<C> {
    pub(super) fn new(
        server: Server<Request, Answer>,
        ground: Arc<Ground<C>>,
        stages: Stages,
        counters: Arc<Counters>,
    ) -> Host<C> {
        Host { server, ground, stages, spare: CAPACITY as u32, kernels: None, counters }
    }

    /// Whether there is something to do.
    pub fn is_ready(&mut self) -> bool {
        self.server.is_ready()
    }

    /// The lane has ended.
    pub fn is_abandoned(&self) -> bool {
        self.server.is_abandoned()
    }

    /// Does what there is to do; whether there was anything.
    pub fn step(&mut self) -> bool {
        let mut worked = false;
        while let Some((tag, request)) = self.server.try_recv() {
            worked = true;
            let mut out = Out::default();
            let answer = match request {
                Request::Packet { slot, meta, now_ns } => {
                    let (slot, meta, next) = self.take_on(slot, meta, now_ns, &mut out);
                    Answer::Packet { slot, meta, next, out: said(out) }
                }
                Request::Tick { now_ns } => {
                    self.stages.tick(now_ns, &mut out);
                    Answer::Ticked { out: said(out) }
                }
                Request::Take(stage) => Answer::Moved(self.stages.take(stage)),
                Request::Give(moved) => {
                    self.stages.give(moved);
                    Answer::Moved(None)
                }
            };
            self.server.reply(tag, answer);
        }
        self.server.flush();
        worked
    }

    /// Has the counters say what is known here.
    pub fn note(&self) {
        if let Some(flows) = self.stages.flows() {
            self.counters.flows.store(flows as u64, Relaxed);
        }
        if let Some(crypto) = &self.stages.crypto {
            self.counters.session.store(crypto.session().map_or(0, |id| u64::from(id).max(1)), Relaxed);
        }
    }

    fn take_on(&mut self, mut slot: u32, mut meta: Meta, now_ns: u64, out: &mut Out) -> (u32, Meta, Next) {
        loop {
            // SAFETY: the lane gave the slot with the request, and nothing refers to it.
            let bytes = unsafe { self.ground.host.slot(slot) };
            match self.stages.run(&mut meta, bytes, now_ns, out) {
                Step::Next(next) => return (slot, meta, next),
                Step::Kernel(job) => {
                    let next = self.run_kernel(&job, slot, &mut meta);
                    if !matches!(next, Next::Drop(_)) {
                        slot = std::mem::replace(&mut self.spare, slot);
                    }
                    match next {
                        Next::Stage(stage) => meta.stage = stage,
                        end => return (slot, meta, end),
                    }
                }
            }
        }
    }

    /// Runs a kernel here, from the packet's slot to the spare one.
    fn run_kernel(&mut self, job: &Job, slot: u32, meta: &mut Meta) -> Next {
        let Some(crypto) = &mut self.stages.crypto else { return Next::Drop(Reason::NoSession) };
        let Some((keys, sealing)) = crypto.keys() else { return Next::Drop(Reason::NoSession) };
        if job.output + job.result() > SLOT {
            return Next::Drop(Reason::TooLong);
        }
        if !matches!(self.kernels, Some((id, ..)) if id == keys.id) {
            self.kernels = Some((keys.id, Seal::new(sealing), Open::new(&keys.open)));
        }
        let Some((_, seal, open)) = &mut self.kernels else { return Next::Drop(Reason::NoSession) };
        // SAFETY: the packet's slot is this call's, the spare one is this thread's, and they are two.
        let (before, after) = unsafe { (&*self.ground.host.slot(slot), self.ground.host.slot(self.spare)) };
        let (input, output) = (&before[job.input.clone()], &mut after[job.output..job.output + job.result()]);
        let outcome = if job.seals { seal.run(input, output) } else { open.run(input, output) };
        crypto.finish(job, meta, before, after, outcome)
    }
}

/// What a stage said, if it said anything.
fn said(out: Out) -> Option<Box<Out>> {
    let is_silent = out.made.is_empty() && out.dropped.is_empty();
    (!is_silent).then(|| Box::new(out))
}
