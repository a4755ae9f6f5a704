//! Links for tests: frames take time, overtake each other, find no room, go down with their link; all from a seed.

use crate::link::{Frames, Link, Lost, SendError, Transport};
use base::prng::Prng;
use base::units::Nanos;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a cable does to frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Frames on their way in each direction.
    pub(crate) room: usize,
    /// The longest time that one takes.
    pub(crate) delay_ns: u64,
    /// They may overtake each other.
    pub(crate) reorders: bool,
}

impl Weather {
    /// Everything arrives at once and in order.
    pub(crate) const FAIR: Weather = Weather { room: usize::MAX, delay_ns: 0, reorders: false };
}

#[derive(Default)]
struct Wire {
    taken: Vec<Vec<u8>>,
    under_way: BTreeMap<(u64, u64), Vec<u8>>,
    latest: u64,
    closed: bool,
}

struct State {
    wires: [Wire; 2],
    weather: Weather,
    random: Prng,
    number: u64,
    cut: bool,
}

/// The middle of two links: whoever holds it can cut it.
#[derive(Clone)]
pub(crate) struct Cable(Arc<Mutex<State>>);

/// One end.
pub(crate) struct End {
    cable: Cable,
    side: usize,
    file: File,
}

impl Cable {
    /// A cable and its two ends.
    pub(crate) fn lay(weather: Weather, seed: u64) -> (Cable, Box<dyn Link>, Box<dyn Link>) {
        let state =
            State { wires: Default::default(), weather, random: Prng::new(seed), number: 0, cut: false };
        let cable = Cable(Arc::new(Mutex::new(state)));
        let end = |side| -> Box<dyn Link> {
            let file = File::open("/dev/null").expect("it is always there");
            Box::new(End { cable: cable.clone(), side, file })
        };
        let (left, right) = (end(0), end(1));
        (cable, left, right)
    }

    /// Both ends are lost with all that is under way.
    pub(crate) fn cut(&self) {
        self.state().cut = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no end panics while it holds it")
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.cable.state().wires[self.side].closed = true;
    }
}

impl Link for End {
    fn transport(&self) -> Transport {
        Transport::Memory
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let mut state = self.cable.state();
        if state.cut || state.wires[1 - self.side].closed {
            return Err(SendError::Gone);
        }
        let room = state.weather.room;
        let wire = &mut state.wires[self.side];
        if wire.taken.len() + wire.under_way.len() >= room {
            return Err(SendError::Full);
        }
        wire.taken.push([head, body].concat());
        Ok(())
    }

    fn flush(&mut self, now: Nanos) {
        let mut state = self.cable.state();
        let State { wires, weather, random, number, .. } = &mut *state;
        let wire = &mut wires[self.side];
        for frame in wire.taken.drain(..) {
            let mut due = now.0 + random.below(weather.delay_ns + 1);
            if !weather.reorders {
                due = due.max(wire.latest);
            }
            wire.latest = wire.latest.max(due);
            *number += 1;
            wire.under_way.insert((due, *number), frame);
        }
    }

    fn recv(&mut self, now: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        let mut state = self.cable.state();
        if state.cut {
            return Err(Lost::Dead);
        }
        let wire = &mut state.wires[1 - self.side];
        let mut count = 0;
        while count < max
            && let Some(first) = wire.under_way.first_entry()
            && first.key().0 <= now.0
        {
            into.push(&[&first.remove()]);
            count += 1;
        }
        let over = wire.closed && wire.under_way.is_empty();
        if count == 0 && over { Err(Lost::Closed) } else { Ok(count) }
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn arm(&mut self) -> bool {
        self.cable.state().wires[1 - self.side].under_way.is_empty()
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
