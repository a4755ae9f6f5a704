//! From a link to a channel: the handshake, blocking or driven.

use super::calls::MOST;
use super::core::Core;
use super::stream::MAX_WINDOW;
use super::switching::Switching;
use super::watched::Watched;
use super::{Channel, Options, Time};
use crate::connection::handshake::{Hello, ServiceInfo, VERSION};
use crate::connection::switch::{Links, Side};
use crate::connection::{ConnectError, Opened, Opening};
use crate::link::{self, Address, Link, LinkOptions};
use crate::registers::Watch;
use base::clock::{Clock, Timeout};
use base::units::Nanos;
use std::collections::VecDeque;
use std::time::Duration;

/// A channel whose handshake is under way, for whoever must not block.
pub struct Connecting {
    opening: Opening,
    options: Options,
}

impl Connecting {
    /// Begins; [`Connecting::poll`] does the rest.
    pub fn new(link: Box<dyn Link>, options: &Options) -> Connecting {
        let options = options.followed();
        let hello = Hello {
            version: VERSION,
            join: None,
            exact: options.exact,
            calls: options.calls,
            services: options.services.clone(),
        };
        Connecting { opening: Opening::new(link, &hello), options }
    }

    /// Goes on; the channel once the server has answered. It takes its time from [`Channel::poll_at`] if it is polled with that, else from the
    /// process's clock.
    ///
    /// # Errors
    /// [`ConnectError`]; this is of no use then.
    pub fn poll(mut self, now: Nanos) -> Result<Result<Channel, Connecting>, ConnectError> {
        let Some(welcome) = self.opening.poll(now)? else { return Ok(Err(self)) };
        if self.options.exact {
            check_schemas(&self.options.services, &welcome.services)?;
        }
        if welcome.calls == 0 || welcome.window == 0 || welcome.window > MAX_WINDOW {
            return Err(ConnectError::Malformed("the Welcome's bounds are out of range"));
        }
        Ok(Ok(channel(self.opening.opened(welcome), &self.options)))
    }
}

fn channel(opened: Opened, options: &Options) -> Channel {
    let Opened { link, welcome, sent, received, early } = opened;
    let calls = (welcome.calls.min(options.calls.max(1)) as usize).min(MOST);
    let links = Links::new(link, sent, received);
    let watch = |monitor| Box::new(Watched::new(monitor, &welcome.services, welcome.connection, &links));
    let watched = options.monitor.as_ref().map(watch);
    let switching = Switching::new(welcome.token, options.timeout);
    let mut core = Core::new(links, calls, welcome.window, (switching, options.batch));
    core.watched = watched;
    Channel {
        core,
        services: welcome.services,
        connection: welcome.connection,
        frames: early,
        from: Side::Current,
        backlog: VecDeque::new(),
        scratch: Default::default(),
        typed: Default::default(),
        time: Time::Clock(Clock::shared()),
        policy: options.wait,
        registers: options.registers.clone().map(|registers| (registers, Watch::default())),
    }
}

fn check_schemas(ours: &[(String, u64)], theirs: &[ServiceInfo]) -> Result<(), ConnectError> {
    for (name, hash) in ours {
        let same = |info: &ServiceInfo| info.name == *name && info.hash == *hash;
        if *hash != 0 && !theirs.iter().any(same) {
            return Err(ConnectError::Schema { service: name.clone() });
        }
    }
    Ok(())
}

impl Channel {
    /// A channel to the server at an address; returns when it has answered.
    ///
    /// # Errors
    /// [`ConnectError`], each with what to do about it.
    pub fn connect(address: &Address, options: &Options) -> Result<Channel, ConnectError> {
        let link_options = LinkOptions { timeout: options.timeout, ..options.followed().link };
        let link =
            link::connect(address, &link_options).map_err(|error| ConnectError::Link(error.to_string()))?;
        Channel::over(link, options)
    }

    /// A channel over any link; returns when the server has answered.
    ///
    /// # Errors
    /// [`ConnectError`], each with what to do about it.
    pub fn over(link: Box<dyn Link>, options: &Options) -> Result<Channel, ConnectError> {
        let clock = Clock::shared();
        let timeout = Timeout::new(options.timeout);
        let mut connecting = Connecting::new(link, options);
        loop {
            let now = clock.now();
            connecting = match connecting.poll(now)? {
                Ok(channel) => return Ok(channel),
                Err(connecting) => connecting,
            };
            let left = timeout.left();
            if left == Nanos::ZERO {
                return Err(ConnectError::TimedOut(options.timeout));
            }
            let opening = &mut connecting.opening;
            if opening.arm() {
                let left = opening.next_deadline().since(now).min(left);
                super::wait::sleep([opening.descriptor()], Some(Duration::from(left)));
            }
            opening.disarm();
        }
    }
}
