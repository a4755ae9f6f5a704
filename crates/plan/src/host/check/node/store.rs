//! A store behind memcached's protocol: GETs of small values, and SETs of large ones.

use super::{Driven, REPLY_TIMEOUT, Service, WORKING_SET};
use crate::timed::kv::experiment::{Asked, measure};
use base::{Clock, Nanos};
use model::system::host::{Handler, Host, Link};
use model::workload::Class;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serve::kv;
use serve::kv::config::Config;
use serve::kv::registers::Id;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Bytes of a value that is got, and of one that is set.
const VALUES: [usize; 2] = [64, 4 << 10];
const STORED: &[u8] = b"STORED\r\n";

/// What it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A small value.
    Get,
    /// That it stores a large one.
    Set,
}

/// A server, and what it is asked for.
pub(super) struct Store {
    node: kv::Server,
    registers: Arc<kv::registers::Registers>,
    ask: Ask,
    request: Vec<u8>,
    reply: usize,
}

fn set(bytes: usize) -> Vec<u8> {
    format!("set key:00000001 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes)).into_bytes()
}

impl Ask {
    /// Its bytes.
    pub fn request(self) -> Vec<u8> {
        match self {
            Ask::Get => b"get key:00000001\r\n".to_vec(),
            Ask::Set => set(VALUES[1]),
        }
    }

    /// What stores the small value that is got.
    pub fn stored() -> Vec<u8> {
        set(VALUES[0])
    }

    /// Bytes of a reply.
    fn reply(self) -> usize {
        match self {
            Ask::Get => {
                let [value, _] = VALUES;
                format!("VALUE key:00000001 0 {value}\r\n").len() + value + b"\r\nEND\r\n".len()
            }
            Ask::Set => STORED.len(),
        }
    }

    /// A request as the model has it.
    pub fn class(self) -> Class {
        let bytes = (self.request().len() as u64, self.reply() as u64);
        let store = if self == Ask::Set { VALUES[1] as u64 } else { 0 };
        Class { store, lookups: 2, lookup: 64, ..Class::of_bytes(&self.to_string(), bytes) }
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(if *self == Ask::Get { "GET" } else { "SET of 4 KiB" })
    }
}

impl Store {
    /// On the processor of the thread that starts it.
    pub fn start(ask: Ask) -> Result<Store, Box<dyn Error>> {
        let mut config = Config::default();
        config.listen.tcp = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        config.registers.write(Id::StoreMemory, 64 << 20)?;
        config.registers.write(Id::EdgeThreads, 1)?;
        // Threads that share a processor do not keep it from each other by looking.
        config.registers.write(Id::WaitSpin, 0)?;
        config.registers.write(Id::WaitPause, 0)?;
        let registers = config.registers.clone();
        let (request, reply) = (ask.request(), ask.reply());
        let store = Store { node: kv::Server::start(&config)?, registers, ask, request, reply };
        let mut connection = store.connect()?;
        connection.write_all(&Ask::stored())?;
        connection.read_exact(&mut [0; STORED.len()])?;
        Ok(store)
    }

    /// Ends it.
    pub fn stop(self) {
        self.node.stop();
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.node.tcp()[0])?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(stream)
    }
}

impl Service for Store {
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>> {
        let mode = if handler == Handler::Edge { "shared" } else { "dedicated" };
        Ok(self.registers.set_live("engine.mode", mode)?)
    }

    fn in_time(&self, host: &Host, handler: Handler, window: u64) -> Option<f64> {
        Some(measure(host, (&Asked::new(self.ask), WORKING_SET), handler, window).rate)
    }

    fn drive(&mut self, _: Link, window: u64, span: Nanos) -> Driven {
        let connections = (0..window).map(|_| self.connect()).collect::<io::Result<Vec<_>>>()?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, connection) in connections.iter().enumerate() {
            epoll::add(&set, connection, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
        }
        let (clock, mut room) = (Clock::shared(), vec![0; self.reply]);
        connections.iter().try_for_each(|mut connection| connection.write_all(&self.request))?;
        let (start, mut answers) = (clock.now(), 0u64);
        let mut events = Vec::with_capacity(window as usize);
        let patience = Timespec { tv_sec: REPLY_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        while clock.now().since(start) < span {
            events.clear();
            epoll::wait(&set, spare_capacity(&mut events), Some(&patience))?;
            if events.is_empty() {
                return Err("the server did not answer over TCP".into());
            }
            for event in events.drain(..) {
                let mut connection = &connections[event.data.u64() as usize];
                connection.read_exact(&mut room)?;
                connection.write_all(&self.request)?;
                answers += 1;
            }
        }
        Ok(answers as f64 / clock.now().since(start).as_secs_f64())
    }
}
