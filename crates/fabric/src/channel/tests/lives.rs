//! Unary calls from start to outcome.

use super::*;
use crate::channel::StartError;
use crate::frame::push_metadata;
use crate::status::Code;
use std::time::Duration;

#[test]
fn calls_are_answered_in_any_order() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    assert!(say.is_unary() && channel.method("/demo.Echo/Nothing").is_none());
    for user in 10..13 {
        channel.start(say, &PLAIN, user, format!("{user}?").as_bytes()).expect("room");
    }
    assert!(events(&mut channel, 0).is_empty());
    let calls: Vec<_> = (0..3).map(|_| script.hear().expect("a Request")).collect();
    assert!(calls.iter().zip(10..).all(|((_, body), user)| *body == format!("{user}?").into_bytes()));
    for at in [2, 0, 1] {
        script.reply(calls[at].0.call, &[&b"to "[..], &calls[at].1].concat());
    }
    assert_eq!(events(&mut channel, 0), ["12 reply to 12?", "10 reply to 10?", "11 reply to 11?"]);
    assert_eq!(channel.in_flight(), 0);
}

#[test]
fn a_status_comes_with_its_code_and_text() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    script.say(Header { method: Code::NotFound as u16, ..Header::new(Kind::Reply, call) }, b"no such key");
    let mut status = None;
    channel.poll_at(Nanos(0), 1, |event| status = Some(event.what.clone().into_failure()));
    let status = status.flatten().expect("it failed");
    assert_eq!((status.code(), status.message()), (Code::NotFound, "no such key"));
}

#[test]
fn metadata_goes_both_ways() {
    let (mut channel, mut script) = connected();
    let mut metadata = Vec::new();
    assert!(push_metadata(&mut metadata, "user", b"ada"));
    let options = CallOptions { metadata: &metadata, ..PLAIN };
    let say = method(&channel, "Say");
    channel.start(say, &options, 1, b"body").expect("room");
    let (header, body) = script.hear().expect("a Request");
    assert_eq!((header.metadata as usize, &body[..]), (metadata.len(), &b"body"[..]));
    let reply = Header { metadata: metadata.len() as u32, ..Header::new(Kind::Reply, header.call) };
    script.say(reply, &[&metadata[..], b"back"].concat());
    channel.poll_at(Nanos(0), 1, |event| {
        assert_eq!(event.what, What::Reply(b"back"));
        assert_eq!(event.metadata_entries().collect::<Vec<_>>(), [("user", &b"ada"[..])]);
    });
}

#[test]
fn a_deadline_ends_the_call_but_not_its_number() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    channel.poll_at(Nanos(0), 0, |_| {});
    channel.start(say, &CallOptions::within(Duration::from_micros(100)), 1, b"").expect("room");
    let request = script.hear_a(Kind::Request);
    assert_eq!(request.aux, 100);
    assert!(events(&mut channel, 50_000).is_empty());
    assert_eq!(events(&mut channel, 150_000), ["1 failed DEADLINE_EXCEEDED"]);
    assert_eq!(script.hear_a(Kind::Cancel).call, request.call);
    // The server does not count fewer calls than are open there.
    let more: Vec<_> = (2..6).map(|user| channel.start(say, &PLAIN, user, b"").is_ok()).collect();
    assert_eq!(more, [true, true, true, false]);
    script.reply(request.call, b"too late");
    assert!(events(&mut channel, 150_000).is_empty());
    channel.start(say, &PLAIN, 6, b"").expect("room again");
    assert_eq!(channel.in_flight(), 4);
}

#[test]
fn a_cancelled_call_ends_once() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    let call = channel.start(say, &PLAIN, 1, b"").expect("room");
    channel.cancel(call);
    channel.cancel(call);
    assert_eq!(events(&mut channel, 0), ["1 failed CANCELLED"]);
    let number = script.hear_a(Kind::Request).call;
    assert_eq!(script.hear_a(Kind::Cancel).call, number);
    script.reply(number, b"done anyway");
    assert!(events(&mut channel, 0).is_empty());
    channel.start(say, &PLAIN, 2, b"").expect("room");
    channel.cancel(call);
    assert!(events(&mut channel, 0).is_empty(), "the number was another call's");
}

#[test]
fn a_full_table_says_so() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    assert_eq!(channel.max_calls(), 4);
    for user in 0..4 {
        channel.start(say, &PLAIN, user, b"").expect("room");
    }
    assert_eq!(channel.start(say, &PLAIN, 4, b""), Err(StartError::Full));
    events(&mut channel, 0);
    let call = script.hear_a(Kind::Request).call;
    script.reply(call, b"");
    assert_eq!(events(&mut channel, 0), ["0 reply "]);
    channel.start(say, &PLAIN, 4, b"").expect("room");
}

#[test]
fn a_server_that_dies_ends_every_call_as_lost() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    for user in 0..3 {
        channel.start(say, &PLAIN, user, b"").expect("room");
    }
    events(&mut channel, 0);
    let call = script.hear_a(Kind::Request).call;
    script.reply(call, b"");
    drop(script);
    assert_eq!(events(&mut channel, 0), ["0 reply ", "1 lost UNAVAILABLE", "2 lost UNAVAILABLE"]);
    assert_eq!((channel.start(say, &PLAIN, 5, b""), channel.in_flight()), (Err(StartError::Gone), 0));
    assert!(channel.end().is_some() && channel.transport().is_none());
}

#[test]
fn after_goodbye_only_what_is_in_flight_ends() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    script.say(Header::new(Kind::Goodbye, 0), &[]);
    assert!(events(&mut channel, 0).is_empty());
    let refused = channel.start(say, &PLAIN, 2, b"").expect_err("no new calls");
    assert_eq!(crate::status::Status::from(refused).code(), Code::Unavailable);
    script.reply(call, b"last");
    assert_eq!(events(&mut channel, 0), ["1 reply last"]);
}

#[test]
fn pings_are_answered() {
    let (mut channel, mut script) = connected();
    for aux in 0..3 {
        script.say(Header { aux, ..Header::new(Kind::Ping, 0) }, &[]);
    }
    events(&mut channel, 0);
    assert!((0..3).all(|aux| script.hear_a(Kind::Pong).aux == aux));
}

#[test]
fn the_bounds_of_a_call_are_checked_before_it_is_sent() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    let long = vec![0; crate::frame::MAX_MESSAGE + 1];
    assert_eq!(channel.start(say, &PLAIN, 1, &long), Err(StartError::TooLarge));
    let metadata = CallOptions { metadata: &long[..crate::frame::MAX_METADATA + 1], ..PLAIN };
    assert_eq!(channel.start(say, &metadata, 1, b""), Err(StartError::TooLarge));
    assert!(script.hear().is_none() && channel.in_flight() == 0);
    channel.start(say, &PLAIN, 1, &long[1..]).expect("just fits");
}
