//! Where the home of boxes takes transactions of clients: service `Txn` at an address of its own, which the home writes into its claim of the chain.
//!
//! ```text
//!  client ── Execute ──▶ thread: fabric::Server ──▶ Desk ── Post::due ──▶ the service (`service/by_home.rs`)
//!         ◀── reply ──── Deferred ◀─────────────────────────────────────────┘
//! ```
//! Of the service it has `Execute` alone. Sessions are opened, closed and asked for at the chain, so a client refused here goes there.
//!
//! Bounds: those of [`Desk`].

use super::StartError;
use super::post::Post;
use super::service::by_home::Callers;
use crate::chain::service::Desk;
use ::client::chain::words;
use base::Clock;
use base::trace::{Context, OK, Open, Place, Tracer};
use fabric::link::Address;
use fabric::server::{Options, Server};
use fabric::status::{Code, Status};
use protocol::chain::at_home::Answer;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::{Message, NodeId, SessionId, TraceContext, Transaction};
use ring::wait::WaitPolicy;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Connections of clients.
const MOST_CONNECTIONS: usize = 4096;

/// The thread that serves there. It ends when this is dropped.
pub struct TxnDoor {
    address: Address,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TxnDoor {
    /// Serves there; `post` is told when somebody asks, and what is traced leaves a span with `tracer`.
    ///
    /// # Errors
    /// The address cannot be had, or no thread.
    pub fn open(
        address: &Address,
        post: &Arc<Post>,
        tracer: &Tracer,
    ) -> Result<(TxnDoor, Box<dyn Callers>), StartError> {
        let is_asked = Arc::new(AtomicBool::new(false));
        let (asked, post) = (Arc::clone(&is_asked), Arc::clone(post));
        let bell = Box::new(move || {
            asked.store(true, Ordering::Release);
            post.due();
        });
        let (desk, service) = Desk::with_bell(bell);
        let options =
            Options { max_connections: MOST_CONNECTIONS, request: words::REQUEST, ..Options::default() };
        let server =
            Server::try_new(options).map_err(|error| StartError::System("serve transactions", error))?;
        let failed = |error| StartError::Home(format!("--txn-listen {address}: {error}"));
        let mut server = server.service(service).listen(address).map_err(failed)?;
        let bound = server.addresses().next().cloned().unwrap_or_else(|| address.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let run = move || server.run(WaitPolicy::BLOCK, &is_over);
        let thread = std::thread::Builder::new().name("kv-txn".to_owned()).spawn(run);
        let thread = thread.map_err(|error| StartError::System("start a thread", error))?;
        let (waiting, traced, tracer) = (HashMap::new(), HashMap::new(), tracer.clone());
        let callers = Calls { desk, is_asked, waiting, traced, tracer };
        Ok((TxnDoor { address: bound, stop, thread: Some(thread) }, Box::new(callers)))
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for TxnDoor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Calls that came there.
struct Calls {
    desk: Desk,
    /// Something was left at the desk.
    is_asked: Arc<AtomicBool>,
    /// Calls for each transaction: a client asks again when an answer takes long.
    waiting: HashMap<RequestId, Vec<u64>>,
    /// Of those whose callers trace them.
    traced: HashMap<RequestId, Open>,
    tracer: Tracer,
}

impl Calls {
    fn say(&mut self, id: RequestId, message: &Message) {
        for call in self.waiting.remove(&id).unwrap_or_default() {
            self.desk.answer(call, message);
        }
        self.end_trace(id);
    }

    /// From now on the transaction is a part of a span of this home's, if its caller traces it.
    fn trace(&mut self, id: RequestId, transaction: Transaction) -> Transaction {
        let Some(caller) = transaction.trace.0.as_ref().and_then(Context::from_bytes) else {
            return transaction;
        };
        // Asked for again, it goes on with what it began with.
        let open = self
            .traced
            .entry(id)
            .or_insert_with(|| Open::begin(&self.tracer, Some(caller), Clock::shared().now()));
        let own = open.scope().context();
        transaction.traced(TraceContext(Some(own.to_bytes())))
    }

    fn end_trace(&mut self, id: RequestId) {
        if !self.traced.is_empty()
            && let Some(open) = self.traced.remove(&id)
        {
            open.end("home", Place::Engine, Clock::shared().now(), OK);
        }
    }
}

impl Callers for Calls {
    fn take_asked(&mut self) -> Vec<(RequestId, Transaction)> {
        if !self.is_asked.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let (mut inquiries, mut exports) = (Vec::new(), VecDeque::new());
        let (mut asked, mut refused) = (Vec::new(), Vec::new());
        self.desk.take(Clock::shared().now(), &mut inquiries, &mut exports, |from, message| {
            let NodeId::Client(call) = from else { unreachable!("clients come here") };
            match message {
                Message::Request { id, transaction } => match id.session {
                    // Its number is a token of the client's own.
                    _ if transaction.only_reads() => {
                        asked.push((call, RequestId { session: SessionId(0), sequence: call }, transaction));
                    }
                    SessionId(0) => refused.push((call, Refusal::NoSession)),
                    _ => asked.push((call, id, transaction)),
                },
                _ => refused.push((call, Refusal::Elsewhere(None))),
            }
        });
        let elsewhere = || {
            Status::new(
                Code::Unimplemented,
                "this is the home of boxes, which does Execute alone: ask a replica",
            )
        };
        inquiries.into_iter().for_each(|inquiry| inquiry.reply.fail(elsewhere()));
        exports.into_iter().for_each(|export| export.fail(elsewhere()));
        for (call, why) in refused {
            let id = RequestId { session: SessionId(0), sequence: 0 };
            self.desk.answer(call, &Message::Refused { id, why });
        }
        self.desk.settle();
        let mut fresh = Vec::with_capacity(asked.len());
        for (call, id, transaction) in asked {
            self.waiting.entry(id).or_default().push(call);
            fresh.push((id, self.trace(id, transaction)));
        }
        fresh
    }

    fn answer(&mut self, id: RequestId, answer: &Answer) {
        let message = match answer {
            Answer::Done(outcome) => Message::Reply { id, outcome: outcome.clone() },
            Answer::Refused(why) => Message::Refused { id, why: why.clone() },
        };
        self.say(id, &message);
    }

    fn refuse(&mut self, id: RequestId, why: &str) {
        for call in self.waiting.remove(&id).unwrap_or_default() {
            self.desk.fail(call, Status::new(Code::InvalidArgument, why));
        }
        self.traced.remove(&id);
    }
}
