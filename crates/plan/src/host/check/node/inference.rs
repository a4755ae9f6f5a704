//! A recommendation model, whose requests are read at each place and computed on the engine core. What reading one takes, and what all of the service's code
//! takes of a request, is timed by itself on one thread (a server by hand, so many calls in a row), and the model puts them together with threads, rings
//! and sockets.

use super::calls::{Channels, addresses, place};
use super::{Driven, Service};
use crate::host::calls::{self, by_hand, connected};
use base::{Clock, Nanos, Picos};
use bench::probe::timing::samples_of;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use fabric::channel::{CallOptions, Channel, Event, What};
use fabric::link::{LinkOptions, memory};
use model::system::host::{Handler, Link, Node};
use model::workload::Class;
use rec::RowFormat;
use serve::rec::preprocess::{self, Reader};
use serve::rec::proto::millrace::InferRequest;
use serve::rec::registers::Registers;
use serve::rec::{ByHand, Plan, Server, Synthetic};
use std::error::Error;
use std::sync::Arc;

/// As clients name it.
const INFER: &str = "millrace.Recommend/Infer";
/// Ids of a query in each table.
const IDS: usize = 20;
const TABLES: usize = 4;
const DENSE: usize = 13;

/// A server, its clients, and what one request is.
pub(super) struct Inference {
    channels: Channels,
    // After the channels.
    server: Server,
    registers: Arc<Registers>,
    request: Vec<u8>,
    by_hand: Hand,
    /// As last timed.
    takes: Takes,
}

/// What a request takes in code.
#[derive(Clone, Copy, Default)]
struct Takes {
    /// Reading it.
    read: Picos,
    /// All that is not a call's own, where it is read by the edge, …
    at_edge: Picos,
    /// … and where it is read on the engine core.
    at_engine: Picos,
}

/// A server that is driven by hand, and its client.
struct Hand {
    channel: Channel,
    server: ByHand,
    registers: Arc<Registers>,
    reader: Reader,
}

impl Hand {
    fn new() -> Result<Hand, Box<dyn Error>> {
        let registers = registers()?;
        let mut server = ByHand::new(Box::new(|| small().model()), &registers)?;
        let (ours, theirs) = memory::pair(&LinkOptions::default())?;
        server.accept(theirs);
        let channel = connected(ours, || server.turn(Clock::shared().now()))?;
        Ok(Hand { channel, server, registers, reader: Reader::default() })
    }

    /// A request that is read at this place, beside what a call is anyway.
    fn beside_call(&mut self, place: &str, request: &[u8], span: Nanos) -> Result<Picos, Box<dyn Error>> {
        self.registers.set_live("place.rec.preprocess", place)?;
        let Hand { channel, server, .. } = self;
        let method = channel.method(INFER).ok_or("the server has no such method")?;
        let (clock, options) = (Clock::shared(), CallOptions::default());
        let serve = || server.turn(clock.now());
        let start = |channel: &mut Channel, user| _ = channel.start(method, &options, user, request);
        let is_right = |event: &mut Event<'_>| matches!(event.what, What::Reply(_));
        let all = median(&by_hand(span, channel, serve, start, is_right));
        Ok(all.since(median(&calls::code(span)?)))
    }
}

fn median(nanos: &[f64]) -> Picos {
    let median = base::spread::Spread::of_all(nanos).map_or(0.0, |spread| spread.median);
    Picos((median * 1e3) as u64)
}

/// As the model has it: it knows no batches, and nobody looks before it sleeps.
fn registers() -> Result<Arc<Registers>, Box<dyn Error>> {
    let registers = Registers::default();
    for (name, value) in [("rec.batch", "1"), ("wait.spin", "0"), ("wait.pause", "0"), ("wait.monitor", "0")]
    {
        registers.set(name, value)?;
    }
    Ok(Arc::new(registers))
}

/// Some twenty microseconds of a core.
fn small() -> Synthetic {
    Synthetic {
        tables: TABLES,
        rows: 10_000,
        dim: 32,
        format: RowFormat::F32,
        dense: DENSE,
        bottom: vec![64],
        top: vec![64],
        memo: None,
        seed: 1,
    }
}

/// A query: the same rows each time, as the caches have them.
fn request() -> Vec<u8> {
    let (arena, mut encoder) = (Arena::default(), Encoder::default());
    let built = InferRequest::new(&arena).and_then(|mut to| {
        to.set_dense(&[0.5; DENSE])?;
        for table in 0..TABLES {
            let mut bags = to.push_bags()?;
            bags.set_table(&format!("t{table}"))?;
            let ids: Vec<i64> = (0..IDS as i64).map(|id| id * 499).collect();
            bags.set_values(&ids)?;
            bags.set_offsets(&[0])?;
        }
        Ok::<_, OutOfMemory>(to)
    });
    InferRequest::freeze(built.expect("memory for a request"))
        .encode(&mut encoder)
        .expect("it can be written");
    encoder.written().to_vec()
}

impl Inference {
    /// On the processor of the thread that starts it.
    pub fn start() -> Result<Inference, Box<dyn Error>> {
        let registers = registers()?;
        let server = Server::start(Plan {
            source: Box::new(|| small().model()),
            listen: addresses("rec")?.into(),
            http: None,
            grpc: None,
            cores: None,
            registers: Arc::clone(&registers),
            rights: None,
        })?;
        let channels = Channels::connect(server.addresses())?;
        let (by_hand, takes) = (Hand::new()?, Takes::default());
        Ok(Inference { channels, server, registers, request: request(), by_hand, takes })
    }

    /// A request as the model has it: a call.
    pub fn class() -> Class {
        Class { fields: 1, ..Class::of_bytes("inference", (request().len() as u64, 128)) }
    }
}

impl Service for Inference {
    fn place(&self, handler: Handler) -> Result<(), Box<dyn Error>> {
        Ok(self.registers.set_live("place.rec.preprocess", place(handler))?)
    }

    fn probe(&mut self, span: Nanos) -> Result<(), Box<dyn Error>> {
        let Inference { server, request, by_hand, takes, .. } = self;
        let served = server.shelf().find("", None).map_err(|refusal| refusal.to_string())?;
        let reader = &mut by_hand.reader;
        let read = || preprocess::message(request, reader, |_| Ok(Arc::clone(&served)), 1, || ()).is_ok();
        takes.read = median(&samples_of(span, read));
        takes.at_edge = by_hand.beside_call("edge", request, span)?;
        takes.at_engine = by_hand.beside_call("engine", request, span)?;
        Ok(())
    }

    fn stages(&self, _: &Node<'_>, _: &Class, handler: Handler) -> Vec<(Handler, Picos)> {
        let Takes { read, at_edge, at_engine } = self.takes;
        match handler {
            Handler::Edge => vec![(Handler::Edge, read), (Handler::Engine, at_edge.since(read))],
            Handler::Engine => vec![(Handler::Engine, at_engine)],
            // Its task hands it over from the engine's core, and goes on there.
            Handler::HostThreads => {
                vec![
                    (Handler::Engine, Picos::ZERO),
                    (handler, read),
                    (Handler::Engine, at_engine.since(read)),
                ]
            }
        }
    }

    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Driven {
        // A score, and times.
        self.channels.drive((link, window, span), (INFER, &self.request), |reply| !reply.is_empty())
    }
}
