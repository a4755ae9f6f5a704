//! How sessions begin and end, datagram by datagram.

use super::super::wire::{self, Body, Datagram, REFUSE_VERSION};
use super::super::{Config, Heard, Listener, Lost, Refusal, SendError, Session, answer_stray};
use base::Nanos;

const NOW: Nanos = Nanos(1_000_000_000);

fn transmit(session: &mut Session, now: Nanos) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    session.poll_transmit(now, &mut out).map(|len| {
        assert_eq!(len, out.len());
        out
    })
}

/// Hands each end's datagrams to the other until both are silent.
fn settle(a: &mut Session, b: &mut Session, now: Nanos) {
    loop {
        let (to_b, to_a) = (transmit(a, now), transmit(b, now));
        if to_b.is_none() && to_a.is_none() {
            return;
        }
        to_b.iter().for_each(|d| b.handle_datagram(now, d));
        to_a.iter().for_each(|d| a.handle_datagram(now, d));
    }
}

fn reply(listener: &mut Listener, from: &str, datagram: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match listener.handle_datagram(NOW, &from, true, datagram, &mut out) {
        Heard::Reply(len) => assert_eq!(len, out.len()),
        other => panic!("{other:?}"),
    }
    assert!(out.len() <= datagram.len(), "more out than in");
    out
}

/// Both ends, established.
fn pair(config: &Config) -> (Session, Session, Listener) {
    let mut opener = Session::open(config, NOW, 11, 22);
    let mut listener = Listener::new(config, [3, 4]);
    let open = transmit(&mut opener, NOW).expect("an Open");
    opener.handle_datagram(NOW, &reply(&mut listener, "here", &open));
    let open = transmit(&mut opener, NOW).expect("an Open with a cookie");
    let Heard::Session(mut accepter) = listener.handle_datagram(NOW, &"here", true, &open, &mut Vec::new())
    else {
        panic!("not accepted");
    };
    settle(&mut opener, &mut accepter, NOW);
    assert!(opener.is_established() && accepter.is_established());
    (opener, *accepter, listener)
}

#[test]
fn a_message_travels_with_the_handshake_done() {
    let (mut opener, mut accepter, _) = pair(&Config::default());
    assert_eq!(opener.send(&[b"he", b"llo"]), Ok(()));
    assert_eq!(opener.send(&[]), Ok(()));
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(accepter.poll_message(), Some(&b"hello"[..]));
    assert_eq!(accepter.poll_message(), Some(&b""[..]), "an empty message is a message");
    assert_eq!(accepter.poll_message(), None);
    assert_eq!(opener.stats().queued_messages, 0);
}

#[test]
fn small_messages_share_a_datagram() {
    let (mut opener, mut accepter, _) = pair(&Config::default());
    let before = opener.stats().datagrams_sent;
    for i in 0..16u8 {
        opener.send(&[&[i; 64]]).expect("room");
    }
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(opener.stats().datagrams_sent - before, 1, "16 × 68 bytes fit into 1452");
    for i in 0..16u8 {
        assert_eq!(accepter.poll_message(), Some(&[i; 64][..]));
    }
}

#[test]
fn a_forged_address_gets_a_cookie_and_nothing_else() {
    let mut listener = Listener::new(&Config::default(), [3, 4]);
    let mut opener = Session::open(&Config::default(), NOW, 11, 22);
    let open = transmit(&mut opener, NOW).expect("an Open");
    let retry = reply(&mut listener, "here", &open);
    opener.handle_datagram(NOW, &retry);
    let proven = transmit(&mut opener, NOW).expect("an Open");
    let from_elsewhere = reply(&mut listener, "elsewhere", &proven);
    assert_ne!(from_elsewhere, retry, "a cookie is good for one address");
    let later = NOW.plus(Nanos::from_secs(100));
    let mut out = Vec::new();
    assert!(
        matches!(listener.handle_datagram(later, &"here", true, &proven, &mut out), Heard::Reply(_)),
        "and not for ever"
    );
    assert_eq!(listener.accepted(), 0);
    assert!(matches!(listener.handle_datagram(NOW, &"here", true, &proven, &mut out), Heard::Session(_)));
}

