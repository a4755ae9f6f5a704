//! What `millrace rpc serve` serves: `proto/demo.proto`, with its stubs (`proto/demo.rs`, made by `fabric::build` and committed) and its handlers.

use fabric::service::{BoxFuture, Context};
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, Streaming};
use proto::demo::{
    CountRequest, Echo, FailRequestView, Number, SayReply, SayReplyMut, SayRequest, SayRequestView,
    WaitRequestView,
};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
pub mod proto {
    //! Generated.
    include!("../../../proto/demo.rs");
}

/// Says, waits, fails, counts, adds up.
#[derive(Debug)]
pub struct Demo {
    /// To the thread that answers calls of `Wait`.
    later: Sender<Later>,
}

/// An answer that is not due yet.
struct Later {
    due: Instant,
    text: String,
    reply: Deferred<SayReply>,
}

impl Demo {
    /// With a thread for what has to wait, which ends with this.
    pub fn new() -> Demo {
        let (later, calls) = channel();
        std::thread::Builder::new()
            .name("demo-wait".to_owned())
            .spawn(move || answer(&calls))
            .expect("the system gives a thread");
        Demo { later }
    }
}

impl Default for Demo {
    fn default() -> Demo {
        Demo::new()
    }
}

/// Answers what is due, until nobody can send more.
fn answer(calls: &Receiver<Later>) {
    let mut waiting: Vec<Later> = Vec::new();
    loop {
        let now = Instant::now();
        while let Some(at) = waiting.iter().position(|call| call.due <= now) {
            let Later { text, reply, .. } = waiting.swap_remove(at);
            reply.reply(|reply| reply.set_text(&text));
        }
        let next = waiting.iter().map(|call| call.due).min();
        let pause = next.map_or(Duration::from_secs(3600), |due| due.saturating_duration_since(now));
        match calls.recv_timeout(pause) {
            Ok(call) => waiting.push(call),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Echo for Demo {
    #[inline]
    fn say(
        &self,
        request: SayRequestView<'_>,
        reply: &mut SayReplyMut<'_, '_>,
        _context: &mut Context<'_>,
    ) -> Result<(), Status> {
        Ok(reply.set_text(request.text())?)
    }

    fn wait(&self, request: WaitRequestView<'_>, reply: Deferred<SayReply>, _context: &mut Context<'_>) {
        let due = Instant::now() + Duration::from_millis(request.milliseconds().into());
        // The thread lives as long as this does; if it does not, the reply is dropped, and the caller told.
        let _ = self.later.send(Later { due, text: request.text().to_owned(), reply });
    }

    fn fail(
        &self,
        request: FailRequestView<'_>,
        _reply: &mut SayReplyMut<'_, '_>,
        _context: &mut Context<'_>,
    ) -> Result<(), Status> {
        match u16::try_from(request.code()).map(Code::of) {
            Ok(Code::Ok) => Err(Status::new(Code::InvalidArgument, "0 is no failure")),
            Ok(code) => Err(Status::new(code, request.message())),
            Err(_) => Err(Status::new(Code::Unknown, request.message())),
        }
    }

    fn count(self: Arc<Self>, mut call: Streaming<CountRequest, Number>) -> BoxFuture {
        Box::pin(async move {
            let to = call.request().await?.view().to();
            for value in 1..=i64::from(to) {
                call.replies
                    .send(|number| {
                        number.set_value(value);
                        Ok(())
                    })
                    .await?;
            }
            Ok(())
        })
    }

    fn sum(self: Arc<Self>, mut call: Streaming<Number, Number>) -> BoxFuture {
        Box::pin(async move {
            let mut sum = 0i64;
            while let Some(number) = call.requests.next().await.transpose()? {
                sum = sum.wrapping_add(number.view().value());
            }
            call.replies
                .send(|number| {
                    number.set_value(sum);
                    Ok(())
                })
                .await
        })
    }

    fn chat(self: Arc<Self>, mut call: Streaming<SayRequest, SayReply>) -> BoxFuture {
        Box::pin(async move {
            while let Some(request) = call.requests.next().await.transpose()? {
                call.replies.send(|reply| reply.set_text(request.view().text())).await?;
            }
            Ok(())
        })
    }
}
