//! Service `Txn` of a replica: calls become messages to the machine, its messages become replies.
//!
//! ```text
//!  client ── Execute ──▶ Front (any thread of the server) ──▶ calls ──▶ Desk (the replica's thread) ── Request ──▶ machine
//!         ◀── reply ──── Deferred ◀────────────────────────────────── Desk ◀── Reply, Refused, Told, Opened ─────┘
//! ```
//! Each call is a client of the machine with a number of its own, so that whatever the machine says goes to the call that asked.
//!
//! Bounds: `MOST_WAITING` calls; further ones are refused as busy. Calls whose callers gave up are dropped every `SWEEP_EVERY`.

use super::export::Export;
use crate::txn::proto::millrace as proto;
use crate::txn::words::{put_answer, put_opened, put_refusal, put_status, take_request, take_session};
use base::Nanos;
use base::trace;
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::Deferred;
use proto::{
    CloseReply, CloseRequestView, ExecuteReply, ExecuteRequestView, ExportReply, ExportRequestView,
    InfoReply, InfoRequestView, OpenReply, OpenRequestView, StatusReply, StatusRequestView, TxnServer,
};
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::{Lsn, Message, NodeId, TraceContext};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Calls that wait for the machine.
const MOST_WAITING: usize = 1 << 16;
/// How often calls are looked for whose callers gave up.
const SWEEP_EVERY: Nanos = Nanos::from_secs(1);

/// What handlers leave for the replica's thread.
type Calls = Arc<Mutex<Vec<Call>>>;

enum Call {
    /// For the machine.
    Ask(Message, Waiting),
    /// For the process, both.
    Info(Inquiry),
    Export(Export),
}

/// A call that waits for the machine.
enum Waiting {
    Execute(Deferred<ExecuteReply>),
    Open(Deferred<OpenReply>),
    Close(Deferred<CloseReply>),
    Status(Deferred<StatusReply>),
}

/// A call of `Info`.
#[derive(Debug)]
pub struct Inquiry {
    /// A checksum is wanted, as of this transaction; 0: as of now.
    pub digest: Option<Lsn>,
    /// For the answer.
    pub reply: Deferred<InfoReply>,
}

/// The handlers.
struct Front {
    calls: Calls,
    /// Rung after a call was left.
    bell: Box<dyn Fn() + Send + Sync>,
}

impl Front {
    fn leave(&self, call: Call) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        (self.bell)();
    }
}

impl proto::Txn for Front {
    fn execute(
        &self,
        request: ExecuteRequestView<'_>,
        reply: Deferred<ExecuteReply>,
        context: &mut Context<'_>,
    ) {
        match take_request(request) {
            Ok((id, transaction)) => {
                let transaction = transaction.traced(trace_of(context));
                self.leave(Call::Ask(Message::Request { id, transaction }, Waiting::Execute(reply)));
            }
            Err(status) => reply.fail(status),
        }
    }

    fn open(&self, _request: OpenRequestView<'_>, reply: Deferred<OpenReply>, _context: &mut Context<'_>) {
        // The call's number is token enough.
        self.leave(Call::Ask(Message::Open { token: 0 }, Waiting::Open(reply)));
    }

    fn close(&self, request: CloseRequestView<'_>, reply: Deferred<CloseReply>, _context: &mut Context<'_>) {
        match take_session(request.session()) {
            Ok(session) => self.leave(Call::Ask(Message::Close { session }, Waiting::Close(reply))),
            Err(status) => reply.fail(status),
        }
    }

    fn status(
        &self,
        request: StatusRequestView<'_>,
        reply: Deferred<StatusReply>,
        _context: &mut Context<'_>,
    ) {
        match take_session(request.session()) {
            Ok(session) => {
                let id = RequestId { session, sequence: request.sequence() };
                self.leave(Call::Ask(Message::Ask { id }, Waiting::Status(reply)));
            }
            Err(status) => reply.fail(status),
        }
    }

    fn info(&self, request: InfoRequestView<'_>, reply: Deferred<InfoReply>, _context: &mut Context<'_>) {
        let digest = request.digest().then_some(Lsn(request.digest_at()));
        self.leave(Call::Info(Inquiry { digest, reply }));
    }

    fn export(
        &self,
        request: ExportRequestView<'_>,
        reply: Deferred<ExportReply>,
        _context: &mut Context<'_>,
    ) {
        self.leave(Call::Export(Export::new(request, reply)));
    }
}

/// The caller's trace, if the call is sampled.
fn trace_of(context: &Context<'_>) -> TraceContext {
    let parent = context.traceparent().and_then(trace::Context::parse);
    TraceContext(parent.filter(|parent| parent.sampled).map(|parent| parent.to_bytes()))
}

/// The replica's end.
pub struct Desk {
    calls: Calls,
    /// Used again for each look.
    taken: Vec<Call>,
    waiting: BTreeMap<u64, Waiting>,
    /// Those that close a session: the machine says nothing to that unless it refuses.
    closing: Vec<u64>,
    next: u64,
    sweep_at: Nanos,
    answered: u64,
}

