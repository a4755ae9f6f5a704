//! The spans that transactions leave at a replica: what the machine did of each is seen from its log and its image, so it knows nothing of traces.
//!
//! ```text
//!          ask                        Trace: entry, context             Trace
//!  client ─────▶ head ──────────────────────────────────▶ middle ──────────────▶ tail
//!  head    ├──────────────────────────────────────────────────┤
//!  admit   ├───┤                                                   until it has its place in the log: keys it waits for, what it comes to
//!  log         ├────────┤                                          until it is durable here
//!  chain                ├────────────────────────────────────┤     until it is durable at all behind
//!  apply                                                     ├┤    until it is in the image
//!    middle      ├──────────────────────────────────────────┤      the same, with `receive` for `admit`
//!      tail         ├────────────────────────────────────┤
//! ```
//! Each replica's span is a part of the one before it. What only reads has one span, where it was answered: `read`.
//!
//! Why a message of its own and no field of entries: logs, images and their formats stay as they are, and what is not traced has no byte for it. It leaves when
//! the entry is logged here, and the entry when it is durable, over the same link; so it is there first. If it is lost, so are the spans of those behind.
//!
//! Bounds: [`MAX_TRACED`] at once; the oldest make room. A new configuration ends all: an entry may be cut, and its place be another's.
//!
//! Cost: of what is not traced a test of the request, and one in each turn of the loop. The clock is read where something is traced, only.

use base::trace::{Context, Kind, OK, Open, Place, Tracer};
use base::{Clock, Nanos};
use protocol::chain::message::RequestId;
use protocol::chain::{
    Epoch, Image, Log, Lsn, Message, NodeId, Out, Part, Replica, ReplicaId, TraceContext, Transaction,
};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Transactions that are traced at once.
const MAX_TRACED: usize = 1024;

/// A request of a client that has no place in the log yet.
struct Asked {
    client: NodeId,
    id: RequestId,
    reads: bool,
    open: Open,
}

/// One that has, or will have.
struct Logged {
    lsn: Lsn,
    open: Open,
    /// The stages that are over, each until then: [`STAGES`].
    ends: Vec<Nanos>,
}

/// Of a replica's span, in their order. The first is another word where the request came from a client.
const STAGES: [&str; 4] = ["receive", "log", "chain", "apply"];
/// The first of the head's.
const ADMIT: &str = "admit";

/// Those of a replica.
pub(super) struct Traces {
    tracer: Tracer,
    clock: Clock,
    asked: VecDeque<Asked>,
    logged: VecDeque<Logged>,
    /// Of the configuration that all of them began in.
    epoch: Epoch,
    /// Entries up to here are none of those asked for.
    looked: Lsn,
}

impl Traces {
    pub(super) fn new(tracer: Tracer) -> Traces {
        Traces {
            tracer,
            clock: Clock::shared(),
            asked: VecDeque::new(),
            logged: VecDeque::new(),
            epoch: Epoch(0),
            looked: Lsn::ZERO,
        }
    }

    /// A client's message is about to be handed to the machine.
    #[inline(always)]
    pub(super) fn ask<I: Image, L: Log>(
        &mut self,
        client: NodeId,
        message: &Message,
        replica: &Replica<I, L>,
    ) {
        if let Message::Request { id, transaction } = message
            && let Some(bytes) = &transaction.trace.0
        {
            self.begin(client, *id, transaction, bytes, replica);
        }
    }

    #[cold]
    fn begin<I: Image, L: Log>(
        &mut self,
        client: NodeId,
        id: RequestId,
        transaction: &Transaction,
        context: &[u8; base::trace::CONTEXT_BYTES],
        replica: &Replica<I, L>,
    ) {
        let Some(context) = Context::from_bytes(context) else { return };
        self.enter(replica);
        if self.asked.is_empty() {
            self.looked = replica.log().last().0;
        }
        if self.asked.len() == MAX_TRACED {
            self.asked.pop_front();
        }
        let open = Open::begin(&self.tracer, Some(context), self.clock.now());
        self.asked.push_back(Asked { client, id, reads: transaction.only_reads(), open });
    }

    /// Another node's message is about to be handed to the machine.
    #[inline(always)]
    pub(super) fn hear<I: Image, L: Log>(
        &mut self,
        from: NodeId,
        message: &Message,
        replica: &Replica<I, L>,
        out: &mut Out,
    ) {
        if let Message::Trace { epoch, lsn, context: TraceContext(Some(bytes)) } = message {
            self.follow(from, (*epoch, *lsn), bytes, replica, out);
        }
    }

