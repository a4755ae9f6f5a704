//! Client and server end to end, over every transport that is there, between threads and between processes.
//!
//! The other process is this test binary again: it runs the one test [`another_process`], told by the environment what to be.

use base::clock::Clock;
use fabric::channel::{CallOptions, Channel, Options as ChannelOptions, StartError, Switch, What};
use fabric::link::{Address, ConnectError, LinkOptions, connect};
use fabric::server::{Options, Server};
use fabric::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use fabric::status::{Code, Status};
use ring::wait::WaitPolicy;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// In the environment of the other process: what it is, and the address.
const ROLE: &str = "MILLRACE_ECHO_ROLE";
const ADDRESS: &str = "MILLRACE_ECHO_ADDRESS";
/// Nothing here takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(60);

const fn method(name: &'static str, client_streaming: bool, server_streaming: bool) -> MethodDescriptor {
    MethodDescriptor::new(name, client_streaming, server_streaming)
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Echo",
    methods: &[method("Say", false, false), method("Later", false, false), method("Chat", true, true)],
    hash: 1,
    descriptors: b"\x0a\x03\x0a\x01a",
};

#[derive(Clone, Default)]
struct Echo {
    later: Arc<Mutex<Vec<Responder>>>,
}

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match method {
            0 => {
                let body = call.body();
                call.reply_bytes(body);
            }
            _ => self.later.lock().expect("no poison").push(call.defer()),
        }
        Ok(())
    }

    fn stream(&self, _: usize, call: StreamCall) -> BoxFuture {
        let (mut requests, mut replies) = (call.requests::<()>(), call.replies::<()>());
        Box::pin(async move {
            while let Some(item) = requests.next_bytes().await {
                replies.send_bytes(item?.into()).await?;
            }
            Ok(())
        })
    }
}

thread_local! {
    /// Where this test's sockets lie: a test is a thread.
    static FOLDER: TempDir = TempDir::with_prefix("millrace-").expect("a folder");
}

/// An address of each kind that this build has, that nothing else uses.
fn addresses() -> Vec<Address> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = || format!("fabric-echo-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = || FOLDER.with(|folder| folder.path().join(name()));
    let all = [
        Address::Memory(name()),
        Address::Shm(path()),
        Address::Unix(path()),
        "tcp:127.0.0.1:0".parse().expect("an address"),
        "udp:127.0.0.1:0".parse().expect("an address"),
    ];
    let there = |address: &Address| {
        let listens = Server::new(Options::default()).listen(address);
        let there = !matches!(&listens, Err(error) if error.kind() == std::io::ErrorKind::Unsupported);
        if !there {
            eprintln!("skipped: this build has no {}", address.transport().name());
        }
        there
    };
    all.into_iter().filter(there).collect()
}

fn shm_address() -> Address {
    addresses()
        .into_iter()
        .find(|address| matches!(address, Address::Shm(_)))
        .expect("shared memory is there")
}

/// A server that another thread drives, until it is dropped.
struct Running {
    addresses: Vec<Address>,
    echo: Echo,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Server>>,
}

fn serve(addresses: &[Address]) -> Running {
    let echo = Echo::default();
    let mut server = Server::new(Options::default()).service(echo.clone());
    for address in addresses {
        server = server.listen(address).expect("nobody else listens there");
    }
    let addresses = server.addresses().cloned().collect();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        server.run(WaitPolicy::default(), &seen);
        server
    });
    Running { addresses, echo, stop, thread: Some(thread) }
}

impl Running {
    fn stop(&mut self) -> Server {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it is stopped once").join().expect("the server is well")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.stop());
        }
    }
}

fn channel(address: &Address) -> Channel {
    let link = connect(address, &LinkOptions::default()).expect("somebody listens");
    Channel::over(link, &ChannelOptions::default()).expect("a handshake")
}

