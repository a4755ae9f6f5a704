//! Transactions that clients send by the home: what [`super::super::by_home`] wants of it.

use super::super::by_home::AtHome;
use super::super::chain_items::ChainItems;
use super::super::planted::Mistakes;
use super::{HomeStore, Homed};
use base::Nanos;
use protocol::chain::Transaction;
use protocol::chain::at_home::Answer;
use protocol::chain::message::RequestId;
use protocol::coherence::home::Admitted;

impl<S: HomeStore, B: Mistakes> Homed<S, B> {
    /// What transactions of clients want of the home, in order, until nothing is left that can be done now.
    pub(super) fn go_on_with_transactions(&mut self) {
        while let Some(step) = self.home.items_mut().next_step() {
            match step {
                AtHome::Release(part, ended) => self.home.done_aside(part.access(), &ended),
                AtHome::Admit(ticket, part) => {
                    match self.home.admit(self.now, part.access(), ticket, &mut self.out) {
                        Admitted::Now => self.home.items_mut().was_admitted(ticket, true),
                        Admitted::Later => {}
                        Admitted::Busy | Admitted::NotHome => {
                            self.home.items_mut().was_admitted(ticket, false);
                        }
                    }
                }
            }
        }
    }
}

impl<B: Mistakes> Homed<ChainItems<B>, B> {
    /// A client asks for a transaction; one that is under way goes on. What comes of it is told by [`Homed::poll_transacted`].
    ///
    /// # Panics
    /// No transactions come by this home.
    pub fn transact(&mut self, now: Nanos, id: RequestId, transaction: Transaction) {
        self.now = self.now.max(now);
        let by_home = self.home.items_mut().by_home_mut();
        by_home.expect("transactions come by this home").begin(id, transaction);
        self.settle(true);
    }

    /// What a client is answered, each once.
    pub fn poll_transacted(&mut self) -> Option<(RequestId, Answer)> {
        self.home.items_mut().by_home_mut()?.poll_answer()
    }
}
