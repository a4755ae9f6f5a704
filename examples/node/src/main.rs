//! A node with a service of its own and a cache beside it: see README.md.

use fabric::status::Code;
use fabric::stub::{Context, Status};
use proto::shop::{PriceReplyMut, PriceRequestView, Shop, ShopServer};
use serve::node::{Node, NodeError};

mod proto {
    codec::include_proto!("shop");
}

struct Shelf;

impl Shop for Shelf {
    fn price(&self, request: PriceRequestView<'_>, reply: &mut PriceReplyMut<'_, '_>, _: &mut Context<'_>) -> Result<(), Status> {
        match request.item() {
            "tea" => reply.set_cents(250),
            "cake" => reply.set_cents(320),
            other => return Err(Status::new(Code::NotFound, format!("there is no {other}"))),
        }
        Ok(())
    }
}

fn main() -> Result<(), NodeError> {
    Node::builder()
        .service("shop", ShopServer::new(Shelf))
        .listen("tcp:127.0.0.1:7000")
        .listen_as("grpc", "127.0.0.1:7001")
        .kv("cache", Default::default())
        .listen("tcp:127.0.0.1:7002")
        .admin("127.0.0.1:7003")
        .run()
}
