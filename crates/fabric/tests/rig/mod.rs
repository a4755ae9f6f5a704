//! Links of every kind for tests, and what their descriptors say.

use base::units::Nanos;
use fabric::link::{self, Address, Link, LinkOptions, Listener, Mode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::Duration;

/// A transport, in a mode where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory(Mode),
    Shm(Mode),
}

impl Kind {
    pub const ALL: &[Kind] = &[
        Kind::Memory(Mode::Inline),
        Kind::Memory(Mode::Doorbell),
        Kind::Memory(Mode::Coherent),
        Kind::Shm(Mode::Inline),
        Kind::Shm(Mode::Doorbell),
        Kind::Shm(Mode::Coherent),
    ];

    fn mode(self) -> Mode {
        match self {
            Kind::Memory(mode) | Kind::Shm(mode) => mode,
        }
    }

    /// An address of this kind that nothing else uses.
    pub fn address(self) -> Address {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fabric-links-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match self {
            Kind::Memory(_) => Address::Memory(name),
            Kind::Shm(_) => Address::Shm(std::env::temp_dir().join(name)),
        }
    }

    pub fn options(self) -> LinkOptions {
        LinkOptions { mode: self.mode(), entries: 64, bytes: 1 << 16, ..LinkOptions::default() }
    }

    pub fn listener(self) -> Box<dyn Listener> {
        link::listen(&self.address(), &self.options()).expect("a listener")
    }

    /// A client's and a server's end.
    pub fn links(self) -> (Box<dyn Link>, Box<dyn Link>) {
        let mut listener = self.listener();
        self.link_to(&mut *listener)
    }

    pub fn link_to(self, listener: &mut dyn Listener) -> (Box<dyn Link>, Box<dyn Link>) {
        let address = listener.address().clone();
        // A client of a segment waits for it, so somebody must accept meanwhile.
        std::thread::scope(|scope| {
            let client = scope.spawn(|| link::connect(&address, &self.options()).expect("a server is there"));
            assert!(readable(listener.descriptor(), HANG), "{self:?}: nobody came");
            let server = listener.accept(Nanos::ZERO).expect("accepted").expect("a client");
            (client.join().expect("no panic"), server)
        })
    }
}

const HANG: Duration = Duration::from_secs(60);

/// Whether the descriptor becomes readable within `timeout`.
pub fn readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut fds, Some(&timeout)).expect("poll") == 1
}
