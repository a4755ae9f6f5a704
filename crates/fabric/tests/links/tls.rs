//! What a link with TLS refuses.

use super::rig::Kind;
use base::tls::testing::Authority;
use base::tls::{ClientFiles, ClientTls};
use base::units::Nanos;
use fabric::link::{self, Address, Frames, LinkOptions, Lost, TlsOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tempfile::TempDir;

/// What the client's connection to a listener comes to.
fn refused(options: &LinkOptions) -> String {
    let mut listener = Kind::Tls.listener();
    let address = listener.address().clone();
    std::thread::scope(|scope| {
        let client =
            scope.spawn(|| link::connect(&address, options).map(drop).map_err(|error| error.to_string()));
        let mut server = None;
        while !client.is_finished() {
            let now = base::Clock::shared().now();
            server = server.or_else(|| listener.accept(now).expect("accepted"));
            server.iter_mut().for_each(|server| server.flush(now));
        }
        client.join().expect("no panic").expect_err("it is refused")
    })
}

#[test]
fn a_server_that_is_not_believed_is_not_spoken_to() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let other = Authority::new(folder.path(), "other");
    let files = ClientFiles { ca: Some(other.file()), ..ClientFiles::default() };
    let trust = Some(ClientTls::new(&files, &[]).expect("a good file"));
    let tls = TlsOptions { trust, ..TlsOptions::default() };
    let why = refused(&LinkOptions { tls, ..LinkOptions::default() });
    assert!(why.contains("from an authority that is not believed here"), "{why}");
    let nobody = refused(&LinkOptions { tls: TlsOptions::default(), ..LinkOptions::default() });
    assert!(nobody.contains("--tls-ca FILE"), "{nobody}");
}

#[test]
fn who_listens_for_tls_has_a_certificate() {
    let address: Address = "tls:0".parse().expect("an address");
    let options = LinkOptions { tls: TlsOptions::default(), ..LinkOptions::default() };
    let why = link::listen(&address, &options).map(drop).expect_err("it has none").to_string();
    assert!(why.contains("--tls-cert FILE"), "{why}");
}

/// Plain bytes, half a hello: the link ends, and a listener goes on.
#[test]
fn clients_that_speak_no_tls_are_given_up() {
    let mut listener = Kind::Tls.listener();
    let Address::Tls(endpoint) = listener.address().clone() else { panic!("it listens for TLS") };
    let connect = || TcpStream::connect(endpoint.resolve().expect("loopback")).expect("it listens");
    let mut accept = |now| loop {
        if let Some(link) = listener.accept(now).expect("accepted") {
            break link;
        }
    };
    let mut plain = connect();
    plain.write_all(&[7; 100]).expect("it reads");
    let mut link = accept(Nanos::from_secs(1));
    let mut frames = Frames::default();
    let lost = loop {
        match link.recv(Nanos::from_secs(1), 9, &mut frames) {
            Ok(count) => assert_eq!(count, 0),
            Err(lost) => break lost,
        }
    };
    assert_eq!(lost, Lost::Dead);
    drop(link);
    let mut rest = Vec::new();
    // An alert, and the end.
    let _ = plain.read_to_end(&mut rest);
    // A hello that does not go on, in time and too late.
    let mut silent = connect();
    silent.write_all(&[0x16, 3, 1, 2, 0, 1]).expect("it reads");
    let mut link = accept(Nanos::from_secs(100));
    let until = link.next_deadline();
    assert!(until > Nanos::from_secs(100) && until < Nanos::from_secs(200));
    assert_eq!(link.recv(Nanos::from_secs(101), 9, &mut frames), Ok(0));
    assert_eq!(link.recv(until, 9, &mut frames), Err(Lost::Dead));
}
