//! Bytes of anybody, cut anyhow, before a handshake or after one, with writes between: a session ends or goes on, and holds no more than it may.
//!
//! The first byte says whether there was a handshake; then each piece has its length in one byte.
#![no_main]

use base::tls::testing::Authority;
use base::tls::{ClientFiles, ClientTls, ServerFiles, ServerTls, Session};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static SIDES: LazyLock<(Arc<ServerTls>, ClientTls)> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("millrace-fuzz-tls-{}", std::process::id()));
    let authority = Authority::new(&folder, "ca");
    let made = authority.issue("server");
    let files = ServerFiles { cert: made.cert, key: made.key, ..ServerFiles::default() };
    let client = ClientFiles { ca: Some(authority.file()), ..ClientFiles::default() };
    let sides = (
        ServerTls::new(&files, &[]).expect("good files"),
        ClientTls::new(&client, &[]).expect("a good file"),
    );
    let _ = std::fs::remove_dir_all(&folder);
    sides
});

/// Gives one side's bytes to the other.
fn carry(from: &mut Vec<u8>, to: &mut Session, answer: &mut Vec<u8>) {
    while !from.is_empty() {
        let read = |room: &mut [u8]| {
            let count = from.len().min(room.len());
            room.iter_mut().zip(from.drain(..count)).for_each(|(to, from)| *to = from);
            Ok(count)
        };
        to.read(read, |_| true).expect("both are ours");
        to.flush(|bytes| {
            answer.extend_from_slice(bytes);
            Ok(bytes.len())
        })
        .expect("it takes all");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, mut rest)) = input.split_first() else { return };
    let (server, client) = &*SIDES;
    let mut session = Session::server(server).expect("random numbers");
    if first % 2 == 1 {
        let mut client = Session::client(client, "localhost").expect("a name");
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut send = |bytes: &[u8]| {
            up.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        client.start(&mut send).expect("a hello");
        while client.is_handshaking() || session.is_handshaking() {
            carry(&mut up, &mut session, &mut down);
            carry(&mut down, &mut client, &mut up);
        }
    }
    while let Some((&length, more)) = rest.split_first() {
        let (piece, more) = more.split_at(more.len().min(usize::from(length)));
        rest = more;
        let read = |room: &mut [u8]| {
            room[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        };
        let over = session.read(read, |_| true).is_err();
        let _ = session.write(&[b"x"], |bytes| Ok(bytes.len()));
        assert!(session.held() <= 32 << 10);
        if over {
            break;
        }
    }
    session.close(|bytes| Ok(bytes.len()));
});
