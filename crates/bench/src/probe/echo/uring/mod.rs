//! The echo server on io_uring: receives stay armed, answers of one wake-up go to the kernel in one call, and the same
//! call waits for what comes next.
//!
//! Shape: `enter (submit all sends, wait) → completions → copy input to output → queue sends → enter …`
//!
//! Why sends carry `MSG_DONTWAIT`, `MSG_WAITALL` and `IOSQE_CQE_SKIP_SUCCESS`: such a send ends while it is submitted,
//! and has a completion only if the socket did not take all of it. So one wait for one completion is always right: the
//! whole sends, which are nearly all, do not end it at once (a second call per wake-up), and a short one does end it.
//! Counting the sends into the wait instead loses the wake-up of a short one, and stops for ever.
//!
//! Invariants: (1) `sending` is not touched between the queueing of its send and the return of the next enter; (2) all
//! that a connection has to send goes into one send, so a whole send leaves nothing that waits for an event which does
//! not come; (3) at most one receive is armed per connection; (4) the ring is dropped before the memory it points to.
//!
//! Bounds: submission queue ≥ 2 entries per connection and wake-up; completion queue ≥ buffers + sends.
//!
//! Cost: one system call per wake-up, whatever the number of connections that are ready.
//!
//! Sources: io_uring(7), io_uring_enter(2), io_uring_multishot(7).

mod buffers;

use super::{MAX_WINDOW_BYTES, Served, Wait};
use base::Clock;
use base::cpu::thread_time;
use buffers::{BUFFER_BYTES, Buffers, GROUP};
use io_uring::squeue::Entry;
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, cqueue, opcode, squeue, types};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// How data is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Receive {
    /// One request per connection stays armed and takes buffers from a shared ring (Linux 6.0).
    Multishot,
    /// One request per arrival, into a buffer of the connection; armed again in the call that sends.
    Single,
}

impl fmt::Display for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Receive::Multishot => "multishot receive, provided buffers",
            Receive::Single => "one receive per arrival",
        })
    }
}

/// `IORING_RECVSEND_POLL_FIRST`: do not try to receive before the socket says that there is something.
const POLL_FIRST: u16 = 1;

/// `MSG_WAITALL`: a send that the socket does not take whole counts as failed, and so has a completion.
const MSG_WAITALL: i32 = 0x100;

/// What a completion is about: the kind in the upper half, the connection in the lower.
#[derive(Clone, Copy)]
enum About {
    Received(usize),
    Sent(usize),
    Writable(usize),
}

impl About {
    fn encode(self) -> u64 {
        let (kind, conn) = match self {
            About::Received(conn) => (0, conn),
            About::Sent(conn) => (1, conn),
            About::Writable(conn) => (2, conn),
        };
        kind << 32 | conn as u64
    }

    fn decode(word: u64) -> About {
        let conn = (word & u64::from(u32::MAX)) as usize;
        match word >> 32 {
            0 => About::Received(conn),
            1 => About::Sent(conn),
            2 => About::Writable(conn),
            kind => panic!("a completion of a kind that was never submitted: {kind}"),
        }
    }
}

struct Conn {
    open: bool,
    input: Vec<u8>,
    /// Answers composed since the last send was queued.
    out: Vec<u8>,
    /// What the last send was given, and how much of it the socket took.
    sending: Vec<u8>,
    sent: usize,
    /// The socket took only a part; its word is awaited that it takes more.
    stuffed: bool,
    /// In `Server::ready`.
    listed: bool,
}

/// What the kernel is told of, kept apart from the queues so that both can be borrowed.
struct Server {
    conns: Vec<Conn>,
    buffers: Option<Buffers>,
    /// Connections with something to send.
    ready: Vec<usize>,
    open: usize,
    /// Connections with a send queued since the last enter.
    queued: Vec<usize>,
    served: Served,
}

/// Whether this kernel lets this process use io_uring at all.
///
/// # Errors
/// The system's: `EPERM` or `ENOSYS` where it is forbidden.
pub fn available() -> io::Result<()> {
    IoUring::new(8).map(drop)
}

