//! `docs/wire.md` has the same fields, codes, hashes, sums and bytes as the code.

use super::*;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md");

fn document() -> String {
    std::fs::read_to_string(PATH).expect("the document is there")
}

/// The rows of the table after this heading, without its head.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).expect("it has this heading");
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    table.skip(2).map(cells).collect()
}

#[test]
fn the_fields_are_the_documents() {
    let of_code = FIELDS.iter().map(|field| {
        vec![
            field.offset.to_string(),
            field.length.to_string(),
            field.name.to_string(),
            field.meaning.to_string(),
        ]
    });
    let rows = rows(&document(), "The header");
    assert_eq!(of_code.collect::<Vec<_>>(), rows.iter().map(|row| row[..4].to_vec()).collect::<Vec<_>>());
}

#[test]
fn the_codes_are_the_documents() {
    let document = document();
    let verbs = Verb::ALL.iter().map(|verb| (verb.code(), verb.name()));
    let controls = Control::ALL.iter().map(|control| (control.code(), control.name()));
    let statuses = Status::ALL.iter().map(|status| (status.code(), status.name()));
    let kinds = Kind::ALL.iter().map(|kind| (kind.code(), kind.name()));
    let check = |heading: &str, codes: &mut dyn Iterator<Item = (u8, &str)>, hex: bool| {
        let of_code: Vec<_> = codes
            .map(|(code, name)| {
                (if hex { format!("{code:02x}") } else { code.to_string() }, name.to_string())
            })
            .collect();
        let of_document: Vec<_> =
            rows(&document, heading).iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        assert_eq!(of_code, of_document, "{heading}");
    };
    check("Requests", &mut verbs.into_iter(), true);
    check("Control", &mut controls.into_iter(), true);
    check("Status", &mut statuses.into_iter(), false);
    check("Kinds of value", &mut kinds.into_iter(), false);
    let flags: Vec<_> = rows(&document, "Flags").iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let of_code =
        Flags::NAMED.iter().map(|(flag, name)| (flag.bits().trailing_zeros().to_string(), name.to_string()));
    assert_eq!(of_code.collect::<Vec<_>>(), flags);
}

#[test]
fn hashes_and_sums_are_the_documents() {
    let document = document();
    let keys: [&[u8]; 6] =
        [b"", b"a", b"12345678", b"123456789", b"user:1", b"a key of somewhat more than three words"];
    let of_code: Vec<_> = keys
        .iter()
        .map(|key| {
            let sum = extend(0, &[key, &vec![0; padded(key.len()) - key.len()][..]].concat());
            let text = String::from_utf8_lossy(key).into_owned();
            vec![text, format!("{:08x}", key_hash(key).0), format!("{sum:016x}")]
        })
        .collect();
    assert_eq!(of_code, rows(&document, "Test vectors"));
    let mut longest = Vec::new();
    longest.extend((0..250).map(|i| i as u8));
    assert!(
        document.contains(&format!("`{:08x}`, of the 250 bytes", key_hash(&longest).0)),
        "{}",
        key_hash(&longest)
    );
}

/// Lines of 16 bytes; those of zeros only are left out, but for the last.
fn dump(bytes: &[u8]) -> String {
    let count = bytes.len().div_ceil(16);
    let line = |(i, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        (i + 1 == count || line.iter().any(|&byte| byte != 0))
            .then(|| format!("{:04x}  {}\n", 16 * i, hex.join(" ")))
    };
    bytes.chunks(16).enumerate().filter_map(line).collect()
}

#[test]
fn the_examples_are_the_documents() {
    let (_, of_document) = {
        let document = document();
        let (before, after) = document.split_once("\n## Examples\n").expect("it has this heading");
        (before.to_string(), after.to_string())
    };
    let of_code: String = examples()
        .iter()
        .map(|(name, message)| format!("**{name}**\n```text\n{}```\n", dump(&bytes_of(message))))
        .collect();
    let (_, examples) = of_document.split_once("\n\n").expect("words, then examples");
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        let blessed = document().replace(examples, &of_code);
        return std::fs::write(PATH, blessed).expect("the document can be written");
    }
    assert!(
        of_code == examples,
        "docs/wire.md does not end with what the code makes: run with MILLRACE_BLESS=1"
    );
}
