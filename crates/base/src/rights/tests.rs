use super::*;
use crate::users::Form;
use proptest::prelude::*;

fn rule(who: &[&str], services: Option<&[&str]>, read: &[&str], write: &[&str], admin: Admin) -> Rule {
    let identity = |text: &&str| Identity::parse(text).expect("an identity");
    let prefixes = |all: &[&str]| Patterns::of_prefixes(all.iter().map(|prefix| prefix.as_bytes()));
    Rule {
        who: who.iter().map(identity).collect(),
        services: services.map(|all| all.iter().map(|name| (*name).into()).collect()),
        read: prefixes(read),
        write: prefixes(write),
        admin,
        ..Rule::default()
    }
}

fn rights(rules: Vec<Rule>) -> Arc<Rights> {
    Rights::new(Rules { rules, tokens: None })
}

#[test]
fn what_no_rule_allows_is_refused_and_counted() {
    let rights = rights(vec![
        rule(&["user:shop"], None, &["shop:"], &["shop:cart:"], Admin::None),
        rule(&["anybody"], Some(&["cache"]), &["public:"], &[], Admin::None),
        rule(&["cn:ops"], None, &[""], &[], Admin::Write),
    ]);
    let mut anybody = rights.of(Some("cache")).peer(Vec::new());
    assert_eq!(anybody.may(Ask::Read(b"public:x")), Ok(()));
    assert_eq!(anybody.may(Ask::Any), Ok(()));
    for what in [Ask::Write(b"public:x"), Ask::Read(b"publi"), Ask::ReadAll, Ask::Look, Ask::Call("a/B")] {
        assert_eq!(anybody.may(what), Err(Denied), "{what}");
    }
    assert_eq!(rights.of(Some("other")).peer(Vec::new()).may(Ask::Read(b"public:x")), Err(Denied));
    assert_eq!(rights.of(None).peer(Vec::new()).may(Ask::Any), Err(Denied), "no rule is for it");

    let mut shop = rights.of(Some("cache")).peer(Vec::new());
    shop.set_user(Some(b"shop"));
    for what in [Ask::Read(b"public:x"), Ask::Read(b"shop:x"), Ask::Write(b"shop:cart:1")] {
        assert_eq!(shop.may(what), Ok(()), "{what}");
    }
    assert_eq!(shop.may(Ask::Write(b"shop:x")), Err(Denied));
    shop.set_user(None);
    assert_eq!(shop.may(Ask::Read(b"shop:x")), Err(Denied));

    let mut ops = rights.of(None).peer(vec![Identity::parse("cn:ops").expect("one")]);
    for what in [Ask::ReadAll, Ask::Look, Ask::Administer, Ask::Any] {
        assert_eq!(ops.may(what), Ok(()), "{what}");
    }
    assert_eq!(ops.may(Ask::Write(b"")), Err(Denied));
    let refused: Vec<_> = rights.refusals().filter(|(.., count)| *count > 0).collect();
    let expected = [
        ("read", "anybody", 5),
        ("write", "anybody", 1),
        ("write", "user", 1),
        ("write", "certificate", 1),
        ("call", "anybody", 1),
        ("admin", "anybody", 1),
    ];
    assert_eq!(refused, expected);
}

#[test]
fn rules_that_are_replaced_are_for_those_who_are_there() {
    let rights = rights(vec![rule(&["user:a"], None, &["a:"], &[], Admin::None)]);
    let mut peer = rights.of(None).peer(vec![Identity::User((*b"a").into())]);
    assert_eq!((peer.may(Ask::Read(b"a:1")), peer.may(Ask::Read(b"b:1"))), (Ok(()), Err(Denied)));
    rights.replace(Rules { rules: vec![rule(&["user:a"], None, &["b:"], &[], Admin::None)], tokens: None });
    assert_eq!((peer.may(Ask::Read(b"a:1")), peer.may(Ask::Read(b"b:1"))), (Err(Denied), Ok(())));
}

#[test]
fn a_token_is_a_name() {
    let rules = vec![rule(&["token:ci"], None, &["ci:"], &[], Admin::Read)];
    let tokens = Users::parse(b"ci:0123456789abcdef\ncd:fedcba9876543210\n", Form::Token).expect("tokens");
    let rights = Rights::new(Rules { rules, tokens: Some(tokens) }).of(None);
    let may = |token: Option<&[u8]>| rights.bearer(Vec::new(), token).may(Ask::Look);
    assert_eq!(may(Some(b"0123456789abcdef")), Ok(()));
    for token in [None, Some(&b"fedcba9876543210"[..]), Some(b"0123456789abcde"), Some(b"")] {
        assert_eq!(may(token), Err(Denied), "{token:?}");
    }
}

#[test]
fn identities_are_written_as_they_are_read() {
    for text in
        ["anybody", "uid:7", "user:shop", "cn:Shop One", "dns:a.example.org", "uri:spiffe://a/b", "token:ci"]
    {
        assert_eq!(Identity::parse(text).expect(text).to_string(), text);
    }
    assert_eq!(Identity::parse("dns:A.Example.org").expect("a name").to_string(), "dns:a.example.org");
    for (text, part) in
        [("shop", "is nobody"), ("group:x", "is nobody"), ("user:", "wants a name"), ("uid:x", "no number")]
    {
        let error = Identity::parse(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&b"ab"[..]), 0..4)
        .prop_map(|bytes| String::from_utf8(bytes).expect("letters"))
}

fn some_rule() -> impl Strategy<Value = Rule> {
    let who = prop::collection::vec(
        prop::sample::select(&["anybody", "user:a", "user:b", "cn:a", "uid:1"][..]),
        1..3,
    );
    let services = prop::option::of(prop::collection::vec(prop::sample::select(&["one", "two"][..]), 1..3));
    let prefixes = || prop::collection::vec(words(), 0..3);
    (who, services, prefixes(), prefixes()).prop_map(|(who, services, read, write)| {
        let [read, write] = [&read, &write].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        rule(&who, services.as_deref(), &read, &write, Admin::None)
    })
}

proptest! {
    /// Against the rules taken word by word.
    #[test]
    fn what_is_allowed_is_what_some_rule_says(
        rules in prop::collection::vec(some_rule(), 0..6),
        mine in prop::collection::vec(prop::sample::select(&["user:a", "user:b", "cn:a", "uid:1"][..]), 0..3),
        service in prop::option::of(prop::sample::select(&["one", "two", "three"][..])),
        key in words(),
        writes in any::<bool>(),
    ) {
        let mine: Vec<Identity> = mine.iter().map(|text| Identity::parse(text).expect("one")).collect();
        let expected = rules.iter().any(|rule| {
            let here = rule.services.as_ref().is_none_or(|all| service.is_some_and(|name| all.iter().any(|one| **one == *name)));
            let me = rule.who.iter().any(|who| *who == Identity::Anybody || mine.iter().any(|own| own == who));
            let names = if writes { &rule.write } else { &rule.read };
            here && me && names.has(key.as_bytes())
        });
        let what = if writes { Ask::Write(key.as_bytes()) } else { Ask::Read(key.as_bytes()) };
        let mut peer = rights(rules).of(service).peer(mine);
        prop_assert_eq!(peer.may(what).is_ok(), expected);
    }
}
