//! Arbitrary frames to a server with an echo and streams: nothing panics, nothing is answered twice, memory is bounded.
//!
//! Input: pieces of (u8 what, u8 length, bytes); `what` says whether a piece is a frame after a Hello, is sent as it is, or is time.
//!
//! `cargo +nightly fuzz run fabric_server_frames`
#![no_main]

use base::units::Nanos;
use fabric::connection::handshake::{Hello, VERSION};
use fabric::frame::{Header, Kind};
use fabric::link::{Frames, Link, LinkOptions, memory};
use fabric::server::{Options, Server};
use fabric::service::{BoxFuture, Incoming, MethodDescriptor, Service, ServiceDescriptor, StreamCall};
use fabric::status::Status;
use libfuzzer_sys::fuzz_target;

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "fuzz.Echo",
    methods: &[
        MethodDescriptor::new("Say", false, false),
        MethodDescriptor::new("Chat", true, true),
    ],
    hash: 1,
    descriptors: &[],
};

struct Echo;

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, _: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        let body = call.body();
        call.reply_bytes(body);
        Ok(())
    }

    fn stream(&self, _: usize, call: StreamCall) -> BoxFuture {
        let (mut requests, mut replies) = (call.requests::<()>(), call.replies::<()>());
        Box::pin(async move {
            while let Some(item) = requests.next_bytes().await {
                replies.send_bytes(item?.into()).await?;
            }
            Ok(())
        })
    }
}

fn send(link: &mut dyn Link, bytes: &[u8], now: Nanos) {
    if bytes.len() >= 16 && link.try_send(&bytes[..16], &bytes[16..]).is_ok() {
        link.flush(now);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut server = Server::new(Options { max_calls: 8, window: 4, ..Options::default() }).service(Echo);
    let mut now = Nanos(1);
    let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("a pair");
    server.accept(theirs, now);
    let mut link = ours;
    let (mut rest, mut greeted, mut replies) = (input, false, 0_u64);
    while let [what, len, after @ ..] = rest {
        let (piece, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        match what % 4 {
            0 => send(&mut *link, piece, now),
            1 => now = now.plus(Nanos::from_micros(u64::from(*len))),
            _ => {
                if !std::mem::replace(&mut greeted, true) {
                    let hello = Hello { version: VERSION, ..Hello::default() }.emit();
                    send(&mut *link, &[&Header::new(Kind::Hello, 0).emit()[..], &hello].concat(), now);
                }
                // A frame of a known kind with small numbers.
                let mut frame = [0; 16];
                let known = piece.len().min(12);
                frame[..known].copy_from_slice(&piece[..known]);
                frame[0] = frame[0] % 13 + 1;
                [frame[2], frame[3]] = [frame[2] % 4, 0];
                [frame[5], frame[6], frame[7]] = [0; 3];
                send(&mut *link, &[&frame[..], &piece[known..]].concat(), now);
            }
        }
        server.poll(now);
        let mut frames = Frames::default();
        let _ = link.recv(now, 64, &mut frames);
        while let Some(frame) = frames.pop() {
            replies += u64::from(frame[0] == Kind::Reply as u8);
        }
        assert!(server.connections(now).all(|connection| connection.open_calls <= 8));
    }
    let totals = server.totals();
    assert!(replies <= totals.replies && totals.replies <= totals.requests);
});
