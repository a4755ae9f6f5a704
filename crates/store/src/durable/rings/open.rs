//! The start: which effects the lanes have.
//!
//! Every [`STAMP`] bytes of every lane a stamp may stand. Those of effects that the snapshot has are old; of the others, numbers without a gap from there on
//! are what was done, and the first that is missing is the end: no reply behind it ever left. Unless a stamp says that it was durable when that was made.
//!
//! Bounds: each byte of the lanes is looked at twice at most; 24 bytes are kept for each stamp that is found.

#[cfg(test)]
use super::Planted;
use super::RingLog;
use super::entry::{STAMP, Stamp};
use super::lane::Lane;
use crate::redo::media::Media;
use crate::redo::{Counters, Recovery};
use std::collections::BTreeMap;
use std::io;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// Lanes have at least so many bytes.
const MIN_LANE: u64 = 4096;

/// A stamp that was found: lane, index, and whether what it names is what it was.
#[derive(Clone, Copy)]
struct Stamped {
    lane: usize,
    index: u64,
    is_whole: bool,
}

/// Calls `each` with every stamp in a lane.
fn scan<M: Media>(
    lane: &Lane<M>,
    seed: u32,
    mut each: impl FnMut(u64, Stamp) -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK.min(lane.capacity as usize)];
    let mut at = 0;
    while at < lane.capacity {
        let piece = &mut bytes[..CHUNK.min((lane.capacity - at) as usize)];
        lane.medium.read_at(at, piece)?;
        for (line, index) in piece.as_chunks::<STAMP>().0.iter().zip((at..).step_by(STAMP)) {
            if let Some(stamp) = Stamp::parse(line, seed, index, lane.capacity) {
                each(index, stamp)?;
            }
        }
        at += piece.len() as u64;
    }
    Ok(())
}

/// The effect of the stamp at `index`, as bytes; none if anything of it is damaged.
pub(super) fn payload<M: Media>(lane: &Lane<M>, seed: u32, index: u64) -> Option<Vec<u8>> {
    let mut head = [0; STAMP];
    lane.medium.read_at(index, &mut head).ok()?;
    let stamp = Stamp::parse(&head, seed, index, lane.capacity)?;
    let read = |at: u32, len: usize| {
        let mut bytes = vec![0; len];
        let from = index + STAMP as u64 + u64::from(at);
        if len > 0 {
            lane.medium.read_at(from, &mut bytes).ok()?;
        }
        Some(bytes)
    };
    let (key, value) = (read(stamp.key_at, stamp.key_len())?, read(stamp.value_at, stamp.value_len())?);
    stamp.payload(seed, &key, &value)
}

