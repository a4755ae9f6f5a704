//! A node in time held against the arithmetic where both must say the same, and its answers against those of a server.

mod planted;

use super::experiment::{Asked, Measured, WIDE, measure, place, untimed};
use super::{Client, Setup, Timed};
use crate::host::{Ask, arithmetic};
use base::Picos;
use model::platform::Platforms;
use model::system::host::{Handler, Host, Link, Node as Machine, Route, Threads};
use protocol::planted::NoBugs;
use serve::kv;
use serve::kv::config::Config;
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::rc::Rc;

pub fn host() -> Host {
    Host::of(&Platforms::shipped().named("this-host").expect("it is shipped")).expect("it is complete")
}

#[test]
fn one_request_takes_what_arithmetic_says() {
    let host = host();
    for ask in [Ask::Get, Ask::Set] {
        let asked = Asked::new(ask);
        for handler in [Handler::Edge, Handler::Engine] {
            let timed = measure(&host, (&asked, 16 << 10), handler, 1);
            let machine = Machine::new(&host, Threads::asleep(), 1);
            let stages = [(handler, machine.handling(&ask.class(), 16 << 10))];
            let route = Route { link: Link::Tcp, handler };
            let planned = arithmetic(machine, (&ask.class(), route), &stages, 1);
            let error = timed.seen.mean() / planned.mean() - 1.0;
            assert!(error.abs() < 0.01, "{ask}, {handler}: {error:+.4}");
            assert_eq!(timed.wrong, 0);
            assert!(timed.counts.requests.abs_diff(timed.counts.steps) <= 1, "{:?}", timed.counts);
        }
    }
}

#[test]
fn misses_of_a_turn_overlap() {
    let host = host();
    let asked = Asked::new(Ask::Get);
    let sixteen = |bytes| measure(&host, (&asked, bytes), Handler::Edge, 16);
    let (near, far) = (sixteen(16 << 10), sixteen(1 << 30));
    assert_eq!((near.wrong, far.wrong), (0, 0));
    let each = |measured: &Measured| 1e12 / measured.rate;
    let (longer, alone) = (each(&far) - each(&near), 2.0 * host.miss(1 << 30).0.0 as f64);
    assert!(longer > 0.0 && longer < 0.7 * alone, "{longer} ps of {alone}");
}

#[test]
fn several_under_way_share_steps_and_wake_ups() {
    let (host, asked) = (host(), Asked::new(Ask::Get));
    for handler in [Handler::Edge, Handler::Engine] {
        let [one, many] = [1, 16].map(|window| measure(&host, (&asked, 16 << 10), handler, window));
        let each = |of: u64, measured: &Measured| of as f64 / measured.counts.requests as f64;
        assert!(each(many.counts.steps, &many) < 0.5 * each(one.counts.steps, &one), "{handler}: {many:?}");
        assert!(each(many.counts.wakes, &many) < 0.5 * each(one.counts.wakes, &one), "{handler}: {many:?}");
    }
}

#[test]
fn every_run_is_the_same() {
    let (host, asked) = (host(), Asked::new(Ask::Get));
    let runs = [(); 2].map(|()| measure(&host, (&asked, 1 << 20), Handler::Engine, 4));
    let of = |run: &Measured| (run.seen.count(), run.seen.mean(), run.counts);
    assert_eq!(of(&runs[0]), of(&runs[1]));
}

/// Says all it has to at once, and hears.
pub struct Once {
    says: Vec<u8>,
    heard: Rc<RefCell<Vec<u8>>>,
}

impl Once {
    /// Says this.
    pub fn new(says: &[u8], heard: &Rc<RefCell<Vec<u8>>>) -> Once {
        Once { says: says.to_vec(), heard: Rc::clone(heard) }
    }
}

impl Client for Once {
    fn begin(&mut self, _: Picos) -> Vec<u8> {
        std::mem::take(&mut self.says)
    }

    fn hears(&mut self, bytes: &[u8], _: Picos) -> Vec<u8> {
        self.heard.borrow_mut().extend_from_slice(bytes);
        Vec::new()
    }
}

/// What a client of this number says: commands of the text and the meta protocol on keys of its own, a few of them wrong.
fn says(client: usize) -> Vec<u8> {
    let mut said = String::new();
    for at in 0..40 {
        let (key, value) = (format!("c{client}k{}", at % 7), "x".repeat(at * 37 % 3000));
        said += &match at % 8 {
            0 | 3 => format!("set {key} {at} 0 {}\r\n{value}\r\n", value.len()),
            1 => format!("get {key} c{client}k0 nobody\r\n"),
            2 => format!("mg {key} v f s t k\r\n"),
            4 => format!("append {key} 0 0 1\r\ny\r\n"),
            5 => format!("incr {key} 3\r\n"),
            6 => format!("delete {key}\r\n"),
            _ => format!("no such command {at}\r\n"),
        };
    }
    said.into_bytes()
}

fn timed(handler: Handler, clients: usize) -> Vec<Vec<u8>> {
    let host = host();
    let setup = Setup {
        host: &host,
        threads: Threads { clients: 2, ..Threads::default() },
        working_set: 1 << 20,
        places: vec![place(handler)],
        planted: NoBugs,
        width: WIDE,
    };
    let node = Timed::new(setup).expect("a store of this size");
    let heard: Vec<Rc<RefCell<Vec<u8>>>> = (0..clients).map(|_| Rc::default()).collect();
    let client = |at: usize| (0, Once::new(&says(at), &heard[at]));
    node.begin((0..clients).map(client).collect()).expect("descriptors");
    node.sim().run_until(Picos::from_millis(100));
    node.sim().end_processes();
    heard.iter().map(|heard| heard.borrow().clone()).collect()
}

fn real(clients: usize) -> Vec<Vec<u8>> {
    let mut config = Config::default();
    config.listen.tcp = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let server = kv::Server::start(&config).expect("a server");
    let ask = |client| {
        let mut stream = TcpStream::connect(server.tcp()[0]).expect("it listens");
        stream.write_all(&says(client)).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("a socket");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("it answers");
        heard
    };
    let heard = (0..clients).map(ask).collect();
    server.stop();
    heard
}

#[test]
fn answers_are_those_of_a_server() {
    let real = real(3);
    assert!(real.iter().all(|heard| heard.len() > 2000));
    for (client, heard) in real.iter().enumerate() {
        let by_hand = &untimed(&[place(Handler::Edge)], &[&says(client)])[0];
        assert_eq!(String::from_utf8_lossy(by_hand), String::from_utf8_lossy(heard));
    }
    for handler in [Handler::Edge, Handler::Engine] {
        let timed = timed(handler, 3);
        for (timed, heard) in timed.iter().zip(&real) {
            assert_eq!(String::from_utf8_lossy(timed), String::from_utf8_lossy(heard), "{handler}");
        }
    }
}
