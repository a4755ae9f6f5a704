//! What a channel costs beside encode, decode and the link: unary calls over a link that answers by itself.
//!
//! `cargo bench -p millrace-fabric --bench channel`. Both sides of the comparison use the same link and the same frames: *bare* puts
//! headers into it and parses what comes, *channel* goes through start and poll, the last column has a monitor at its default sampling.
//! Rounds alternate; printed is the median of the
//! rounds' differences with their quartiles. Time is this thread's processor time, so that neighbours on a busy machine count less.

use base::cpu::thread_time;
use base::spread;
use base::units::Nanos;
use fabric::channel::{CallOptions, Channel, Method, Options, What};
use fabric::connection::handshake::{MethodInfo, ServiceInfo, VERSION, Welcome};
use fabric::frame::{Frame, Header, Kind};
use fabric::link::{Frames, Link, Lost, SendError, Transport};
use fabric::monitor::Monitor;
use rustix::fd::{AsFd, BorrowedFd};
use std::fs::File;
use std::hint::black_box;
use std::time::Duration;

const BODY: [u8; 64] = [7; 64];
const CALLS: usize = 200_000;
const ROUNDS: usize = 21;

/// Answers each Request with its own body.
struct Mirror {
    answers: Vec<([u8; 16], [u8; 64])>,
    welcome: Option<Vec<u8>>,
    file: File,
}

impl Mirror {
    fn link() -> Box<dyn Link> {
        let method = MethodInfo {
            name: "Say".to_owned(),
            number: 0,
            client_streaming: false,
            server_streaming: false,
        };
        let services = vec![ServiceInfo { name: "demo.Echo".to_owned(), hash: 0, methods: vec![method] }];
        let welcome = Welcome { version: VERSION, calls: 1024, window: 64, services, ..Welcome::default() };
        let file = File::open("/dev/null").expect("it is always there");
        let welcome = [&Header::new(Kind::Welcome, 0).emit()[..], &welcome.emit()].concat();
        Box::new(Mirror { answers: Vec::new(), welcome: Some(welcome), file })
    }
}

impl Link for Mirror {
    fn transport(&self) -> Transport {
        Transport::Memory
    }

    fn try_send(&mut self, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        if let (Ok(body), Some(head)) = (body.try_into(), head.first_chunk::<16>()) {
            let mut head = *head;
            head[0] = Kind::Reply as u8;
            head[8..12].fill(0);
            self.answers.push((head, body));
        }
        Ok(())
    }

    fn flush(&mut self, _: Nanos) {}

    fn recv(&mut self, _: Nanos, max: usize, into: &mut Frames) -> Result<usize, Lost> {
        if let Some(welcome) = self.welcome.take() {
            into.push(&[&welcome]);
            return Ok(1);
        }
        let count = self.answers.len().min(max);
        for (head, body) in self.answers.drain(..count) {
            into.push(&[&head, &body]);
        }
        Ok(count)
    }

    fn next_deadline(&self) -> Nanos {
        Nanos::MAX
    }

    fn arm(&mut self) -> bool {
        self.answers.is_empty()
    }

    fn disarm(&mut self) {}

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// ns per call of frames alone.
fn bare(link: &mut dyn Link, frames: &mut Frames, window: usize) -> f64 {
    let begin = thread_time();
    let mut sum = 0usize;
    for _ in 0..CALLS / window {
        for call in 0..window {
            let head = Header::new(Kind::Request, black_box(call as u32)).emit();
            link.try_send(&head, &BODY).expect("always room");
        }
        link.flush(Nanos(0));
        frames.clear();
        link.recv(Nanos(0), 256, frames).expect("never lost");
        while let Some(bytes) = frames.pop() {
            let frame = Frame::parse(bytes).expect("a frame");
            sum += frame.body.len() + frame.header.call as usize;
        }
    }
    black_box(sum);
    per_call(begin, window)
}

/// ns per call through the channel.
fn through(channel: &mut Channel, method: Method, options: &CallOptions<'_>, window: usize) -> f64 {
    let begin = thread_time();
    let mut sum = 0;
    for _ in 0..CALLS / window {
        for user in 0..window {
            channel.start(method, options, black_box(user as u64), &BODY).expect("always room");
        }
        let mut answered = 0;
        while answered < window {
            answered += channel.poll(window, |event| {
                let What::Reply(body) = event.what else { panic!("every call is answered") };
                sum += body.len() + event.user as usize;
            });
        }
    }
    black_box(sum);
    per_call(begin, window)
}

fn per_call(begin: Nanos, window: usize) -> f64 {
    thread_time().since(begin).0 as f64 / (CALLS / window * window) as f64
}

fn main() {
    let mut channel = Channel::over(Mirror::link(), &Options::default()).expect("the mirror answers");
    let options = Options { monitor: Some(Monitor::default()), ..Options::default() };
    let mut watched = Channel::over(Mirror::link(), &options).expect("the mirror answers");
    let method = channel.method("/demo.Echo/Say").expect("the mirror has it");
    let (mut link, mut frames) = (Mirror::link(), Frames::default());
    link.recv(Nanos(0), 1, &mut frames).expect("never lost");
    println!(
        "{:>6}  {:>9}  {:>9}  {:>22}  {:>22}  {:>22}",
        "window", "bare ns", "channel", "difference ns", "with a deadline", "a monitor adds"
    );
    for window in [1, 8, 32, 64] {
        let (mut plain, mut timed, mut monitor) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bares, mut throughs) = (Vec::new(), Vec::new());
        let deadline = CallOptions::within(Duration::from_secs(1));
        for _ in 0..ROUNDS {
            let base = bare(&mut *link, &mut frames, window);
            let all = through(&mut channel, method, &CallOptions::default(), window);
            let with_deadline = through(&mut channel, method, &deadline, window);
            let seen = through(&mut watched, method, &CallOptions::default(), window);
            monitor.push(seen - all);
            plain.push(all - base);
            timed.push(with_deadline - base);
            bares.push(base);
            throughs.push(all);
        }
        println!(
            "{window:>6}  {:>9.1}  {:>9.1}  {:>22}  {:>22}  {:>22}",
            spread::median(bares),
            spread::median(throughs),
            spread::text(plain, 1),
            spread::text(timed, 1),
            spread::text(monitor, 1)
        );
    }
}