/// Nanoseconds to find that nothing has arrived, by the flags that the kernel keeps in shared memory; one sample per
/// `calls` looks.
///
/// # Errors
/// The system's.
pub fn idle_looks(samples: usize, calls: u32) -> io::Result<Vec<f64>> {
    let mut ring = build(8, 64)?;
    let (_, mut sq, mut cq) = ring.split();
    let clock = Clock::shared();
    let look = |_| {
        let start = clock.now();
        for _ in 0..calls {
            sq.sync();
            cq.sync();
            std::hint::black_box(sq.taskrun() || !cq.is_empty());
        }
        clock.now().since(start).0 as f64 / f64::from(calls)
    };
    Ok((0..samples).map(look).collect())
}

fn build(entries: u32, completions: u32) -> io::Result<IoUring> {
    let deferred = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(completions)
        .build(entries);
    // Before Linux 6.1 there is no deferred task work; the plain ring works everywhere.
    deferred.or_else(|_| IoUring::builder().setup_cqsize(completions).build(entries))
}

/// Echoes on `fds` (non-blocking) until every client has hung up.
///
/// # Errors
/// The system's: io_uring is forbidden, or the kernel lacks what `receive` needs.
pub fn serve(fds: Vec<OwnedFd>, wait: Wait, receive: Receive) -> io::Result<Served> {
    let entries = (2 * fds.len() as u32).next_power_of_two().max(64);
    // Declared before the ring, so dropped after it (invariant 4).
    let mut server;
    let mut ring = build(entries, 4 * entries.max(256))?;
    let (mut submitter, mut sq, mut cq) = ring.split();
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    submitter.register_files(&raw)?;
    let _ = submitter.register_ring_fd(); // Saves a lookup where the kernel has it (5.18).
    let buffers = match receive {
        Receive::Multishot => Some(Buffers::register(&submitter)?),
        Receive::Single => None,
    };
    server = Server::new(fds.len(), buffers);
    for conn in 0..fds.len() {
        server.arm(conn, &mut sq);
    }
    let cpu = thread_time();
    while server.open > 0 {
        sq.sync();
        if wait == Wait::Spin && sq.is_empty() && !sq.taskrun() {
            std::hint::spin_loop();
            continue;
        }
        server.served.calls += 1;
        match submitter.submit_and_wait(usize::from(wait == Wait::Block)) {
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
            Err(e) => return Err(e),
        }
        sq.sync();
        assert!(sq.is_empty(), "the kernel takes all that is queued");
        cq.sync();
        server.handle_batch(&mut cq, &mut sq);
    }
    server.served.cpu = thread_time().since(cpu);
    Ok(server.served)
}

fn push(sq: &mut SubmissionQueue<'_>, entry: Entry, about: About) {
    // SAFETY: every buffer that an entry names belongs to the server and outlives the ring (invariant 4), and is left
    // alone until the kernel is done with it (invariants 1 and 3).
    let pushed = unsafe { sq.push(&entry.user_data(about.encode())) };
    pushed.expect("the submission queue has room for two entries per connection");
}

impl Server {
    fn new(n: usize, buffers: Option<Buffers>) -> Server {
        let input = if buffers.is_some() { 0 } else { BUFFER_BYTES };
        let conn = || Conn {
            open: true,
            input: vec![0; input],
            out: Vec::with_capacity(BUFFER_BYTES),
            sending: Vec::with_capacity(BUFFER_BYTES),
            sent: 0,
            stuffed: false,
            listed: false,
        };
        Server {
            conns: (0..n).map(|_| conn()).collect(),
            buffers,
            ready: Vec::with_capacity(n),
            open: n,
            queued: Vec::with_capacity(n),
            served: Served::default(),
        }
    }

    fn arm(&mut self, conn: usize, sq: &mut SubmissionQueue<'_>) {
        let fd = types::Fixed(conn as u32);
        let entry = match &self.buffers {
            Some(_) => opcode::RecvMulti::new(fd, GROUP).build(),
            None => {
                let input = &mut self.conns[conn].input;
                opcode::Recv::new(fd, input.as_mut_ptr(), input.len() as u32).ioprio(POLL_FIRST).build()
            }
        };
        push(sq, entry, About::Received(conn));
    }

