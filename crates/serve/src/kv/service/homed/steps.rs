//! What transactions of clients want of the home ([`super::super::by_home`]).

use super::{HomeStore, Homed, Mistakes};
use protocol::chain::at_home::Step;
use protocol::coherence::home::Admitted;

impl<S: HomeStore, B: Mistakes> Homed<S, B> {
    /// Does for transactions of clients what they want of the home; whether there was anything.
    pub(super) fn take_steps(&mut self) -> bool {
        let steps = self.home.items_mut().take_steps();
        if steps.is_empty() {
            return false;
        }
        self.now = self.now.max(self.clocks.now());
        for step in steps {
            match step {
                Step::Admit(ticket, part) => {
                    match self.home.admit(self.now, part.access(), ticket, &mut self.out) {
                        Admitted::Now => self.home.items_mut().run(ticket, self.now),
                        Admitted::Later => {}
                        Admitted::Busy | Admitted::NotHome => self.home.items_mut().refuse(ticket),
                    }
                }
                Step::Release(part, ended) => self.home.done_aside(part.access(), &ended),
                Step::Execute(..) | Step::Answer(..) => unreachable!("nothing of the home"),
            }
        }
        true
    }
}
