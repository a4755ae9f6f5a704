//! A program that passes everything on, for the peers of a native veth: what the box sends back by XDP_TX vanishes silently
//! unless the peer interface has an XDP program as well.

use crate::bpf;
use crate::error::LoadError;
use crate::interface;
use crate::options::Mode;
use std::os::fd::{AsFd, OwnedFd};

/// `r0 = XDP_PASS` and `exit`.
const CODE: [u64; 2] = [2 << 32 | 0xb7, 0x95];

/// The program, on an interface; dropping takes it off.
#[derive(Debug)]
pub struct Pass {
    _link: OwnedFd,
}

impl Pass {
    /// Attaches it, in the driver, to an interface of the calling thread's network namespace. It is not for the interface of a box.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn attach(name: &str) -> Result<Pass, LoadError> {
        let number = interface::number(name)?;
        let program = bpf::program_load("millrace_pass", &CODE)
            .map_err(|(error, _)| LoadError::of("loading the pass program", error))?;
        let link = bpf::link_create(program.as_fd(), number, Mode::Native.flags())
            .map_err(|error| interface::refusal(name, Mode::Native, error))?;
        Ok(Pass { _link: link })
    }
}
