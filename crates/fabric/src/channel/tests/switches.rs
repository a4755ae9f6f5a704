//! Going over to another link.

use super::*;
use crate::channel::{Switch, SwitchError};
use crate::frame::END;

/// A new link on its way: the client said Hello with the token.
fn joining(channel: &mut Channel) -> (Cable, Script) {
    let (cable, ours, theirs) = Cable::lay(Weather::FAIR, 0);
    channel.switch(ours).expect("none is under way");
    events(channel, 0);
    let mut script = Script { link: theirs, frames: Frames::default() };
    let (header, hello) = script.hear().expect("a Hello");
    assert_eq!((header.kind, Hello::parse(&hello).expect("a Hello").join), (Kind::Hello, Some(TOKEN)));
    (cable, script)
}

fn last(count: u32) -> Header {
    Header { aux: count, ..Header::new(Kind::Last, 0) }
}

/// The old link was read to its end.
fn conclusion(count: u32) -> Header {
    Header { flags: END, ..last(count) }
}

#[test]
fn calls_go_on_over_the_new_link() {
    let (mut channel, mut old) = connected();
    let say = method(&channel, "Say");
    for user in 0..2 {
        channel.start(say, &PLAIN, user, b"").expect("room");
    }
    let (_, mut new) = joining(&mut channel);
    assert_eq!(channel.switching(), Switch::Joining);
    channel.start(say, &PLAIN, 2, b"").expect("room");
    let calls: Vec<_> = (0..2).map(|_| old.hear_a(Kind::Request).call).collect();
    // The server goes over; its first Reply there overtakes the Welcome, its Last comes before it.
    new.reply(calls[1], b"new");
    old.say(last(2), &[]);
    old.reply(calls[0], b"old");
    new.say(Header::new(Kind::Welcome, 0), &welcome().emit());
    let mut seen = events(&mut channel, 0);
    seen.sort();
    assert_eq!(seen, ["0 reply old", "1 reply new"]);
    let third = old.hear_a(Kind::Request).call;
    assert_eq!(old.hear_a(Kind::Last).aux, 4, "Hello and three Requests");
    events(&mut channel, 0);
    let heard = new.hear_a(Kind::Last);
    assert_eq!((heard.flags, heard.aux), (END, 2), "it has read what Last says");
    old.link.try_send(&[0; 16], &[]).expect("the client keeps the link until we have said so too");
    new.say(conclusion(4), &[]);
    events(&mut channel, 0);
    assert!(old.link.try_send(&[0; 16], &[]).is_err(), "the client has dropped it");
    channel.start(say, &PLAIN, 3, b"").expect("room");
    events(&mut channel, 0);
    let fourth = new.hear_a(Kind::Request).call;
    new.reply(third, b"three");
    new.reply(fourth, b"four");
    assert_eq!(events(&mut channel, 0), ["2 reply three", "3 reply four"]);
    assert_eq!((channel.switching(), channel.switch_error()), (Switch::Idle, None));
}

#[test]
fn a_second_switch_waits_for_the_first() {
    let (mut channel, mut old) = connected();
    let (_, mut new) = joining(&mut channel);
    let (_, ours, theirs) = Cable::lay(Weather::FAIR, 0);
    channel.switch(ours).expect("one may wait");
    let (_, third, _theirs) = Cable::lay(Weather::FAIR, 0);
    assert_eq!(channel.switch(third), Err(SwitchError::Busy));
    new.say(Header::new(Kind::Welcome, 0), &welcome().emit());
    events(&mut channel, 0);
    let mut newest = Script { link: theirs, frames: Frames::default() };
    assert!(newest.hear().is_none(), "the first is not over");
    assert_eq!(channel.switching(), Switch::Draining);
    old.say(last(1), &[]);
    events(&mut channel, 0);
    new.say(conclusion(1), &[]);
    events(&mut channel, 0);
    assert_eq!(channel.next_deadline(), Nanos::ZERO, "the next poll begins the second");
    events(&mut channel, 0);
    newest.hear_a(Kind::Hello);
}

#[test]
fn a_refused_switch_changes_nothing() {
    let (mut channel, mut old) = connected();
    let say = method(&channel, "Say");
    let (_, mut new) = joining(&mut channel);
    new.say(Header { method: 9, ..Header::new(Kind::Refuse, 0) }, b"no");
    events(&mut channel, 0);
    assert!(matches!(channel.switch_error(), Some(ConnectError::Refused(_))));
    assert_eq!(channel.switching(), Switch::Idle);
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let call = old.hear_a(Kind::Request).call;
    old.reply(call, b"still here");
    assert_eq!(events(&mut channel, 0), ["1 reply still here"]);
}

#[test]
fn an_old_link_that_breaks_takes_only_its_calls() {
    let (mut channel, old) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let (_, mut new) = joining(&mut channel);
    new.say(Header::new(Kind::Welcome, 0), &welcome().emit());
    events(&mut channel, 0);
    channel.start(say, &PLAIN, 2, b"").expect("room");
    drop(old);
    assert_eq!(events(&mut channel, 0), ["1 lost UNAVAILABLE"]);
    let mut heard: Vec<_> = std::iter::from_fn(|| new.hear()).map(|(header, _)| header.kind).collect();
    heard.sort_by_key(|&kind| kind as u8);
    assert_eq!(heard, [Kind::Request, Kind::Cancel, Kind::Last]);
    assert_eq!(channel.in_flight(), 2, "the lost call's number is not used again");
    assert!(channel.end().is_none());
}

#[test]
fn a_server_that_went_over_to_a_lost_link_is_lost() {
    let (mut channel, mut old) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let (cable, _new) = joining(&mut channel);
    old.say(last(1), &[]);
    events(&mut channel, 0);
    cable.cut();
    assert_eq!(events(&mut channel, 0), ["1 lost UNAVAILABLE"]);
}

#[test]
fn what_the_server_did_not_receive_is_lost() {
    let (mut channel, mut old) = connected();
    let say = method(&channel, "Say");
    channel.start(say, &PLAIN, 1, b"").expect("room");
    let (_, mut new) = joining(&mut channel);
    new.say(Header::new(Kind::Welcome, 0), &welcome().emit());
    old.say(last(1), &[]);
    assert!(events(&mut channel, 0).is_empty());
    drop(old);
    assert!(events(&mut channel, 0).is_empty(), "all was read; the server will say what it read");
    new.say(conclusion(1), &[]);
    assert_eq!(events(&mut channel, 0), ["1 lost UNAVAILABLE"]);
    assert_eq!((channel.switching(), channel.end()), (Switch::Idle, None));
}
