//! A file of rights that anybody wrote is read, or refused with its line; what is allowed by it is what its rules say one by one. Beside that, the same
//! bytes as a file of tokens.
//!
//! `cargo +nightly fuzz run rights_file`; `client/src/rights.rs` and `base/src/rights/tests.rs` check the same in `cargo test`.
#![no_main]

use base::rights::{Ask, Identity, Rights};
use base::users::{Form, Users};
use client::rights::{Facts, rules};
use client::table::Source;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|input: &[u8]| {
    if let Ok(users) = Users::parse(input, Form::Token) {
        let line = input.split(|&byte| byte == b'\n').find(|line| !matches!(line, [] | [b'\r'])).expect("one at least");
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':').expect("each line has one");
        assert_eq!(users.owner_of(&line[colon + 1..]), Some(&line[..colon]));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let source = Source::of(Path::new("rights.toml"), text);
    let facts = Facts { services: vec!["cache".to_owned()], asks_certificates: true };
    let tokens = |_: &str| Ok(Users::parse(b"ci:0123456789abcdef", Form::Token).expect("a token"));
    let all = match rules(&source, &facts, tokens) {
        Ok(all) => all,
        Err(wrong) => return assert!(wrong.to_string().starts_with("rights.toml:"), "{wrong}"),
    };
    let who = vec![Identity::User((*b"a").into()), Identity::CommonName("a".into())];
    let service = Some("cache");
    let key = &input[..input.len().min(8)];
    let expected = all.rules.iter().any(|rule| {
        let is_here = rule.services.as_ref().is_none_or(|services| services.iter().any(|name| &**name == "cache"));
        let is_one = rule.who.iter().any(|one| *one == Identity::Anybody || who.contains(one));
        is_here && is_one && rule.read.has(key)
    });
    let rights = Rights::new(all);
    assert_eq!(rights.of(service).peer(who).may(Ask::Read(key)).is_ok(), expected);
});
