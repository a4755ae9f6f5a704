//! `millrace chain backup`, `restore` and `verify`, as their users run them.

mod chained;

use chained::{Up, Writer, chain, checksum, stderr, stdout, until_all_serve};
use fabric::channel::{CallOptions, Channel, Options};
use protocol::chain::Transaction;
use serve::txn::proto::millrace::TxnClient;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Small, so that a test is quick.
const SMALL: [&str; 6] = ["--replicas", "3", "--log-size", "8m", "--data-size", "8m"];

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

fn backup(up: &Up, data: &Path, to: &Path) -> Output {
    let key = text(&data.join("cluster.key"));
    chain(&["backup", "--connect", &up.list(), "--key", &key, "--to", &text(to)])
}

fn restore(from: &Path, data: &Path) -> Output {
    let (replica, state) = (text(&data.join("1")), text(&data.join("controller")));
    let log = ["--log-size", "8m"];
    chain(
        &[&["restore", "--from", &text(from), "--data", &replica, "--id", "1", "--state", &state], &log[..]]
            .concat(),
    )
}

/// The word after this one.
fn after<'a>(text: &'a str, word: &str) -> &'a str {
    let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("{word:?} in {text:?}"));
    rest.split([' ', ',', ':', '\n']).next().expect("a word")
}

fn number(text: &str, word: &str) -> u64 {
    after(text, word).parse().expect("a number")
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("it is ours");
}

/// What a transaction writes: of many sizes, so that items move.
fn value(number: u64) -> String {
    format!("value {number} {}", "x".repeat((number % 700) as usize))
}

/// What a chain has that was restored from a backup as of a transaction: what was there then, no more and no less.
#[test]
fn a_backup_under_load_is_the_state_of_one_transaction() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (data, saved) = (folder.path().join("chain"), folder.path().join("saved"));
    let up = Up::within(&data, &SMALL, &[]);
    until_all_serve(&up);
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let (said, written) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut writer = Writer::new(&up);
            let mut written = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let number = written.len() as u64;
                let key = format!("key {}", number * 7919 % 500);
                let transaction = match number % 11 {
                    0 => Transaction::new().delete(key.clone()).put("last", number.to_string()),
                    _ => Transaction::new().put(key.clone(), value(number)).put("last", number.to_string()),
                };
                written.push((writer.execute(transaction).lsn.0, number, key));
                begun.store(number > 1500, Ordering::Relaxed);
            }
            written
        });
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let output = backup(&up, &data, &saved);
        stop.store(true, Ordering::Relaxed);
        (output, load.join().expect("the load goes through"))
    });
    let said = good(&said);
    let lsn = number(&said, "as of transaction ");
    assert!(written.first().expect("it wrote").0 < lsn && lsn <= written.last().expect("it wrote").0);
    up.end();

    let mut expected = BTreeMap::new();
    for (_, number, key) in written.iter().filter(|(at, ..)| *at <= lsn) {
        if number % 11 == 0 {
            expected.remove(key)
        } else {
            expected.insert(key.clone(), value(*number))
        };
        expected.insert("last".to_owned(), number.to_string());
    }
    let again = folder.path().join("again");
    assert!(good(&restore(&saved, &again)).contains("replica 1"));
    let up = Up::within(&again, &SMALL, &[]);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    let keys = (0..500).map(|number| format!("key {number}")).chain(["last".to_owned()]);
    for key in keys {
        let found = writer.execute(Transaction::new().get(key.clone()).put("other", "x")).reads;
        let found = found[0].as_ref().map(|found| String::from_utf8_lossy(&found.value).into_owned());
        assert_eq!(found.as_ref(), expected.get(&key), "{key} as of transaction {lsn}");
    }
    assert!(said.contains(&format!(": {} items", expected.len())), "{said}");
    assert!(checksum(&up, 3).contains("all 3 are the same"));
    up.end();
}

