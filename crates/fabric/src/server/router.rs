//! Which handler a frame is for, and running it: decode, handle, encode.
//!
//! Methods are numbered densely over all services, so finding one is an index into a vector. Any thread may execute; what it uses
//! again for each call is its [`Scratch`].
//!
//! Cost: beside the handler, decoding and encoding, an index, an indirect call and a header.

use super::executor::Origin;
use super::places::PARTS;
use super::reflection::Reflection;
use super::returns::Returns;
use crate::connection::handshake::{MAX_METHODS, MAX_NAME, MAX_SERVICES, MethodInfo, ServiceInfo};
use crate::frame::{END, Frame, HEADER, Header, Kind, MAX_MESSAGE};
use crate::monitor::trace::context_of;
use crate::service::{
    Answered, Context, InCall, Incoming, Kernels, MethodDescriptor, MethodOptions, Near, OnThisThread, Order,
    Place, Places, RequestType, Service, ServiceDescriptor, Tools, too_long, unreadable,
};
use crate::status::{Code, Status};
use base::prng::mix64;
use base::trace::{Scope, Tracer};
use base::units::Nanos;
use codec::decode::{DecodeError, Limits};
use codec::place::Placed;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// Bytes of a status' text; longer ones are cut.
const TEXT: usize = 4096;

/// The services of a server.
pub struct Router {
    methods: Vec<Entry>,
    services: Vec<Arc<dyn Service>>,
    infos: Vec<ServiceInfo>,
    /// Some method may not run everywhere.
    is_choosy: bool,
    /// What a request may take while it is decoded.
    limits: Limits,
    /// What handlers have done by name.
    pub(super) kernels: Kernels,
    pub(super) returns: Arc<Returns>,
    /// Where spans go, once the server has a monitor.
    pub(super) tracer: OnceLock<Tracer>,
}

/// A method.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) service: Arc<dyn Service>,
    /// Its place in the service.
    pub(super) index: usize,
    pub(super) descriptor: MethodDescriptor,
    /// `shop.Cart/Add`.
    pub(super) path: Arc<str>,
    /// The service's number, which is part of its lines.
    pub(super) service_number: u16,
    /// Where it runs: of a method that is in order with others, where all of them may.
    pub(super) places: Places,
}

impl Entry {
    /// What an accelerator may decode its requests as.
    pub(super) fn request(&self) -> Option<RequestType> {
        self.service.request(self.index).filter(|_| self.descriptor.is_unary())
    }
}

/// What a thread that executes uses again for each call.
pub struct Scratch {
    tools: Tools,
    kernels: OnThisThread,
    metadata: Vec<u8>,
    /// The `traceparent` of the call's own span, if it leaves one.
    pub(super) span: String,
}

impl Scratch {
    fn new(limits: Limits) -> Scratch {
        let (tools, kernels) = (Tools::new(limits), OnThisThread::default());
        Scratch { tools, kernels, metadata: Vec::new(), span: String::new() }
    }
}

/// What became of a request.
#[derive(Debug)]
pub enum Executed<'s> {
    /// The Reply, which is a frame's head and what follows it.
    Reply([u8; HEADER], &'s [u8]),
    /// The handler deferred the call. Its Reply reaches the server without you.
    Deferred,
}

impl Router {
    pub(super) fn new(returns: Arc<Returns>, limits: Limits) -> Router {
        let (methods, services, infos) = (Vec::new(), Vec::new(), Vec::new());
        let (kernels, tracer) = (Kernels::new(), OnceLock::new());
        let mut router =
            Router { methods, services, infos, is_choosy: false, limits, kernels, returns, tracer };
        router.add(Arc::new(Reflection::of(&[])));
        router
    }

