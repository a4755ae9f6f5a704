//! Whom certificates of clients name.

use super::*;
use crate::rights::Identity;

#[test]
fn a_client_is_whom_its_certificate_names_also_when_its_session_goes_on() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let listener = authority.issue("server");
    let own = authority.issue_for("shop", &["Shop.example.org", "spiffe://example.org/shop", "10.0.0.1"], 30);
    let files = ServerFiles { client_ca: Some(authority.file()), ..files(&listener) };
    let tls = ServerTls::new(&files, &[]).expect("good files");
    let trust = ClientFiles { own: Some((own.cert, own.key)), ..believing(&authority.file()) };
    let trust = ClientTls::new(&trust, &[]).expect("good files");
    for is_resumed in [false, true] {
        let mut pair = Pair::new(&trust, &tls);
        pair.carry().expect("both are believed");
        assert_eq!(pair.server.is_resumed(), is_resumed);
        let names: Vec<String> = pair.server.identities().iter().map(Identity::to_string).collect();
        assert_eq!(names, ["cn:shop", "dns:shop.example.org", "uri:spiffe://example.org/shop"]);
        assert_eq!(pair.client.identities()[0].to_string(), "cn:server");
    }
    let tls = server(&listener);
    let mut pair = Pair::new(&client(&authority.file()), &tls);
    pair.carry().expect("nobody is asked");
    assert_eq!(pair.server.identities(), []);
}

#[test]
fn what_is_no_certificate_names_nobody() {
    for bytes in [&b""[..], b"\x30\x03\x02\x01\x01", &[0x30; 100]] {
        assert_eq!(identities(Some(&[bytes.into()])), []);
    }
    assert_eq!((identities(None), identities(Some(&[]))), (Vec::new(), Vec::new()));
}
