//! Calls of clients that have rights to some methods only.

use super::services::{CHAT, COUNT, ECHO, FAIL, LATER};
use super::{NOW, Seen, code, connect, connect_over, server_with, settle, text};
use crate::connection::handshake::Hello;
use crate::frame::{END, Header, Kind, push_metadata};
use crate::link::Transport;
use crate::server::tests::wire::{Peer, wire_like};
use crate::server::{Gate, Options, Server, denied};
use crate::status::Code;
use base::rights::{Ask, Identity, Patterns, Rights, Rule, Rules};
use base::users::{Form, Users};
use std::sync::Arc;

fn rule(who: &str, calls: &[&str]) -> Rule {
    let mut call = Patterns::default();
    calls.iter().for_each(|glob| call.add_glob(glob).expect("a glob"));
    Rule { who: vec![Identity::parse(who).expect("somebody")], call, ..Rule::default() }
}

/// A server whose clients may call `Echo` and `Count`, and with the token `Later`.
fn guarded() -> (Server, Seen, Arc<Rights>) {
    let tokens = Users::parse(b"ci:0123456789abcdef", Form::Token).expect("a token");
    let rules =
        vec![rule("anybody", &["test.Bytes/Echo", "test.Bytes/Count"]), rule("token:ci", &["test.Bytes/*"])];
    let rights = Rights::new(Rules { rules, tokens: Some(tokens) });
    let gate = Gate::new(rights.of(None)).examining(|_, path, message| match (path, message) {
        ("test.Bytes/Echo", b"secret") => Err(denied(Ask::Read(message))),
        _ => Ok(()),
    });
    let (server, seen) = server_with(Options::default());
    (server.gate(gate), seen, rights)
}

fn one(server: &mut Server, peer: &Peer) -> (Code, String) {
    settle(server, NOW);
    let heard = peer.hear();
    assert_eq!(heard.len(), 1, "{heard:?}");
    (code(&heard[0]), text(&heard[0]).to_owned())
}

fn with_metadata(peer: &Peer, call: u32, method: u16, token: &str, body: &[u8]) {
    let mut metadata = Vec::new();
    assert!(push_metadata(&mut metadata, "authorization", token.as_bytes()));
    let header =
        Header { flags: END, method, metadata: metadata.len() as u32, ..Header::new(Kind::Request, call) };
    peer.say(header, &[&metadata[..], body].concat());
}

#[test]
fn what_no_rule_allows_is_not_handled() {
    let (mut server, seen, rights) = guarded();
    let (peer, _) = connect_over(Transport::Udp, &mut server, usize::MAX, NOW);
    peer.request(1, ECHO, b"x");
    assert_eq!(one(&mut server, &peer), (Code::Ok, "x".to_owned()));
    peer.request(2, LATER, b"");
    let (code, said) = one(&mut server, &peer);
    assert!(code == Code::PermissionDenied && said.contains("no right to call test.Bytes/Later"), "{said}");
    assert!(seen.later.lock().expect("no poison").is_empty(), "it ran");
    peer.request(3, ECHO, b"secret");
    assert_eq!(one(&mut server, &peer).0, Code::PermissionDenied);
    // A stream that is refused is over; what its client says of it meanwhile is no violation.
    peer.request(4, CHAT, b"");
    peer.say_aux(Kind::Item, 4, 0, b"x");
    assert_eq!(one(&mut server, &peer).0, Code::PermissionDenied);
    peer.request(5, COUNT, b"");
    settle(&mut server, NOW);
    assert!(peer.hear().iter().all(|heard| Code::of(heard.header.method) != Code::PermissionDenied));
    assert!(!peer.is_closed());
    let refused: u64 = rights.refusals().map(|(.., count)| count).sum();
    assert_eq!(refused, 2, "what is looked into counts for itself");
}

#[test]
fn a_token_in_the_metadata_says_who_calls() {
    let (mut server, ..) = guarded();
    let (peer, _) = connect_over(Transport::Udp, &mut server, usize::MAX, NOW);
    with_metadata(&peer, 1, FAIL, "Bearer 0123456789abcdef", b"");
    assert_ne!(one(&mut server, &peer).0, Code::PermissionDenied);
    for (call, token) in
        (2..).zip(["Bearer 0123456789abcdeg", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer", ""])
    {
        with_metadata(&peer, call, FAIL, token, b"");
        assert_eq!(one(&mut server, &peer).0, Code::PermissionDenied, "{token:?}");
    }
}

#[test]
fn this_process_may_call_itself_and_another_link_gives_no_rights() {
    let (mut server, ..) = guarded();
    let (own, welcome) = connect(&mut server, usize::MAX);
    own.request(1, FAIL, b"");
    assert_ne!(one(&mut server, &own).0, Code::PermissionDenied);
    // Its connection goes on over a link of anybody's.
    let (link, new) = wire_like(Transport::Udp, usize::MAX);
    server.accept(link, NOW);
    new.hello(Hello { join: Some(welcome.token), ..Hello::default() });
    settle(&mut server, NOW);
    new.hear_welcome();
    let _ = new.hear();
    own.request(2, FAIL, b"");
    settle(&mut server, NOW);
    let replies = own.hear().into_iter().chain(new.hear()).filter(|heard| heard.header.kind == Kind::Reply);
    let codes: Vec<Code> = replies.map(|heard| Code::of(heard.header.method)).collect();
    assert_eq!(codes, [Code::PermissionDenied]);
}
