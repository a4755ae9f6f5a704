//! `docs/chain.md` has the same kinds, fields and codes as the code.

use super::*;

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chain.md");
    std::fs::read_to_string(path).expect("the document is there")
}

/// The rows of the table after this heading, without its head.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let document = document();
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).expect("it has this heading");
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    table.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

#[test]
fn the_kinds_and_their_fields_are_the_documents() {
    let fields = |cell: &str| {
        let names =
            cell.split(", ").map(|field| field.split(' ').next_back().unwrap_or_default().to_string());
        names.collect::<Vec<_>>()
    };
    let of_document: Vec<_> =
        rows("Kinds").iter().map(|row| (row[0].clone(), row[1].clone(), fields(&row[2]))).collect();
    let of_code: Vec<_> = KINDS
        .iter()
        .map(|(code, name, fields)| {
            (code.to_string(), name.to_string(), fields.iter().map(|field| field.to_string()).collect())
        })
        .collect();
    assert_eq!(of_document, of_code);
}

#[test]
fn the_codes_are_the_documents() {
    let of_document: Vec<_> =
        rows("Codes").iter().map(|row| (row[0].clone(), row[1].clone(), row[2].clone())).collect();
    let all = [
        ("condition", Condition::CODES),
        ("change", Change::CODES),
        ("abort", Abort::CODES),
        ("refusal", Refusal::CODES),
        ("malformed", Malformed::CODES),
        ("status", Status::CODES),
        ("durability", Durability::CODES),
        ("part", Part::CODES),
        ("action", Action::CODES),
        ("order reply", OrderReply::CODES),
        ("order refused", OrderRefused::CODES),
    ];
    let of_code: Vec<_> = all
        .iter()
        .flat_map(|(of, codes)| {
            codes.iter().map(|(code, name)| (of.to_string(), code.to_string(), name.to_string()))
        })
        .collect();
    assert_eq!(of_document, of_code);
}
