//! The last file descriptors of the process, which no client gets.
//!
//! The kernel gives the lowest number that is free. So a connection whose number is one of the last shows that nearly all others are taken: whoever
//! accepts clients turns it away or lets another make room. What is left serves operators' ports, files and links to other members, and nobody has to
//! keep descriptors back and win them again from other threads.

use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, AsRawFd as _};

/// So many are not for clients; of a very low limit, a quarter.
const RESERVED: u64 = 16;

/// Whether a client that got this descriptor has one that is not for clients.
pub fn is_reserved(descriptor: impl AsFd) -> bool {
    // Asked each time: an operator may change it, and a connection costs far more.
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| is_last(descriptor.as_fd().as_raw_fd().cast_unsigned().into(), limit))
}

fn is_last(number: u64, limit: u64) -> bool {
    number >= limit.saturating_sub(RESERVED.min(limit / 4))
}

#[cfg(test)]
mod tests {
    use super::is_last;

    #[test]
    fn the_last_ones_are_for_no_client() {
        assert!(!is_last(1007, 1024));
        assert!(is_last(1008, 1024));
        assert!(!is_last(5, 8));
        assert!(is_last(6, 8));
    }
}
