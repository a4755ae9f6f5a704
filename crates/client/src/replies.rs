//! Calls whose replies the in-network cache may have: asked first, so that what a box has never reaches the server.
//!
//! ```text
//!  call ── cacheable ──▶ get the item ──▶ kept for this request ──▶ the reply
//!       │                      └─▶ anything else ─┐
//!       └── others ───────────────────────────────┴─▶ the server, which keeps the reply (`serve::rpc::replies`)
//! ```
//! What is read is coherent: a method that makes a reply outdated ends it before it is answered ([`protocol::replies`]). A cache that does not answer
//! costs [`Cached`] its patience, and the server is asked.
//!
//! Both must be built from the same `.proto`: items are named by service, method and key.

use crate::cache::{Client, ClientError};
use base::Nanos;
use base::key;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message, MessageView, Owned};
use fabric::channel::{CallId, CallOptions, Caller, Method, Reconnecting, Response, StartError};
use fabric::service::{Key, KeyValue, ServiceDescriptor};
use fabric::status::{Code, Status};
use protocol::coherence::client::{Answer, Call, Failed};
use protocol::replies::{Item, Lives, Read, ReadNext};

/// Where the replies of a service's method for the key of this request are kept; nothing if the request is no message.
pub fn item(service: &str, method: &str, key: Key, request: &[u8]) -> Option<Item> {
    Some(item_of(service, method, key.of(request).ok()?))
}

/// Where the replies of a service's method are kept for a key.
pub fn item_of(service: &str, method: &str, key: KeyValue) -> Item {
    match key {
        KeyValue::Number(number) => Item::of(service, method, number.to_string().as_bytes()),
        KeyValue::Bytes(bytes) => Item::of(service, method, bytes),
    }
}

/// Whether the cache has the reply to a request. It only looks: servers claim.
#[derive(Debug)]
pub struct Look(Read);

impl Look {
    /// Begins, with what to ask.
    pub fn begin(item: Item, request: &[u8]) -> (Look, Call) {
        let lives = Lives { claim: Nanos::ZERO, mark: Nanos::ZERO };
        let (read, get) = Read::begin(item, request, 0, Nanos::ZERO, lives);
        (Look(read), get)
    }

    /// The reply, if that is what was answered.
    pub fn hit(mut self, answer: Result<&Answer, Failed>) -> Option<Vec<u8>> {
        match self.0.answered(answer) {
            ReadNext::Hit(reply) => Some(reply),
            ReadNext::Ask(_) | ReadNext::Handle => None,
        }
    }
}

/// Asks the cache, in the words of [`protocol::replies`].
///
/// # Errors
/// What is known of an operation that nobody answered.
pub fn ask(cache: &mut Client, call: Call) -> Result<Answer, Failed> {
    cache.call(call).map_err(|error| match error {
        ClientError::NotDone | ClientError::Bad => Failed::NotDone,
        ClientError::Unknown | ClientError::Socket(_) | ClientError::Status(_) => Failed::Unknown,
    })
}

/// A number that nobody else takes for his own.
pub fn token() -> u64 {
    u64::from_le_bytes(key::random())
}

/// A method whose replies may be kept.
struct Cacheable {
    number: u16,
    name: &'static str,
    key: Key,
}

/// Calls a service: the cache first where a method says that it may, then the server.
pub struct Cached {
    caller: Reconnecting,
    cache: Client,
    service: &'static str,
    methods: Vec<Cacheable>,
    encoder: Encoder,
    decoder: Decoder,
    arena: Arena,
    hits: u64,
}

impl Cached {
    /// Of a service as generated code describes it (`proto::shop::CART`).
    ///
    /// # Errors
    /// The server does not serve one of its cacheable methods.
    pub fn new(
        caller: Reconnecting,
        cache: Client,
        service: &'static ServiceDescriptor,
    ) -> Result<Cached, Status> {
        let cacheable = service.methods.iter().filter(|method| method.options.cacheable.is_some());
        let methods = cacheable.filter_map(|method| {
            let path = format!("/{}/{}", service.name, method.name);
            let key = method.options.key?;
            let missing = || Status::new(Code::Unimplemented, format!("the server has no {path}"));
            let found = caller.method(&path).ok_or_else(missing);
            Some(found.map(|found| Cacheable { number: found.number(), name: method.name, key }))
        });
        let methods = methods.collect::<Result<Vec<Cacheable>, Status>>()?;
        Ok(Cached {
            caller,
            cache,
            service: service.name,
            methods,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            arena: Arena::default(),
            hits: 0,
        })
    }

    /// Calls that the cache answered.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Calls a unary method and waits for its outcome.
    ///
    /// # Errors
    /// As [`Reconnecting::call_bytes`]; the cache has none.
    pub fn call_bytes(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        body: &[u8],
    ) -> Result<Response, Status> {
        if let Some(reply) = self.kept(method, body) {
            self.hits += 1;
            return Ok(Response { body: reply, metadata: Vec::new() });
        }
        self.caller.call_bytes(method, options, body)
    }

    /// The reply that the cache has.
    fn kept(&mut self, method: Method, body: &[u8]) -> Option<Vec<u8>> {
        let cacheable = self.methods.iter().find(|cacheable| cacheable.number == method.number())?;
        let item = item(self.service, cacheable.name, cacheable.key, body)?;
        let (look, get) = Look::begin(item, body);
        let answer = ask(&mut self.cache, get);
        look.hit(answer.as_ref().map_err(|failed| *failed))
    }
}

impl Caller for Cached {
    fn method(&self, path: &str) -> Option<Method> {
        self.caller.method(path)
    }

    /// Past the cache, which is asked by calls that wait.
    fn build<M: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        user: u64,
        fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<CallId, StartError> {
        self.caller.build::<M>(method, options, user, fill)
    }

    fn call_built<Q: Message, R: Message>(
        &mut self,
        method: Method,
        options: &CallOptions<'_>,
        fill: impl FnOnce(&mut Q::Mut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<Owned<R>, Status> {
        self.arena.reset();
        let mut message = Q::new(&self.arena)?;
        fill(&mut message)?;
        let encoded = Q::freeze(message).encode(&mut self.encoder);
        let body = encoded.map_err(|error| Status::from(StartError::Encode(error)))?.to_vec();
        let response = self.call_bytes(method, options, &body)?;
        let unreadable = |error| Status::new(Code::Internal, format!("the reply cannot be decoded: {error}"));
        Owned::decode(&mut self.decoder, &response.body).map_err(unreadable)
    }
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cached({}, {:?}, {} hits)", self.service, self.caller, self.hits)
    }
}
