//! What a run did to resources, taken out of a kernel and put into another that would do the same; and what says that it would.

use super::{Kernel, ProgramId, ResourceId, Step, Usage};
use base::Picos;
use std::collections::BTreeSet;
use std::fmt::Write;

impl Kernel {
    /// Everything that decides what operations of these programs do to these resources, as text: two kernels with the same text, to which the same is
    /// done from time 0 on, do the same. Other programs and resources are left out: they do nothing. `None` once something has happened.
    pub(crate) fn identity(&self, programs: &[ProgramId], served: &[ResourceId]) -> Option<String> {
        if self.events > 0 || self.now > Picos::ZERO {
            return None;
        }
        let mut text = format!("{};", self.seed);
        let (mut known, mut next) = (BTreeSet::new(), programs.to_vec());
        let (mut resources, mut pools) = (BTreeSet::from_iter(served.iter().copied()), BTreeSet::new());
        while let Some(program) = next.pop() {
            if !known.insert(program) {
                continue;
            }
            let super::Program { steps, order, .. } = &self.programs[program.0 as usize];
            write!(text, "{program:?}{order:?}{steps:?};").expect("a string takes any text");
            for step in steps {
                match *step {
                    Step::Use { at, .. } => drop(resources.insert(at)),
                    Step::Pick { first, count, .. } => {
                        resources.extend((0..count).map(|of| ResourceId(first.0 + of)));
                    }
                    Step::Either { first, second, .. } => resources.extend([first, second]),
                    Step::Take(pool, _) | Step::Give(pool, _) => drop(pools.insert(pool)),
                    Step::Wake { pool, program, .. } => {
                        pools.insert(pool);
                        next.push(program);
                    }
                    Step::Fork(inner) | Step::Each(inner, _) => next.push(inner),
                    Step::Wait(_) => {}
                }
            }
        }
        for at in resources {
            write!(text, "{}:{},", at.0, self.servers(at)).expect("a string takes any text");
        }
        for pool in pools {
            write!(text, ";{}:{}", pool.0, self.pool(pool).1).expect("a string takes any text");
        }
        Some(text)
    }

    /// Accounts of all resources, in their order.
    pub(crate) fn accounts(&self) -> Vec<Usage> {
        self.all_resources().map(|at| self.usage(at)).collect()
    }

    /// Puts accounts in place of its own, at the end of a run.
    pub(crate) fn restore(&mut self, accounts: &[Usage], now: Picos) {
        self.now = now;
        for (resource, account) in self.resources.iter_mut().zip(accounts) {
            resource.reset(now);
            resource.put(*account);
        }
    }
}
