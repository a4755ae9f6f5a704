//! The shop of the demonstration: `proto/shop.proto`, with its stubs (`proto/shop.rs`, made by `fabric::build` and committed) and its handlers, as a user would
//! write them.
//!
//! ```text
//!  rpc-server (edge) ──▶ worker (host), as the .proto file says ──┬── client::Cluster: the items of the node, by transactions
//!                                                                 └── fabric, in memory: the recommendation service of the node
//! ```
//! What a thread has of others is its own: clients are used by one thread at a time.
//!
//! Bounds: what a call waits for ends within [`CALL_TIMEOUT`].

use base::Clock;
use base::trace::{OK, Place, Scope, TRACEPARENT};
use client::{Cluster, Item};
use codec::unit::kernels::Lz4Compress;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::frame::push_metadata;
use fabric::link::Address;
use fabric::service::{Context, Kernels, Ran};
use fabric::status::{Code, Status};
use proto::shop::{
    NewProfileView, OrderView, Packed, PackedMut, Picture, PictureView, Pictures, ProfileMut,
    ProfileRequestView, RankRequestView, RankingMut, ReceiptMut, Shop, StoredMut,
};
use serve::rec::proto::millrace::RecommendClient;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../proto/shop.rs");
}

/// For what a call waits for.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Dense features of a query.
pub const DENSE: usize = 2;
/// The name of what the accelerator has a unit for.
const PACK: &str = "pack";

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// What a thread has of others, opened when it is first needed, and anew after it failed.
#[derive(Default)]
struct Desk {
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
        file: &Path,
        work: impl FnOnce(&mut Cluster) -> Result<T, client::Error>,
    ) -> Result<T, Status> {
        self.part(name, |desk, part| {
            let unavailable = |error: client::Error| Status::new(Code::Unavailable, error.to_string());
            if desk.cluster.is_none() {
                let found = Cluster::builder().cluster(file).deadline(CALL_TIMEOUT).connect();
                desk.cluster = Some(found.map_err(unavailable)?);
            }
            let cluster = desk.cluster.as_mut().expect("it was just opened");
            cluster.set_trace(part.map(Scope::context));
            work(cluster).map_err(|error| match error {
                // It may have been done: nobody is told to try again.
                client::Error::Unknown { .. } => Status::new(Code::Unknown, error.to_string()),
                error => unavailable(error),
            })
        })
    }

    fn scores(&mut self, rank: &Address, items: &[&str]) -> Result<Vec<f32>, Status> {
        let asked = self.part("rank", |desk, part| desk.ask_model(rank, items, part));
        if asked.is_err() {
            self.model = None;
        }
        asked
    }

    fn ask_model(
        &mut self,
        rank: &Address,
        items: &[&str],
        part: Option<&Scope>,
    ) -> Result<Vec<f32>, Status> {
        if self.model.is_none() {
            let channel = Channel::connect(rank, &Options::default())
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
        let options = CallOptions { metadata: &metadata, ..CallOptions::within(CALL_TIMEOUT) };
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
}

/// See the head of the file.
pub struct Handlers {
    /// The cluster's file.
    cluster: PathBuf,
    /// Where the model is.
    rank: Address,
}

impl Handlers {
    /// Items are found by the cluster's file, the model at `rank`.
    pub fn new(cluster: &Path, rank: &Address) -> Handlers {
        Handlers { cluster: cluster.into(), rank: rank.clone() }
    }

    /// Works for a call with what this thread has.
    fn with<T>(
        &self,
        context: &Context<'_>,
        work: impl FnOnce(&mut Desk, &Handlers) -> Result<T, Status>,
    ) -> Result<T, Status> {
        DESK.with_borrow_mut(|desk| {
            desk.scope = context.scope();
            work(desk, self)
        })
    }
}

/// The key of a user's item, or of a good's.
pub fn key(kind: &str, of: &str) -> Vec<u8> {
    format!("{kind}:{of}").into_bytes()
}

impl Shop for Handlers {
    fn get_profile(
        &self,
        request: ProfileRequestView<'_>,
        reply: &mut ProfileMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        let key = key("profile", request.user());
        let missing = || Status::new(Code::NotFound, "there is no such user");
        let item: Item = self
            .with(context, |desk, shop| desk.store("read items", &shop.cluster, |items| items.get(&key)))?
            .ok_or_else(missing)?;
        reply.set_version(item.version);
        Ok(reply.set_text(&item.value)?)
    }

    fn set_profile(
        &self,
        request: NewProfileView<'_>,
        reply: &mut StoredMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        let (key, text) = (key("profile", request.user()), request.text());
        let stored = |desk: &mut Desk, shop: &Handlers| {
            desk.store("store", &shop.cluster, |items| items.set(&key, text))
        };
        reply.set_version(self.with(context, stored)?);
        Ok(())
    }

    fn place_order(
        &self,
        request: OrderView<'_>,
        reply: &mut ReceiptMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        let (user, item, count) = (request.user(), request.item(), request.count().into());
        let [stock, sold, orders] = [key("stock", item), key("sold", item), key("orders", user)];
        let done = self.with(context, |desk, shop| {
            desk.store("transaction", &shop.cluster, |items| {
                let order = items.transaction().expect_at_least(&stock, count);
                order.add(&stock, -count).add(&sold, count).add(&orders, 1).commit()
            })
        })?;
        if let (None, &[left, _, orders]) = (done.abort, &done.sums[..]) {
            reply.set_taken(true);
            reply.set_left(left);
            reply.set_orders(orders);
        }
        Ok(())
    }

    fn rank(
        &self,
        request: RankRequestView<'_>,
        reply: &mut RankingMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        let items: Vec<&str> = request.items().iter().collect();
        let scores = self.with(context, |desk, shop| desk.scores(&shop.rank, &items))?;
        Ok(reply.set_scores(&scores)?)
    }
}

/// Packs pictures; nothing here says where.
pub struct Packer;

impl Packer {
    /// What its server has units for, and does itself where it has none.
    pub fn kernels() -> Kernels {
        Kernels::new().with(PACK, || Lz4Compress)
    }
}

impl Pictures for Packer {
    fn pack(
        &self,
        request: PictureView<'_>,
        reply: &mut PackedMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        if request.user().is_empty() {
            return Err(Status::new(Code::PermissionDenied, "say whose picture it is"));
        }
        let ran = context.run(PACK, request, Picture::PIXELS, reply, Packed::PACKED)?;
        reply.set_by_unit(ran == Ran::Unit);
        Ok(())
    }
}
