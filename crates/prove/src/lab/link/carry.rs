//! `millrace lab link`: one thread that carries frames between two interfaces until it is told to stop.

use super::Faults;
use super::queue::{Counts, Queue};
use super::wire::{MAX_FRAME, Wire};
use crate::lab::LabError;
use base::{Clock, Nanos, Prng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serve::inc::IncError;
use serve::process::Stop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames that are taken before time is looked at again.
const BATCH: usize = 64;
/// Whoever is told to stop notices within this.
const NOTICE: Nanos = Nanos::from_millis(100);

/// Carry frames between two interfaces of this network namespace: the program of a `--link`.
///
/// Frames may be delayed, lost, doubled, reordered and limited in rate, each direction alike. What is drawn comes from the seed. Prints a
/// line when it is ready, and at its end (Ctrl-C, SIGTERM) what it counted. Needs CAP_NET_RAW.
///
/// Example: `millrace lab link eth1 eth2 --faults delay=50us,loss=0.01`
#[derive(clap::Args, Debug)]
pub struct Carry {
    /// One interface
    a: String,

    /// The other
    b: String,

    /// As in delay=50us,jitter=10us,loss=0.01,duplicate=0.001,reorder=0.01,rate=100m,queue=1000
    #[arg(long, value_name = "FAULTS", default_value = "")]
    faults: Faults,

    /// Of what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Carry {
    /// Runs it.
    ///
    /// # Errors
    /// An interface is not there, or may not be read.
    pub fn run(&self) -> Result<(), LabError> {
        let wires = [Wire::open(&self.a)?, Wire::open(&self.b)?];
        let queue = |direction| Queue::new(self.faults, Prng::for_entity(self.seed, direction, 0x6c));
        let mut queues = [queue(0), queue(1)];
        let stop = Stop::on_signals().map_err(IncError::Signal)?;
        // Without it the kernel is up to 50 µs late, so as to wake several at once.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        println!("{} and {} are joined, {}", self.a, self.b, self.faults);
        carry(&wires, &mut queues, stop.flag())?;
        for (queue, (from, to)) in queues.iter().zip([(&self.a, &self.b), (&self.b, &self.a)]) {
            println!("{from} to {to}: {}", show(&queue.counts()));
        }
        Ok(())
    }
}

fn carry(wires: &[Wire; 2], queues: &mut [Queue; 2], stop: &AtomicBool) -> Result<(), LabError> {
    let failed = LabError::io;
    let clock = Clock::shared();
    let mut frame = vec![0; MAX_FRAME];
    while !stop.load(Ordering::Relaxed) {
        let mut is_more = false;
        for (from, queue) in queues.iter_mut().enumerate() {
            for _ in 0..BATCH {
                let Some(len) = wires[from].receive(&mut frame).map_err(failed("taking frames"))? else {
                    break;
                };
                queue.push(clock.now(), &frame[..len]);
                is_more = true;
            }
            while let Some(frame) = queue.pop(clock.now()) {
                // A cable whose end is gone loses what is sent.
                let _ = wires[1 - from].send(&frame);
            }
        }
        if !is_more {
            let due = queues[0].next_deadline().min(queues[1].next_deadline());
            wait(wires, due.since(clock.now()).min(NOTICE)).map_err(failed("waiting for frames"))?;
        }
    }
    Ok(())
}

fn wait(wires: &[Wire; 2], longest: Nanos) -> std::io::Result<()> {
    let timeout =
        Timespec { tv_sec: (longest.0 / 1_000_000_000) as i64, tv_nsec: (longest.0 % 1_000_000_000) as _ };
    let mut ends = [PollFd::new(&wires[0], PollFlags::IN), PollFd::new(&wires[1], PollFlags::IN)];
    match poll(&mut ends, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn show(counts: &Counts) -> String {
    let Counts { entered, lost, doubled, held_back, dropped, left } = counts;
    format!(
        "entered {entered} lost {lost} doubled {doubled} held back {held_back} dropped {dropped} left {left}"
    )
}
