//! The stages that are at one place, and a packet's way through them until it has to go elsewhere.

use crate::nat::Nat;
use crate::net::{Meta, Next, Out, Stage};
use crate::place::slots::ROOM;
use crate::route::Route;
use crate::tunnel::{Crypto, Job, Work};

/// A stage on its way from one place to the other.
pub enum Moved {
    /// Route.
    Route(Box<Route>),
    /// NAT.
    Nat(Box<Nat>),
    /// Crypto.
    Crypto(Box<Crypto>),
}

/// Those that are here.
#[derive(Default)]
pub struct Stages {
    route: Option<Box<Route>>,
    nat: Option<Box<Nat>>,
    /// For whoever runs kernels.
    pub crypto: Option<Box<Crypto>>,
}

/// How far a packet came.
pub enum Step {
    /// Its next stage is not here, or it has come to its end.
    Next(Next),
    /// A kernel has to run first.
    Kernel(Job),
}

impl Stages {
    /// Whether a stage is here.
    pub fn has(&self, stage: Stage) -> bool {
        match stage {
            Stage::Route => self.route.is_some(),
            Stage::Nat => self.nat.is_some(),
            Stage::Crypto => self.crypto.is_some(),
        }
    }

    /// Takes a stage away, if it is here.
    pub fn take(&mut self, stage: Stage) -> Option<Moved> {
        match stage {
            Stage::Route => self.route.take().map(Moved::Route),
            Stage::Nat => self.nat.take().map(Moved::Nat),
            Stage::Crypto => self.crypto.take().map(Moved::Crypto),
        }
    }

    /// Puts a stage here.
    pub fn give(&mut self, moved: Moved) {
        match moved {
            Moved::Route(route) => self.route = Some(route),
            Moved::Nat(nat) => self.nat = Some(nat),
            Moved::Crypto(crypto) => self.crypto = Some(crypto),
        }
    }

    /// Flows of NAT, if it is here.
    pub fn flows(&self) -> Option<usize> {
        self.nat.as_ref().map(|nat| nat.flows())
    }

    /// Has the stages here do what is due.
    pub fn tick(&mut self, now_ns: u64, out: &mut Out) {
        if let Some(route) = &mut self.route {
            route.tick(now_ns, out);
        }
        if let Some(nat) = &mut self.nat {
            nat.tick(now_ns);
        }
        if let Some(crypto) = &mut self.crypto {
            crypto.tick(now_ns, out);
        }
    }

    /// Takes a packet through the stages that are here.
    pub fn run(&mut self, meta: &mut Meta, slot: &mut [u8], now_ns: u64, out: &mut Out) -> Step {
        loop {
            let frame = &mut slot[meta.range()];
            let next = match meta.stage {
                Stage::Route => match &mut self.route {
                    Some(route) => route.handle(meta, frame, now_ns, out),
                    None => return Step::Next(Next::Stage(Stage::Route)),
                },
                Stage::Nat => match &mut self.nat {
                    Some(nat) => nat.handle(meta, frame, now_ns),
                    None => return Step::Next(Next::Stage(Stage::Nat)),
                },
                Stage::Crypto => match &mut self.crypto {
                    Some(crypto) => match crypto.prepare(*meta, frame, ROOM, now_ns, out) {
                        Work::None(next) => next,
                        Work::Kernel(job) => return Step::Kernel(job),
                    },
                    None => return Step::Next(Next::Stage(Stage::Crypto)),
                },
            };
            match next {
                Next::Stage(stage) => meta.stage = stage,
                end => return Step::Next(end),
            }
        }
    }
}