#[test]
fn a_full_listener_and_another_version_refuse() {
    let config = Config::default();
    let mut listener = Listener::new(&config, [3, 4]);
    let mut opener = Session::open(&config, NOW, 11, 22);
    let open = transmit(&mut opener, NOW).expect("an Open");
    opener.handle_datagram(NOW, &reply(&mut listener, "here", &open));
    let open = transmit(&mut opener, NOW).expect("an Open");
    let mut out = Vec::new();
    assert!(matches!(listener.handle_datagram(NOW, &"here", false, &open, &mut out), Heard::Reply(_)));
    opener.handle_datagram(NOW, &out);
    assert_eq!(opener.lost(), Some(Lost::Refused(Refusal::Busy)));

    let mut future = open.clone();
    future[6] = 2;
    let sum = crc32c::crc32c(&future[4..]);
    future[..4].copy_from_slice(&sum.to_le_bytes());
    let refused = reply(&mut listener, "here", &future);
    let body = wire::parse(&refused).map(|d| d.body);
    assert_eq!(body, Ok(Body::Refuse { reason: REFUSE_VERSION, version: 1 }));

    let mut opener = Session::open(&config, NOW, 11, 22);
    let body = Body::Refuse { reason: REFUSE_VERSION, version: 3 };
    let mut refusal = Vec::new();
    wire::emit(&mut refusal, &Datagram { session: 22, token: 11, body });
    opener.handle_datagram(NOW, &refusal);
    assert_eq!(opener.lost(), Some(Lost::Refused(Refusal::Version(3))));
    assert_eq!(opener.lost().expect("just seen").to_string(), "the peer speaks version 3, not 1");
}

#[test]
fn a_restarted_accepter_is_noticed_by_its_epoch() {
    let (mut opener, _, _) = pair(&Config::default());
    opener.send(&[b"are you there?"]).expect("room");
    let data = transmit(&mut opener, NOW).expect("a Data");
    let mut restarted = Listener::new(&Config::default(), [5, 6]);
    let reset = reply(&mut restarted, "here", &data);
    opener.handle_datagram(NOW, &reset);
    assert_eq!(opener.lost(), Some(Lost::Restarted));
    assert_eq!(opener.send(&[b"?"]), Err(SendError::Gone));
}

#[test]
fn an_accepter_that_forgot_resets_and_a_forged_reset_does_nothing() {
    let (mut opener, accepter, mut listener) = pair(&Config::default());
    drop(accepter);
    opener.send(&[b"are you there?"]).expect("room");
    let data = transmit(&mut opener, NOW).expect("a Data");
    let reset = reply(&mut listener, "here", &data);
    let Ok(Datagram { session, token, body }) = wire::parse(&reset) else { panic!("it does not parse") };
    let mut forged = Vec::new();
    wire::emit(&mut forged, &Datagram { session, token: token ^ 1, body });
    opener.handle_datagram(NOW, &forged);
    assert_eq!(opener.lost(), None);
    opener.handle_datagram(NOW, &reset);
    assert_eq!(opener.lost(), Some(Lost::Reset));
}

#[test]
fn a_restarted_opener_with_the_old_number_ends_the_old_session_and_begins_a_new_one() {
    let (_, mut accepter, mut listener) = pair(&Config::default());
    let mut opener = Session::open(&Config::default(), NOW, 99, 22);
    let open = transmit(&mut opener, NOW).expect("an Open");
    accepter.handle_datagram(NOW, &open);
    assert_eq!(accepter.lost(), None, "it may be an old Open");
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(accepter.lost(), Some(Lost::Restarted), "the ping found a stranger");
    let again_at = opener.next_deadline();
    let open = transmit(&mut opener, again_at).expect("an Open again");
    opener.handle_datagram(NOW, &reply(&mut listener, "here", &open));
    let open = transmit(&mut opener, NOW.plus(Nanos::from_secs(1))).expect("an Open with a cookie");
    assert!(matches!(
        listener.handle_datagram(NOW, &"here", true, &open, &mut Vec::new()),
        Heard::Session(_)
    ));
}

