//! Files found by what they declare.

use super::write::Wire;
use crate::schema::Catalog;
use std::collections::BTreeSet;

/// Two files as protoc would set them, by our own compiler's descriptors of this repository.
fn catalog() -> Catalog {
    Catalog::of(&[include_bytes!("../../../tests/generated/gallery.desc")]).expect("it is a set")
}

#[test]
fn files_are_found_by_whatever_they_declare() {
    let catalog = catalog();
    let gallery = catalog.file("gallery.proto");
    assert!(gallery.is_some());
    for name in ["gallery.User", "gallery.User.name", "gallery.User.contact", "gallery.Color"] {
        assert_eq!(catalog.file_of_symbol(name), gallery, "{name}");
    }
    let album = catalog.file("legacy/album.proto");
    assert!(album.is_some() && album != gallery);
    for name in ["", "gallery", "gallery.User.", ".gallery.User", "gallery.Nobody"] {
        assert_eq!(catalog.file_of_symbol(name), None, "{name}");
    }
}

#[test]
fn a_file_brings_what_it_imports_once() {
    let catalog = catalog();
    let gallery = catalog.file("gallery.proto").expect("it is there");
    let all = catalog.with_imports(gallery);
    assert_eq!(all[0], gallery);
    let distinct: BTreeSet<usize> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    for import in ["common.proto", "legacy/album.proto"] {
        assert!(distinct.contains(&catalog.file(import).expect(import)), "{import}");
    }
    // What is given back is a file of a set: of them all the same catalog can be made.
    let mut set = Wire(Vec::new());
    all.iter().for_each(|&file| _ = set.bytes(1, catalog.bytes(file)));
    let again = Catalog::of(&[&set.0]).expect("the same");
    assert_eq!(again.file_of_symbol("gallery.User"), Some(0));
    assert_eq!(again.with_imports(0).len(), all.len());
}

#[test]
fn the_first_of_two_files_of_one_name_counts_and_imports_may_go_round() {
    // Files "a" (package p, message M, imports b) and "b" (imports a, and c, which is not there); then "a" with package q.
    let first: &[u8] =
        b"\x0a\x0e\x0a\x01a\x12\x01p\x1a\x01b\x22\x03\x0a\x01M\x0a\x09\x0a\x01b\x1a\x01a\x1a\x01c";
    let second: &[u8] = b"\x0a\x0b\x0a\x01a\x12\x01q\x22\x03\x0a\x01M";
    let catalog = Catalog::of(&[first, second]).expect("two sets");
    assert_eq!((catalog.file_of_symbol("p.M"), catalog.file_of_symbol("q.M")), (Some(0), None));
    assert_eq!(catalog.with_imports(1), [1, 0]);
    assert_eq!(catalog.extension_numbers("p.M"), Some(vec![]));
    assert_eq!(catalog.extension_numbers("q.M"), None);
    assert!(Catalog::of(&[b"\xff"]).is_err());
}
