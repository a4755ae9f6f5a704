//! `up --check` reads what says who may come in: the file of rights, users, certificates; and says of each what the start says.

use super::{PROGRAM, write};
use base::tls::testing::Authority;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A node with a server of each kind that looks at such files, and these tables beside.
fn config(tables: &str, cache: &str, listener: &str) -> String {
    format!(
        "{tables}\n[services.cache]\nkind = 'kv'\n{cache}\n[services.shop]\nkind = 'rpc'\n\
         [[listen]]\nservice = 'cache'\naddress = '{listener}'\n[[listen]]\nservice = 'shop'\naddress = 'tcp:127.0.0.1:0'\n"
    )
}

/// What the program says when it is not to serve.
fn refusal(words: &[&str]) -> String {
    let output = Command::new(PROGRAM).arg("up").args(words).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    said.lines().find(|line| line.starts_with("millrace: ")).expect("why").to_owned()
}

fn refuses_alike(config: &Path, part: &str) {
    let config = config.to_str().expect("text");
    let checked = refusal(&["--config", config, "--check"]);
    assert!(checked.contains(part), "{part:?} is not in {checked:?}");
    assert_eq!(checked, refusal(&["--config", config]), "the start says the same");
}

#[test]
fn a_check_reads_the_files_that_the_start_would() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let made = Authority::new(folder.path(), "authority").issue("server");
    let (cert, key) = (made.cert.display(), made.key.display());
    let tls = format!("[tls]\ntls_cert = '{cert}'\ntls_key = '{key}'");
    let rights =
        write(&folder, "rights.toml", "[[allow]]\nwho = 'anybody'\nservices = ['cache']\nread = ''\n");
    let with_rights = format!("{tls}\n[rights]\nfile = '{}'", rights.display());
    let users = write(&folder, "users", "ann:one\n");
    let with_users = format!("auth_file = '{}'", users.display());

    let good = write(&folder, "good.toml", &config(&with_rights, &with_users, "tls:127.0.0.1:0"));
    let output = Command::new(PROGRAM).args(["up", "--check", "--config"]).arg(&good).output();
    let output = output.expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    write(&folder, "rights.toml", "[[allow]]\nwho = 'anybody'\nservices = ['cahce']\nread = ''\n");
    refuses_alike(&good, "cahce");
    std::fs::remove_file(&rights).expect("it is ours");
    refuses_alike(&good, "rights.toml");
    write(&folder, "rights.toml", "[[allow]]\nwho = 'anybody'\nread = ''\n");
    write(&folder, "users", "nobody\n");
    refuses_alike(&good, "users");
    write(&folder, "users", "ann:one\n");
    std::fs::write(&made.cert, "none").expect("it is ours");
    refuses_alike(&good, &cert.to_string());

    let without = write(&folder, "without.toml", &config("", "", "tls:127.0.0.1:0"));
    refuses_alike(&without, "wants a certificate");
}

#[test]
fn a_check_of_one_server_reads_its_files_too() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (users, rights) =
        (write(&folder, "users", "ann:one\n"), write(&folder, "rights.toml", "[[allow]]\n"));
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    for (words, part) in [
        (["-Y".to_owned(), path(&folder.path().join("none"))], "none"),
        (["--rights".to_owned(), path(&rights)], "rights.toml"),
        (["--tls-cert".to_owned(), path(&users)], "users"),
    ] {
        let words: Vec<&str> =
            ["-l", "127.0.0.1:0"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let checked = refusal(&[&words[..], &["--check"]].concat());
        assert!(checked.contains(part), "{part:?} is not in {checked:?}");
        assert_eq!(checked, refusal(&words), "the start says the same");
    }
}
