//! Whatever a server says, a client neither panics nor grows, and every call has exactly one outcome.
//!
//! `cargo +nightly fuzz run fabric_client_frames`
//!
//! The input is a list of frames: a byte with the length of what follows the header's first fields, so that kinds, calls and `aux` are
//! small and often mean something; a length of 255 takes the bytes as a frame as they are.
#![no_main]

use base::units::Nanos;
use fabric::channel::{CallOptions, Connecting, Options, StartError};
use fabric::connection::handshake::{MethodInfo, ServiceInfo, VERSION, Welcome};
use fabric::frame::{Header, Kind};
use fabric::link::{Frames, Link, Lost, SendError, Transport};
use libfuzzer_sys::fuzz_target;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::time::Duration;

/// Says these frames, one for each look, and is gone then.
struct Script {
    frames: VecDeque<Vec<u8>>,
    file: File,
}

impl Link for Script {
    fn transport(&self) -> Transport {
        Transport::Memory
    }

    fn try_send(&mut self, _: &[u8], _: &[u8]) -> Result<(), SendError> {
        Ok(())
    }

    fn flush(&mut self, _: Nanos) {}

    fn recv(&mut self, _: Nanos, _: usize, into: &mut Frames) -> Result<usize, Lost> {
        into.push(&[&self.frames.pop_front().ok_or(Lost::Closed)?]);
        Ok(1)
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn welcome() -> Vec<u8> {
    let method = |number: u16| MethodInfo {
        name: number.to_string(),
        number,
        client_streaming: number & 1 != 0,
        server_streaming: number & 2 != 0,
    };
    let services = vec![ServiceInfo { name: "s".into(), hash: 0, methods: (0..4).map(method).collect() }];
    let welcome = Welcome { version: VERSION, calls: 8, window: 4, services, ..Welcome::default() };
    [&Header::new(Kind::Welcome, 0).emit()[..], &welcome.emit()].concat()
}

fn frames(mut input: &[u8]) -> VecDeque<Vec<u8>> {
    let mut frames = VecDeque::new();
    // Not asked for: the client must find out by itself.
    let first = if input.first() == Some(&0) { Vec::new() } else { welcome() };
    frames.push_back(first);
    while let Some((&len, rest)) = input.split_first() {
        let raw = len == 255;
        let wanted = if raw { 40 } else { 5 + usize::from(len % 16) };
        let (bytes, rest) = rest.split_at(wanted.min(rest.len()));
        frames.push_back(match *bytes {
            [kind, call, generation, aux, method, ref body @ ..] if !raw => {
                let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
                let call = u32::from(call % 9) | u32::from(generation % 4) << 16;
                let header =
                    Header { aux: aux.into(), method: (method % 20).into(), ..Header::new(kind, call) };
                [&header.emit()[..], body].concat()
            }
            _ => bytes.to_vec(),
        });
        input = rest;
    }
    frames
}

fuzz_target!(|input: &[u8]| {
    let file = File::open("/dev/null").expect("it is always there");
    let link = Script { frames: frames(input), file };
    let Ok(Ok(mut channel)) = Connecting::new(Box::new(link), &Options::default()).poll(Nanos(0)) else { return };
    let methods: Vec<_> = (0..4).filter_map(|number| channel.method(&format!("/s/{number}"))).collect();
    let (mut started, mut over) = (HashSet::new(), HashSet::new());
    for user in 0.. {
        let timeout = (user % 5 == 0).then(|| Duration::from_micros(user % 70));
        let options = CallOptions { timeout, ..CallOptions::default() };
        let method = methods[user as usize % methods.len()];
        match channel.start(method, &options, user, b"") {
            Ok(call) => {
                started.insert(user);
                if method.is_client_streaming() {
                    let _ = (channel.send(call, b"item"), channel.finish(call));
                }
                if user % 11 == 0 {
                    channel.cancel(call);
                }
            }
            Err(StartError::Full | StartError::Draining | StartError::Gone) => {}
            Err(error) => panic!("{error}"),
        }
        channel.poll_at(Nanos(user * 10_000), 3, |event| {
            assert!(started.contains(&event.user) && !over.contains(&event.user), "an event after the outcome");
            if event.what.is_terminal() {
                over.insert(event.user);
            }
        });
        assert!(channel.in_flight() <= 8);
        if channel.end().is_some() && channel.next_deadline() == Nanos::MAX {
            break;
        }
    }
    assert_eq!(started, over, "every call has its outcome");
});