    /// Adds a service; its methods get the next numbers.
    ///
    /// # Panics
    /// If there is one of that name, or more than a Welcome can name.
    pub(super) fn add(&mut self, service: Arc<dyn Service>) {
        let descriptor = service.descriptor();
        let names = descriptor.methods.iter().map(|method| method.name).chain([descriptor.name]);
        assert!(names.into_iter().all(|name| name.len() <= MAX_NAME), "a name has {MAX_NAME} bytes at most");
        assert!(
            self.infos.iter().all(|info| info.name != descriptor.name),
            "{} is served twice",
            descriptor.name
        );
        let mut methods = Vec::new();
        for (index, &method) in descriptor.methods.iter().enumerate() {
            methods.push(MethodInfo {
                name: method.name.to_owned(),
                number: self.methods.len() as u16,
                client_streaming: method.client_streaming,
                server_streaming: method.server_streaming,
            });
            let service_number = self.infos.len() as u16;
            let service = Arc::clone(&service);
            let places = together(descriptor, method.options);
            self.is_choosy |= places != Places::ANY;
            let path = format!("{}/{}", descriptor.name, method.name).into();
            self.methods.push(Entry { service, index, descriptor: method, path, service_number, places });
        }
        assert!(self.methods.len() <= MAX_METHODS, "a server has {MAX_METHODS} methods at most");
        self.infos.push(ServiceInfo { name: descriptor.name.to_owned(), hash: descriptor.hash, methods });
        assert!(self.infos.len() <= MAX_SERVICES, "a server has {MAX_SERVICES} services at most");
        self.services.push(service);
        self.methods[0].service = Arc::new(Reflection::of(&self.services));
    }

