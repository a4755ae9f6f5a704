//! A gRPC client of unary calls, as small as one can be: HTTP/2, and five bytes before each message.

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A connection, driven while a call waits.
#[derive(Debug)]
pub struct Grpc {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    address: SocketAddr,
    /// What each call is sent with, if anything.
    authorization: Option<String>,
    _connection: JoinHandle<()>,
}

impl Grpc {
    /// Connects.
    ///
    /// # Errors
    /// Nobody is there, or speaks something else.
    pub fn connect(address: SocketAddr) -> Result<Grpc, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (sender, connection) = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            socket.set_nodelay(true).map_err(|error| error.to_string())?;
            let (sender, connection) =
                h2::client::handshake(socket).await.map_err(|error| error.to_string())?;
            // Its end is seen by whoever waits for an answer.
            Ok::<_, String>((sender, tokio::spawn(async { drop(connection.await) })))
        })?;
        Ok(Grpc { runtime, sender, address, authorization: None, _connection: connection })
    }

    /// The same, whose calls say who sends them: `Bearer TOKEN`.
    #[must_use]
    pub fn authorized(self, by: &str) -> Grpc {
        Grpc { authorization: Some(by.to_owned()), ..self }
    }

    /// The reply to an encoded message, within that time.
    ///
    /// # Errors
    /// In words: the connection broke, or how the call ended.
    pub fn call(
        &mut self,
        method: &str,
        body: &[u8],
        trace: Option<&str>,
        timeout: Duration,
    ) -> Result<Vec<u8>, String> {
        let mut request = Request::post(format!("http://{}{method}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let authorization = self.authorization.as_deref().map(|by| ("authorization", by));
        for (name, value) in trace.map(|trace| ("traceparent", trace)).into_iter().chain(authorization) {
            request = request.header(name, value);
        }
        let request = request.body(()).map_err(|error| error.to_string())?;
        let mut framed = vec![0];
        framed.extend_from_slice(&(body.len() as u32).to_be_bytes());
        framed.extend_from_slice(body);
        let sender = self.sender.clone();
        self.runtime.block_on(async {
            let call = exchange(sender, request, framed.into());
            match tokio::time::timeout(timeout, call).await {
                Ok(reply) => reply,
                Err(_) => Err(format!("no answer within {timeout:?}")),
            }
        })
    }
}

async fn exchange(
    sender: SendRequest<Bytes>,
    request: Request<()>,
    mut message: Bytes,
) -> Result<Vec<u8>, String> {
    let broken = |error: h2::Error| error.to_string();
    let mut sender = sender.ready().await.map_err(broken)?;
    let (reply, mut out) = sender.send_request(request, false).map_err(broken)?;
    // As much as the peer has room for at a time.
    while !message.is_empty() {
        out.reserve_capacity(message.len());
        let room = std::future::poll_fn(|context| out.poll_capacity(context)).await;
        let room = room.ok_or("the call was ended")?.map_err(broken)?;
        let part = message.split_to(room.min(message.len()));
        let is_last = message.is_empty();
        out.send_data(part, is_last).map_err(broken)?;
    }
    let (head, mut body) = reply.await.map_err(broken)?.into_parts();
    let mut bytes = Vec::new();
    while let Some(more) = body.data().await {
        let more = more.map_err(broken)?;
        body.flow_control().release_capacity(more.len()).map_err(broken)?;
        bytes.extend_from_slice(&more);
    }
    let trailers = body.trailers().await.map_err(broken)?;
    // A call that failed at once has its status in its head.
    let headers = trailers.as_ref().unwrap_or(&head.headers);
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match (text("grpc-status"), bytes.get(5..)) {
        ("0", Some(message)) => Ok(message.to_vec()),
        (status, _) => Err(format!("status {status}: {}", text("grpc-message"))),
    }
}
