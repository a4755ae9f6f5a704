//! The reader against a model that writes the stream, split at every byte, cut short, and made of garbage.

use super::*;
use proptest::prelude::*;

/// A reply that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Value(Vec<u8>, u32, Option<u64>, Vec<u8>),
    Stat(Vec<u8>, Vec<u8>),
    Meta(MetaStatus, Vec<u8>, Option<Vec<u8>>),
    Text(Vec<u8>),
}

fn own(reply: Reply<'_>) -> Owned {
    match reply {
        Reply::Value { key, flags, cas, data } => Owned::Value(key.to_vec(), flags, cas, data.to_vec()),
        Reply::Stat { name, value } => Owned::Stat(name.to_vec(), value.to_vec()),
        Reply::Meta { status, flags, data } => Owned::Meta(status, flags.to_vec(), data.map(<[u8]>::to_vec)),
        other => Owned::Text(format!("{other:?}").into_bytes()),
    }
}

/// Feeds `bytes` in pieces that end at `cuts`; the replies and whether each was the last of its request.
fn read_in_pieces(
    expects: &[Expect],
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
) -> Result<Vec<(Owned, bool)>, ReplyError> {
    let mut reader = ReplyReader::new(1 << 16);
    expects.iter().for_each(|&e| reader.expect(e));
    let (mut got, mut at) = (Vec::new(), 0);
    for end in cuts.into_iter().chain([bytes.len()]) {
        loop {
            match reader.next(&bytes[at..end.max(at)])? {
                Progress::Incomplete { need } => {
                    assert!(need > end.max(at) - at, "asks for bytes that are there");
                    break;
                }
                Progress::Reply { reply, used, last } => {
                    assert!(used > 0);
                    got.push((own(reply), last));
                    at += used;
                }
            }
        }
    }
    Ok(got)
}

