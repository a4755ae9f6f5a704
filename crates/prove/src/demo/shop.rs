//! The shop of the demonstration: `proto/shop.proto`, with its stubs (`proto/shop.rs`, made by `fabric::build` and committed) and its handlers, as a user would
//! write them.
//!
//! ```text
//!  rpc-server (edge) ── job ──▶ shop-0, shop-1 (host threads) ──┬── client::Cluster: the items of the node, by transactions
//!                    ◀─ Deferred ──────────────────────────────┴── fabric, in memory: the recommendation service of the node
//! ```
//! Its handlers wait for others, so they run on threads of their own and answer when they are through.
//!
//! Bounds: [`QUEUE`] calls wait; then RESOURCE_EXHAUSTED. What a call waits for ends within [`PATIENCE`].

use base::trace::{OK, Place, Scope, TRACEPARENT};
use base::{Clock, Nanos};
use client::{Cluster, Item};
use codec::memory::OutOfMemory;
use codec::typed::Message;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::frame::push_metadata;
use fabric::link::Address;
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::Deferred;
use proto::shop::{
    OrderView, PictureView, Profile, ProfileRequestView, RankRequestView, Ranking, Receipt, Shop, Stored,
};
use serve::rec::proto::millrace::RecommendClient;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/shop.rs");
}

/// Calls that wait for a thread.
const QUEUE: usize = 256;
/// For what a call waits for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Dense features of a query.
pub const DENSE: usize = 2;

/// What a thread does for a call.
type Work = Box<dyn FnOnce(Result<&mut Desk, Status>) + Send>;

/// A call to be answered by a thread; it is given what the thread has, or why there is none for it.
struct Job {
    work: Work,
    scope: Option<Scope>,
    came: Nanos,
}

/// What a thread has of others, opened when it is first needed, and anew after it failed.
struct Desk {
    cluster_file: PathBuf,
    rank: Address,
    cluster: Option<Cluster>,
    model: Option<(Channel, RecommendClient)>,
    /// Of the call that it works for, if that leaves a trace.
    scope: Option<Scope>,
}

impl Desk {
    /// Does something as a part of the call's trace. What is sent to others carries that part, if it is given.
    fn part<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Desk, Option<&Scope>) -> T) -> T {
        let clock = Clock::shared();
        let open = self.scope.as_ref().map(|scope| scope.open(clock.now()));
        let done = work(self, open.as_ref().map(|open| open.scope()));
        if let Some(open) = open {
            open.end(name, Place::Host, clock.now(), OK);
        }
        done
    }

    /// Something is done with the items of the cluster.
    fn store<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Cluster) -> Result<T, client::Error>,
    ) -> Result<T, Status> {
        self.part(name, |desk, _| {
            let unavailable = |error: client::Error| Status::new(Code::Unavailable, error.to_string());
            if desk.cluster.is_none() {
                let found = Cluster::builder().cluster(&desk.cluster_file).deadline(PATIENCE).connect();
                desk.cluster = Some(found.map_err(unavailable)?);
            }
            let cluster = desk.cluster.as_mut().expect("it was just opened");
            work(cluster).map_err(|error| match error {
                // It may have been done: nobody is told to try again.
                client::Error::Unknown { .. } => Status::new(Code::Unknown, error.to_string()),
                error => unavailable(error),
            })
        })
    }

    fn scores(&mut self, items: &[String]) -> Result<Vec<f32>, Status> {
        let asked = self.part("rank", |desk, part| desk.ask_model(items, part));
        if asked.is_err() {
            self.model = None;
        }
        asked
    }

    fn ask_model(&mut self, items: &[String], part: Option<&Scope>) -> Result<Vec<f32>, Status> {
        if self.model.is_none() {
            let channel = Channel::connect(&self.rank, &Options::default())
                .map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
            let client = RecommendClient::new(&channel)?;
            self.model = Some((channel, client));
        }
        let (channel, client) = self.model.as_mut().expect("it was just opened");
        let mut metadata = Vec::new();
        if let Some(part) = part {
            // One entry has room.
            let _ = push_metadata(&mut metadata, TRACEPARENT, part.context().emit().as_bytes());
        }
        let options = CallOptions { metadata: &metadata, ..CallOptions::within(PATIENCE) };
        let reply = client.infer(channel, &options, |request| {
            for item in items {
                let mut query = request.push_queries()?;
                query.push_features(&format!("t0: {item}"))?;
                query.set_dense(&[0.5; DENSE])?;
            }
            Ok(())
        })?;
        Ok(reply.view().scores().to_vec())
    }

    /// For as long as there are calls.
    fn work(mut self, jobs: &Mutex<Receiver<Job>>) {
        let clock = Clock::shared();
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { work, scope, came }) = next else { return };
            let begun = clock.now();
            if let Some(scope) = &scope {
                scope.part("waiting", Place::Host, came, begun);
            }
            self.scope = scope;
            work(Ok(&mut self));
        }
    }
}

