//! Works as calls of the fabric: a stream of them, which the owner's edge does itself, as they come, whatever link they come over.
//!
//! ```text
//!  Queue ── Works, … ──▶ stream Memory/Queue ──▶ edge: Regions
//!        ◀─ Results, … ──
//! ```
//! One message holds all that one ring has done, up to [`wire::BATCH_MAX`]; long works are cut into pieces. Links may reorder messages; streams number them.

use crate::proto::millrace::{
    Endpoint, EndpointMut, EndpointView, Memory, MemoryClient, MemoryServer, OpenRegionView, RegionMut,
    Results, Works,
};
use crate::queue::{Ledger, OpenError, PostError};
use crate::regions::{Access, Info, Reach, Regions};
use crate::verbs::{Card, End, Lender};
use crate::wire::{self, BATCH_MAX, Malformed, PIECE_MAX, Piece};
use crate::work::{Address, Completion, Key, Local, Outcome, Verb, Work};
use codec::memory::OutOfMemory;
use fabric::channel::{CallId, CallOptions, Channel, StartError, What};
use fabric::status::{Code, Status};
use fabric::stub::{BoxFuture, Context, NotServed, Streaming};
use ring::wait::WaitPolicy;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves regions to callers, and by a card to their cards: a service for a server of the fabric.
pub fn service(regions: Arc<Regions>, card: Option<Arc<Card>>) -> MemoryServer<Served> {
    MemoryServer::new(Served { regions, lender: card.map(Lender::new) })
}

/// See [`service`].
pub struct Served {
    /// What is served.
    pub regions: Arc<Regions>,
    /// By a card, too.
    pub lender: Option<Lender>,
}

impl Memory for Served {
    fn open(
        &self,
        request: OpenRegionView<'_>,
        reply: &mut RegionMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        let lent = self.regions.find(request.name());
        let lent = lent.ok_or_else(|| Status::new(Code::NotFound, "no region of this name is lent"))?;
        if !Access::of_bits(request.access()).is_some_and(|access| lent.access.has(access)) {
            return Err(Status::new(Code::PermissionDenied, "the region is not lent for this"));
        }
        let Info { key, len, is_persistent } = lent.info();
        reply.set_key(key.0);
        reply.set_bytes(len);
        reply.set_persistent(is_persistent);
        // One that the card cannot have is read by calls.
        if let Some(Ok(Some(Reach { key, base }))) = self.lender.as_ref().map(|lender| lender.reach(&lent)) {
            reply.set_card_key(key);
            reply.set_card_base(base);
        }
        Ok(())
    }

    fn attach(self: Arc<Self>, mut call: Streaming<Endpoint, Endpoint>) -> BoxFuture {
        Box::pin(async move {
            let refused = |code, why: String| Status::new(code, why);
            let peer = call.request().await?;
            let Some(lender) = &self.lender else {
                return Err(refused(Code::FailedPrecondition, "the owner has no card".to_owned()));
            };
            let bad = || refused(Code::InvalidArgument, "this is no end of a connection".to_owned());
            let peer = end_of(peer.view()).ok_or_else(bad)?;
            let attached = lender.attach(&peer);
            let (pair, end) = attached.map_err(|why| refused(Code::FailedPrecondition, why.to_string()))?;
            call.replies.send(|reply| put_end(&end, reply)).await?;
            // Until the peer is gone.
            while call.requests.next().await.transpose()?.is_some() {}
            drop(pair);
            Ok(())
        })
    }

