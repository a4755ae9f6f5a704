//! What a link does to frames, as text: `box:1-box:3,delay=50us,jitter=10us,loss=0.01,duplicate=0.001,reorder=0.01,rate=100m,queue=1000`.

use crate::lab::place;
use base::Nanos;
use protocol::coherence::NodeId;
use serve::process::parse::{count, duration};
use sim::network::PerMillion;
use std::fmt;
use std::str::FromStr;

/// Frames that wait, unless said.
const QUEUE: u64 = 1000;

/// Of one direction; the other has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Each frame takes this long.
    pub delay: Nanos,
    /// And up to this much more, evenly. Frames stay in order.
    pub jitter: Nanos,
    /// How many are lost.
    pub loss: PerMillion,
    /// How many arrive twice.
    pub duplicate: PerMillion,
    /// How many are held back as long again, a millisecond at least, so that those behind overtake them.
    pub reorder: PerMillion,
    /// Bits per second; 0: as fast as it goes.
    pub rate: u64,
    /// Frames that wait; what comes then is dropped.
    pub queue: u64,
}

impl Default for Faults {
    fn default() -> Faults {
        let never = PerMillion(0);
        let (delay, jitter) = (Nanos(0), Nanos(0));
        Faults { delay, jitter, loss: never, duplicate: never, reorder: never, rate: 0, queue: QUEUE }
    }
}

/// A cable between two nodes, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The nodes, in either order.
    pub between: (NodeId, NodeId),
    /// What it does to frames.
    pub faults: Faults,
}

impl Link {
    /// What the lab calls its program: `link box:1-box:3`.
    pub fn role(&self) -> String {
        format!("link {}-{}", place::name(self.between.0), place::name(self.between.1))
    }
}

/// A share from 0 to 1.
fn share(text: &str) -> Result<PerMillion, String> {
    let share: f64 = text.parse().unwrap_or(f64::NAN);
    match (0.0..=1.0).contains(&share) {
        true => Ok(PerMillion((share * 1e6).round() as u32)),
        false => Err(format!("{text:?} is no share; write for example 0.01 for one in a hundred")),
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::default();
        for field in text.split(',').filter(|field| !field.is_empty()) {
            let (name, value) = field
                .split_once('=')
                .ok_or_else(|| format!("{field:?} is no setting; write for example loss=0.01"))?;
            match name {
                "delay" => faults.delay = duration(value)?.into(),
                "jitter" => faults.jitter = duration(value)?.into(),
                "loss" => faults.loss = share(value)?,
                "duplicate" => faults.duplicate = share(value)?,
                "reorder" => faults.reorder = share(value)?,
                "rate" => faults.rate = count(value)?,
                "queue" => faults.queue = count(value)?,
                _ => {
                    let all = "delay, jitter, loss, duplicate, reorder, rate and queue";
                    return Err(format!("a link has no {name:?}; it has {all}"));
                }
            }
        }
        Ok(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |of: PerMillion| format!("{}", f64::from(of.0) / 1e6);
        let time = |of: Nanos| format!("{}us", of.0 as f64 / 1e3);
        let usual = Faults::default();
        write!(f, "delay={}", time(self.delay))?;
        for (name, text, is_usual) in [
            ("jitter", time(self.jitter), self.jitter == usual.jitter),
            ("loss", share(self.loss), self.loss == usual.loss),
            ("duplicate", share(self.duplicate), self.duplicate == usual.duplicate),
            ("reorder", share(self.reorder), self.reorder == usual.reorder),
            ("rate", self.rate.to_string(), self.rate == usual.rate),
            ("queue", self.queue.to_string(), self.queue == usual.queue),
        ] {
            if !is_usual {
                write!(f, ",{name}={text}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Link, String> {
        let (between, faults) = text.split_once(',').unwrap_or((text, ""));
        let wrong = || format!("{between:?} is no cable; write for example box:1-box:3");
        let (a, b) = between.split_once('-').ok_or_else(wrong)?;
        Ok(Link { between: (place::parse(a)?, place::parse(b)?), faults: faults.parse()? })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{},{}", place::name(self.between.0), place::name(self.between.1), self.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text =
            "box:1-box:3,delay=50us,jitter=10us,loss=0.01,duplicate=0.001,reorder=0.02,rate=100m,queue=50";
        let link: Link = text.parse().expect("a link");
        assert_eq!((link.faults.delay, link.faults.loss), (Nanos::from_micros(50), PerMillion(10_000)));
        assert_eq!((link.faults.rate, link.faults.queue), (100_000_000, 50));
        assert_eq!(link.to_string().parse(), Ok(link.clone()));
        assert_eq!(link.role(), "link box:1-box:3");
        let plain: Link = "client:1-box:2".parse().expect("a link that does nothing");
        assert_eq!(plain.faults, Faults::default());
        assert_eq!(plain.to_string().parse(), Ok(plain));
    }

    #[test]
    fn what_is_no_link_says_why() {
        for (text, words) in [
            ("box:1", "box:1-box:3"),
            ("box:1-bix:3", "or client:1"),
            ("box:1-box:3,loss=2", "no share"),
            ("box:1-box:3,loss", "loss=0.01"),
            ("box:1-box:3,colour=blue", "duplicate"),
            ("box:1-box:3,delay=soon", "not a time"),
        ] {
            let why = text.parse::<Link>().expect_err("it is none");
            assert!(why.contains(words), "{words:?} in {why:?}");
        }
    }
}
