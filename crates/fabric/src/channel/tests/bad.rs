//! Servers that break the protocol, and servers that are not the right ones.

use super::*;
use crate::channel::calls::MOST;
use crate::channel::stream::MAX_WINDOW;
use crate::frame::MAX_BODY;
use crate::status::Code;

/// A frame from the server: what kind, of which call, and its `aux`.
type Bad = (Kind, u32, u32);

fn ends_with(method_name: &str, bad: &[Bad], why: &str) {
    let (mut channel, mut script) = connected();
    let method = method(&channel, method_name);
    let options = CallOptions { timeout: None, ..PLAIN };
    channel.start(method, &options, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    for &(kind, relative, aux) in bad {
        let header = Header { aux, ..Header::new(kind, call.wrapping_add(relative)) };
        script.say(header, &[]);
    }
    let seen = events(&mut channel, 0);
    let end = channel.end().unwrap_or_default();
    assert!(end.contains(why), "{bad:?} ended as {end:?}");
    assert_eq!(seen.iter().filter(|event| !event.contains("item")).count(), 1, "one outcome: {seen:?}");
    assert!(script.link.try_send(&[0; 16], &[]).is_err(), "the link is closed");
}

#[test]
fn frames_that_mean_nothing_end_the_connection() {
    ends_with("Say", &[(Kind::Reply, 1, 0)], "a Reply to no call");
    ends_with("Say", &[(Kind::Reply, 1 << 16, 0)], "a Reply to no call");
    ends_with("Say", &[(Kind::Reply, 0, 1)], "counts items of a method without any");
    ends_with("Say", &[(Kind::Item, 0, 0)], "an item of a method without any");
    ends_with("Say", &[(Kind::Item, 1, 0)], "an item of no call");
    ends_with("Say", &[(Kind::Credit, 0, 1)], "credit for a method that takes no stream");
    ends_with("Say", &[(Kind::Last, 0, 1)], "Last on the only link");
    ends_with("Say", &[(Kind::Request, 0, 1)], "only a client sends");
    ends_with("Say", &[(Kind::Welcome, 0, 1)], "second Welcome");
    ends_with("Count", &[(Kind::Item, 0, WINDOW)], "an item outside its window");
    ends_with("Count", &[(Kind::Item, 0, 1), (Kind::Item, 0, 1)], "an item came twice");
    ends_with("Count", &[(Kind::Item, 0, 0), (Kind::Item, 0, 0)], "outside its window");
    ends_with("Count", &[(Kind::Reply, 0, WINDOW + 1)], "counts other items");
    ends_with("Count", &[(Kind::Item, 0, 0), (Kind::Reply, 0, 0)], "counts other items");
    ends_with("Count", &[(Kind::Reply, 0, 2), (Kind::Reply, 0, 2)], "a second Reply");
    ends_with("Sum", &[(Kind::Credit, 0, u32::MAX)], "more credit than a stream has numbers");
    ends_with("Say", &[(Kind::Ping, 0, 0); 17], "more pings");
}

#[test]
fn garbage_ends_the_connection() {
    for garbage in [&b""[..], b"short", &[0xff; 16], &[0; 40]] {
        let (mut channel, mut script) = connected();
        let say = method(&channel, "Say");
        channel.start(say, &PLAIN, 1, b"").expect("room");
        script.link.try_send(garbage, &[]).expect("room");
        script.link.flush(Nanos(0));
        assert_eq!(events(&mut channel, 0), ["1 lost UNAVAILABLE"]);
        assert!(channel.end().is_some_and(|why| why.starts_with("the server broke the protocol")));
    }
}

#[test]
fn an_oversized_reply_ends_the_connection() {
    let (mut channel, mut script) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let call = script.hear_a(Kind::Request).call;
    script.reply(call, &vec![0; MAX_BODY + 1]);
    assert_eq!(events(&mut channel, 0), ["1 lost UNAVAILABLE"]);
}

#[test]
fn version_skew_is_told_by_number() {
    let newer = Welcome { version: VERSION + 1, ..welcome() };
    let error = refused(&Options::default(), Header::new(Kind::Welcome, 0), &newer.emit());
    assert_eq!(error, ConnectError::Version { theirs: VERSION + 1 });
    assert!(error.to_string().contains("update the client"));
    // A version whose Welcome looks otherwise behind the number.
    let older = refused(&Options::default(), Header::new(Kind::Welcome, 0), &[0, 0, 9]);
    assert!(older.to_string().contains("update the server"));
}

#[test]
fn a_wrong_schema_is_refused_when_asked_for() {
    let services = vec![("demo.Echo".to_owned(), 8)];
    let lax = Options { services: services.clone(), ..Options::default() };
    let body = welcome().emit();
    assert!(shake(&lax, Header::new(Kind::Welcome, 0), &body).is_ok());
    let exact = Options { services, exact: true, ..Options::default() };
    let error = refused(&exact, Header::new(Kind::Welcome, 0), &body);
    assert_eq!(error, ConnectError::Schema { service: "demo.Echo".to_owned() });
    let same = Options { services: vec![("demo.Echo".to_owned(), 7)], ..exact };
    assert!(shake(&same, Header::new(Kind::Welcome, 0), &body).is_ok());
}

#[test]
fn a_refusal_says_why() {
    let refuse = Header { method: Code::Unauthenticated as u16, ..Header::new(Kind::Refuse, 0) };
    let error = refused(&Options::default(), refuse, b"who are you");
    assert!(matches!(&error, ConnectError::Refused(status) if status.code() == Code::Unauthenticated));
    assert_eq!(error.to_string(), "the server refused: UNAUTHENTICATED: who are you");
}

#[test]
fn bounds_that_a_server_makes_up_are_refused() {
    let good = welcome();
    for bad in [
        Welcome { calls: 0, ..good.clone() },
        Welcome { window: 0, ..good.clone() },
        Welcome { window: MAX_WINDOW + 1, ..good.clone() },
    ] {
        let error = refused(&Options::default(), Header::new(Kind::Welcome, 0), &bad.emit());
        assert!(matches!(error, ConnectError::Malformed(_)));
    }
    let many = Welcome { calls: u32::MAX, ..good };
    let options = Options { calls: u32::MAX, ..Options::default() };
    let (channel, _script) =
        shake(&options, Header::new(Kind::Welcome, 0), &many.emit()).expect("as many as may be");
    assert_eq!(channel.max_calls(), MOST);
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let (_, ours, theirs) = Cable::lay(Weather::FAIR, 0);
    let options = Options { timeout: std::time::Duration::from_millis(1), ..Options::default() };
    let error = Channel::over(ours, &options).expect_err("nobody is there");
    assert_eq!(error, ConnectError::TimedOut(options.timeout));
    drop(theirs);
    let (_, ours, theirs) = Cable::lay(Weather::FAIR, 0);
    drop(theirs);
    assert!(matches!(Channel::over(ours, &options), Err(ConnectError::Lost(_))));
}
