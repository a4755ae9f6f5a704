//! A gRPC client, as small as one can be: HTTP/2, five bytes before each message, and messages of one string.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A connection, driven while it is waited for.
pub struct Grpc {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    _connection: JoinHandle<()>,
}

/// A call with streams both ways.
pub struct Talk {
    requests: SendStream<Bytes>,
    replies: Replies,
}

enum Replies {
    Waited(Option<ResponseFuture>),
    Come(RecvStream),
}

/// A message whose first field is this string.
fn message(text: &str) -> Bytes {
    let mut body = vec![0x0a, u8::try_from(text.len()).expect("short")];
    body.extend_from_slice(text.as_bytes());
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(body.len()).expect("short").to_be_bytes());
    framed.extend_from_slice(&body);
    framed.into()
}

impl Grpc {
    pub fn connect(address: &str) -> Grpc {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let (sender, connection) = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.expect("it listens");
            let (sender, connection) = h2::client::handshake(socket).await.expect("it speaks HTTP/2");
            // Its end is seen by whoever waits for an answer.
            (sender, tokio::spawn(async { drop(connection.await) }))
        });
        Grpc { runtime, sender, _connection: connection }
    }

    fn start(&mut self, path: &str) -> Talk {
        let request = Request::post(format!("http://node/{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a request");
        let sender = self.sender.clone();
        let (reply, requests) = self.runtime.block_on(async {
            let mut sender = sender.ready().await.expect("it takes calls");
            sender.send_request(request, false).expect("sent")
        });
        Talk { requests, replies: Replies::Waited(Some(reply)) }
    }

    /// Calls `Say`.
    pub fn say(&mut self, text: &str) -> String {
        let mut talk = self.start("demo.Echo/Say");
        talk.requests.send_data(message(text), true).expect("sent");
        let said = self.next(&mut talk);
        assert_eq!(self.status(talk), "0");
        said
    }

    /// Begins a call of `Chat`.
    pub fn chat(&mut self) -> Talk {
        self.start("demo.Echo/Chat")
    }

    /// Says something, and hears the same.
    pub fn exchange(&mut self, talk: &mut Talk, text: &str) -> String {
        talk.requests.send_data(message(text), false).expect("sent");
        self.next(talk)
    }

    /// Says no more; how the call ended.
    pub fn end(&mut self, mut talk: Talk) -> String {
        talk.requests.send_data(Bytes::new(), true).expect("sent");
        self.status(talk)
    }

    /// Watches how a service stands, by gRPC's health checks.
    pub fn watch(&mut self, service: &str) -> Talk {
        let mut talk = self.start("grpc.health.v1.Health/Watch");
        talk.requests.send_data(message(service), true).expect("sent");
        talk
    }

    /// How it stands, as its number.
    pub fn stands(&mut self, watch: &mut Talk) -> u8 {
        let body = self.body(watch);
        assert_eq!((body.len(), body[0]), (2, 0x08), "{body:?}");
        body[1]
    }

    fn next(&mut self, talk: &mut Talk) -> String {
        String::from_utf8(self.body(talk)[2..].to_vec()).expect("text")
    }

    /// The bytes of the next message.
    fn body(&mut self, talk: &mut Talk) -> Vec<u8> {
        self.runtime.block_on(async {
            if let Replies::Waited(reply) = &mut talk.replies {
                let response = reply.take().expect("once").await.expect("a head");
                talk.replies = Replies::Come(response.into_body());
            }
            let Replies::Come(replies) = &mut talk.replies else { unreachable!("it has come") };
            let mut bytes = Vec::new();
            // Five bytes before a message, of which the last four say how long it is.
            while bytes.len() < 5
                || bytes.len() < 5 + u32::from_be_bytes(bytes[1..5].try_into().expect("four")) as usize
            {
                let more = replies.data().await.expect("more").expect("data");
                replies.flow_control().release_capacity(more.len()).expect("it was received");
                bytes.extend_from_slice(&more);
            }
            bytes.split_off(5)
        })
    }

    /// How the call ended.
    pub fn status(&mut self, talk: Talk) -> String {
        let Replies::Come(mut replies) = talk.replies else { panic!("it has no reply") };
        self.runtime.block_on(async {
            assert!(replies.data().await.is_none(), "more than was asked for");
            let trailers = replies.trailers().await.expect("trailers").expect("some");
            trailers["grpc-status"].to_str().expect("text").to_owned()
        })
    }
}