impl Desk {
    /// A desk, and the service that leaves calls at it: for a thread that serves, and looks itself.
    pub fn new() -> (Desk, impl fabric::service::Service + use<>) {
        Desk::with_bell(Box::new(|| {}))
    }

    /// The same, for a thread that has to be told: the bell is rung after each call.
    pub fn with_bell(bell: Box<dyn Fn() + Send + Sync>) -> (Desk, impl fabric::service::Service + use<>) {
        let calls = Calls::default();
        let desk = Desk {
            calls: Arc::clone(&calls),
            taken: Vec::new(),
            waiting: BTreeMap::new(),
            closing: Vec::new(),
            next: 1,
            sweep_at: Nanos::ZERO,
            answered: 0,
        };
        (desk, TxnServer::new(Front { calls, bell }))
    }

    /// Hands what was asked to the machine, and to `inquiries` and `exports` what is not the machine's; how many calls that is.
    pub fn take(
        &mut self,
        now: Nanos,
        inquiries: &mut Vec<Inquiry>,
        exports: &mut VecDeque<Export>,
        mut ask: impl FnMut(NodeId, Message),
    ) -> usize {
        let mut taken = std::mem::take(&mut self.taken);
        std::mem::swap(&mut taken, &mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        let count = taken.len();
        for call in taken.drain(..) {
            match call {
                Call::Info(inquiry) => inquiries.push(inquiry),
                Call::Export(export) => exports.push_back(export),
                Call::Ask(_, waiting) if self.waiting.len() >= MOST_WAITING => waiting.refuse(&Refusal::Busy),
                Call::Ask(message, waiting) => {
                    let client = self.next;
                    self.next += 1;
                    if matches!(waiting, Waiting::Close(_)) {
                        self.closing.push(client);
                    }
                    self.waiting.insert(client, waiting);
                    ask(NodeId::Client(client), message);
                }
            }
        }
        self.taken = taken;
        if now >= self.sweep_at {
            self.sweep_at = now.plus(SWEEP_EVERY);
            self.waiting.retain(|_, waiting| !waiting.is_given_up());
        }
        count
    }

    /// The machine says this to a client.
    pub fn answer(&mut self, client: u64, message: &Message) {
        // Who gave up, or was answered already, hears nothing.
        if let Some(waiting) = self.waiting.remove(&client) {
            self.answered += 1;
            waiting.answer(message);
        }
    }

    /// The call of a client ends without a reply.
    pub fn fail(&mut self, client: u64, status: Status) {
        if let Some(waiting) = self.waiting.remove(&client) {
            self.answered += 1;
            waiting.fail(status);
        }
    }

    /// The machine has said what it had to say about what it was handed: what closes a session and was not refused is on its way.
    pub fn settle(&mut self) {
        for client in std::mem::take(&mut self.closing) {
            if let Some(Waiting::Close(reply)) = self.waiting.remove(&client) {
                self.answered += 1;
                reply.reply(|_| Ok(()));
            }
        }
    }

    /// Calls that wait for the machine.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Calls that were answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }
}

impl Waiting {
    fn is_given_up(&self) -> bool {
        match self {
            Waiting::Execute(reply) => reply.responder().is_cancelled(),
            Waiting::Open(reply) => reply.responder().is_cancelled(),
            Waiting::Close(reply) => reply.responder().is_cancelled(),
            Waiting::Status(reply) => reply.responder().is_cancelled(),
        }
    }

    fn answer(self, message: &Message) {
        match (self, message) {
            (waiting, Message::Refused { why, .. }) => waiting.refuse(why),
            (Waiting::Execute(reply), Message::Reply { outcome, .. }) => {
                reply.reply(|reply| put_answer(Ok(outcome), reply));
            }
            (Waiting::Open(reply), Message::Opened { session, window, .. }) => {
                reply.reply(|reply| put_opened(Ok((*session, *window)), reply));
            }
            (Waiting::Status(reply), Message::Told { status, .. }) => {
                reply.reply(|reply| put_status(Ok(status), reply));
            }
            (waiting, message) => {
                let text = format!("the machine answers another question: {message:?}");
                waiting.fail(Status::new(Code::Internal, text));
            }
        }
    }

    fn refuse(self, why: &Refusal) {
        match self {
            Waiting::Execute(reply) => reply.reply(|reply| put_answer(Err(why), reply)),
            Waiting::Open(reply) => reply.reply(|reply| put_opened(Err(why), reply)),
            Waiting::Close(reply) => reply.reply(|reply| put_refusal(why, &mut reply.refusal_mut()?)),
            Waiting::Status(reply) => reply.reply(|reply| put_status(Err(why), reply)),
        }
    }

    fn fail(self, status: Status) {
        match self {
            Waiting::Execute(reply) => reply.fail(status),
            Waiting::Open(reply) => reply.fail(status),
            Waiting::Close(reply) => reply.fail(status),
            Waiting::Status(reply) => reply.fail(status),
        }
    }
}
