//! Descriptors kept back for the moment in which others have taken all of them.
//!
//! A client for whom there is no descriptor stays in the backlog, and wakes the listener for ever. A listener that has a descriptor to give up can take
//! the client and serve it, or turn it away.

use std::os::fd::OwnedFd;

/// At most so many descriptors.
pub struct Spare {
    kept: Vec<OwnedFd>,
    most: usize,
}

impl Spare {
    /// Keeps `most` back, as far as there are any.
    pub fn new(most: usize) -> Spare {
        let mut spare = Spare { kept: Vec::with_capacity(most), most };
        spare.keep_back();
        spare
    }

    /// Takes back what was given up, as far as there are any.
    pub fn keep_back(&mut self) {
        while self.kept.len() < self.most
            && let Ok(null) = std::fs::File::open("/dev/null")
        {
            self.kept.push(null.into());
        }
    }

    /// Frees a descriptor; whether there was one.
    pub fn give_up(&mut self) -> bool {
        self.kept.pop().is_some()
    }
}