#[test]
fn close_delivers_first() {
    let (mut opener, mut accepter, _) = pair(&Config::default());
    opener.send(&[&[7; 10_000]]).expect("room");
    opener.close(NOW);
    assert_eq!(opener.send(&[b"more"]), Err(SendError::Gone));
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(accepter.lost(), None, "its last acknowledgement is still due");
    let acknowledged_at = accepter.next_deadline();
    settle(&mut opener, &mut accepter, acknowledged_at);
    assert_eq!((opener.lost(), accepter.lost()), (Some(Lost::Closed), Some(Lost::Closed)));
    assert_eq!(accepter.poll_message(), Some(&[7; 10_000][..]));
}

#[test]
fn a_lost_closed_is_said_again() {
    let (mut opener, mut accepter, _) = pair(&Config::default());
    opener.close(NOW);
    let close = transmit(&mut opener, NOW).expect("a Close");
    accepter.handle_datagram(NOW, &close);
    transmit(&mut accepter, NOW).expect("a Closed, which gets lost");
    let again_at = opener.next_deadline();
    let close = transmit(&mut opener, again_at).expect("a Close again");
    accepter.handle_datagram(NOW, &close);
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(opener.lost(), Some(Lost::Closed));
}

#[test]
fn a_close_to_nobody_ends_well() {
    let (mut opener, _, listener) = pair(&Config::default());
    opener.close(NOW);
    let close = transmit(&mut opener, NOW).expect("a Close");
    let mut reset = Vec::new();
    answer_stray(listener.epoch(), &close, &mut reset).expect("a Reset");
    opener.handle_datagram(NOW, &reset);
    assert_eq!(opener.lost(), Some(Lost::Closed));
    assert_eq!(answer_stray(1, &reset, &mut Vec::new()), None, "nobody answers a Reset");
}

#[test]
fn silence_ends_both_and_a_sign_of_life_is_asked_for_first() {
    let (mut opener, mut accepter, _) = pair(&Config::default());
    let mut now = NOW;
    for _ in 0..100 {
        now = opener.next_deadline().min(accepter.next_deadline());
        settle(&mut opener, &mut accepter, now);
    }
    assert!(now > NOW.plus(Nanos::from_secs(50)), "pings keep it alive: {now}");
    assert_eq!((opener.lost(), accepter.lost()), (None, None));
    let cut = now;
    while opener.lost().is_none() {
        now = opener.next_deadline();
        while transmit(&mut opener, now).is_some() {}
    }
    assert_eq!(opener.lost(), Some(Lost::Timeout));
    assert!(now <= cut.plus(Config::default().lost_after));
    assert!(opener.stats().timeouts < 30, "timeouts back off: {:?}", opener.stats());
}

#[test]
fn a_full_session_says_so_and_goes_on_when_the_user_takes() {
    let small = Config { max_message: 1000, receive_bytes: 1000, send_bytes: 2000, ..Config::default() };
    let (mut opener, mut accepter, _) = pair(&small);
    assert_eq!(opener.send(&[&[0; 1001]]), Err(SendError::TooLarge));
    for _ in 0..2 {
        opener.send(&[&[1; 1000]]).expect("room");
    }
    assert_eq!(opener.send(&[&[1; 1]]), Err(SendError::Full));
    settle(&mut opener, &mut accepter, NOW);
    assert_eq!(opener.stats().queued_messages, 1, "one window of one message");
    opener.send(&[&[2; 1000]]).expect("room again");
    for expected in [1, 1, 2] {
        assert_eq!(accepter.poll_message(), Some(&[expected; 1000][..]));
        settle(&mut opener, &mut accepter, NOW);
    }
    assert_eq!(opener.stats().queued_messages, 0);
    assert_eq!((opener.stats().timeouts, opener.stats().lost_packets), (0, 0));
}