impl<M: Media> RingLog<M> {
    /// Makes a log of these media, all zero; the first is the server's lane.
    ///
    /// # Errors
    /// `InvalidInput`: there is none, or one has fewer than 4 KiB.
    pub fn create(media: Vec<M>, identity: u64) -> io::Result<RingLog<M>> {
        if media.is_empty() || media.iter().any(|medium| medium.len() < MIN_LANE) {
            let why = "a ring log has the server's lane at least, and lanes have 4 KiB at least";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(RingLog {
            lanes: media.into_iter().map(Lane::new).collect(),
            seed: base::prng::mix64(identity) as u32,
            first: 1,
            last: 0,
            durable: 0,
            under_way: None,
            found: Vec::new(),
            found_from: 1,
            scratch: Vec::new(),
            broken: None,
            counters: Counters::default(),
            #[cfg(test)]
            planted: super::tests::PLANTED.get(),
        })
    }

    /// Finds what these media, in any order but for the first, have behind effect `from`, which is the last that the snapshot has (0: there is none). Where
    /// something is damaged ([`Recovery::damaged`]) nothing is changed.
    ///
    /// # Errors
    /// As [`RingLog::create`]; the media's.
    pub fn open(media: Vec<M>, identity: u64, from: u64) -> io::Result<(RingLog<M>, Recovery)> {
        let mut log = RingLog::create(media, identity)?;
        let mut stamps: BTreeMap<u64, Vec<Stamped>> = BTreeMap::new();
        let (mut proven, seed) = (from, log.seed);
        for number in 0..log.lanes.len() {
            let (lane, mut head) = (&log.lanes[number], 0);
            scan(lane, seed, |index, stamp| {
                head = head.max((stamp.position + stamp.len()).next_multiple_of(STAMP as u64));
                proven = proven.max(stamp.durable());
                if stamp.lsn > from {
                    let is_whole = payload(lane, seed, index).is_some();
                    let stamped = Stamped { lane: number, index, is_whole };
                    stamps.entry(stamp.lsn).or_default().push(stamped);
                }
                Ok(())
            })?;
            (log.lanes[number].head, log.lanes[number].freed) = (head, head);
        }
        let whole = |lsn: u64| match stamps.get(&lsn).map(Vec::as_slice) {
            Some([one]) => one.is_whole.then_some(*one),
            _ => None,
        };
        let mut recovery = Recovery { first: from + 1, proven, ..Recovery::default() };
        while let Some(one) = whole(from + log.found.len() as u64 + 1) {
            log.found.push((one.lane, one.index));
        }
        (log.first, log.found_from) = (from + 1, from + 1);
        log.last = from + log.found.len() as u64;
        (recovery.last, recovery.records) = (log.last, log.found.len() as u64);
        recovery.damaged = (log.last + 1..=proven).filter(|lsn| whole(*lsn).is_none()).collect();
        log.durable = log.last;
        if recovery.damaged.is_empty() {
            let torn = stamps.range(log.last + 1..).flat_map(|(_, stamped)| stamped.iter().copied());
            log.unmake(&torn.collect::<Vec<_>>(), &mut recovery)?;
            log.keep(from)?;
        }
        #[cfg(test)]
        if log.planted == Some(Planted::OrdersByLane) {
            log.found.sort_unstable();
        }
        Ok((log, recovery))
    }

    /// Stamps behind the end: their numbers will be given again.
    fn unmake(&mut self, torn: &[Stamped], recovery: &mut Recovery) -> io::Result<()> {
        #[cfg(test)]
        if self.planted == Some(Planted::LeavesWhatIsTorn) {
            return Ok(());
        }
        for one in torn {
            let lane = &mut self.lanes[one.lane];
            lane.medium.write_at(one.index, &[0; STAMP])?;
            lane.stamp(one.index, STAMP as u64);
            recovery.torn_bytes += STAMP as u64;
            recovery.torn_records += u64::from(one.is_whole);
        }
        for lane in &mut self.lanes {
            lane.start()?;
            lane.finish()?;
        }
        Ok(())
    }

    /// The places of what is not in the snapshot are kept until it is in another.
    fn keep(&mut self, from: u64) -> io::Result<()> {
        let mut entries = vec![Vec::new(); self.lanes.len()];
        for (&(lane, index), lsn) in self.found.iter().zip(from + 1..) {
            let mut head = [0; STAMP];
            self.lanes[lane].medium.read_at(index, &mut head)?;
            let stamp = Stamp::parse(&head, self.seed, index, self.lanes[lane].capacity);
            let stamp = stamp.ok_or_else(|| io::Error::other("a stamp that was there is not"))?;
            entries[lane].push((stamp.position, lsn, stamp.position + stamp.len()));
        }
        for (lane, mut entries) in self.lanes.iter_mut().zip(entries) {
            entries.sort_unstable();
            let head = lane.head;
            if let Some((position, _, _)) = entries.first() {
                lane.freed = *position;
            }
            entries.iter().for_each(|(_, lsn, end)| lane.hold(*lsn, *end));
            lane.head = head;
        }
        Ok(())
    }
}

/// For the fuzzer: `bytes` are two lanes, with stamps that `planted` describes over them, 24 bytes each, right but for what they say. Where nothing is torn
/// the same is found again.
///
/// # Panics
/// When it is not.
#[doc(hidden)]
pub fn probe(bytes: &[u8], planted: &[u8]) {
    const LANE: usize = 8192;
    const IDENTITY: u64 = 7;
    let seed = base::prng::mix64(IDENTITY) as u32;
    let mut lanes = [0, 1].map(|lane| {
        let mut of = bytes.iter().skip(lane).step_by(2).copied().collect::<Vec<u8>>();
        of.resize(LANE, 0);
        of
    });
    for fields in planted.as_chunks::<24>().0.iter().take(64) {
        let [lane, line, lsn, behind, key_len, kind, key_at, value_at, value_len, lap, wrong, ..] = *fields;
        let index = usize::from(line) % (LANE / STAMP) * STAMP;
        let mut effect = [0; super::super::effect::HEAD];
        effect[..3].copy_from_slice(&[kind % 8, 0, key_len]);
        effect[12..14].copy_from_slice(&[value_len, wrong & 3]);
        effect[16..24].copy_from_slice(&fields[16..24]);
        let mut stamp = Stamp {
            lsn: u64::from(lsn),
            position: u64::from(lap) * LANE as u64 + index as u64,
            effect,
            key_at: u32::from(key_at),
            value_at: u32::from(value_at) << (wrong >> 4),
            crc: 0,
            behind: u32::from(behind),
        };
        let lane = &mut lanes[usize::from(lane & 1)];
        let named = |at: u32, len: usize| {
            let from = index + STAMP + at as usize;
            lane.get(from..from + len).unwrap_or_default()
        };
        let (key, value) = (named(stamp.key_at, stamp.key_len()), named(stamp.value_at, stamp.value_len()));
        stamp.crc = super::entry::sum(seed, key, value);
        lane[index..index + STAMP].copy_from_slice(&stamp.emit(seed));
    }
    let media = lanes.map(|lane| {
        let mut medium = crate::redo::media::Memory::new(LANE);
        medium.write_at(0, &lane).expect("as long as that");
        medium
    });
    let (log, recovery) = RingLog::open(media.into(), IDENTITY, 0).expect("memory works");
    if !recovery.damaged.is_empty() {
        let (_, found) = RingLog::open(log.into_media(), IDENTITY, 0).expect("memory works");
        return assert_eq!(found.damaged, recovery.damaged, "nothing was changed");
    }
    // A stamp that was unmade may have stood in what another names, which no honest client writes: [`super::Records::payload`] finds that.
    if recovery.torn_bytes > 0 {
        return;
    }
    let last = log.last;
    let read = |log: &RingLog<_>| {
        (1..=last).map(|lsn| super::Records::payload(log, lsn).expect("it is whole")).collect::<Vec<_>>()
    };
    let effects = read(&log);
    let (again, found) = RingLog::open(log.into_media(), IDENTITY, 0).expect("memory works");
    assert_eq!((again.last, found.torn_bytes, found.damaged), (last, 0, Vec::new()), "the same again");
    assert_eq!(read(&again), effects);
}