    fn close(&mut self, conn: usize) {
        self.open -= usize::from(std::mem::take(&mut self.conns[conn].open));
    }

    /// Lists a connection for the next sends.
    fn list(&mut self, conn: usize) {
        let c = &mut self.conns[conn];
        if c.open && !c.stuffed && !c.listed {
            c.listed = true;
            self.ready.push(conn);
        }
    }

    /// Takes in one wake-up's completions and queues the sends that follow from them.
    fn handle_batch(&mut self, cq: &mut CompletionQueue<'_>, sq: &mut SubmissionQueue<'_>) {
        for conn in self.queued.drain(..) {
            let c = &mut self.conns[conn];
            c.sent = c.sending.len(); // Whole, unless a completion below says otherwise.
        }
        let bytes = self.served.bytes;
        for cqe in &mut *cq {
            match About::decode(cqe.user_data()) {
                About::Received(conn) => self.handle_received(conn, &cqe, sq),
                About::Sent(conn) => self.handle_short_send(conn, cqe.result(), sq),
                About::Writable(conn) => {
                    self.conns[conn].stuffed = false;
                    self.list(conn);
                }
            }
        }
        cq.sync();
        self.served.wakeups += u64::from(self.served.bytes > bytes);
        self.queue_sends(sq);
    }

    fn handle_received(&mut self, conn: usize, cqe: &cqueue::Entry, sq: &mut SubmissionQueue<'_>) {
        let len = cqe.result();
        let c = &mut self.conns[conn];
        if len > 0 {
            match (&mut self.buffers, cqueue::buffer_select(cqe.flags())) {
                (Some(buffers), Some(id)) => {
                    c.out.extend_from_slice(buffers.received(id, len as usize));
                    buffers.give_back(id);
                }
                _ => c.out.extend_from_slice(&c.input[..len as usize]),
            }
            assert!(c.out.len() <= MAX_WINDOW_BYTES, "a client keeps to its window");
            self.served.bytes += len as u64;
            self.list(conn);
        }
        // Out of buffers is not an end: they are given back before the receive is armed again.
        let lives = len > 0 || -len == Errno::NOBUFS.raw_os_error();
        if !lives {
            self.close(conn);
        } else if !cqueue::more(cqe.flags()) {
            self.arm(conn, sq);
        }
    }

    fn handle_short_send(&mut self, conn: usize, result: i32, sq: &mut SubmissionQueue<'_>) {
        if result < 0 && -result != Errno::AGAIN.raw_os_error() {
            return self.close(conn);
        }
        let c = &mut self.conns[conn];
        (c.sent, c.stuffed) = (result.max(0) as usize, true);
        let entry = opcode::PollAdd::new(types::Fixed(conn as u32), u32::from(PollFlags::OUT.bits()));
        push(sq, entry.build(), About::Writable(conn));
    }

    /// Shows the kernel the buffers that are free again, and queues one send per connection that has answers.
    fn queue_sends(&mut self, sq: &mut SubmissionQueue<'_>) {
        if let Some(buffers) = &mut self.buffers {
            buffers.publish();
        }
        while let Some(conn) = self.ready.pop() {
            let c = &mut self.conns[conn];
            c.listed = false;
            if !c.open || c.stuffed {
                continue; // Listed before its short send was known: it is listed again when the socket takes more.
            }
            c.sending.drain(..c.sent);
            c.sent = 0;
            if c.sending.is_empty() {
                std::mem::swap(&mut c.out, &mut c.sending);
            } else {
                c.sending.append(&mut c.out);
            }
            self.send(conn, sq);
        }
    }

    /// Queues a send of all of `sending`.
    fn send(&mut self, conn: usize, sq: &mut SubmissionQueue<'_>) {
        let sending = &self.conns[conn].sending;
        let entry = opcode::Send::new(types::Fixed(conn as u32), sending.as_ptr(), sending.len() as u32)
            .flags((SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits() as i32 | MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        push(sq, entry, About::Sent(conn));
        self.queued.push(conn);
    }
}
