//! One gRPC call: an HTTP/2 stream in, a fabric call out, its events back.
//!
//! Shape: requests flow up and events flow down at the same time, so that bidirectional streams work; whichever side ends first ends
//! the other. Headers go out with the first message or with the outcome (*trailers-only* for a call that failed at once).
//!
//! Errors: what is wrong with the call is answered in trailers; what is no gRPC, with an HTTP status. A client that resets its stream
//! cancels its call. What the gateway knows itself it answers itself ([`BuiltIn`]).
//!
//! Bounds: one message each way, and what HTTP/2's windows hold.

use super::bridge::{Bridge, Event, Running};
use super::built_in::BuiltIn;
use super::encoding::Encoding;
use super::health::Health;
use super::wire::{self, Messages};
use crate::admin::bearer;
use base::rights::Peer;
use bytes::Bytes;
use fabric::channel::Method;
use fabric::server::Gate;
use fabric::status::{Code, Status};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method as Verb, Request, Response, StatusCode};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What calls are answered with.
pub struct Backend {
    /// The way to the server.
    pub bridge: Rc<Bridge>,
    /// Whether it serves.
    pub health: Health,
    /// Who may call what; without it everybody may call everything.
    pub gate: Option<Gate>,
}

impl Backend {
    /// Whether the sender of a call with these headers may have `message` handled by the method at this path.
    fn admits(
        &self,
        peer: Option<&Peer>,
        path: &str,
        headers: &HeaderMap,
        message: Option<&[u8]>,
    ) -> Result<(), Status> {
        let (Some(gate), Some(peer)) = (&self.gate, peer) else { return Ok(()) };
        let mut peer =
            bearer(headers).map_or_else(|| peer.clone(), |token| peer.with_token(token.as_bytes()));
        gate.admits(&mut peer, path.trim_start_matches('/'), &[], message)
    }
}

/// Answers one request.
pub async fn serve(
    backend: Rc<Backend>,
    peer: Option<Peer>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let (head, body) = request.into_parts();
    if let Err(status) = is_grpc(&head.method, &head.headers) {
        let refusal = Response::builder().status(status).body(()).expect("a status is a response");
        // The client may be gone already.
        let _ = respond.send_response(refusal, true);
        return;
    }
    let mut answer = Answer { respond, stream: None, encoding: Encoding::Identity };
    let outcome = call(&backend, peer.as_ref(), &head, body, &mut answer).await;
    // A client that is gone wants no answer.
    if let Ok((outcome, metadata)) = outcome {
        answer.end(&outcome, &metadata);
    }
}

