//! The real server over UDP on loopback, asked by one thread that has prepared its requests.

use super::{Bench, Kind, Row, code};
use base::{Clock, Nanos};
use bench::probe::echo::one_way;
use bench::probe::{cores, timing, wakeups};
use model::system::host::{Asleep, Host, datagrams};
use protocol::memcache::udp::Frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serve::kv::Server;
use serve::kv::config::Config;
use serve::kv::registers::Id;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// What is compared: who sleeps, and how many requests are under way.
const ALL: [(Asleep, u32, bool); 5] = [
    (Asleep::Nobody, 1, true),
    (Asleep::Nobody, 1, false),
    (Asleep::Nobody, 16, false),
    (Asleep::Both, 1, true),
    (Asleep::Both, 16, false),
];

fn row((asleep, window, is_latency): (Asleep, u32, bool)) -> Row {
    let who = if asleep == Asleep::Nobody { "polling" } else { "sleeping" };
    if is_latency {
        Row::new(format!("UDP GET latency, {who}"), Kind::Span("us", 1e-6))
    } else {
        Row::new(format!("UDP GETs, {who}, {window} under way"), Kind::Rate("K/s", 1e3))
    }
}

/// All rows of the server.
pub(super) fn check(bench: &mut Bench<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut config = Config::default();
    config.listen.tcp.clear();
    config.listen.udp = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    config.registers.write(Id::StoreMemory, 64 << 20)?;
    config.registers.write(Id::EdgeThreads, 1)?;
    let registers = config.registers.clone();
    let node = Server::start(&config)?;
    let client = Client::connect(node.udp()[0])?;
    client.store()?;
    let mut rows: Vec<Row> = ALL.map(row).into_iter().collect();
    for _ in 0..bench.rounds() {
        for (what, row) in ALL.into_iter().zip(&mut rows) {
            let (asleep, window, is_latency) = what;
            let predict = |host: &Host| {
                let served = datagrams(host, window, asleep);
                if is_latency { served.latency } else { served.rate }
            };
            // A server that polls would have the core that is probed.
            registers.write(Id::EdgeBusyPoll, 0)?;
            probe(bench, asleep)?;
            let before = predict(&bench.host()?);
            registers.write(Id::EdgeBusyPoll, if asleep == Asleep::Nobody { 1_000_000 } else { 0 })?;
            let span = bench.span(Nanos::from_millis(60));
            let rate = cores::on(bench.cores.0, || client.drive(window, asleep, span))??;
            registers.write(Id::EdgeBusyPoll, 0)?;
            // A window of one has no queue: a latency is the inverse of its rate.
            let measured = if is_latency { rate.map(|rate| 1.0 / rate) } else { rate };
            probe(bench, asleep)?;
            row.note(before, measured, predict(&bench.host()?));
        }
    }
    node.stop();
    Ok(rows)
}

/// Replaces the figures that the server rests on.
pub(super) fn probe(bench: &mut Bench<'_>, asleep: Asleep) -> io::Result<()> {
    let span = Nanos::from_millis(4);
    let [send, receive] = one_way::datagram(bench.cores, span)?;
    bench.figures.note("kernel.udp_send", &send, "ns", "bursts over loopback");
    bench.figures.note("kernel.udp_receive", &receive, "ns", "bursts over loopback");
    let look = UdpSocket::bind("127.0.0.1:0")?;
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let looks = timing::samples_of(Nanos::from_millis(1), || {
        poll(&mut [PollFd::new(&look, PollFlags::IN)], Some(&now)).is_ok()
    });
    bench.figures.note("kernel.epoll", &looks, "ns", "a look at a socket");
    code::store(bench.figures, Nanos::from_millis(1));
    if asleep == Asleep::Both {
        let woken = wakeups::by_eventfd(bench.cores.0, bench.cores.1, Nanos::from_millis(30))?;
        bench.figures.note("kernel.wake", &woken.to_run, "us", "eventfd, sleeper idle 60 us");
        bench.figures.note("kernel.wake_call", &woken.call, "us", "eventfd, sleeper idle 60 us");
        let (soon, long) = wakeups::just_asleep(bench.cores.0, bench.cores.1, Nanos::from_millis(20))?;
        bench.figures.note("kernel.wake_soon", &soon.to_run, "us", "eventfd, sleeper idle 1 us");
        bench.figures.note("kernel.long_sleep", &[long], "us", "where wake-ups are as long as after 60 us");
        let switched = wakeups::by_eventfd(bench.cores.1, bench.cores.1, Nanos::from_millis(5))?;
        bench.figures.note("kernel.switch", &switched.to_run, "us", "eventfd, on one core");
    }
    Ok(())
}

/// Asks for one key again and again.
struct Client {
    socket: UdpSocket,
    request: Vec<u8>,
}

const KEY: &str = "key:00000001";

impl Client {
    fn connect(to: SocketAddr) -> io::Result<Client> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(Client { socket, request: framed(&format!("get {KEY}\r\n")) })
    }

    /// Stores what will be asked for.
    fn store(&self) -> io::Result<()> {
        let value = "v".repeat(64);
        self.socket.send(&framed(&format!("set {KEY} 0 0 {}\r\n{value}\r\n", value.len())))?;
        if self.take(Asleep::Both)? {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not answer a SET over UDP"))
    }

    /// Answers per second with so many requests under way; none if one was lost.
    fn drive(&self, window: u32, asleep: Asleep, span: Nanos) -> io::Result<Option<f64>> {
        let clock = Clock::shared();
        for _ in 0..window {
            self.socket.send(&self.request)?;
        }
        let (start, mut answers) = (clock.now(), 0u64);
        let mut is_whole = true;
        while clock.now().since(start) < span && is_whole {
            is_whole = self.take(asleep)?;
            self.socket.send(&self.request)?;
            answers += 1;
        }
        let rate = answers as f64 / clock.now().since(start).as_secs_f64();
        for _ in 0..window {
            is_whole &= self.take(Asleep::Both)?;
        }
        Ok(is_whole.then_some(rate))
    }

    /// Takes an answer; false if none came for long.
    fn take(&self, asleep: Asleep) -> io::Result<bool> {
        let (clock, mut room) = (Clock::shared(), [0; 2048]);
        let start = clock.now();
        loop {
            match self.socket.recv(&mut room) {
                Ok(_) => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            if asleep == Asleep::Both {
                let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
                poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&patience))?;
            }
            if clock.now().since(start) > Nanos::from_millis(200) {
                return Ok(false);
            }
        }
    }
}

fn framed(text: &str) -> Vec<u8> {
    [&Frame { request_id: 1, sequence: 0, count: 1 }.emit()[..], text.as_bytes()].concat()
}
