//! Control frames that a channel owes its server: Cancel and Credit of a call, Pong, Ping.
//!
//! They are marks where they arise (on the call's slot, in a queue of pongs) and become frames when something is published, as far as the link takes
//! them; what found no room is owed still, and no frame is owed twice.

use super::calls::State;
use super::core::Core;
use crate::frame::{HEADER, Header, Kind};

impl Core {
    pub(super) fn owe(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.calls.slot(slot).listed, true) {
            self.owing.push_back(slot);
        }
    }

    /// Sends what is owed, as far as the link takes it.
    pub(super) fn settle(&mut self) {
        while let Some(&slot) = self.owing.front() {
            if !self.pay(slot) {
                return;
            }
            self.owing.pop_front();
            self.calls.slot(slot).listed = false;
        }
        while let Some(&aux) = self.pongs.front() {
            if !self.say(Header { aux, ..Header::new(Kind::Pong, 0) }) {
                return;
            }
            self.pongs.pop_front();
        }
        if let Some(aux) = self.ping
            && self.say(Header { aux, ..Header::new(Kind::Ping, 0) })
        {
            self.ping = None;
        }
    }

    /// Sends what a slot owes; false if the link is full.
    fn pay(&mut self, slot: u32) -> bool {
        let call = self.calls.id_of(slot).number();
        if self.calls.slot(slot).owes_cancel {
            let method = self.calls.slot(slot).method;
            if !self.say(Header { method, ..Header::new(Kind::Cancel, call) }) {
                return false;
            }
            self.calls.slot(slot).owes_cancel = false;
        }
        let at = self.calls.slot(slot);
        let owed = match &at.stream {
            Some(stream) if at.state == State::Waiting && !stream.is_replied() => stream.owed,
            _ => 0,
        };
        if owed > 0 {
            if !self.say(Header { aux: owed, ..Header::new(Kind::Credit, call) }) {
                #[cfg(test)]
                if self.planted == Some(super::simulation::Planted::CreditLost) {
                    self.calls.slot(slot).stream.as_mut().expect("it owed credit just now").credited();
                    return true;
                }
                return false;
            }
            let stream = self.calls.slot(slot).stream.as_mut();
            stream.expect("it owed credit just now").credited();
        }
        true
    }

    fn say(&mut self, header: Header) -> bool {
        let taken = self.links.as_mut().is_some_and(|links| links.send(&header.emit(), &[]).is_ok());
        if taken {
            // Whoever settles publishes.
            self.unflushed.put(0);
            self.count_sent(HEADER);
        }
        taken
    }
}
