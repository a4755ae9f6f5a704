//! Calls that wait, against a server on a thread of its own.

use super::*;
use crate::channel::Response;
use crate::link::{LinkOptions, memory};
use crate::status::Code;
use ring::wait::{Outcome, WaitPolicy};
use std::time::Duration;

/// A server that answers each Request with its body and each Ping, until its client is gone; `Count` gives two items and no end.
fn serve(link: Box<dyn Link>) {
    let mut script = Script { link, frames: Frames::default() };
    loop {
        script.frames.clear();
        if script.link.recv(base::clock::Clock::shared().now(), 64, &mut script.frames).is_err() {
            return;
        }
        while let Some((header, body)) = script.frames.pop().map(|bytes| {
            let frame = Frame::parse(bytes).expect("the client says frames");
            (frame.header, frame.body.to_vec())
        }) {
            match header.kind {
                Kind::Hello => script.say(Header::new(Kind::Welcome, 0), &welcome().emit()),
                Kind::Request if header.method == 0 => script.reply(header.call, &body),
                Kind::Request => (0..2).for_each(|number| script.item(header.call, number, b"item")),
                Kind::Ping => script.say(Header { aux: header.aux, ..Header::new(Kind::Pong, 0) }, &[]),
                _ => {}
            }
        }
        if script.link.arm() {
            let fd = script.link.descriptor();
            super::super::wait::sleep([fd], Some(Duration::from_secs(60)));
        }
        script.link.disarm();
    }
}

fn with_server(wait: WaitPolicy, test: impl FnOnce(&mut Channel)) {
    let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("a pair of links");
    std::thread::scope(|scope| {
        scope.spawn(|| serve(theirs));
        let options = Options { wait, ..Options::default() };
        let mut channel = Channel::over(ours, &options).expect("the server answers");
        test(&mut channel);
        drop(channel);
    });
}

#[test]
fn blocking_calls_leave_other_calls_events_for_the_next_poll() {
    for policy in [WaitPolicy::BLOCK, WaitPolicy::default()] {
        with_server(policy, |channel| {
            let (say, count) = (method(channel, "Say"), method(channel, "Count"));
            channel.start(count, &PLAIN, 1, b"").expect("room");
            channel.start(say, &PLAIN, 2, b"two").expect("room");
            for round in 0..100 {
                let body = format!("round {round}").into_bytes();
                let response = channel.call_bytes(say, &PLAIN, &body).expect("an answer");
                assert_eq!(response, Response { body, metadata: Vec::new() });
            }
            channel.ping(Duration::from_secs(60)).expect("a sign of life");
            let mut seen = Vec::new();
            while seen.len() < 3 {
                channel.wait(policy, None);
                channel.poll(8, |event| seen.push((event.user, event.what.is_terminal())));
            }
            assert_eq!(seen, [(1, false), (1, false), (2, true)]);
            let streams = channel.call_bytes(count, &PLAIN, b"").expect_err("it streams");
            assert_eq!(streams.code(), Code::Unimplemented);
        });
    }
}

#[test]
fn a_wait_ends_with_its_time_with_a_deadline_and_with_the_peer() {
    with_server(WaitPolicy::BLOCK, |channel| {
        let count = method(channel, "Count");
        let soon = Some(Duration::from_micros(300));
        assert_eq!(channel.wait(WaitPolicy::BLOCK, soon), Outcome::TimedOut);
        channel.start(count, &CallOptions::within(Duration::from_millis(2)), 1, b"").expect("room");
        let mut failed = None;
        while failed.is_none() {
            assert_eq!(channel.wait(WaitPolicy::BLOCK, None), Outcome::Ready);
            channel.poll(8, |event| failed = event.what.into_failure());
        }
        assert_eq!(failed.map(|status| status.code()), Some(Code::DeadlineExceeded));
    });
    let (mut channel, script) = connected();
    drop(script);
    assert_eq!(channel.wait(WaitPolicy::BLOCK, None), Outcome::PeerGone);
    assert_eq!(channel.ping(Duration::from_secs(60)).expect_err("nobody is there").code(), Code::Unavailable);
}

#[test]
fn a_full_table_makes_a_blocking_call_wait_within_its_time() {
    with_server(WaitPolicy::default(), |channel| {
        let (say, count) = (method(channel, "Say"), method(channel, "Count"));
        (0..4).for_each(|user| {
            channel.start(count, &PLAIN, user, b"").expect("room");
        });
        let late = channel
            .call_bytes(say, &CallOptions::within(Duration::from_millis(3)), b"")
            .expect_err("no room");
        assert_eq!(late.code(), Code::DeadlineExceeded);
    });
}