/// One request's whole answer: what was asked, its bytes, and the replies to see.
fn answer() -> impl Strategy<Value = (Expect, Vec<u8>, Vec<(Owned, bool)>)> {
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    let item = ("[a-z]{1,9}", any::<u32>(), proptest::option::of(any::<u64>()), data.clone());
    let text = |wire: &str, reply: Reply<'_>, expect| {
        Just((expect, format!("{wire}\r\n").into_bytes(), vec![(own(reply), true)]))
    };
    prop_oneof![
        proptest::collection::vec(item, 0..4).prop_map(|items| {
            let (mut wire, mut seen) = (Vec::new(), Vec::new());
            for (key, flags, cas, data) in items {
                let cas_word = cas.map(|c| format!(" {c}")).unwrap_or_default();
                wire.extend(format!("VALUE {key} {flags} {}{cas_word}\r\n", data.len()).bytes());
                wire.extend(&data);
                wire.extend(b"\r\n");
                seen.push((Owned::Value(key.into_bytes(), flags, cas, data), false));
            }
            wire.extend(b"END\r\n");
            seen.push((own(Reply::End), true));
            (Expect::Values, wire, seen)
        }),
        data.prop_map(|data| {
            let mut wire = format!("VA {} c9 f0\r\n", data.len()).into_bytes();
            wire.extend(&data);
            wire.extend(b"\r\n");
            (Expect::Meta, wire, vec![(Owned::Meta(MetaStatus::Value, b"c9 f0".to_vec(), Some(data)), true)])
        }),
        Just((
            Expect::MetaUntilNoop,
            b"HD k1\r\nNF\r\nVA 2\r\nhi\r\nMN\r\n".to_vec(),
            vec![
                (Owned::Meta(MetaStatus::Done, b"k1".to_vec(), None), false),
                (Owned::Meta(MetaStatus::NotFound, vec![], None), false),
                (Owned::Meta(MetaStatus::Value, vec![], Some(b"hi".to_vec())), false),
                (Owned::Meta(MetaStatus::Noop, vec![], None), true),
            ],
        )),
        Just((
            Expect::Stats,
            b"STAT pid 42\r\nSTAT version 1 2\r\nEND\r\n".to_vec(),
            vec![
                (Owned::Stat(b"pid".to_vec(), b"42".to_vec()), false),
                (Owned::Stat(b"version".to_vec(), b"1 2".to_vec()), false),
                (own(Reply::End), true),
            ],
        )),
        text("STORED", Reply::Stored, Expect::Line),
        text("NOT_FOUND", Reply::NotFound, Expect::Line),
        text("18446744073709551615", Reply::Number(u64::MAX), Expect::Line),
        text("9 ", Reply::Number(9), Expect::Line),
        text("VERSION 1.6.18", Reply::Version(b"1.6.18"), Expect::Line),
        text("ERROR", Reply::Error, Expect::Meta),
        text("SERVER_ERROR out of memory", Reply::ServerError(b"out of memory"), Expect::Values),
        text("CLIENT_ERROR bad data chunk", Reply::ClientError(b"bad data chunk"), Expect::Line),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_split_gives_the_same_replies(answers in proptest::collection::vec(answer(), 1..8)) {
        let expects: Vec<Expect> = answers.iter().map(|a| a.0).collect();
        let bytes: Vec<u8> = answers.iter().flat_map(|a| a.1.clone()).collect();
        let want: Vec<(Owned, bool)> = answers.into_iter().flat_map(|a| a.2).collect();
        prop_assert_eq!(read_in_pieces(&expects, &bytes, []), Ok(want.clone()));
        prop_assert_eq!(read_in_pieces(&expects, &bytes, 1..bytes.len()), Ok(want.clone()));
        for cut in 1..bytes.len() {
            prop_assert_eq!(read_in_pieces(&expects, &bytes, [cut]), Ok(want.clone()));
        }
    }

    #[test]
    fn garbage_is_an_error_or_a_wait_and_never_a_panic(
        expects in proptest::collection::vec(answer().prop_map(|a| a.0), 0..4),
        good in answer(),
        flip in any::<(usize, u8)>(),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_in_pieces(&expects, &noise, 0..noise.len());
        let mut bytes = good.1;
        let at = flip.0 % bytes.len();
        bytes[at] = flip.1;
        let _ = read_in_pieces(&[good.0], &bytes, 0..bytes.len());
    }
}

#[test]
fn a_broken_stream_stays_broken() {
    let mut reader = ReplyReader::new(100);
    assert_eq!(reader.next(b"STORED\r\n"), Err(ReplyError::Unasked));
    reader.expect(Expect::Line);
    assert_eq!(reader.next(b"STORED\r\n"), Err(ReplyError::Unasked));
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |expect, bytes: &[u8]| {
        let mut reader = ReplyReader::new(100);
        reader.expect(expect);
        reader.next(bytes).expect_err("not a reply")
    };
    assert_eq!(error(Expect::Values, b"STORED\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Line, b"END\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Line, b"STORED\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Line, b"18446744073709551616\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Values, b"VALUE k 0 101\r\n"), ReplyError::ValueTooLong(101));
    assert_eq!(error(Expect::Values, b"VALUE k 0 -1\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Values, b"VALUE k 0 1 2 3\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Values, b"VALUE k 0 1\r\nabcd"), ReplyError::TornValue);
    assert_eq!(error(Expect::Meta, b"XX\r\n"), ReplyError::Unexpected);
    assert_eq!(error(Expect::Line, &[b'x'; MAX_LINE]), ReplyError::LineTooLong);
}

#[test]
fn tokens_of_meta_flags_are_found() {
    assert_eq!(meta_token(b"c12 f0 W", b'c'), Some(b"12".as_slice()));
    assert_eq!(meta_token(b"c12 f0 W", b'W'), Some(b"".as_slice()));
    assert_eq!(meta_token(b"c12 f0 W", b'X'), None);
}