    /// The entry at this place is traced, and comes from `from`.
    #[cold]
    fn follow<I: Image, L: Log>(
        &mut self,
        from: NodeId,
        (epoch, lsn): (Epoch, Lsn),
        context: &[u8; base::trace::CONTEXT_BYTES],
        replica: &Replica<I, L>,
        out: &mut Out,
    ) {
        let is_before = neighbour(replica, -1).map(NodeId::Replica) == Some(from);
        let Some(context) = Context::from_bytes(context).filter(|_| is_before) else { return };
        // One that is here already was traced when it came.
        if epoch != replica.configuration().epoch || lsn <= replica.log().last().0 {
            return;
        }
        self.enter(replica);
        let open = Open::begin(&self.tracer, Some(context), self.clock.now());
        self.keep(lsn, open, Vec::new(), replica, out);
    }

    /// Those of an earlier configuration are over.
    fn enter<I: Image, L: Log>(&mut self, replica: &Replica<I, L>) {
        let epoch = replica.configuration().epoch;
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let now = self.clock.now();
        for one in std::mem::take(&mut self.logged) {
            one.end(replica, now, ENDED);
        }
        self.looked = self.looked.min(replica.log().last().0);
    }

    /// One has its place; its trace goes on to the successor.
    fn keep<I: Image, L: Log>(
        &mut self,
        lsn: Lsn,
        open: Open,
        ends: Vec<Nanos>,
        replica: &Replica<I, L>,
        out: &mut Out,
    ) {
        if let Some(after) = neighbour(replica, 1) {
            let context = TraceContext(Some(open.scope().context().to_bytes()));
            out.push((NodeId::Replica(after), Message::Trace { epoch: self.epoch, lsn, context }));
        }
        if self.logged.len() == MAX_TRACED {
            self.logged.pop_front();
        }
        self.logged.push_back(Logged { lsn, open, ends });
    }

    /// The machine did something, or something is durable: which of them are how far.
    #[inline(always)]
    pub(super) fn look<I: Image, L: Log>(&mut self, replica: &Replica<I, L>, out: &mut Out) {
        if !self.asked.is_empty() || !self.logged.is_empty() {
            self.look_at_all(replica, out);
        }
    }

    #[cold]
    fn look_at_all<I: Image, L: Log>(&mut self, replica: &Replica<I, L>, out: &mut Out) {
        self.enter(replica);
        let (now, last) = (self.clock.now(), replica.log().last().0);
        if self.asked.iter().any(|asked| !asked.reads) {
            for lsn in (self.looked.0 + 1..=last.0).map(Lsn) {
                let Some(entry) = replica.log().read(lsn) else { continue };
                let id = RequestId { session: entry.session, sequence: entry.sequence };
                let at = self.asked.iter().position(|asked| asked.id == id && !asked.reads);
                if let Some(asked) = at.and_then(|at| self.asked.remove(at)) {
                    self.keep(lsn, asked.open, Vec::new(), replica, out);
                }
            }
        }
        self.looked = last;
        let view = replica.view();
        // What is committed is durable at the replicas behind, and so at this one.
        let reached = [last, view.durable, view.committed, view.applied];
        for one in &mut self.logged {
            let over = reached.iter().take_while(|reached| one.lsn <= **reached).count();
            one.ends.resize(over.max(one.ends.len()), now);
        }
        while self.logged.front().is_some_and(|one| one.ends.len() == STAGES.len()) {
            let Some(one) = self.logged.pop_front() else { return };
            one.end(replica, now, OK);
        }
    }

    /// The machine says this to a client.
    #[inline(always)]
    pub(super) fn answer<I: Image, L: Log>(
        &mut self,
        client: NodeId,
        message: &Message,
        replica: &Replica<I, L>,
    ) {
        if !self.asked.is_empty() {
            self.end(client, message, replica);
        }
    }

    /// What was read, refused, or done before.
    #[cold]
    fn end<I: Image, L: Log>(&mut self, client: NodeId, message: &Message, replica: &Replica<I, L>) {
        let at = self.asked.iter().position(|asked| asked.client == client);
        let Some(Asked { open, reads, .. }) = at.and_then(|at| self.asked.remove(at)) else { return };
        let name = if reads { "read" } else { "request" };
        let outcome = if matches!(message, Message::Refused { .. }) { "refused" } else { OK };
        record(open, name, replica, self.clock.now(), outcome);
    }
}

impl Logged {
    fn end<I: Image, L: Log>(self, replica: &Replica<I, L>, now: Nanos, outcome: &'static str) {
        let Logged { open, ends, .. } = self;
        let role = role(replica);
        let mut begin = open.since();
        for (stage, end) in STAGES.into_iter().zip(ends) {
            let name = if stage == STAGES[0] && role == HEAD { ADMIT } else { stage };
            // Nobody is behind the tail.
            if stage != "chain" || role != TAIL {
                let part = open.scope().open(begin);
                part.end_as(Kind::Part, name, Place::Chain, end, OK, None, row(replica));
            }
            begin = end;
        }
        record(open, role, replica, now, outcome);
    }
}

/// How a span ends that was under way in an earlier configuration: what becomes of its entry is said there.
const ENDED: &str = "new configuration";

const HEAD: &str = "head";
const TAIL: &str = "tail";

