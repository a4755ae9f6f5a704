//! Links of every kind for tests, and what their descriptors say.

use base::tls::testing::Authority;
use base::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls};
use fabric::frame::MAX_FRAME;
use fabric::link::{self, Address, Link, LinkOptions, Listener, Mode, TlsOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

/// A certificate for this machine, and whom clients believe.
static TLS: LazyLock<TlsOptions> = LazyLock::new(|| {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("server");
    let files = ServerFiles { cert: made.cert, key: made.key, ..ServerFiles::default() };
    let believed = ClientFiles { ca: Some(authority.file()), ..ClientFiles::default() };
    TlsOptions {
        certificate: Some(ServerTls::new(&files, &[]).expect("good files")),
        trust: Some(ClientTls::new(&believed, &[]).expect("a good file")),
    }
});

thread_local! {
    /// Where this test's sockets lie: a test is a thread.
    static FOLDER: TempDir = TempDir::with_prefix("millrace-").expect("a folder");
}

/// A transport, in a mode where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory(Mode),
    Shm(Mode),
    Unix,
    Tcp,
    Tls,
    Udp,
}

impl Kind {
    pub const ALL: &[Kind] = &[
        Kind::Memory(Mode::Inline),
        Kind::Memory(Mode::Doorbell),
        Kind::Memory(Mode::Coherent),
        Kind::Shm(Mode::Inline),
        Kind::Shm(Mode::Doorbell),
        Kind::Shm(Mode::Coherent),
        Kind::Unix,
        Kind::Tcp,
        Kind::Tls,
        Kind::Udp,
    ];

    fn mode(self) -> Mode {
        match self {
            Kind::Memory(mode) | Kind::Shm(mode) => mode,
            Kind::Unix | Kind::Tcp | Kind::Tls | Kind::Udp => Mode::default(),
        }
    }

    /// An address of this kind that nothing else uses.
    pub fn address(self) -> Address {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fabric-links-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = |name| FOLDER.with(|folder| folder.path().join(name));
        match self {
            Kind::Memory(_) => Address::Memory(name),
            Kind::Shm(_) => Address::Shm(path(name)),
            Kind::Unix => Address::Unix(path(name)),
            Kind::Tcp => "tcp:0".parse().expect("an address"),
            Kind::Tls => "tls:0".parse().expect("an address"),
            Kind::Udp => "udp:0".parse().expect("an address"),
        }
    }

    pub fn is_stream(self) -> bool {
        matches!(self, Kind::Unix | Kind::Tcp | Kind::Tls)
    }

    /// Whether datagrams are below: both owners must drive their ends, and frames may overtake each other.
    pub fn is_session(self) -> bool {
        self == Kind::Udp
    }

    /// Bytes of frames that one direction holds at most, each buffer on the way counted.
    pub fn holds_at_most(self) -> usize {
        if self.is_session() {
            // What is in a socket is not acknowledged, so the sender counts it.
            let config = protocol::session::Config::default();
            return config.send_bytes + config.receive_bytes;
        }
        let LinkOptions { entries, bytes, .. } = self.options();
        let ours = entries as usize * 128 + bytes as usize + MAX_FRAME;
        // The system's buffers for TCP grow to 6 MiB on one side and 4 on the other, as set up usually.
        if self.is_stream() { ours + (16 << 20) } else { ours }
    }

    pub fn options(self) -> LinkOptions {
        LinkOptions {
            mode: self.mode(),
            entries: 64,
            bytes: 1 << 16,
            tls: TLS.clone(),
            ..LinkOptions::default()
        }
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
            // A session takes several datagrams to begin.
            let mut server = loop {
                assert!(readable(listener.descriptor(), HANG), "{self:?}: nobody came");
                let now = base::Clock::shared().now();
                if let Some(server) = listener.accept(now).expect("accepted") {
                    break server;
                }
            };
            while !client.is_finished() {
                // A session's client may not have heard the first answer.
                server.flush(base::Clock::shared().now());
                std::thread::yield_now();
            }
            (client.join().expect("no panic"), server)
        })
    }
}

/// Drops both ends at once: the end of a session waits a while for the other to confirm it.
pub fn part(a: impl Send, b: impl Send) {
    std::thread::scope(|scope| {
        scope.spawn(move || drop(a));
        drop(b);
    });
}

/// Far beyond anything but a hang.
pub const HANG: Duration = Duration::from_secs(60);

/// Whether the descriptor becomes readable within `timeout`.
pub fn readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut fds, Some(&timeout)).expect("poll") == 1
}