    /// For a thread that executes.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.limits)
    }

    /// What it serves, as a Welcome says it.
    pub fn services(&self) -> &[ServiceInfo] {
        &self.infos
    }

    /// What a request may take while it is decoded.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// What an accelerator may decode the requests of each method as.
    pub(super) fn requests(&self) -> impl Iterator<Item = Option<RequestType>> {
        self.methods.iter().map(Entry::request)
    }

    #[inline]
    pub(super) fn entry(&self, method: u16) -> Option<&Entry> {
        self.methods.get(usize::from(method))
    }

    /// The line that a request is in: those of one line run one after the other, as they came. `None`: it waits for nobody.
    #[inline]
    pub(super) fn line(&self, request: &Frame<'_>, connection: u64) -> Option<u64> {
        let entry = self.entry(request.header.method)?;
        let own = match entry.descriptor.options.order {
            Order::None => return None,
            // What is no message has no key, and is in line with others like it until its handler says so.
            Order::PerKey => entry.descriptor.options.key.and_then(|key| key.hash(request.body)).unwrap_or(1),
            Order::PerConnection => mix64(connection).rotate_left(1),
        };
        Some(own ^ mix64(u64::from(entry.service_number) + 1))
    }

    /// The part of a hundred that a request is in, by the hash of its connection if its method is in order by that, else of its key, else of its call.
    /// All of a line are in one part, and all of a key.
    pub(super) fn part(&self, request: &Frame<'_>, connection: u64) -> u8 {
        let options = self.entry(request.header.method).map(|entry| entry.descriptor.options);
        let own = match options.map(|options| (options.order, options.key)) {
            Some((Order::PerConnection, _)) => mix64(connection),
            Some((_, Some(key))) => key.hash(request.body).unwrap_or(1),
            _ => mix64(connection) ^ u64::from(request.header.call),
        };
        // Balancers go by the same hash: what falls to a part is not to fall to one worker.
        ((u128::from(mix64(!own.rotate_left(32))) * u128::from(PARTS)) >> 64) as u8
    }

    /// Why nothing that is served may run at a place, if so.
    pub fn refuses(&self, place: Place) -> Option<String> {
        // The first method is the server's own.
        let own = || self.methods.iter().skip(1).filter(|entry| entry.descriptor.is_unary());
        if own().any(|entry| entry.places.contains(place)) || own().next().is_none() {
            return None;
        }
        let all: Vec<String> = own()
            .map(|entry| {
                let places: Vec<&str> = entry.places.iter().map(Place::name).collect();
                format!("{} runs on {}", self.path(entry), places.join(" or "))
            })
            .collect();
        Some(format!("no method may run on {}, as their .proto files say: {}", place.name(), all.join(", ")))
    }

    /// Whether some method may not run everywhere.
    #[inline]
    pub(super) fn is_choosy(&self) -> bool {
        self.is_choosy
    }

    /// Whether some method runs on workers only.
    pub(super) fn needs_workers(&self) -> bool {
        let only = Places::of(&[Place::Host]);
        self.methods.iter().any(|entry| entry.places == only)
    }

    /// `/shop.Cart/Add`, for messages.
    pub(super) fn path(&self, entry: &Entry) -> String {
        format!("/{}", entry.path)
    }

    /// Whether the frame is a Request for a method without streams: what [`Router::execute`] takes.
    #[inline]
    pub fn is_unary(&self, method: u16) -> bool {
        self.entry(method).is_some_and(|entry| entry.descriptor.is_unary())
    }

    /// Where the spans of a request belong that was submitted elsewhere, if it leaves any: the server has it carry its own span.
    #[inline]
    pub fn scope(&self, request: &Frame<'_>) -> Option<Scope> {
        if request.metadata.is_empty() { None } else { self.scope_in(request.metadata) }
    }

    #[cold]
    fn scope_in(&self, metadata: &[u8]) -> Option<Scope> {
        let context = context_of(metadata).filter(|context| context.sampled)?;
        Some(Scope::of(self.tracer.get()?, context))
    }

    #[inline(always)]
    fn incoming<'c>(
        &'c self,
        scratch: &'c mut Scratch,
        request: &Frame<'c>,
        origin: Origin,
        now: Nanos,
    ) -> Incoming<'c> {
        let deadline = deadline(&request.header, origin.arrived);
        scratch.metadata.clear();
        Incoming {
            body: request.body,
            call: request.header.call,
            context: Context {
                metadata: request.metadata,
                connection: origin.connection,
                now,
                deadline,
                span: &scratch.span,
                tracer: self.tracer.get(),
                reply_metadata: &mut scratch.metadata,
                kernels: &self.kernels,
                on_thread: &mut scratch.kernels,
                hand: None,
            },
            tools: &mut scratch.tools,
            placed: None,
            returns: &self.returns,
            answered: Answered::Not,
        }
    }

    /// Has a request handled that an accelerator has decoded, unless its caller has given up by `now`: the reply that is to be serialised, with
    /// its metadata, or the Reply of a call that failed. `head` is the request's frame without its message.
    pub(super) fn execute_placed(
        &self,
        scratch: &mut Scratch,
        head: &Frame<'_>,
        request: Result<Placed, DecodeError>,
        near: &mut dyn Near,
        origin: Origin,
        now: Nanos,
    ) -> Result<(Placed, Vec<u8>), Vec<u8>> {
        let failed = |status: &Status| Err(failure(head.header.call, 0, status));
        if now >= deadline(&head.header, origin.arrived) {
            return failed(&too_late());
        }
        let request = match request {
            Ok(request) => request,
            Err(error) => return failed(&unreadable(&error)),
        };
        let entry = self.entry(head.header.method).expect("the method was found before it was decoded");
        let mut reply = None;
        let mut call = self.incoming(scratch, head, origin, now);
        call.placed = Some(InCall { near, request: &request, reply: &mut reply });
        let result = catch_unwind(AssertUnwindSafe(|| entry.service.unary(entry.index, &mut call)));
        drop(call);
        match (result, reply) {
            (Ok(Ok(())), Some(reply)) => Ok((reply, std::mem::take(&mut scratch.metadata))),
            (Ok(Ok(())), None) => failed(&Status::new(Code::Internal, "the handler gave no reply")),
            (Ok(Err(status)), _) => failed(&status),
            (Err(panic), _) => {
                *scratch = self.scratch();
                failed(&Status::new(Code::Internal, panicked(&*panic)))
            }
        }
    }

    /// Has a request handled, unless its caller has given up by `now`.
    #[inline(always)]
    pub fn execute<'s>(
        &self,
        scratch: &'s mut Scratch,
        request: &Frame<'_>,
        origin: Origin,
        now: Nanos,
    ) -> Executed<'s> {
        let deadline = deadline(&request.header, origin.arrived);
        let Some(entry) = self.entry(request.header.method) else {
            return scratch.failure(request.header.call, &unknown_method(request.header.method));
        };
        if now >= deadline {
            return scratch.failure(request.header.call, &too_late());
        }
        let mut call = self.incoming(scratch, request, origin, now);
        let result = catch_unwind(AssertUnwindSafe(|| entry.service.unary(entry.index, &mut call)));
        let answered = call.answered;
        match result {
            Ok(Ok(())) => scratch.answer(request.header.call, answered),
            // The responder of a call that was deferred answers it, whatever the handler says.
            Ok(_) | Err(_) if answered == Answered::Deferred => Executed::Deferred,
            Ok(Err(status)) => scratch.failure(request.header.call, &status),
            Err(_) => {
                // A decoder or encoder that was left half-way is not used again.
                *scratch = self.scratch();
                scratch.failure(request.header.call, &Status::new(Code::Internal, "the handler panicked"))
            }
        }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
}