/// What a replica is in its chain now.
fn role<I: Image, L: Log>(replica: &Replica<I, L>) -> &'static str {
    let view = replica.view();
    match (view.is_head, view.is_tail, view.part) {
        (true, ..) => HEAD,
        (_, true, _) => TAIL,
        (_, _, Some(Part::Syncing)) => "joining",
        _ => "middle",
    }
}

/// Under which name its spans are shown: as what it is, and which.
fn row<I: Image, L: Log>(replica: &Replica<I, L>) -> std::sync::Arc<str> {
    format!("{}-{}", role(replica), replica.id().0).into()
}

fn record<I: Image, L: Log>(
    open: Open,
    name: impl Into<Cow<'static, str>>,
    replica: &Replica<I, L>,
    now: Nanos,
    outcome: &'static str,
) {
    open.end_as(Kind::Server, name, Place::Chain, now, outcome, None, row(replica));
}

/// The member so many places behind it, if there is one.
fn neighbour<I: Image, L: Log>(replica: &Replica<I, L>, by: isize) -> Option<ReplicaId> {
    let members = &replica.configuration().members;
    let own = members.iter().position(|member| member.replica == replica.id())?;
    members.get(own.checked_add_signed(by)?).map(|member| member.replica)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Local;
    use crate::txn::{Client, Options};
    use base::trace::Span;

    /// Spans by name, with the name of the one that each is a part of.
    fn tree(spans: &[Span]) -> Vec<(&str, &str, &str)> {
        let name = |number| spans.iter().find(|span| span.context.span == number).map(|span| &*span.name);
        let mut shown: Vec<_> = spans
            .iter()
            .map(|span| (&*span.row, span.parent.and_then(name).unwrap_or("caller"), &*span.name))
            .collect();
        shown.sort_unstable();
        shown
    }

    #[test]
    fn a_transaction_leaves_spans_at_each_replica_and_what_is_not_traced_none() {
        let tracer = Tracer::default();
        let chain = Local::traced(3, &tracer);
        let mut client = Client::connect(chain.addresses(), &Options::default()).expect("a chain");
        let caller = Context { trace: 5, span: 6, sampled: true };
        let trace = TraceContext(Some(caller.to_bytes()));
        client.execute(Transaction::new().put("a", "1")).expect("it is done");
        client.execute(Transaction::new().get("a")).expect("it is read");
        assert_eq!(tracer.counts().recorded, 0);

        client.execute(Transaction::new().put("a", "2").traced(trace)).expect("it is done");
        let spans = tracer.spans();
        assert_eq!(
            tree(&spans),
            [
                ("head-1", "caller", "head"),
                ("head-1", "head", "admit"),
                ("head-1", "head", "apply"),
                ("head-1", "head", "chain"),
                ("head-1", "head", "log"),
                ("middle-2", "head", "middle"),
                ("middle-2", "middle", "apply"),
                ("middle-2", "middle", "chain"),
                ("middle-2", "middle", "log"),
                ("middle-2", "middle", "receive"),
                ("tail-3", "middle", "tail"),
                ("tail-3", "tail", "apply"),
                ("tail-3", "tail", "log"),
                ("tail-3", "tail", "receive"),
            ]
        );
        assert!(
            spans.iter().all(|span| span.context.trace == 5 && span.place == Place::Chain && span.is_ok())
        );
        let head = spans.iter().find(|span| span.name == "head").expect("it was just seen");
        assert!(spans.iter().all(|span| head.begin <= span.begin && span.end <= head.end));

        client.execute(Transaction::new().get("a").traced(trace)).expect("it is read");
        assert_eq!(tree(&tracer.spans()[spans.len()..]), [("tail-3", "caller", "read")]);
        // A condition that does not hold has a place in the log, too: it is remembered.
        client
            .execute(Transaction::new().if_missing("a").put("a", "3").traced(trace))
            .expect("it is aborted");
        let last = tracer.spans();
        assert!(last[spans.len() + 1..].iter().any(|span| span.name == "head"), "{last:?}");
    }

    #[test]
    fn a_trace_goes_on_where_a_replica_is_lost() {
        let tracer = Tracer::default();
        let chain = Local::traced(3, &tracer);
        let mut client = Client::connect(chain.addresses(), &Options::default()).expect("a chain");
        client.execute(Transaction::new().put("a", "1")).expect("it is done");
        chain.kill(2);
        let trace = TraceContext(Some(Context { trace: 5, span: 6, sampled: true }.to_bytes()));
        // It waits until the chain is of two, unless that is so by now.
        client.execute(Transaction::new().put("a", "2").traced(trace)).expect("it is done");
        let spans = tracer.spans();
        let heads: Vec<_> = spans.iter().filter(|span| span.name == "head").collect();
        assert!(heads.len() == 1 && [OK, ENDED].contains(&&*heads[0].outcome), "{spans:?}");
    }
}