/// Takes events until `done`.
fn poll_until(channel: &mut Channel, mut each: impl FnMut(u64, What<'_>), mut done: impl FnMut() -> bool) {
    let clock = Clock::shared();
    let started = clock.now();
    while !done() {
        if channel.poll(64, |event| each(event.user, event.what)) == 0 {
            channel.wait(WaitPolicy::default(), Some(Duration::from_millis(100)));
        }
        assert!(clock.now().since(started) < HANG.into(), "it hangs");
    }
}

/// Makes `calls` calls with `window` in flight, each reply to its request.
fn many_calls(channel: &mut Channel, calls: u64, window: u64, mut between: impl FnMut(&mut Channel, u64)) {
    let say = channel.method("/test.Echo/Say").expect("it is served");
    let (mut started, ended) = (0, std::cell::Cell::new(0));
    let body = |user: u64| [&user.to_le_bytes()[..], &vec![user as u8; user as usize % 200]].concat();
    while ended.get() < calls {
        while started < calls && started - ended.get() < window {
            match channel.start(say, &CallOptions::default(), started, &body(started)) {
                Ok(_) => started += 1,
                Err(StartError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let before = ended.get();
        let each = |user, what: What<'_>| {
            assert_eq!(what, What::Reply(&body(user)));
            ended.set(ended.get() + 1);
        };
        poll_until(channel, each, || ended.get() > before);
        between(channel, ended.get());
    }
    assert_eq!(started, calls);
}

#[test]
fn calls_over_every_transport() {
    for address in addresses() {
        eprintln!("{address}");
        let server = serve(&[address]);
        let mut channel = channel(&server.addresses[0]);
        let say = channel.method("/test.Echo/Say").expect("it is served");
        for len in [0, 64, 5000, 1 << 20, 8 << 20] {
            let body = vec![7; len];
            let reply = channel.call_bytes(say, &CallOptions::within(HANG), &body).expect("a reply");
            assert!(reply.body == body, "{len} bytes");
        }
        for window in [1, 64] {
            many_calls(&mut channel, 2000, window, |_, _| {});
        }
        assert_eq!(channel.reflect(&CallOptions::default()).expect("reflection"), DESCRIPTOR.descriptors);
    }
}

#[test]
fn streams_over_every_transport() {
    for address in addresses() {
        eprintln!("{address}");
        let server = serve(&[address]);
        let mut channel = channel(&server.addresses[0]);
        let chat = channel.method("/test.Echo/Chat").expect("it is served");
        let call = channel.start(chat, &CallOptions::default(), 1, b"").expect("room");
        let (items, over) = (std::cell::Cell::new(0_u32), std::cell::Cell::new(false));
        let mut sent = 0_u32;
        while !over.get() {
            while sent < 500 && channel.send(call, &sent.to_le_bytes()).is_ok() {
                sent += 1;
                if sent == 500 {
                    channel.finish(call).expect("room");
                }
            }
            let before = items.get();
            let each = |_, what: What<'_>| match what {
                What::Item(body) => {
                    assert_eq!(body, items.get().to_le_bytes());
                    items.set(items.get() + 1);
                }
                What::End => over.set(true),
                other => panic!("{other:?}"),
            };
            poll_until(&mut channel, each, || over.get() || items.get() > before);
        }
        assert_eq!(items.get(), 500);
    }
}

#[test]
fn a_deadline_ends_a_call_that_its_handler_never_answers() {
    let server = serve(&[shm_address()]);
    let mut channel = channel(&server.addresses[0]);
    let later = channel.method("/test.Echo/Later").expect("it is served");
    let status = channel
        .call_bytes(later, &CallOptions::within(Duration::from_millis(20)), b"")
        .map(|reply| reply.body)
        .expect_err("nobody answers");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    // The number is free again when the handler has answered.
    server.echo.later.lock().expect("no poison").clear();
    many_calls(&mut channel, 10, 1, |_, _| {});
}

#[test]
fn switching_transports_loses_and_doubles_nothing() {
    let addresses = addresses();
    let server = serve(&addresses);
    let mut channel = channel(&server.addresses[0]);
    let (mut at, mut switches) = (0, 0);
    many_calls(&mut channel, 20_000, 32, |channel, ended| {
        if channel.switching() == Switch::Idle && ended / 500 > switches {
            at = (at + 1) % server.addresses.len();
            let link = connect(&server.addresses[at], &LinkOptions::default()).expect("somebody listens");
            channel.switch(link).expect("it can be switched");
            switches += 1;
        }
    });
    assert!(switches > 5, "{switches} switches");
    assert!(channel.switch_error().is_none());
    let mut server = server;
    let totals = server.stop().totals();
    assert_eq!((totals.requests, totals.replies), (20_000, 20_000));
}

#[test]
fn draining_answers_what_is_open() {
    let clock = Clock::shared();
    let address = shm_address();
    let mut running = serve(&[address]);
    let mut channel = channel(&running.addresses[0]);
    let later = channel.method("/test.Echo/Later").expect("it is served");
    channel.start(later, &CallOptions::default(), 9, b"").expect("room");
    many_calls(&mut channel, 1, 2, |_, _| {});
    let mut server = running.stop();
    server.drain(clock.now());
    let client = std::thread::spawn(move || {
        let mut outcomes = Vec::new();
        while channel.is_open() || channel.in_flight() > 0 {
            channel.poll(64, |event| outcomes.push((event.user, event.what.into_failure())));
            channel.wait(WaitPolicy::default(), Some(Duration::from_millis(10)));
        }
        outcomes
    });
    let started = clock.now();
    while !server.is_drained() {
        server.wait(WaitPolicy::default(), clock.now().plus(Duration::from_millis(10).into()));
        // Two calls and the Pong.
        if server.connections(clock.now()).any(|connection| connection.counters.frames_in == 3) {
            running
                .echo
                .later
                .lock()
                .expect("no poison")
                .drain(..)
                .for_each(|later| later.reply_bytes(b"done"));
        }
        assert!(clock.now().since(started) < HANG.into(), "it hangs");
    }
    assert_eq!(client.join().expect("the client is well"), [(9, None)]);
}

// Between processes.

/// This binary as another process, which has said that it is ready.
fn process(role: &str, address: &Address) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "another_process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(ADDRESS, address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.ends_with("ready"));
    assert!(ready, "the other process failed");
    child
}

fn kill(mut child: Child) {
    child.kill().expect("it runs until now");
    assert_eq!(child.wait().expect("its status").signal(), Some(9), "it failed by itself");
}

/// What the other process does; nothing here.
#[test]
fn another_process() {
    let (Ok(role), Ok(address)) = (std::env::var(ROLE), std::env::var(ADDRESS)) else { return };
    let address: Address = address.parse().expect("an address");
    match role.as_str() {
        "server" => {
            let _running = serve(&[address]);
            println!("ready");
            until_killed();
        }
        _ => {
            let mut channel = channel(&address);
            let later = channel.method("/test.Echo/Later").expect("it is served");
            for user in 0..10 {
                channel.start(later, &CallOptions::default(), user, b"").expect("room");
            }
            channel.flush();
            println!("ready");
            until_killed();
        }
    }
}

fn until_killed() {
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_server_killed_mid_call_and_started_again_on_the_same_path() {
    let address = shm_address();
    for _ in 0..3 {
        let server = process("server", &address);
        let mut channel = channel(&address);
        let later = channel.method("/test.Echo/Later").expect("it is served");
        channel.start(later, &CallOptions::default(), 1_000_000, b"").expect("room");
        // Frames stay in order here, so when these are answered that one was taken.
        let mut outcomes = Vec::new();
        let say = channel.method("/test.Echo/Say").expect("it is served");
        channel.call_bytes(say, &CallOptions::within(HANG), b"x").expect("a reply");
        kill(server);
        let over = std::cell::Cell::new(false);
        poll_until(
            &mut channel,
            |user, what| {
                outcomes.push((user, what.into_failure().map(|status| (status.code(), status.is_lost()))));
                over.set(true);
            },
            || over.get(),
        );
        assert_eq!(outcomes, [(1_000_000, Some((Code::Unavailable, true)))]);
        assert!(matches!(channel.start(say, &CallOptions::default(), 2, b""), Err(StartError::Gone)));
        assert!(matches!(connect(&address, &LinkOptions::default()), Err(ConnectError::NobodyThere(_))));
    }
}

#[test]
fn a_client_killed_with_calls_outstanding() {
    let clock = Clock::shared();
    let echo = Echo::default();
    let address = shm_address();
    let mut server =
        Server::new(Options::default()).service(echo.clone()).listen(&address).expect("it listens");
    let started = clock.now();
    let wait = |server: &mut Server, done: &dyn Fn(&Server) -> bool| {
        while !done(server) {
            server.wait(WaitPolicy::default(), clock.now().plus(Duration::from_millis(10).into()));
            assert!(clock.now().since(started) < HANG.into(), "it hangs");
        }
    };
    let client = std::thread::scope(|scope| {
        let client = scope.spawn(|| process("client", &address));
        wait(&mut server, &|server| server.connections(clock.now()).any(|found| found.open_calls == 10));
        client.join().expect("the client came up")
    });
    kill(client);
    wait(&mut server, &|server| server.connections(clock.now()).next().is_none());
    let later = std::mem::take(&mut *echo.later.lock().expect("no poison"));
    assert!(later.len() == 10 && later.iter().all(Responder::is_cancelled));
    later.into_iter().for_each(|later| later.reply_bytes(b"nobody hears it"));
    // And the next client is served.
    let served = std::thread::scope(|scope| {
        let client = scope.spawn(|| many_calls(&mut channel(&address), 100, 8, |_, _| {}));
        wait(&mut server, &|server| server.totals().replies >= 100);
        client.join()
    });
    served.expect("it was served");
}
