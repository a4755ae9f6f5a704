//! Preprocessing: requests as they came become queries that the engine can compute.
//!
//! Where: on the thread of the edge that took the request, in its task on the engine's core, or on a host thread ([`Place`], register
//! `place.rec.preprocess`). It is the same call wherever it is made, and what it uses again is the thread's.
//!
//! Errors: what is wrong with a request is its answer; a panic over one is too, and costs nobody else anything.
//!
//! Cost: see the stages `parse` and `preprocess` of `millrace rec bench`, and `docs/measurements/rec-serve.md` for the three places.

use super::busy::Busy;
use super::counters::{Counters, Stages, add};
use super::job::{Input, Job, Ready, Reply};
use super::oip::messages::tensors;
use super::oip::proto::inference::ModelInferRequest;
use super::refusal::Refusal;
use super::shelf::Shelf;
use super::traced::part;
use super::words;
use crate::rec::proto::millrace::InferRequest;
use crate::rec::registers::{Id, Registers};
use base::Clock;
use base::trace::Tracer;
use codec::decode::Decoder;
use codec::memory::Arena;
use codec::typed::Message;
use rec::request::{Queries, Request, Served, queries};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A request of more bytes than this is not read where others would wait for it: where sockets are served, or the model computed.
const LARGE: usize = 256 << 10;

/// Where a request is read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the edge's thread, before it is handed over.
    Edge,
    /// On the engine's core.
    Engine,
    /// On a host thread.
    Host,
}

/// What it uses again for each request.
#[derive(Default)]
pub struct Reader {
    decoder: Decoder,
    arena: Arena,
}

thread_local! {
    static READER: RefCell<Reader> = RefCell::default();
}

/// See the head of the file. All threads that may preprocess have the same.
pub struct Preprocess {
    /// The model.
    pub shelf: Arc<Shelf>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// What it follows.
    pub registers: Arc<Registers>,
    /// Where requests leave spans.
    pub tracer: Tracer,
}

impl Preprocess {
    /// Where this request is to be preprocessed now.
    pub fn place(&self, job: &Job) -> Place {
        match [Place::Edge, Place::Engine, Place::Host][self.registers.size(Id::PlacePreprocess)] {
            _ if job.input.bytes() > LARGE => Place::Host,
            place => place,
        }
    }

    /// The request as the engine computes it, made of it at this place; none when it was answered because something is wrong. It does not panic.
    pub fn ready(&self, job: Box<Job>, place: Place) -> Option<Box<Ready>> {
        // What is dropped by a panic is answered by its drop, and what was being read is read by nobody again.
        catch_unwind(AssertUnwindSafe(|| self.read(*job, place))).unwrap_or_else(|_| {
            add(&self.counters.panicked, 1);
            READER.take();
            None
        })
    }

    fn read(&self, job: Job, place: Place) -> Option<Box<Ready>> {
        add(&self.counters.taken, 1);
        let (clock, mut busy) = (Clock::shared(), Busy::start());
        let began = clock.now();
        let served = self.shelf.current();
        let most = self.registers.size(Id::Queries);
        let Job { arrived, input, reply, hold } = job;
        let mut read = began;
        let checked = READER
            .with_borrow_mut(|reader| check(&input, &reply, reader, (&served, most), || read = clock.now()));
        let at = clock.now();
        part(reply.scope(), "preprocess", place, began, at);
        busy.count(&self.counters.preprocess_busy);
        let queries = match checked {
            Ok(queries) => queries,
            Err(why) => {
                add(&self.counters.refused, 1);
                reply.refuse(&why);
                return None;
            }
        };
        let stages = Stages {
            queue: began.since(arrived),
            parse: read.since(began),
            preprocess: at.since(read),
            ..Stages::default()
        };
        Some(Box::new(Ready { served, queries, reply, at, stages, hold }))
    }
}

/// Reads and checks a request for a model, with at most so many queries; what it says of its answer goes to `reply`.
fn check(
    input: &Input,
    reply: &Reply,
    reader: &mut Reader,
    (served, most): (&Served, usize),
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    match input {
        Input::Message(body) => message(body, reader, served, most, read),
        Input::Inference(body) => {
            let (queries, own, binary) = inference(body, reader, served, most, read)?;
            reply.set_form(own, binary);
            Ok(queries)
        }
        Input::Http { body, header, model, version } => {
            is_asked_for(model, version.as_deref(), served)?;
            let (queries, own, binary) = http(body, *header, served, most, read)?;
            reply.set_form(own, binary);
            Ok(queries)
        }
    }
}

/// The queries in an `InferRequest`; `read` is called when it is decoded.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn message(
    body: &[u8],
    reader: &mut Reader,
    served: &Served,
    most: usize,
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    reader.arena.reset();
    let request = InferRequest::decode(&mut reader.decoder, body, &reader.arena)
        .map_err(|error| Refusal::Malformed(format!("the request cannot be decoded: {error}")))?;
    read();
    words::queries(request, served, most)
}

/// The queries in a `ModelInferRequest`, the request's id, and whether it wants its answer in binary; `read` is called when it is decoded.
///
/// # Errors
/// It is none, for another model, or wrong for the model.
pub fn inference(
    body: &[u8],
    reader: &mut Reader,
    served: &Served,
    most: usize,
    read: impl FnOnce(),
) -> Result<(Queries, Option<String>, bool), Refusal> {
    reader.arena.reset();
    let request = ModelInferRequest::decode(&mut reader.decoder, body, &reader.arena)
        .map_err(|error| Refusal::Malformed(format!("the request cannot be decoded: {error}")))?;
    read();
    is_named(request.model_name(), request.model_version(), served)?;
    let request = tensors(request)?;
    let queries = queries(&request, served, most)?;
    Ok((queries, request.id, request.is_binary))
}

/// The queries in an HTTP body, the request's id, and whether it wants its answer in binary; `read` is called when the JSON is read.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn http(
    body: &[u8],
    header: Option<usize>,
    served: &Served,
    most: usize,
    read: impl FnOnce(),
) -> Result<(Queries, Option<String>, bool), Refusal> {
    let request = Request::parse(body, header)?;
    read();
    let queries = queries(&request, served, most)?;
    Ok((queries, request.id, request.is_binary))
}

/// That a message's model and version are this one; an empty version is any.
///
/// # Errors
/// They are not.
pub fn is_named(model: &str, version: &str, served: &Served) -> Result<(), Refusal> {
    is_asked_for(model, Some(version).filter(|version| !version.is_empty()), served)
}

/// That a path's model and version are this one.
///
/// # Errors
/// They are not.
pub fn is_asked_for(model: &str, version: Option<&str>, served: &Served) -> Result<(), Refusal> {
    if model == served.name && version.is_none_or(|version| version == served.version) {
        return Ok(());
    }
    let short = |text: &str| text.chars().take(100).collect::<String>();
    let asked = match version {
        Some(version) => format!("{} version {}", short(model), short(version)),
        None => short(model),
    };
    Err(Refusal::NoModel { asked, served: format!("{} version {}", served.name, served.version) })
}
