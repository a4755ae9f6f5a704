//! How many frames a channel or server publishes together, as people write it.

use fabric::batch::Policy;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// How many frames are published together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Batch {
    /// So many.
    Fixed(u32),
    /// As the load asks for.
    #[default]
    Adaptive,
}

impl Batch {
    /// As channels and servers have it.
    pub fn policy(self) -> Policy {
        match self {
            Batch::Fixed(size) => Policy::Fixed(size),
            Batch::Adaptive => Policy::default(),
        }
    }
}

impl FromStr for Batch {
    type Err = String;

    fn from_str(text: &str) -> Result<Batch, String> {
        match text.parse() {
            Ok(size @ 1..=64) => Ok(Batch::Fixed(size)),
            _ if text == "adaptive" => Ok(Batch::Adaptive),
            _ => Err(format!("{text:?} is no batch size: write a number from 1 to 64, or adaptive")),
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batch::Fixed(size) => size.fmt(f),
            Batch::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl Serialize for Batch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_numbers_or_adaptive() {
        assert_eq!("16".parse(), Ok(Batch::Fixed(16)));
        assert_eq!("adaptive".parse(), Ok(Batch::Adaptive));
        for wrong in ["0", "65", "", "fast"] {
            assert!(wrong.parse::<Batch>().is_err(), "{wrong}");
        }
    }
}
