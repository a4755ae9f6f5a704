//! The conformance suite of links: every point of the contract in `fabric::link`, for every transport and mode.

mod rig;

use base::units::Nanos;
use base::{Clock, Prng};
use fabric::frame::{HEADER, MAX_FRAME};
use fabric::link::{Frames, Link, Lost, SendError};
use rig::Kind;
use std::time::Duration;

const HANG: Duration = Duration::from_secs(60);

fn now() -> Nanos {
    Clock::shared().now()
}

/// Runs `check` on every kind, and names the kind that fails.
fn on_every_kind(check: impl Fn(Kind)) {
    for &kind in Kind::ALL {
        eprintln!("{kind:?}");
        check(kind);
    }
}

fn send(link: &mut dyn Link, bytes: &[u8]) -> Result<(), SendError> {
    let (head, body) = bytes.split_at(bytes.len().min(HEADER + bytes.len() % 3 * 8));
    link.try_send(head, body)
}

/// Everything that can be received now, as it comes.
fn receive(link: &mut dyn Link) -> Result<Vec<Vec<u8>>, Lost> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    while link.recv(now(), 64, &mut frames)? > 0 {
        while let Some(bytes) = frames.pop() {
            all.push(bytes.to_vec());
        }
        frames.clear();
    }
    Ok(all)
}

/// Receives until there are `count`, with whatever the other side must do meanwhile.
fn receive_count(to: &mut dyn Link, from: &mut dyn Link, count: usize) -> Vec<Vec<u8>> {
    let (started, mut all) = (now(), Vec::new());
    while all.len() < count {
        from.flush(now());
        all.extend(receive(to).expect("the peer is there"));
        assert!(now().since(started) < HANG.into(), "{} of {count} frames came", all.len());
    }
    all
}

/// Points 1, 3, 4: whole, once, after a flush, of every length.
#[test]
fn frames_of_every_length_arrive_whole() {
    on_every_kind(|kind| {
        let (mut a, mut b) = kind.links();
        let lengths = (HEADER..200).chain([1000, 1 << 16, 1 << 19, (1 << 20) + 1, MAX_FRAME]);
        for len in lengths {
            let mut bytes = vec![0; len];
            Prng::new(len as u64).fill(&mut bytes);
            send(&mut *a, &bytes).expect("room");
            assert!(receive_count(&mut *b, &mut *a, 1) == [bytes], "{kind:?} {len}");
        }
        assert_eq!(a.try_send(&[0; HEADER], &vec![0; MAX_FRAME - HEADER + 1]), Err(SendError::TooLarge));
    });
}
