//! The server itself as the other side of a run, with handlers that take their time.

use super::peer::{CALLS, Method, Other, WINDOW, is_unknown, item, items_of};
use crate::link::Link;
use crate::server::{Options, Server};
use crate::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use crate::status::{Code, Status};
use base::prng::Prng;
use base::units::Nanos;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "demo.Echo",
    methods: &[
        MethodDescriptor::new("Say", false, false),
        MethodDescriptor::new("Count", false, true),
        MethodDescriptor::new("Sum", true, false),
        MethodDescriptor::new("Chat", true, true),
    ],
    hash: 0,
    descriptors: &[],
};

/// What the handlers have done.
struct Seen {
    executed: BTreeMap<u64, u32>,
    waiting: Vec<(Responder, u64)>,
    random: Prng,
    error: Option<String>,
}

struct Echo(Arc<Mutex<Seen>>);

impl Echo {
    fn begin(&self, metadata: &[u8]) -> Result<u64, Status> {
        let id = metadata.try_into().map_err(|_| Status::new(Code::InvalidArgument, "no id"))?;
        let id = u64::from_le_bytes(id);
        *lock(&self.0).executed.entry(id).or_default() += 1;
        Ok(id)
    }
}

fn lock(seen: &Arc<Mutex<Seen>>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("no handler panics while it holds it")
}

fn answer(id: u64) -> Result<[u8; 8], Status> {
    if is_unknown(id) { Err(Status::new(Code::NotFound, "unknown")) } else { Ok(id.to_le_bytes()) }
}

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let id = self.begin(call.metadata())?;
        if lock(&self.0).random.chance(0.5) {
            let responder = call.defer();
            lock(&self.0).waiting.push((responder, id));
            return Ok(());
        }
        call.reply_bytes(&answer(id)?);
        Ok(())
    }

    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        let (id, seen) = (self.begin(call.metadata()), Arc::clone(&self.0));
        Box::pin(async move {
            let id = id?;
            let (mut requests, mut replies) = (call.requests::<()>(), call.replies::<()>());
            if Method::ALL[method] == Method::Count {
                for number in 0..items_of(id) {
                    replies.send_bytes(item(id, number)).await?;
                }
                return Ok(());
            }
            let mut count = 0;
            while let Some(next) = requests.next_bytes().await {
                let next = next?;
                if *next != *item(id, count) {
                    lock(&seen).error = Some(format!("call {id}: item {count} is another one"));
                }
                count += 1;
                if Method::ALL[method] == Method::Chat {
                    replies.send_bytes(next.into_vec()).await?;
                }
            }
            if Method::ALL[method] == Method::Sum {
                replies.send_bytes(item(id, count)).await?;
            }
            Ok(())
        })
    }
}

/// A server with one connection.
pub(super) struct Real {
    server: Server,
    seen: Arc<Mutex<Seen>>,
    now: Nanos,
}

impl Real {
    pub(super) fn new(link: Box<dyn Link>, seed: u64) -> Real {
        let random = Prng::new(seed);
        let seen = Seen { executed: BTreeMap::new(), waiting: Vec::new(), random, error: None };
        let seen = Arc::new(Mutex::new(seen));
        let options = Options { max_calls: CALLS, window: WINDOW, quantum: 3, ..Options::default() };
        let mut server = Server::new(options).service(Echo(Arc::clone(&seen)));
        server.accept(link, Nanos::ZERO);
        Real { server, seen, now: Nanos::ZERO }
    }
}

impl Other for Real {
    fn turn(&mut self, now: Nanos) -> Result<(), String> {
        self.now = now;
        let answered = {
            let mut seen = lock(&self.seen);
            let count = seen.waiting.len();
            let which = seen.random.below(2 * count as u64 + 1) as usize;
            if which < count { Some(seen.waiting.swap_remove(which)) } else { None }
        };
        if let Some((responder, id)) = answered {
            match answer(id) {
                Ok(body) => responder.reply_bytes(&body),
                Err(status) => responder.fail(&status),
            }
        }
        self.server.poll(now);
        lock(&self.seen).error.take().map_or(Ok(()), Err)
    }

    fn accept(&mut self, link: Box<dyn Link>) {
        self.server.accept(link, self.now);
    }

    fn open_calls(&self) -> usize {
        self.server.connections(self.now).map(|connection| connection.open_calls).sum()
    }

    fn is_switching(&self) -> bool {
        self.server.connections(self.now).any(|connection| connection.is_switching)
    }

    fn executed(&mut self) -> BTreeMap<u64, u32> {
        std::mem::take(&mut lock(&self.seen).executed)
    }
}