/// Whether this is gRPC at all; else the HTTP status to say so with.
fn is_grpc(method: &Verb, headers: &HeaderMap) -> Result<(), StatusCode> {
    if method != Verb::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    let rest = kind.strip_prefix("application/grpc").ok_or(StatusCode::UNSUPPORTED_MEDIA_TYPE)?;
    match rest {
        "" | "+proto" => Ok(()),
        _ if rest.starts_with(';') => Ok(()),
        _ => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// The client is not there any more.
pub struct Gone;

/// How a call ended, and its metadata.
pub type Outcome = Result<(Result<(), Status>, Vec<u8>), Gone>;

/// What comes of it in the time that is left.
async fn within<T>(left: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Status> {
    let Some(left) = left else { return Ok(work.await) };
    let late = |_| Status::new(Code::DeadlineExceeded, "the call's time was over at the gateway");
    tokio::time::timeout(left, work).await.map_err(late)
}

async fn call(
    backend: &Backend,
    peer: Option<&Peer>,
    head: &Parts,
    body: RecvStream,
    answer: &mut Answer,
) -> Outcome {
    let (begin, path, headers) = (Instant::now(), head.uri.path(), &head.headers);
    if let Err(status) = backend.admits(peer, path, headers, None) {
        return Ok((Err(status), Vec::new()));
    }
    let said = headers.get("grpc-timeout").map(wire::timeout).transpose();
    let (timeout, encoding) = match said.and_then(|timeout| Ok((timeout, Encoding::of(headers)?))) {
        Ok(said) => said,
        Err(status) => return Ok((Err(status), Vec::new())),
    };
    answer.encoding = encoding;
    let mut requests = Requests { body, messages: Messages::new(encoding) };
    if let Some(built_in) = BuiltIn::of(path) {
        let answered = within(timeout, built_in.answer(backend, &mut requests, answer)).await;
        return answered.unwrap_or_else(|late| Ok((Err(late), Vec::new())));
    }
    let bridge = &backend.bridge;
    let asked = async {
        let method = bridge.method(path).await?;
        let metadata = wire::metadata(headers)?;
        let only = if method.is_client_streaming() { None } else { Some(requests.only().await?) };
        // Of those that look into messages: the path alone was looked at before.
        only.as_ref().map_or(Ok(()), |only| backend.admits(peer, path, headers, Some(only)))?;
        Ok::<_, Status>((method, metadata, only))
    };
    let (mut method, metadata, only) = match within(timeout, asked).await.flatten() {
        Ok(asked) => asked,
        Err(status) => return Ok((Err(status), Vec::new())),
    };
    let left = || timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
    if let Some(request) = only.as_ref().filter(|_| method.is_unary())
        && let Some(reply) = bridge.kept(path, request, left()).await
    {
        answer.message(&reply).await?;
        return Ok((Ok(()), Vec::new()));
    }
    loop {
        let outcome = match bridge.start(method, left(), &metadata, only.as_deref()).await {
            Ok(running) => relay(method, running, &mut requests, answer).await?,
            Err(status) => (Err(status), Vec::new()),
        };
        let lost = outcome.0.as_ref().err().filter(|status| method.may_repeat(status));
        let is_in_time = timeout.is_none_or(|timeout| begin.elapsed() < timeout);
        if lost.is_none() || !is_in_time {
            return Ok(outcome);
        }
        // Of a call without streams nothing was answered yet. The server may number its methods otherwise when it is back.
        match bridge.method(path).await {
            Ok(again) if again.is_unary() => method = again,
            _ => return Ok(outcome),
        }
        bridge.standing.repeated.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes messages both ways until the call is over.
async fn relay(
    method: Method,
    mut running: Running,
    requests: &mut Requests,
    answer: &mut Answer,
) -> Outcome {
    let mut sending = method.is_client_streaming();
    loop {
        tokio::select! {
            biased;
            event = running.next() => match event {
                Event::Reply(body) => {
                    answer.message(&body).await?;
                    return Ok((Ok(()), running.metadata()));
                }
                Event::Item(body) => {
                    answer.message(&body).await?;
                    running.grant();
                }
                Event::End => return Ok((Ok(()), running.metadata())),
                Event::Failed(status) => return Ok((Err(status), running.metadata())),
            },
            message = requests.next(), if sending => match message {
                Ok(Some(message)) => {
                    if let Err(status) = running.send(&message).await {
                        return Ok((Err(status), Vec::new()));
                    }
                }
                Ok(None) => {
                    sending = false;
                    if let Err(status) = running.finish().await {
                        return Ok((Err(status), Vec::new()));
                    }
                }
                Err(status) => return Ok((Err(status), Vec::new())),
            },
            () = answer.reset() => return Err(Gone),
        }
    }
}

/// The messages that the client sends.
pub struct Requests {
    body: RecvStream,
    messages: Messages,
}

impl Requests {
    /// The next one; nothing at the end. May be dropped while it waits: what came is kept.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.messages.pop()? {
                return Ok(Some(message));
            }
            let Some(data) = self.body.data().await else { break };
            let data = data.map_err(|error| Status::new(Code::Cancelled, error.to_string()))?;
            self.messages.push(&data);
            // It was given by this stream, so it can be given back; an ended stream has no window left to widen.
            let _ = self.body.flow_control().release_capacity(data.len());
        }
        match self.messages.is_torn() {
            true => Err(Status::new(Code::InvalidArgument, "the request ended within a message")),
            false => Ok(None),
        }
    }

    /// The one message of a call that has one.
    ///
    /// # Errors
    /// It cannot be read, or there is another number of them.
    pub async fn only(&mut self) -> Result<Bytes, Status> {
        let one = || Status::new(Code::InvalidArgument, "this method takes exactly one message");
        let message = self.next().await?.ok_or_else(one)?;
        match self.next().await? {
            Some(_) => Err(one()),
            None => Ok(message),
        }
    }
}

/// The response under way.
pub struct Answer {
    respond: SendResponse<Bytes>,
    /// There once headers are out.
    stream: Option<SendStream<Bytes>>,
    /// Of its messages.
    encoding: Encoding,
}

impl Answer {
    /// What is said before messages.
    fn head(&self) -> Response<()> {
        let mut head = Response::new(());
        let headers = head.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-accept-encoding", HeaderValue::from_static(Encoding::ACCEPTED));
        if let Some(name) = self.encoding.name() {
            headers.insert("grpc-encoding", HeaderValue::from_static(name));
        }
        head
    }

    /// Sends one message, as fast as the client takes it.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn message(&mut self, message: &[u8]) -> Result<(), Gone> {
        if self.stream.is_none() {
            let head = self.head();
            self.stream = Some(self.respond.send_response(head, false).map_err(|_| Gone)?);
        }
        let stream = self.stream.as_mut().expect("set above");
        let mut rest = wire::framed(message, self.encoding);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let room = match stream.capacity() {
                0 => std::future::poll_fn(|cx| stream.poll_capacity(cx))
                    .await
                    .ok_or(Gone)?
                    .map_err(|_| Gone)?,
                room => room,
            };
            let piece = rest.split_to(room.min(rest.len()));
            stream.send_data(piece, false).map_err(|_| Gone)?;
        }
        Ok(())
    }

    /// Sends the outcome. The client may be gone already; then nobody wants it.
    fn end(mut self, outcome: &Result<(), Status>, metadata: &[u8]) {
        let trailers = wire::trailers(outcome, metadata);
        if let Some(mut stream) = self.stream {
            let _ = stream.send_trailers(trailers);
            return;
        }
        let mut head = self.head();
        if outcome.is_ok() {
            // A success without messages has headers and trailers all the same.
            if let Ok(mut stream) = self.respond.send_response(head, false) {
                let _ = stream.send_trailers(trailers);
            }
            return;
        }
        head.headers_mut().extend(trailers);
        let _ = self.respond.send_response(head, true);
    }

    /// Ends when the client resets the stream.
    pub async fn reset(&mut self) {
        let reset = std::future::poll_fn(|cx| match &mut self.stream {
            Some(stream) => stream.poll_reset(cx).map(drop),
            None => self.respond.poll_reset(cx).map(drop),
        });
        reset.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_grpc_is_told_so() {
        let with = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static(kind));
            headers
        };
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert_eq!(is_grpc(&Verb::POST, &with(kind)), Ok(()));
        }
        assert_eq!(is_grpc(&Verb::GET, &with("application/grpc")), Err(StatusCode::METHOD_NOT_ALLOWED));
        for kind in ["application/json", "application/grpc+json", "application/grpc-web"] {
            assert_eq!(is_grpc(&Verb::POST, &with(kind)), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
    }
}
