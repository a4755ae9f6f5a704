//! Works as calls of the fabric: a stream of them, which the owner's edge does itself, as they come, whatever link they come over.
//!
//! ```text
//!  Queue ── Works, … ──▶ stream Memory/Queue ──▶ edge: Regions
//!        ◀─ Results, … ──
//! ```
//! One message holds all that one ring has done, up to [`wire::BATCH_MAX`]; long works are cut into pieces. Links may reorder messages; streams number them.

use crate::proto::millrace::{Memory, MemoryClient, MemoryServer, OpenRegionView, RegionMut, Results, Works};
use crate::queue::{Ledger, OpenError, PostError};
use crate::regions::{Access, Info, Regions};
use crate::wire::{self, BATCH_MAX, Malformed, PIECE_MAX, Piece};
use crate::work::{Address, Completion, Key, Local, Outcome, Verb, Work};
use fabric::channel::{CallId, CallOptions, Channel, StartError, What};
use fabric::status::{Code, Status};
use fabric::stub::{BoxFuture, Context, NotServed, Streaming};
use ring::wait::WaitPolicy;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Serves regions to callers: a service for a server of the fabric.
pub fn service(regions: Arc<Regions>) -> MemoryServer<Served> {
    MemoryServer::new(Served(regions))
}

/// See [`service`].
pub struct Served(pub Arc<Regions>);

impl Memory for Served {
    fn open(
        &self,
        request: OpenRegionView<'_>,
        reply: &mut RegionMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        let lent = self.0.find(request.name());
        let lent = lent.ok_or_else(|| Status::new(Code::NotFound, "no region of this name is lent"))?;
        if !Access::of_bits(request.access()).is_some_and(|access| lent.access.has(access)) {
            return Err(Status::new(Code::PermissionDenied, "the region is not lent for this"));
        }
        let Info { key, len, is_persistent } = lent.info();
        reply.set_key(key.0);
        reply.set_len(len);
        reply.set_persistent(is_persistent);
        Ok(())
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
            let lent = self.0.get(remote.key).filter(|lent| lent.covers(remote.offset, whole));
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
    channel: Channel,
    client: MemoryClient,
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
    pub fn over(mut channel: Channel, depth: usize, local: usize) -> Result<Queue, OpenError> {
        let gone = |why: String| OpenError::Unreachable(why);
        let client = MemoryClient::new(&channel).map_err(|why: NotServed| gone(why.to_string()))?;
        let call = client.queue_async(&mut channel, &CallOptions::default(), 0);
        let call = call.map_err(|why| gone(why.to_string()))?;
        let ledger = Ledger::new(depth, local);
        let (awaited, unsent) = (VecDeque::new(), VecDeque::new());
        Ok(Queue { channel, client, call, ledger, awaited, unsent, carried: 0 })
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
            match self.channel.send_built::<Works>(self.call, |works| works.set_records(records)) {
                Ok(()) => _ = self.unsent.pop_front(),
                Err(StartError::Full) => break,
                // What became of it comes as an event.
                Err(_) => {
                    self.unsent.clear();
                    break;
                }
            }
        }
        self.channel.flush();
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
        let Queue { client, channel, .. } = self;
        let options = CallOptions::within(Duration::from_secs(5));
        let opened = client.open(channel, &options, |request| {
            request.set_access(u32::from(access.bits()));
            request.set_name(name)
        });
        let opened = opened.map_err(|status| match status.code() {
            Code::NotFound => OpenError::NotFound,
            Code::PermissionDenied => OpenError::Denied,
            _ => OpenError::Unreachable(status.to_string()),
        })?;
        let region = opened.view();
        Ok(Info { key: Key(region.key()), len: region.len(), is_persistent: region.persistent() })
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
        let Queue { channel, call, ledger, awaited, .. } = self;
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
            match ledger.under_way() {
                0 => ledger.break_down(),
                _ => ledger.end(Outcome::Unreachable),
            }
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
            let _ = self.channel.wait(WaitPolicy::default(), Some(timeout));
        }
    }
}
