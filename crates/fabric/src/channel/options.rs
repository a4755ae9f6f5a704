//! What can be said of a channel when it is made, and of a call when it is started.

use crate::batch::Policy;
use crate::link::LinkOptions;
use crate::monitor::Monitor;
use crate::registers::{Id, Registers, wait_policy};
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::time::Duration;

/// How a channel is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls in flight that it would like; the server may grant fewer.
    pub calls: u32,
    /// Services that this client was built with, and the hashes of their schemas.
    pub services: Vec<(String, u64)>,
    /// Refuse a server whose schema of one of `services` is another.
    pub exact: bool,
    /// How long the server may take to answer the handshake, of a first link and of one to switch to.
    pub timeout: Duration,
    /// How blocking calls wait.
    pub wait: WaitPolicy,
    /// When requests in a ring become visible. All are before anyone sleeps.
    pub batch: Policy,
    /// What they say of batches, waiting, calls and links takes the place of what is said here and to [`Channel::wait`](super::Channel::wait),
    /// also when they are changed; calls and links count when a connection is made.
    pub registers: Option<Arc<Registers>>,
    /// How [`Channel::connect`](super::Channel::connect) opens its link; `timeout` counts for it too.
    pub link: LinkOptions,
    /// What is told of its calls, as `monitor.sample` and `trace.sample` of the monitor's registers say.
    pub monitor: Option<Monitor>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            calls: 1024,
            services: Vec::new(),
            exact: false,
            timeout: Duration::from_secs(5),
            wait: WaitPolicy::default(),
            batch: Policy::default(),
            registers: None,
            link: LinkOptions::default(),
            monitor: None,
        }
    }
}

impl Options {
    /// With what the registers say now.
    pub(super) fn followed(&self) -> Options {
        let mut options = self.clone();
        if let Some(registers) = &self.registers {
            options.calls = options.calls.min(registers.read(Id::CallsMax) as u32);
            options.wait = wait_policy(registers);
            options.batch = Policy::of(registers);
            options.link.follow(registers);
        }
        options
    }
}

/// How a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions<'a> {
    /// How long its starter waits, from when it is published; then it ends as DEADLINE_EXCEEDED. Up to 71 minutes the server knows it too.
    pub timeout: Option<Duration>,
    /// Encoded with [`push_metadata`](crate::frame::push_metadata).
    pub metadata: &'a [u8],
    /// Credit for the server's stream is given by [`Channel::grant`](super::Channel::grant) alone.
    pub explicit_credit: bool,
}

impl CallOptions<'_> {
    /// No more than a timeout.
    pub fn within(timeout: Duration) -> CallOptions<'static> {
        CallOptions { timeout: Some(timeout), ..CallOptions::default() }
    }
}
