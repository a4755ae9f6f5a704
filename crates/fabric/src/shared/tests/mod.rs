//! Members and futures on one channel, against a server that answers when and in whatever order it likes.

mod calls;
mod ends;
mod stress;

use super::*;
use crate::channel::{Options as ChannelOptions, What};
use crate::link::{LinkOptions, memory};
use crate::server::{Options as ServerOptions, Server};
use crate::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use crate::status::{Code, Status};
use base::clock::Clock;
use base::prng::Prng;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

const fn method(name: &'static str, server_streaming: bool) -> MethodDescriptor {
    MethodDescriptor::new(name, false, server_streaming)
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Late",
    methods: &[method("Echo", false), method("Never", false), method("Stream", true)],
    hash: 1,
    descriptors: b"",
};

/// Echoes that wait for their answer.
type Held = Vec<(Responder, Vec<u8>)>;

/// Answers echoes late, in any order; keeps what is never answered.
#[derive(Clone, Default)]
struct Late {
    echoes: Arc<Mutex<Held>>,
    never: Arc<Mutex<Vec<Responder>>>,
}

impl Service for Late {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body().to_vec();
        match method {
            0 => self.echoes.lock().expect("no poison").push((call.defer(), body)),
            _ => self.never.lock().expect("no poison").push(call.defer()),
        }
        Ok(())
    }

    fn stream(&self, _: usize, _: StreamCall) -> BoxFuture {
        Box::pin(async { Ok(()) })
    }
}

impl Late {
    /// Answers one of the echoes; whether there was one.
    fn answer(&self, random: &mut Prng) -> bool {
        let mut echoes = self.echoes.lock().expect("no poison");
        if echoes.is_empty() {
            return false;
        }
        let at = random.below(echoes.len() as u64) as usize;
        let (responder, body) = echoes.swap_remove(at);
        drop(echoes);
        responder.reply_bytes(&body);
        true
    }
}

/// A server of one connection on a thread of its own, until it is dropped.
struct Running {
    late: Late,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Answers a random one of what it has whenever nothing arrives.
    fn start(seed: u64, max_calls: u32) -> (Running, Channel) {
        let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("two ends");
        let mut running =
            Running { late: Late::default(), stop: Arc::new(AtomicBool::new(false)), thread: None };
        let (late, stop) = (running.late.clone(), Arc::clone(&running.stop));
        let options = ServerOptions { max_calls, ..ServerOptions::default() };
        running.thread = Some(thread::spawn(move || {
            let (clock, mut random) = (Clock::shared(), Prng::new(seed));
            let mut server = Server::new(options).service(late.clone());
            server.accept(theirs, clock.now());
            while !stop.load(Ordering::Relaxed) {
                if server.poll(clock.now()) == 0 && !late.answer(&mut random) {
                    thread::yield_now();
                }
            }
        }));
        let channel = Channel::over(ours, &ChannelOptions::default()).expect("it greets");
        (running, channel)
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server is well");
        }
    }

    /// Until so many calls that are never answered have arrived.
    fn wait_for_never(&self, count: usize) {
        while self.late.never.lock().expect("no poison").len() < count {
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn options() -> SharedOptions {
    SharedOptions { wait: WaitPolicy::BLOCK, calls: 16, ..SharedOptions::default() }
}

fn start(max_calls: u32, options: &SharedOptions) -> (Running, Shared) {
    let (running, channel) = Running::start(1, max_calls);
    (running, Shared::new(channel, options).expect("a thread"))
}

/// An executor in twenty lines.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Takes one event, however long it takes.
fn next(member: &mut Member) -> (u64, Result<Vec<u8>, Status>) {
    loop {
        let mut found = None;
        member.poll(1, |event| {
            let result = match event.what {
                What::Reply(body) => Ok(body.to_vec()),
                What::Failed(status) => Err(status),
                What::Item(_) | What::End => panic!("a unary call has no items"),
            };
            found = Some((event.user, result));
        });
        match found {
            Some(found) => return found,
            None => member.wait(WaitPolicy::BLOCK, None),
        };
    }
}

fn code(result: &Result<Vec<u8>, Status>) -> Code {
    result.as_ref().err().map_or(Code::Ok, Status::code)
}
