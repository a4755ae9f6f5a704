//! What the command says when it cannot do what it is asked, and the keys that it makes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn gateway(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gateway")).args(words).output().expect("the program starts")
}

fn refused(words: &[&str], says: &str) {
    let output = gateway(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
    assert!(errors.contains(says), "{words:?}: {errors}");
}

#[test]
fn keys_are_made_once_and_for_their_owner_alone() {
    let folder = std::env::temp_dir().join(format!("gateway-command-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let key = folder.join("gateway.key");
    let path = key.to_str().expect("UTF-8");
    assert!(gateway(&["keygen", path]).status.success());
    assert_eq!(std::fs::metadata(&key).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&key).expect("text").trim().len(), 64);
    refused(&["keygen", path], "is there already");
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn what_cannot_be_is_said_with_what_to_do() {
    refused(&[], "gateway lab");
    refused(&["lab", "--seconds", "0"], "1 to 3600");
    refused(&["lab", "--second", "1"], "no option --second 1");
    refused(&["run", "--config", "/nowhere/gateway.toml"], "cannot read the config file");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.toml");
    let text = std::fs::read_to_string(shipped).expect("it is shipped");
    let file = std::env::temp_dir().join(format!("gateway-command-{}.toml", std::process::id()));
    std::fs::write(&file, text.replace("eth0", "no-such-link")).expect("a file");
    let path = file.to_str().expect("UTF-8");
    refused(&["run", "--config", path], "there is no interface no-such-link: `ip link` lists them");
    std::fs::remove_file(&file).expect("ours");
    let listed = gateway(&["registers"]);
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("place.crypto"));
}
