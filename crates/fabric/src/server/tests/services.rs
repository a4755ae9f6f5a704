//! What the tests serve: bytes in, bytes out.

use crate::service::{
    BoxFuture, Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor, StreamCall,
};
use crate::status::{Code, Status};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const fn method(name: &'static str, client_streaming: bool, server_streaming: bool) -> MethodDescriptor {
    MethodDescriptor::new(name, client_streaming, server_streaming)
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Bytes",
    methods: &[
        method("Echo", false, false),
        method("Later", false, false),
        method("Panic", false, false),
        method("Fail", false, false),
        method("Silent", false, false),
        method("Count", false, true),
        method("Join", true, false),
        method("Chat", true, true),
        method("Forever", true, true),
    ],
    hash: 0x1234,
    descriptors: b"\x0a\x03\x0a\x01a",
};

// Reflection is method 0.
pub(super) const ECHO: u16 = 1;
pub(super) const LATER: u16 = 2;
pub(super) const PANIC: u16 = 3;
pub(super) const FAIL: u16 = 4;
pub(super) const SILENT: u16 = 5;
pub(super) const COUNT: u16 = 6;
pub(super) const JOIN: u16 = 7;
pub(super) const CHAT: u16 = 8;
pub(super) const FOREVER: u16 = 9;
pub(super) const METHODS: u16 = 10;

/// What the test sees of it.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Calls that were deferred and not answered.
    pub(super) later: Arc<Mutex<Vec<Responder>>>,
    /// Times that a unary handler ran.
    pub(super) runs: Arc<AtomicUsize>,
    /// Streaming handlers that are there.
    pub(super) streams: Arc<AtomicUsize>,
}

pub(super) struct Bytes(pub(super) Seen);

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(of: &Arc<AtomicUsize>) -> Counted {
        of.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(of))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service for Bytes {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        match method as u16 + 1 {
            ECHO => {
                let body = call.body();
                if let Some(value) = call.context().metadata_value("k").map(<[u8]>::to_vec) {
                    assert!(call.context().push_metadata("k", &value));
                }
                call.reply_bytes(body);
            }
            LATER => self.0.later.lock().expect("no poison").push(call.defer()),
            PANIC => panic!("a handler's mistake"),
            FAIL => return Err(Status::new(Code::NotFound, "no such thing")),
            SILENT => {}
            other => return Err(self.unimplemented(usize::from(other))),
        }
        Ok(())
    }

    fn stream(&self, method: usize, call: StreamCall) -> BoxFuture {
        let counted = Counted::new(&self.0.streams);
        let (mut requests, mut replies) = (call.requests::<()>(), call.replies::<()>());
        match method as u16 + 1 {
            // As many items as the request has bytes.
            COUNT => Box::pin(async move {
                let _counted = counted;
                let request = requests.next_bytes().await.expect("one request")?;
                for number in 0..request.len() {
                    replies.send_bytes(vec![number as u8]).await?;
                }
                Ok(())
            }),
            // All items, one after the other.
            JOIN => Box::pin(async move {
                let _counted = counted;
                let mut all = Vec::new();
                while let Some(item) = requests.next_bytes().await {
                    all.extend_from_slice(&item?);
                }
                replies.send_bytes(all).await
            }),
            CHAT => Box::pin(async move {
                let _counted = counted;
                while let Some(item) = requests.next_bytes().await {
                    replies.send_bytes(item?.to_vec()).await?;
                }
                Ok(())
            }),
            _ => Box::pin(async move {
                let _kept = (counted, call, requests, replies);
                std::future::pending().await
            }),
        }
    }
}
