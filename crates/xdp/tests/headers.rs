//! The committed C headers are those that the Rust tables say.

use std::path::Path;

fn compare(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf").join(name);
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        std::fs::write(&path, made).expect("bpf/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "bpf/{name} is not what src/headers.rs makes: run this test with MILLRACE_BLESS=1, then .ci/xdp --bless"
    );
}

#[test]
fn wire_h() {
    compare("wire.h", &xdp::headers::wire());
}

#[test]
fn layout_h() {
    compare("layout.h", &xdp::headers::layout());
}