/// See the head of the file. Its threads end when it is dropped.
pub struct Handlers {
    jobs: SyncSender<Job>,
}

impl Handlers {
    /// With so many threads; items are found by the cluster's file, the model at `rank`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(cluster: &Path, rank: &Address, threads: usize) -> std::io::Result<Handlers> {
        let (jobs, waiting) = sync_channel(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let (waiting, cluster_file, rank) = (Arc::clone(&waiting), cluster.into(), rank.clone());
            let desk = Desk { cluster_file, rank, cluster: None, model: None, scope: None };
            std::thread::Builder::new().name(format!("shop-{number}")).spawn(move || desk.work(&waiting))?;
        }
        Ok(Handlers { jobs })
    }

    /// Has a thread find what `work` finds, and answers with what `fill` makes of it.
    fn answer<R: Message, T>(
        &self,
        context: &Context<'_>,
        reply: Deferred<R>,
        work: impl FnOnce(&mut Desk) -> Result<T, Status> + Send + 'static,
        fill: impl FnOnce(T, &mut R::Mut<'_, '_>) -> Result<(), OutOfMemory> + Send + 'static,
    ) {
        let work = Box::new(move |desk: Result<&mut Desk, Status>| match desk.and_then(work) {
            Ok(found) => reply.reply(|message| fill(found, message)),
            Err(status) => reply.fail(status),
        });
        let job = Job { work, scope: context.scope(), came: Clock::shared().now() };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.jobs.try_send(job) {
            let why = format!("{QUEUE} calls wait for a thread already");
            (job.work)(Err(Status::new(Code::ResourceExhausted, why)));
        }
    }
}

/// The key of a user's item, or of a good's.
pub fn key(kind: &str, of: &str) -> Vec<u8> {
    format!("{kind}:{of}").into_bytes()
}

/// What came of an order.
#[derive(Clone, Copy)]
enum Placed {
    Done { left: i64, orders: i64 },
    TooLittle,
}

impl Shop for Handlers {
    fn get_profile(
        &self,
        request: ProfileRequestView<'_>,
        reply: Deferred<Profile>,
        context: &mut Context<'_>,
    ) {
        let key = key("profile", request.user());
        let missing = || Status::new(Code::NotFound, "there is no such user");
        let work =
            move |desk: &mut Desk| desk.store("read items", |items| items.get(&key))?.ok_or_else(missing);
        self.answer(context, reply, work, |item: Item, profile| {
            profile.set_version(item.version);
            profile.set_text(&item.value)
        });
    }

    fn place_order(&self, request: OrderView<'_>, reply: Deferred<Receipt>, context: &mut Context<'_>) {
        let (user, item, count) =
            (request.user().to_owned(), request.item().to_owned(), request.count().into());
        let work = move |desk: &mut Desk| {
            let [stock, sold, orders] = [key("stock", &item), key("sold", &item), key("orders", &user)];
            let done = desk.store("transaction", |items| {
                let order = items.transaction().expect_at_least(&stock, count);
                order.add(&stock, -count).add(&sold, count).add(&orders, 1).commit()
            })?;
            Ok(match (done.abort, &done.sums[..]) {
                (None, &[left, _, orders]) => Placed::Done { left, orders },
                _ => Placed::TooLittle,
            })
        };
        self.answer(context, reply, work, |placed, receipt| {
            if let Placed::Done { left, orders } = placed {
                receipt.set_taken(true);
                receipt.set_left(left);
                receipt.set_orders(orders);
            }
            Ok(())
        });
    }

    fn rank(&self, request: RankRequestView<'_>, reply: Deferred<Ranking>, context: &mut Context<'_>) {
        let items: Vec<String> = request.items().iter().map(str::to_owned).collect();
        let work = move |desk: &mut Desk| desk.scores(&items);
        self.answer(context, reply, work, |scores, ranking| ranking.set_scores(&scores));
    }

    fn upload(&self, request: PictureView<'_>, reply: Deferred<Stored>, context: &mut Context<'_>) {
        let (key, pixels) = (key("picture", request.user()), request.pixels().to_vec());
        let work = move |desk: &mut Desk| {
            let version = desk.store("store", |items| items.set(&key, &pixels))?;
            Ok((pixels.len(), version))
        };
        self.answer(context, reply, work, |(bytes, version), stored| {
            stored.set_bytes(bytes as u32);
            stored.set_version(version);
            Ok(())
        });
    }
}
