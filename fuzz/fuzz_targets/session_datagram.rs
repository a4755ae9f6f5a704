//! Arbitrary datagrams to both ends of an open session and to a listener: nothing panics, memory stays within its
//! bounds, no stranger gets more bytes than it sent.
//!
//! The input is a row of (whom, length, bytes). Most datagrams get a good magic, checksum, session and token, for
//! without these nothing is read. `cargo +nightly fuzz run session_datagram`
#![no_main]

use base::Nanos;
use libfuzzer_sys::fuzz_target;
use protocol::session::{Config, Heard, Listener, Session, session_of};

const SESSION: u64 = 2;

struct Ends {
    opener: Session,
    accepter: Session,
    listener: Listener,
    token: [u8; 8],
}

fn transmit(session: &mut Session, now: Nanos) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    session.poll_transmit(now, &mut out).map(|_| out)
}

fn open() -> Ends {
    let config = Config {
        max_message: 5000,
        send_bytes: 10_000,
        send_messages: 16,
        receive_bytes: 10_000,
        receive_messages: 16,
        max_in_flight: 16,
        ..Config::default()
    };
    let mut opener = Session::open(&config, Nanos::ZERO, 1, SESSION);
    let mut listener = Listener::new(&config, [3, 4]);
    loop {
        let open = transmit(&mut opener, Nanos::ZERO).expect("an Open");
        let mut reply = Vec::new();
        match listener.handle_datagram(Nanos::ZERO, &"here", true, &open, &mut reply) {
            Heard::Session(mut accepter) => {
                let accept = transmit(&mut accepter, Nanos::ZERO).expect("an Accept");
                opener.handle_datagram(Nanos::ZERO, &accept);
                let confirm = transmit(&mut opener, Nanos::ZERO).expect("a Data");
                accepter.handle_datagram(Nanos::ZERO, &confirm);
                let token = accept[16..24].try_into().expect("eight bytes");
                return Ends { opener, accepter: *accepter, listener, token };
            }
            _ => opener.handle_datagram(Nanos::ZERO, &reply),
        }
    }
}

/// Makes bytes worth reading.
fn dress(datagram: &mut [u8], token: [u8; 8]) {
    if datagram.len() < 24 {
        return;
    }
    datagram[4..7].copy_from_slice(b"MS\x01");
    datagram[7] %= 12;
    datagram[8..16].copy_from_slice(&SESSION.to_le_bytes());
    datagram[16..24].copy_from_slice(&token);
    let sum = crc32c::crc32c(&datagram[4..]);
    datagram[..4].copy_from_slice(&sum.to_le_bytes());
}

fn check(session: &mut Session, now: Nanos) {
    for count in 0.. {
        let Some(datagram) = transmit(session, now) else { break };
        assert!(count < 1000, "it never falls silent");
        assert_eq!(session_of(&datagram), Some(SESSION));
    }
    assert!(session.memory() <= session.memory_bound(), "{} bytes", session.memory());
    assert!(session.held_bytes() <= 10_000);
}

fuzz_target!(|input: &[u8]| {
    let mut ends = open();
    ends.opener.send(&[&[7; 3000]]).expect("room");
    ends.accepter.send(&[b"hello"]).expect("room");
    let (mut now, mut rest) = (Nanos::from_micros(10), input);
    while let [whom, len, tail @ ..] = rest {
        let (datagram, after) = tail.split_at(tail.len().min(usize::from(*len) * 2));
        rest = after;
        now = now.plus(Nanos::from_micros(u64::from(whom >> 4) * 1000));
        let mut datagram = datagram.to_vec();
        if whom & 8 == 0 {
            dress(&mut datagram, ends.token);
        }
        match whom & 3 {
            0 => ends.opener.handle_datagram(now, &datagram),
            1 => ends.accepter.handle_datagram(now, &datagram),
            2 => {
                let mut out = Vec::new();
                ends.listener.handle_datagram(now, &"there", true, &datagram, &mut out);
                assert!(out.len() <= datagram.len(), "more out than in");
            }
            _ => while ends.opener.poll_message().or(ends.accepter.poll_message()).is_some() {},
        }
        check(&mut ends.opener, now);
        check(&mut ends.accepter, now);
    }
});