    fn queue(self: Arc<Self>, mut call: Streaming<Works, Results>) -> BoxFuture {
        Box::pin(async move {
            let (mut results, mut buffer) = (Vec::new(), vec![0; PIECE_MAX]);
            while let Some(works) = call.requests.next().await.transpose()? {
                results.clear();
                let done = self.perform(works.view().records(), &mut buffer, &mut results)?;
                call.replies.send(|reply| reply.set_records(&results)).await?;
                if done != Outcome::Done {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl Served {
    /// Does the works of a message, up to the first that is denied, and appends a result of each. `buffer` has room for [`PIECE_MAX`] bytes.
    ///
    /// # Errors
    /// These are no records.
    pub fn perform(
        &self,
        mut records: &[u8],
        buffer: &mut [u8],
        results: &mut Vec<u8>,
    ) -> Result<Outcome, Status> {
        let malformed = |_: Malformed| Status::new(Code::InvalidArgument, "these are no records of works");
        let mut carried = 0;
        while let Some(piece) = wire::next_work(&mut records).map_err(malformed)? {
            carried += piece.len;
            if carried > BATCH_MAX {
                return Err(Status::new(Code::InvalidArgument, "a message's works carry too much"));
            }
            let Piece { verb, remote, len, ahead, data } = piece;
            let buffer = &mut buffer[..len];
            if verb == Verb::Write {
                buffer.copy_from_slice(data);
            }
            let whole = len as u64 + u64::from(ahead);
            let lent = self.regions.get(remote.key).filter(|lent| lent.covers(remote.offset, whole));
            let outcome = lent.map_or(Outcome::Denied, |lent| lent.perform(verb, remote.offset, buffer));
            let brings = if verb == Verb::Write || outcome != Outcome::Done { &[][..] } else { buffer };
            wire::emit_result(outcome, brings, results);
            if outcome != Outcome::Done {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Done)
    }
}

fn end_of(from: EndpointView<'_>) -> Option<End> {
    let gid = from.gid().try_into().ok()?;
    let (lid, mtu) = (u16::try_from(from.lid()).ok()?, u8::try_from(from.mtu()).ok()?);
    Some(End { number: from.number(), first: from.first(), lid, gid, mtu })
}

fn put_end(end: &End, to: &mut EndpointMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_number(end.number);
    to.set_first(end.first);
    to.set_lid(end.lid.into());
    to.set_mtu(end.mtu.into());
    to.set_gid(&end.gid)
}

/// How long an owner may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client of service Memory: what queues ask an owner's edge beside works.
pub(crate) struct Control {
    channel: Channel,
    client: MemoryClient,
}

impl Control {
    /// # Errors
    /// The server has no such service.
    pub fn over(channel: Channel) -> Result<Control, OpenError> {
        let client = MemoryClient::new(&channel);
        let client = client.map_err(|why: NotServed| OpenError::Unreachable(why.to_string()))?;
        Ok(Control { channel, client })
    }

    pub fn open(&mut self, name: &str, access: Access) -> Result<(Info, Option<Reach>), OpenError> {
        let Control { client, channel } = self;
        let opened = client.open(channel, &CallOptions::within(TIMEOUT), |request| {
            request.set_access(u32::from(access.bits()));
            request.set_name(name)
        });
        let opened = opened.map_err(|status| match status.code() {
            Code::NotFound => OpenError::NotFound,
            Code::PermissionDenied => OpenError::Denied,
            _ => OpenError::Unreachable(status.to_string()),
        })?;
        let region = opened.view();
        let reach = region.has_card_key().then(|| Reach { key: region.card_key(), base: region.card_base() });
        let info = Info { key: Key(region.key()), len: region.bytes(), is_persistent: region.persistent() };
        Ok((info, reach))
    }

    /// Whether the owner has ended this call, or is gone with its channel.
    pub fn has_ended(&mut self, call: CallId) -> bool {
        let mut has_ended = false;
        self.channel.poll(64, |event| has_ended |= event.call == call && event.what.is_terminal());
        has_ended || self.channel.end().is_some()
    }

    /// The end that the owner's card has for this one. It stays for as long as the call.
    pub fn attach(&mut self, end: &End) -> Result<(CallId, End), OpenError> {
        let gone = |why: String| OpenError::Unreachable(why);
        let Control { client, channel } = self;
        let call = client.attach_async(channel, &CallOptions::default(), 0);
        let call = call.map_err(|why| gone(why.to_string()))?;
        let sent = channel.send_built::<Endpoint>(call, |to| put_end(end, to));
        sent.map_err(|why| gone(why.to_string()))?;
        let (mut answer, began) = (None, Instant::now());
        while answer.is_none() {
            channel.poll(64, |mut event| {
                if event.call == call {
                    let end = event.message::<Endpoint>().map_err(|status| status.to_string());
                    let wrong = || "what it answers is no end of a connection".to_owned();
                    answer = Some(end.and_then(|end| end_of(end).ok_or_else(wrong)));
                }
            });
            let _ = channel.wait(WaitPolicy::default(), Some(Duration::from_millis(100)));
            if began.elapsed() > TIMEOUT {
                return Err(gone("it does not answer".to_owned()));
            }
        }
        answer.expect("it came").map(|end| (call, end)).map_err(gone)
    }
}

/// What a result is of.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// Where what it brings goes; nothing of a write.
    to: Local,
    /// The work is done with it.
    is_last: bool,
}

/// A queue over a channel.
pub struct Queue {
    control: Control,
    call: CallId,
    ledger: Ledger,
    awaited: VecDeque<Awaited>,
    /// Messages that have not been sent.
    unsent: VecDeque<Vec<u8>>,
    /// What the last of them carries.
    carried: usize,
}

impl Queue {
    /// So many works deep, with so many bytes of local memory, over a channel to a server that has [`service`].
    ///
    /// # Errors
    /// It has not, or takes no more calls.
    pub fn over(channel: Channel, depth: usize, local: usize) -> Result<Queue, OpenError> {
        let mut control = Control::over(channel)?;
        let Control { client, channel } = &mut control;
        let call = client.queue_async(channel, &CallOptions::default(), 0);
        let call = call.map_err(|why| OpenError::Unreachable(why.to_string()))?;
        let ledger = Ledger::new(depth, local);
        let (awaited, unsent) = (VecDeque::new(), VecDeque::new());
        Ok(Queue { control, call, ledger, awaited, unsent, carried: 0 })
    }

    fn cut(&mut self, work: Work) {
        let Work { verb, local, remote, .. } = work;
        let (mut at, end) = (local.at, local.at + local.len);
        loop {
            let len = (end - at).min(PIECE_MAX as u32);
            let here = Local { at, len };
            let offset = remote.offset.wrapping_add(u64::from(at - local.at));
            let ahead = end - at - len;
            let data = if verb == Verb::Write { self.ledger.local(here) } else { &[] };
            let piece = Piece { verb, remote: Address { offset, ..remote }, len: len as usize, ahead, data };
            if self.unsent.is_empty() || self.carried + piece.len > BATCH_MAX {
                self.unsent.push_back(Vec::new());
                self.carried = 0;
            }
            self.carried += piece.len;
            piece.emit(self.unsent.back_mut().expect("there is one"));
            let to = if verb == Verb::Write { Local { len: 0, ..here } } else { here };
            at += len;
            self.awaited.push_back(Awaited { to, is_last: at == end });
            if at == end {
                return;
            }
        }
    }

    fn send(&mut self) {
        while let Some(records) = self.unsent.front() {
            match self.control.channel.send_built::<Works>(self.call, |works| works.set_records(records)) {
                Ok(()) => _ = self.unsent.pop_front(),
                Err(StartError::Full) => break,
                // What became of it comes as an event.
                Err(_) => {
                    self.unsent.clear();
                    break;
                }
            }
        }
        self.control.channel.flush();
    }
}

/// Takes what came of works; false where it is none of what was asked.
fn take(ledger: &mut Ledger, awaited: &mut VecDeque<Awaited>, mut records: &[u8]) -> bool {
    while let Ok(Some((outcome, data))) = wire::next_result(&mut records) {
        let Some(Awaited { to, is_last }) = awaited.pop_front() else { return false };
        if outcome != Outcome::Done {
            ledger.end(outcome);
            return true;
        }
        if data.len() != to.len as usize {
            return false;
        }
        ledger.local_mut(to).copy_from_slice(data);
        if is_last {
            ledger.end(outcome);
        }
    }
    records.is_empty()
}

impl crate::queue::Queue for Queue {
    fn open(&mut self, name: &str, access: Access) -> Result<Info, OpenError> {
        self.control.open(name, access).map(|(info, _)| info)
    }

    fn local_len(&self) -> usize {
        self.ledger.local_len()
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.ledger.put(at, bytes);
    }

    fn take(&self, at: u32, bytes: &mut [u8]) {
        self.ledger.take(at, bytes);
    }

    fn post(&mut self, work: Work) -> Result<(), PostError> {
        self.ledger.post(work)
    }

    fn ring(&mut self) {
        // What was cut before waits to be sent as it is.
        self.carried = BATCH_MAX;
        while let Some(work) = self.ledger.begin() {
            self.cut(work);
        }
        self.send();
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let Queue { control: Control { channel, .. }, call, ledger, awaited, .. } = self;
        let mut is_over = false;
        channel.poll(64, |mut event| {
            if event.call != *call {
                return;
            }
            match event.what {
                What::Item(_) => {
                    let results = event.message::<Results>();
                    is_over |= !results.is_ok_and(|results| take(ledger, awaited, results.records()));
                }
                What::Reply(_) | What::End | What::Failed(_) => is_over = true,
            }
        });
        if is_over && !ledger.is_broken() {
            ledger.lose();
        }
        if ledger.is_broken() {
            self.unsent.clear();
            self.awaited.clear();
        } else if !self.unsent.is_empty() {
            self.send();
        }
        self.ledger.poll(done)
    }

    fn wait(&mut self, timeout: Duration) {
        if self.ledger.under_way() > 0 {
            let _ = self.control.channel.wait(WaitPolicy::default(), Some(timeout));
        }
    }
}