impl Scratch {
    #[inline(always)]
    fn answer(&mut self, call: u32, answered: Answered) -> Executed<'_> {
        let len = match answered {
            Answered::Encoded => self.tools.encoder.written().len(),
            Answered::Bytes => self.tools.bytes.len(),
            Answered::Deferred => return Executed::Deferred,
            Answered::Placed => unreachable!("only what came placed is answered so"),
            Answered::Not => {
                return self.failure(call, &Status::new(Code::Internal, "the handler gave no reply"));
            }
        };
        if len > MAX_MESSAGE {
            return self.failure(call, &too_long(len));
        }
        let metadata = self.metadata.len() as u32;
        let head = Header { flags: END, metadata, ..Header::new(Kind::Reply, call) }.emit();
        let body = match answered {
            Answered::Encoded => self.tools.encoder.written(),
            _ => &self.tools.bytes,
        };
        if metadata == 0 {
            return Executed::Reply(head, body);
        }
        self.metadata.extend_from_slice(body);
        Executed::Reply(head, &self.metadata)
    }

    #[inline(always)]
    fn failure(&mut self, call: u32, status: &Status) -> Executed<'_> {
        // What is not inlined gives the header alone, so that the Reply of a call that succeeds is never put together in memory.
        let head = self.failed(call, status);
        Executed::Reply(head, &self.tools.bytes)
    }

    /// The header of the Reply of a call that failed; its text is in the bytes.
    #[cold]
    #[inline(never)]
    fn failed(&mut self, call: u32, status: &Status) -> [u8; HEADER] {
        let text = text_of(status);
        self.tools.bytes.clear();
        self.tools.bytes.extend_from_slice(text);
        failed_header(call, 0, status).emit()
    }
}

/// Where a method runs. The compiler of .proto files refuses methods in order that have no place in common; of those written by hand it
/// is the method's own.
fn together(descriptor: &ServiceDescriptor, method: MethodOptions) -> Places {
    if method.order == Order::None {
        return method.places;
    }
    let mut others = descriptor.methods.iter().filter(|other| other.options.order == method.order);
    let common = others.try_fold(Places::ANY, |common, other| common.and(other.options.places));
    common.unwrap_or(method.places)
}

/// What is said of a handler that panicked: the advice, if it read what it could not.
fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().filter(|text| text.contains("accelerator"));
    text.map_or("the handler panicked".into(), |text| format!("the handler panicked: {text}"))
}

/// The Reply of a call that failed after `items` items.
pub(crate) fn failure(call: u32, items: u32, status: &Status) -> Vec<u8> {
    [&failed_header(call, items, status).emit()[..], text_of(status)].concat()
}

fn failed_header(call: u32, items: u32, status: &Status) -> Header {
    // A failure is none if its code says OK.
    let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
    Header { flags: END, method: code as u16, aux: items, ..Header::new(Kind::Reply, call) }
}

fn text_of(status: &Status) -> &[u8] {
    let text = status.message();
    let end = (0..=text.len().min(TEXT)).rev().find(|&end| text.is_char_boundary(end));
    &text.as_bytes()[..end.unwrap_or_default()]
}

/// When the caller of a Request that arrived then gives up.
#[inline]
pub(super) fn deadline(header: &Header, arrived: Nanos) -> Nanos {
    match header.aux {
        0 => Nanos::MAX,
        micros => arrived.plus(Nanos::from_micros(u64::from(micros))),
    }
}

#[cold]
pub(super) fn unknown_method(method: u16) -> Status {
    Status::new(Code::Unimplemented, format!("there is no method {method} here"))
}

#[cold]
pub(super) fn too_late() -> Status {
    Status::new(Code::DeadlineExceeded, "the call's time was over before its turn came")
}
