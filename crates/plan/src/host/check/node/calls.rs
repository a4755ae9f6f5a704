//! Servers of calls: one whose handler works for as long as it is told, and how clients drive any of them.

use super::{Driven, LINKS, REPLY_TIMEOUT, Service};
use crate::host::calls::{self, DO, Work};
use base::{Clock, Nanos};
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, What};
use fabric::link::Address;
use fabric::server::{Options, Server};
use model::system::host::{Handler, Link};
use ring::wait::{Outcome, WaitPolicy};
use serve::rpc::own::OwnServer;
use std::error::Error;

/// A server, and its clients over each link.
pub(super) struct Calls {
    channels: Channels,
    // After the channels.
    server: OwnServer,
}

/// Clients of a server of calls, over each of [`LINKS`].
pub(super) struct Channels([Channel; 2]);

/// A name for a server's address over each of [`LINKS`]; `what` is in the name of its socket.
pub(super) fn addresses(what: &str) -> Result<[Address; 2], Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millrace-check-{}-{what}.sock", std::process::id()));
    Ok([format!("shm:{}", path.display()).parse()?, "tcp:127.0.0.1:0".parse()?])
}

impl Channels {
    /// To a server that listens on these.
    pub fn connect(addresses: &[Address]) -> Result<Channels, Box<dyn Error>> {
        let connect = |at: usize| Channel::connect(&addresses[at], &ChannelOptions::default());
        Ok(Channels([connect(0)?, connect(1)?]))
    }

    /// Calls per second of this method with so many under way; `is_right` judges replies.
    pub fn drive(
        &mut self,
        (link, window, span): (Link, u64, Nanos),
        (method, body): (&str, &[u8]),
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Driven {
        let at = LINKS.iter().position(|other| *other == link).expect("one of them");
        let channel = &mut self.0[at];
        let method = channel.method(method).ok_or("the server has no such method")?;
        let (clock, options) = (Clock::shared(), CallOptions::default());
        let (mut under_way, mut answers) = (0u64, 0u64);
        let start = clock.now();
        loop {
            let is_over = clock.now().since(start) >= span;
            if is_over && under_way == 0 {
                break;
            }
            while !is_over && under_way < window {
                match channel.start(method, &options, 0, body) {
                    Ok(_) => under_way += 1,
                    Err(StartError::Full) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            channel.flush();
            let mut wrong = 0;
            let taken = channel.poll(64, |event| match event.what {
                What::Reply(reply) if is_right(reply) => {}
                _ => wrong += 1,
            });
            if wrong > 0 {
                return Err("a call was not answered as it should be".into());
            }
            under_way -= taken as u64;
            if !is_over {
                answers += taken as u64;
            }
            if taken == 0 && channel.wait(WaitPolicy::BLOCK, Some(REPLY_TIMEOUT)) == Outcome::TimedOut {
                return Err("the server did not answer a call".into());
            }
        }
        Ok(answers as f64 / span.as_secs_f64())
    }
}

impl Calls {
    /// Whose handler takes so many steps.
    pub fn start(steps: u64) -> Result<Calls, Box<dyn Error>> {
        let mut server = Server::try_new(Options::default())?.service(Work(steps));
        for address in addresses(&steps.to_string())? {
            server = server.listen(&address)?;
        }
        let server = OwnServer::start(server)?;
        for wait in ["wait.spin", "wait.pause", "wait.monitor"] {
            server.registers().set_live(wait, "0")?;
        }
        Ok(Calls { channels: Channels::connect(server.addresses())?, server })
    }
}

impl Service for Calls {
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>> {
        Ok(self.server.registers().set_live("place.handlers", place(handler))?)
    }

    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Driven {
        let body = calls::TEXT.as_bytes();
        self.channels.drive((link, window, span), (DO, body), |reply| reply == body)
    }
}

/// A place, as registers have it.
pub(super) fn place(handler: Handler) -> &'static str {
    match handler {
        Handler::Edge => "edge",
        Handler::Engine => "engine",
        Handler::HostThreads => "host",
    }
}
