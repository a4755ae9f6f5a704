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
use super::shelf::{Model, Shelf};
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
    /// The models.
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
        let Job { arrived, input, reply, hold } = job;
        let (mut read, mut model) = (began, None);
        let find = |name: &str, version: Option<&str>| {
            let found = self.shelf.find(name, version)?;
            Ok(Arc::clone(model.insert(found)))
        };
        let most = self.registers.size(Id::Queries);
        let checked = READER
            .with_borrow_mut(|reader| check(&input, &reply, reader, (find, most), || read = clock.now()));
        let at = clock.now();
        part(reply.scope(), "preprocess", place, began, at);
        let spent = busy.count(&self.counters.preprocess_busy);
        if let Some(model) = &model {
            add(&model.counted.taken, 1);
            add(&model.counted.preprocess, spent.0);
        }
        let (served, queries) = match (model, checked) {
            (Some(model), Ok(queries)) => (model, queries),
            (model, checked) => {
                add(&self.counters.refused, 1);
                model.iter().for_each(|model| add(&model.counted.failed, 1));
                reply.refuse(&checked.expect_err("queries are of a model"));
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

/// Reads and checks a request for the model that `find` finds, with at most so many queries; what it says of its answer goes to `reply`.
fn check(
    input: &Input,
    reply: &Reply,
    reader: &mut Reader,
    (find, most): (impl FnOnce(&str, Option<&str>) -> Result<Arc<Model>, Refusal>, usize),
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    match input {
        Input::Message(body) => message(body, reader, |name| find(name, None), most, read),
        Input::Inference(body) => {
            let (queries, own, binary) = inference(body, reader, find, most, read)?;
            reply.set_form(own, binary);
            Ok(queries)
        }
        Input::Http { body, header, model, version } => {
            let served = find(model, version.as_deref())?;
            let (queries, own, binary) = http(body, *header, &served, most, read)?;
            reply.set_form(own, binary);
            Ok(queries)
        }
    }
}

/// The queries in an `InferRequest`; `read` is called when it is decoded, and `find` with the name of its model.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn message(
    body: &[u8],
    reader: &mut Reader,
    find: impl FnOnce(&str) -> Result<Arc<Model>, Refusal>,
    most: usize,
    read: impl FnOnce(),
) -> Result<Queries, Refusal> {
    reader.arena.reset();
    let request = InferRequest::decode(&mut reader.decoder, body, &reader.arena)
        .map_err(|error| Refusal::Malformed(format!("the request cannot be decoded: {error}")))?;
    read();
    let served = find(request.model())?;
    words::queries(request, &served, most)
}

/// The queries in a `ModelInferRequest`, the request's id, and whether it wants its answer in binary; `read` is called when it is decoded, and `find` with the
/// name and version of its model.
///
/// # Errors
/// It is none, or wrong for the model.
pub fn inference(
    body: &[u8],
    reader: &mut Reader,
    find: impl FnOnce(&str, Option<&str>) -> Result<Arc<Model>, Refusal>,
    most: usize,
    read: impl FnOnce(),
) -> Result<(Queries, Option<String>, bool), Refusal> {
    reader.arena.reset();
    let request = ModelInferRequest::decode(&mut reader.decoder, body, &reader.arena)
        .map_err(|error| Refusal::Malformed(format!("the request cannot be decoded: {error}")))?;
    read();
    let served = find(request.model_name(), any_if_empty(request.model_version()))?;
    let request = tensors(request)?;
    let queries = queries(&request, &served, most)?;
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

/// The version that a message asks for: where it says none, the newest.
pub fn any_if_empty(version: &str) -> Option<&str> {
    Some(version).filter(|version| !version.is_empty())
}
