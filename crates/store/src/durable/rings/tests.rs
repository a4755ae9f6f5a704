//! The worlds of `durable/tests.rs` on rings: three clients write their requests into lanes of their own, the server stamps them; power fails, torn at any
//! word of any line.

use super::super::effect::State;
use super::super::journal::Planted as JournalPlanted;
use super::super::tests::{IDENTITY, Kind, Sent, Shared, finds, run};
use super::*;
use crate::redo::Recovery;
use crate::redo::media::{Crashing, Memory};
use base::Prng;
use std::cell::Cell;

const LANE: usize = 32 << 10;
const CLIENTS: usize = 3;

thread_local! {
    /// What is wrong with logs of this thread.
    pub(super) static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Client `n` writes to lane `n + 1`.
pub(in crate::durable) struct Clients(Vec<Writer>);

impl Clients {
    /// A request is written, if there is room: all before its value, and that.
    fn write(
        &mut self,
        log: &mut RingLog<Crashing>,
        request: (&[u8], &[u8]),
        prng: &mut Prng,
    ) -> Option<(usize, u64)> {
        let client = prng.below(CLIENTS as u64) as usize;
        let (writer, lane) = (&mut self.0[client], client + 1);
        let bytes = [request.0, request.1, b"\r\n"].concat();
        let position = writer.place(bytes.len())?;
        let at = writer.offset(position) + STAMP as u64;
        // Where power is off already, the log finds it out by itself.
        let _ = log.medium_mut(lane).write_at(at, &bytes);
        Some((lane, position))
    }
}

impl Kind for RingLog<Crashing> {
    type Clients = Clients;

    fn create() -> Self {
        let media = (0..=CLIENTS).map(|_| Crashing::new(LANE)).collect();
        RingLog::create(media, IDENTITY).expect("lanes that are large enough")
    }

    fn reopen(self, prng: &mut Prng, from: u64) -> (Self, Recovery) {
        let media = self.into_media().into_iter().map(|medium| medium.crash(prng)).collect();
        RingLog::open(media, IDENTITY, from).expect("they are there")
    }

    fn clients(&self) -> Clients {
        Clients((1..=CLIENTS).map(|lane| Writer::new(self.lane_bytes(lane), self.begin(lane))).collect())
    }

    fn stir(journal: &mut Journal<Self, Shared>, clients: &mut Clients, prng: &mut Prng) {
        let client = prng.below(CLIENTS as u64) as usize;
        clients.0[client].heard(journal.rings().freed(client + 1));
        if let Some((lane, position)) = clients.write(journal.rings_mut(), (b"get key1", b""), prng) {
            assert!(journal.rings_mut().skip(lane, position, "get key1\r\n".len()), "it is an honest client");
        }
    }

    fn send(&mut self, clients: &mut Clients, (key, value): (&[u8], &[u8]), prng: &mut Prng) -> Option<Sent> {
        let line = [b"set ", key, b" 0 0 5\r\n"].concat();
        let (lane, position) = clients.write(self, (&line, value), prng)?;
        Some(Place { lane, position, key_at: 4, value_at: line.len() as u32 })
    }

    fn after(
        journal: &mut Journal<Self, Shared>,
        (store, now): (&Store, u32),
        key: Key<'_>,
        did: (Before, What),
        sent: Option<Sent>,
    ) -> u64 {
        match sent {
            Some(place) => journal.after_at((store, now), key, did, place),
            None => journal.after(store, now, key, did.0, did.1),
        }
    }

    fn medium(&mut self, prng: &mut Prng) -> &mut Crashing {
        self.medium_mut(prng.below(CLIENTS as u64 + 1) as usize)
    }
}

#[test]
fn what_was_promised_is_there_after_whatever_end_and_nothing_else_is() {
    let (mut snapshots, mut refused, mut torn) = (0, 0, 0);
    for seed in 0..40 {
        let one = std::panic::catch_unwind(|| run::<RingLog<Crashing>>(seed, None));
        let one = one.unwrap_or_else(|_| panic!("seed {seed}"));
        (snapshots, refused, torn) = (snapshots + one.0, refused + one.1, torn + one.2);
    }
    assert!(
        snapshots > 100 && refused > 0 && torn > 10,
        "{snapshots} snapshots, {refused} refused, {torn} torn"
    );
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        Planted::FreesBeforeSnapshot,
        Planted::OrdersByLane,
        Planted::SyncsOneLane,
        Planted::LeavesWhatIsTorn,
    ];
    for planted in planted {
        PLANTED.set(Some(planted));
        finds::<RingLog<Crashing>>(None, &format!("{planted:?}"));
    }
    PLANTED.set(None);
    for planted in [JournalPlanted::RepliesBeforeDurable, JournalPlanted::ForgetsBeforeSnapshot] {
        finds::<RingLog<Crashing>>(Some(planted), &format!("{planted:?}"));
    }
}

/// Three effects, of which the client then changes the value of one.
fn spoiled(lsn: u64) -> (RingLog<Memory>, Recovery) {
    let media = vec![Memory::new(LANE), Memory::new(LANE)];
    let mut log = RingLog::create(media, IDENTITY).expect("lanes that are large enough");
    let (mut writer, mut places) = (Writer::new(LANE as u64, log.begin(1)), Vec::new());
    for lsn in 1..=3 {
        let position = writer.place(8).expect("room");
        let at = writer.offset(position) + STAMP as u64;
        log.medium_mut(1).write_at(at, b"keyvalue").expect("inside");
        let state = State { version: lsn, ..State::default() };
        let effect = Effect::Put { key: b"key", value: b"value", state };
        log.append_at(lsn, &effect, Place { lane: 1, position, key_at: 0, value_at: 3 }).expect("room");
        assert_eq!(log.sync().expect("memory works"), lsn);
        places.push(at);
    }
    log.medium_mut(1).write_at(places[lsn as usize - 1] + 5, b"!").expect("inside");
    RingLog::open(log.into_media(), IDENTITY, 0).expect("memory works")
}

#[test]
fn what_a_client_spoils_is_missed_and_damage_where_something_proves_it() {
    assert_eq!(spoiled(1).1.damaged, [1]);
    assert_eq!(spoiled(2).1.damaged, [2]);
    let (log, recovery) = spoiled(3);
    assert_eq!((recovery.damaged, log.last(), recovery.torn_records), (Vec::new(), 2, 0));
    let payload = log.payload(2).expect("it is whole");
    assert!(payload.ends_with(b"keyvalue"));
}

#[test]
fn what_bytes_say_is_found_twice_or_not_at_all() {
    let (mut prng, mut bytes) = (Prng::new(3), vec![0; 4096]);
    for _ in 0..300 {
        bytes.iter_mut().for_each(|byte| *byte = prng.next_u64() as u8);
        let stamps: Vec<u8> = (1..40_u8)
            .flat_map(|lsn| {
                let mut fields: [u8; 24] = std::array::from_fn(|_| prng.below(64) as u8);
                // Some are what they should be.
                if prng.below(8) > 0 {
                    (fields[2], fields[3], fields[5], fields[10]) = (lsn, 1 + prng.below(2) as u8, 1, 0);
                }
                fields
            })
            .collect();
        probe(&bytes, &stamps);
    }
}
