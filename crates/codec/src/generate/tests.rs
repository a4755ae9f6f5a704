use super::names::{constant, identifier, snake, type_name};
use super::*;
use crate::compile::Compiler;

fn generated(text: &str) -> String {
    let set = Compiler::new().source("a.proto", text).descriptor_set(&["a.proto"]).expect("a right file");
    generate(&set, "a.desc").expect("a schema").code
}

#[test]
fn names_as_rust_has_them() {
    for (name, want) in [
        ("PhotoSize", "photo_size"),
        ("HTTPServer2Go", "http_server2_go"),
        ("a_b", "a_b"),
        ("__a__B_", "a_b"),
        ("_", "n"),
    ] {
        assert_eq!(snake(name), want);
    }
    for (name, want) in [("photo_size", "PhotoSize"), ("HTTP", "HTTP"), ("_1", "T1"), ("option", "Option_")] {
        assert_eq!(type_name(name), want);
    }
    for (name, want) in [("type", "r#type"), ("self", "self_"), ("name", "name")] {
        assert_eq!(identifier(name), want);
    }
    assert_eq!((constant("FooBar"), constant("_")), ("FOOBAR".to_owned(), "N_".to_owned()));
}

#[test]
fn without_a_package_all_is_at_the_top() {
    let code =
        generated("syntax = \"proto3\"; message A { B b = 1; message C { A a = 1; } C c = 2; } message B {}");
    assert!(code.contains("\npub struct A;\n"), "{code}");
    assert!(code.contains("pub fn b(self) -> Option<BView<'a>>"), "{code}");
    assert!(code.contains("pub fn c(self) -> Option<a::CView<'a>>"), "{code}");
    assert!(code.contains("pub fn a(self) -> Option<super::AView<'a>>"), "{code}");
}

#[test]
fn of_two_of_one_name_one_gets_an_underscore() {
    let code = generated(
        "syntax = \"proto3\"; package p; message A { optional int32 x = 2; bool has_x = 1; } message AView {}
         enum E { option allow_alias = true; Ab = 0; aB = 1; }",
    );
    for want in [
        "pub struct AView;",
        "pub struct AView_<'a>",
        "pub fn has_x(self)",
        "pub fn has_x_(self)",
        "AB_: E = E(1)",
    ] {
        assert!(code.contains(want), "{want}\n{code}");
    }
}

#[test]
fn comments_become_documentation() {
    let code = generated(
        "syntax = \"proto3\"; package p;\n// Of [A] <b>.\n//\n//     code\nmessage A {\n  int32 x = 1; // Behind.\n  // O.\n  oneof o { int32 y = 2; }\n}\n// E.\nenum E {\n  // Z.\n  Z = 0;\n}\n",
    );
    for want in [
        "/// Of \\[A\\] \\<b>.\n    ///\n    /// code\n",
        "/// Behind.\n",
        "/// O.\n        pub fn o",
        "/// E.\n",
        "/// Z.\n",
    ] {
        assert!(code.contains(want), "{want}\n{code}");
    }
}

#[test]
fn long_lines_are_broken() {
    let long = "rather_long_name_of_a_field_in_some_message";
    let code = generated(&format!(
        "syntax = \"proto3\"; package p; message M {{ M {long} = 1; repeated string {long}s = 2; oneof o {{ M a_{long} = 3; }} }}"
    ));
    let long = code.lines().filter(|line| line.chars().count() > 100 && !line.trim_start().starts_with("//"));
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&str>::new());
}
