//! A recommendation model, whose requests are read at each place and computed on the engine core. What reading one and computing it take is timed by itself on
//! one thread, and the model puts them together with threads, rings and sockets.

use super::calls::{Channels, addresses, place};
use super::{Driven, Service};
use base::{Nanos, Picos};
use bench::probe::timing::samples_of;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView};
use model::system::host::{Handler, Link, Node};
use model::workload::Class;
use rec::request::Served;
use rec::{Bags, Batch, RowFormat, Scratch, Tuning};
use serve::rec::preprocess::{self, Reader};
use serve::rec::proto::millrace::InferRequest;
use serve::rec::registers::Registers;
use serve::rec::{Plan, Server, Synthetic};
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
    /// Reading a request, and computing it, as last timed.
    takes: [Picos; 2],
    memory: Memory,
}

/// What timing uses again.
#[derive(Default)]
struct Memory {
    reader: Reader,
    scratch: Scratch,
    scores: Vec<f32>,
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
        let registers = Arc::new(Registers::default());
        // The model knows no batches, and nobody looks before it sleeps.
        for (name, value) in
            [("rec.batch", "1"), ("wait.spin", "0"), ("wait.pause", "0"), ("wait.monitor", "0")]
        {
            registers.set(name, value)?;
        }
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
        let (takes, memory) = ([Picos::ZERO; 2], Memory::default());
        Ok(Inference { channels, server, registers, request: request(), takes, memory })
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
        let Inference { server, request, memory: Memory { reader, scratch, scores }, takes, .. } = self;
        let served = server.shelf().find("", None).map_err(|refusal| refusal.to_string())?;
        let mut read = || preprocess::message(request, reader, |_| Ok(Arc::clone(&served)), 1, || ());
        let queries = read().map_err(|refusal| refusal.to_string())?;
        let parse = samples_of(span, || read().is_ok());
        let model: &Served = &served;
        let bags: Vec<Bags<'_>> = (0..model.tables()).map(|table| queries.bags(table)).collect();
        let batch = Batch { len: queries.len(), dense: queries.dense(), bags: &bags };
        let infer =
            samples_of(span, || model.model().infer(&batch, Tuning::default(), scratch, scores).is_ok());
        *takes = [parse, infer].map(|samples| {
            let median = base::spread::Spread::of_all(&samples).map_or(0.0, |spread| spread.median);
            Picos((median * 1e3) as u64)
        });
        Ok(())
    }

    fn stages(&self, _: &Node<'_>, _: &Class, handler: Handler) -> Vec<(Handler, Picos)> {
        let [read, compute] = self.takes;
        match handler {
            Handler::Edge => vec![(Handler::Edge, read), (Handler::Engine, compute)],
            Handler::Engine => vec![(Handler::Engine, read.plus(compute))],
            // Its task hands it over from the engine's core, and goes on there.
            Handler::HostThreads => {
                vec![(Handler::Engine, Picos::ZERO), (handler, read), (Handler::Engine, compute)]
            }
        }
    }

    fn drive(&mut self, link: Link, window: u64, span: Nanos) -> Driven {
        // A score, and times.
        self.channels.drive((link, window, span), (INFER, &self.request), |reply| !reply.is_empty())
    }
}
