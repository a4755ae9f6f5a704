//! Files: those that change, and those that cannot be used.

use super::*;
use std::fs;

#[test]
fn files_that_change_are_used_and_those_that_cannot_be_are_not() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let made = authority.issue("server");
    let tls = server(&made);
    assert!(!tls.reload(), "nothing has changed");
    let mut standing = Pair::new(&client(&authority.file()), &tls);
    standing.carry().expect("a handshake");
    authority.issue_for("server", &["example.org"], 30);
    assert!(tls.reload());
    Pair::new(&client(&authority.file()), &tls).carry().expect_err("the new one is for another host");
    let key = fs::read(&made.key).expect("there");
    fs::write(&made.key, "no key").expect("ours");
    assert!(!tls.reload());
    fs::write(&made.key, key).expect("ours");
    authority.issue("server");
    assert!(tls.reload());
    assert_eq!(tls.reloads(), 2);
    Pair::new(&client(&authority.file()), &tls).carry().expect("the host is right again");
    standing.client.write(&[b"still here"], |bytes| standing.up.send(bytes)).expect("a session");
    standing.carry().expect("it goes on");
    assert_eq!(standing.server_got, b"still here");
}

#[test]
fn wrong_files_are_named_with_what_to_do() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let authority = Authority::new(folder.path(), "ca");
    let (a, b) = (authority.issue("a"), authority.issue("b"));
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "").expect("ours");
    let damaged = folder.path().join("damaged.pem");
    fs::write(&damaged, "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n").expect("ours");
    let nonsense = folder.path().join("nonsense.pem");
    fs::write(&nonsense, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("ours");
    let nowhere = folder.path().join("nowhere.pem");
    let says = |cert: &Path, key: &Path, client_ca: Option<&Path>, wanted: &str| {
        let files = ServerFiles {
            cert: cert.to_owned(),
            key: key.to_owned(),
            client_ca: client_ca.map(Path::to_owned),
            ..ServerFiles::default()
        };
        let error = ServerTls::new(&files, &[]).map(drop).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}, and not {wanted}");
        assert!(!error.contains("PRIVATE KEY-----\n"));
    };
    says(&nowhere, &a.key, None, "cannot read");
    says(&empty, &a.key, None, "has no -----BEGIN CERTIFICATE-----");
    says(&damaged, &a.key, None, "is no PEM");
    says(&nonsense, &a.key, None, "nonsense.pem cannot be used");
    says(&a.cert, &a.cert, None, "has no private key");
    says(&a.cert, &b.key, None, "b.key is not the key of the first certificate in");
    says(&a.cert, &a.key, Some(&empty), "has no -----BEGIN CERTIFICATE-----");
    says(&a.cert, Path::new("/dev/zero"), None, "is too long");
    let nobody = ClientTls::new(&ClientFiles::default(), &[]).map(drop).expect_err("nobody is believed");
    assert!(nobody.to_string().contains("--tls-ca"));
    let name = Session::client(&client(&authority.file()), "not a host").map(drop).expect_err("no name");
    assert!(name.to_string().contains("not a host"));
}
