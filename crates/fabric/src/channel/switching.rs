//! Taking a connection over to another link while calls are in flight: the client's side.
//!
//! ```text
//!  Idle ── switch(link) ──▶ Joining ── Welcome ──▶ Draining ── old link drained ──▶ Idle
//!                              │ refused, lost, too late                  (a second switch that waited begins)
//!                              └──▶ Idle, and the connection goes on as it was
//! ```
//! What is sent while Joining goes over the old link, what is sent while Draining over the new one; see
//! [`Links`](crate::connection::switch::Links).
//!
//! If the server has gone over to the new link (its Last came) and that link is lost before its Welcome was seen, there is no link
//! left, and the connection is over.
//!
//! If the old link breaks before it is drained, the calls that were begun on it end as lost. Some of their Replies will never come,
//! so their slots stay taken; when half of all slots are, the connection ends, so that it cannot grow deaf unnoticed.

use super::calls::State;
use super::core::{Core, Phase};
use super::error::SwitchError;
use super::event::Waiting;
use crate::connection::handshake::{Hello, Token, VERSION};
use crate::connection::switch::Links;
use crate::connection::{ConnectError, Opening};
use crate::link::{Frames, Link, Lost};
use crate::status::Status;
use base::units::Nanos;
use rustix::fd::BorrowedFd;
use std::time::Duration;

/// How far a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// No switch is under way.
    Idle,
    /// The server has not answered on the new link yet.
    Joining,
    /// Everything goes over the new link; the old one still brings what was sent before.
    Draining,
}

/// The switch under way, and the one that waits for it.
pub(super) struct Switching {
    token: Token,
    timeout: Duration,
    joining: Option<Joining>,
    waiting: Option<Box<dyn Link>>,
    failed: Option<ConnectError>,
}

struct Joining {
    opening: Opening,
    until: Nanos,
}

impl Switching {
    /// For the connection that this token names; a server has so long to answer.
    pub(super) fn new(token: Token, timeout: Duration) -> Switching {
        Switching { token, timeout, joining: None, waiting: None, failed: None }
    }

    pub(super) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// Gives both links up.
    pub(super) fn stop(&mut self) {
        (self.joining, self.waiting) = (None, None);
    }

    /// Whether a new link is to be looked after.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.joining.is_some() || self.waiting.is_some()
    }

    /// Whether a switch was asked for that has not begun.
    pub(super) fn is_waiting(&self) -> bool {
        self.joining.is_none() && self.waiting.is_some()
    }

    pub(super) fn next_deadline(&self) -> Nanos {
        let Some(joining) = &self.joining else { return Nanos::MAX };
        joining.until.min(joining.opening.next_deadline())
    }

    /// The new link, for waiting.
    pub(super) fn opening(&mut self) -> Option<&mut Opening> {
        self.joining.as_mut().map(|joining| &mut joining.opening)
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.joining.as_ref().map(|joining| joining.opening.descriptor())
    }
}

impl Core {
    /// Begins a switch, or lets it wait for the one under way.
    pub(super) fn switch(&mut self, link: Box<dyn Link>) -> Result<(), SwitchError> {
        if matches!(self.phase, Phase::Over { .. }) {
            return Err(SwitchError::Gone);
        }
        if self.switching.waiting.is_some() {
            return Err(SwitchError::Busy);
        }
        self.switching.failed = None;
        self.switching.waiting = Some(link);
        Ok(())
    }

    pub(super) fn switch_state(&self) -> Switch {
        let draining = self.links.as_ref().is_some_and(Links::is_switching);
        match (draining, self.switching.is_busy()) {
            (true, _) => Switch::Draining,
            (false, true) => Switch::Joining,
            (false, false) => Switch::Idle,
        }
    }

    pub(super) fn switch_error(&mut self) -> Option<ConnectError> {
        self.switching.failed.take()
    }

    /// Drives a switch. When the server has answered the connection goes on over the new link, and what came over it before the
    /// Welcome is returned: it must be handled before anything else is received.
    pub(super) fn join(&mut self, now: Nanos) -> Option<Frames> {
        let Core { switching, links, .. } = self;
        let links = links.as_mut()?;
        if switching.joining.is_none() && !links.is_switching() {
            let link = switching.waiting.take()?;
            let hello = Hello { version: VERSION, join: Some(switching.token), ..Hello::default() };
            let until = now.plus(Nanos::from(switching.timeout));
            switching.joining = Some(Joining { opening: Opening::new(link, &hello), until });
        }
        let joining = switching.joining.as_mut()?;
        let error = match joining.opening.poll(now) {
            Ok(Some(welcome)) => {
                let opened = switching.joining.take()?.opening.opened(welcome);
                links.replace(opened.link, opened.sent, opened.received);
                return Some(opened.early);
            }
            Ok(None) if now < joining.until => return None,
            Ok(None) => ConnectError::TimedOut(switching.timeout),
            Err(error) => error,
        };
        switching.joining = None;
        if links.is_left() {
            self.end(&format!("the server had gone over to a link on which {error}"));
        }
        self.switching.failed = Some(error);
        None
    }

    /// The old link broke before it was drained: the calls that were begun on it may be lost.
    #[cold]
    pub(super) fn old_lost(&mut self, lost: Lost) {
        let Some(epoch) = self.links.as_ref().map(Links::epoch) else { return };
        let mut useless = false;
        for slot in 0..self.calls.len() as u32 {
            let call = self.calls.id_of(slot);
            let at = self.calls.slot(slot);
            if at.state == State::Free || at.epoch == epoch {
                continue;
            }
            useless |= self.calls.strand(slot);
            let at = self.calls.slot(slot);
            if at.state == State::Waiting {
                let status =
                    Status::lost(format!("{lost} while the connection was switched to another link"));
                self.outcomes.push_back(Waiting::ending(call, at.user, Some(status), Box::default()));
                self.abandon(slot);
            }
        }
        if useless {
            self.end("half of its call numbers went down with lost links");
        }
    }
}