/// The sums that replicas, backup and the restored directory have as of the same transaction; who may read them; what is refused.
#[test]
fn a_backup_is_what_the_replicas_have_and_damage_is_found() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (data, saved, again) =
        (folder.path().join("chain"), folder.path().join("saved"), folder.path().join("again"));
    let up = Up::within(&data, &SMALL, &[]);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    for number in 0..300 {
        writer.execute(Transaction::new().put(format!("key {number}"), format!("needle {number} of hay")));
    }
    let said = good(&backup(&up, &data, &saved));
    let sums = checksum(&up, 3);
    let sum = after(&said, "checksum ");
    assert_eq!(after(&sums, "as of transaction "), after(&said, "as of transaction "));
    assert!(sums.contains(sum), "{sums}{said}");
    assert!(said.contains(": 300 items"), "{said}");
    for (name, mode) in [("", 0o700), ("log", 0o600), ("data", 0o600)] {
        let is = fs::metadata(saved.join(name)).expect("it is there").permissions().mode();
        assert_eq!(is & 0o777, mode, "{name}");
    }
    strangers_get_nothing(&up, &data, folder.path());
    assert!(stderr(&backup(&up, &data, &saved)).contains("is there already"));
    let running = chain(&["verify", &text(&data.join("1"))]);
    assert_eq!(running.status.code(), Some(1));
    assert!(stdout(&running).contains("in use by a replica that runs"), "{}", stdout(&running));
    up.end();

    // The replicas' directories and the controller's file are read as the backup is.
    let paths =
        [saved.clone(), data.join("1"), data.join("2"), data.join("controller")].map(|path| text(&path));
    let words: Vec<&str> = std::iter::once("verify").chain(paths.iter().map(String::as_str)).collect();
    let before = fs::read(data.join("1/log")).expect("it is there");
    let all = good(&chain(&words));
    assert!(fs::read(data.join("1/log")).expect("it is there") == before, "to verify changes nothing");
    assert_eq!(all.matches(&format!("checksum {sum}")).count(), 3, "{all}");
    assert!(all.contains("good: configuration of chain 1"), "{all}");

    good(&restore(&saved, &again));
    let restored = good(&chain(&["verify", &text(&again.join("1")), &text(&again.join("controller"))]));
    assert!(restored.contains("replica 1 of chain 1") && restored.contains(sum), "{restored}");
    assert!(stderr(&restore(&saved, &again)).contains("is there already"));
    let other = folder.path().join("other");
    let refused = restore(&data.join("1"), &other);
    assert!(stderr(&refused).contains("is no backup"), "{}", stderr(&refused));
    damage(&saved, &other);
}

/// Whoever has a backup has the sessions of others.
fn strangers_get_nothing(up: &Up, data: &Path, folder: &Path) {
    let to = folder.join("stolen");
    let other_key = folder.join("other.key");
    let key = millrace_key(&other_key);
    let refused = chain(&["backup", "--connect", &up.list(), "--key", &key, "--to", &text(&to)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("holders of the chain's key"), "{}", stderr(&refused));
    assert!(!to.exists() && data.exists());
    let mut channel = Channel::connect(&up.addresses()[2], &Options::default()).expect("it listens");
    let client = TxnClient::new(&channel).expect("a channel");
    let options = CallOptions::within(chained::PATIENCE);
    let answer = client.export(&mut channel, &options, |_| Ok(()));
    assert!(answer.is_err(), "without a proof there is nothing");
}

fn millrace_key(path: &Path) -> String {
    base::key::Key::generate().write_new(path).expect("a key");
    text(path)
}

/// Each of these bytes counts: verify finds it, restore refuses, and it is good again when it is as it was.
fn damage(saved: &Path, to: &Path) {
    let (data, log) = (saved.join("data"), saved.join("log"));
    let bytes = fs::read(&data).expect("it is there");
    let needle = b"needle 17 of hay";
    let needle = bytes.windows(needle.len()).position(|window| window == needle).expect("an item");
    // The header of the newest checkpoint, its map, and an item; the log's superblock, which is there twice.
    for (path, at) in
        [(&data, vec![20]), (&data, vec![8192]), (&data, vec![needle]), (&log, vec![20, 4096 + 20])]
    {
        at.iter().for_each(|at| flip(path, *at));
        let verify = chain(&["verify", &text(saved)]);
        assert_eq!(verify.status.code(), Some(1), "{path:?} {at:?}: {}", stdout(&verify));
        assert!(stdout(&verify).contains("DAMAGED"), "{}", stdout(&verify));
        let told = chain(&["verify", "--json", &text(saved)]);
        let told: serde_json::Value = serde_json::from_str(&stdout(&told)).expect("a line of JSON");
        assert_eq!(told["good"], false, "{told}");
        let refused = restore(saved, to);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains("is damaged, and nothing serves from it"), "{}", stderr(&refused));
        assert!(!to.exists());
        at.iter().for_each(|at| flip(path, *at));
    }
    let short = bytes.len() / 2;
    fs::write(&data, &bytes[..short]).expect("it is ours");
    assert_eq!(chain(&["verify", &text(saved)]).status.code(), Some(1));
    fs::write(&data, bytes).expect("it is ours");
    good(&chain(&["verify", &text(saved)]));
}

/// What a client from before was told may be among what was lost, so its session is refused, and its writes are not done.
#[test]
fn sessions_from_before_a_restore_are_refused() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let (data, saved, again) =
        (folder.path().join("chain"), folder.path().join("saved"), folder.path().join("again"));
    let up = Up::within(&data, &SMALL, &[]);
    until_all_serve(&up);
    let mut writer = Writer::new(&up);
    writer.execute(Transaction::new().put("key", "before"));
    assert!(good(&backup(&up, &data, &saved)).contains("1 sessions"));
    writer.execute(Transaction::new().put("key", "lost"));
    up.end();
    good(&restore(&saved, &again));
    let up = Up::within(&again, &SMALL, &[]);
    until_all_serve(&up);
    assert!(writer.is_refused(up.addresses(), Transaction::new().put("key", "of an old session")));
    let found = Writer::new(&up).execute(Transaction::new().get("key").put("other", "x")).reads;
    assert_eq!(found[0].as_ref().map(|found| &found.value[..]), Some(&b"before"[..]));
    up.end();
}
