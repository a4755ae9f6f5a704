//! The channel against a server that says what the test writes: one frame after the other.

mod bad;
mod lives;
mod streams;
mod switches;
mod waits;

use super::simulation::cable::{Cable, Weather};
use super::{CallOptions, Channel, Connecting, Method, Options, What};
use crate::connection::ConnectError;
use crate::connection::handshake::{Hello, MethodInfo, ServiceInfo, VERSION, Welcome};
use crate::frame::{Frame, Header, Kind};
use crate::link::{Frames, Link};
use base::units::Nanos;

const TOKEN: [u8; 16] = *b"nobody guesses 1";
const WINDOW: u32 = 4;

/// The server's end of a link.
struct Script {
    link: Box<dyn Link>,
    frames: Frames,
}

impl Script {
    fn say(&mut self, header: Header, body: &[u8]) {
        self.link.try_send(&header.emit(), body).expect("room");
        self.link.flush(Nanos(0));
    }

    /// The client's next frame: its header and body.
    fn hear(&mut self) -> Option<(Header, Vec<u8>)> {
        if self.frames.is_empty() {
            self.frames.clear();
            let _ = self.link.recv(Nanos::MAX, 64, &mut self.frames);
        }
        let frame = Frame::parse(self.frames.pop()?).expect("the client says frames");
        Some((frame.header, frame.body.to_vec()))
    }

    /// The client's next frame, of this kind.
    fn hear_a(&mut self, kind: Kind) -> Header {
        let header = self.hear().expect("the client says something").0;
        assert_eq!(header.kind, kind);
        header
    }

    fn reply(&mut self, call: u32, body: &[u8]) {
        self.say(Header::new(Kind::Reply, call), body);
    }

    fn item(&mut self, call: u32, number: u32, body: &[u8]) {
        self.say(Header { aux: number, ..Header::new(Kind::Item, call) }, body);
    }

    fn end(&mut self, call: u32, items: u32) {
        self.say(Header { aux: items, ..Header::new(Kind::Reply, call) }, &[]);
    }
}

fn welcome() -> Welcome {
    let method = |name: &str, number, client_streaming, server_streaming| MethodInfo {
        name: name.to_owned(),
        number,
        client_streaming,
        server_streaming,
    };
    let methods = vec![
        method("Say", 0, false, false),
        method("Count", 1, false, true),
        method("Sum", 2, true, false),
        method("Chat", 3, true, true),
    ];
    let services = vec![ServiceInfo { name: "demo.Echo".to_owned(), hash: 7, methods }];
    Welcome { version: VERSION, token: TOKEN, connection: 3, calls: 4, window: WINDOW, services }
}

/// What a handshake comes to when the server answers with this.
fn shake(options: &Options, answer: Header, body: &[u8]) -> Result<(Channel, Script), ConnectError> {
    let (_, ours, theirs) = Cable::lay(Weather::FAIR, 0);
    let mut script = Script { link: theirs, frames: Frames::default() };
    let Err(connecting) = Connecting::new(ours, options).poll(Nanos(0))? else {
        panic!("nobody answered yet")
    };
    let (header, hello) = script.hear().expect("a Hello");
    assert_eq!((header.kind, Hello::parse(&hello).map(|hello| hello.version)), (Kind::Hello, Ok(VERSION)));
    script.say(answer, body);
    match connecting.poll(Nanos(0))? {
        Ok(channel) => Ok((channel, script)),
        Err(_) => panic!("the answer was there"),
    }
}

/// As [`shake`], when it comes to nothing.
fn refused(options: &Options, answer: Header, body: &[u8]) -> ConnectError {
    shake(options, answer, body).err().expect("no connection")
}

fn connected() -> (Channel, Script) {
    shake(&Options::default(), Header::new(Kind::Welcome, 0), &welcome().emit()).expect("a connection")
}

fn method(channel: &Channel, name: &str) -> Method {
    channel.method(&format!("/demo.Echo/{name}")).expect("the server has it")
}

/// Everything that happened, as text: `user what`.
fn events(channel: &mut Channel, now: u64) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let count = channel.poll_at(Nanos(now), 3, |event| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let what = match &event.what {
                What::Reply(body) => format!("reply {}", text(body)),
                What::Item(body) => format!("item {}", text(body)),
                What::End => "end".to_owned(),
                What::Failed(status) if status.is_lost() => format!("lost {}", status.code()),
                What::Failed(status) => format!("failed {}", status.code()),
            };
            seen.push(format!("{} {what}", event.user));
        });
        if count == 0 {
            return seen;
        }
    }
}

const PLAIN: CallOptions<'static> = CallOptions { timeout: None, metadata: &[], explicit_credit: false };
