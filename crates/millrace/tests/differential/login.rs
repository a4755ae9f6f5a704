//! The same of clients that log in: `memcached -S` over a sasldb, and `memcached -Y`, beside a node that has the same user in a file.

use super::Drawn;
use super::binary::{answer, frame};
use super::memcached::Memcached;
use super::served::{Client, Served, config, skip};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use protocol::memcache::LOGIN_FAILURES_MAX;
use protocol::memcache::binary::{HEADER_LEN, opcode};
use serve::kv::Server;
use serve::memcached::login::LoginArgs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const USER: &str = "ann";
const PASSWORD: &str = "secret";

/// A folder with the users in it, as each server reads them; it goes when dropped.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder(TempDir::with_prefix("millrace-").expect("a folder"));
        // memcached drops its privileges before it reads.
        std::fs::set_permissions(folder.0.path(), std::fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        std::fs::write(folder.users(), format!("{USER}:{PASSWORD}\nbob:other\n")).expect("a file");
        folder
    }

    fn users(&self) -> PathBuf {
        self.0.path().join("users")
    }

    /// What Cyrus SASL reads; false where it cannot be made here.
    fn sasldb(&self) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        let database = self.0.path().join("sasldb2");
        let settings = format!(
            "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {}\n",
            database.display()
        );
        std::fs::write(self.0.path().join("memcached.conf"), settings).expect("a file");
        // memcached gives no realm, and SASL takes the name of the machine.
        let realm = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
        let mut command = Command::new("saslpasswd2");
        command.args(["-p", "-c", "-a", "memcached", "-u", realm.trim(), "-f"]).arg(&database).arg(USER);
        let Ok(mut child) = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
            skip("saslpasswd2 is not installed (Debian: sasl2-bin)");
            return false;
        };
        child.stdin.take().expect("piped").write_all(PASSWORD.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{command:?}");
        std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
        true
    }

    fn node(&self, enable_sasl: bool) -> Served {
        let mut config = config(&[]);
        config.login = LoginArgs { auth_file: Some(self.users()), enable_sasl, protocol: None };
        let node = Server::start(&config).expect("a node on a free port");
        Served { node, config }
    }
}

fn plain(whom: &str, user: &str, password: &str) -> Vec<u8> {
    format!("{whom}\0{user}\0{password}").into_bytes()
}

/// A login, of which the mechanism or the value is wrong, or of which the value is still to come.
fn wrong() -> impl Strategy<Value = Vec<u8>> {
    use opcode::{SASL_AUTH, SASL_STEP};
    let value = prop_oneof![
        1 => Just(plain("root", USER, PASSWORD)),
        3 => "[a-d]{0,7}".prop_map(|password| plain("", USER, &password)),
        2 => "[b-d]{0,7}".prop_map(|user| plain("", &user, PASSWORD)),
        3 => Just(Vec::new()),
        1 => Just(b"nonsense".to_vec()),
        1 => Just([&plain("", USER, PASSWORD)[..], b"\0"].concat()),
        1 => (1000usize..1019).prop_map(|len| plain("", USER, &"x".repeat(len - 4))),
    ];
    let mechanism = prop_oneof![
        12 => select(vec!["PLAIN", "plain"]).prop_map(str::to_owned),
        1 => select(vec!["CRAM-MD5", "PLAINX", "P"]).prop_map(str::to_owned),
        1 => select(vec![32usize, 33, 250]).prop_map(|len| "P".repeat(len)),
    ];
    (select(vec![SASL_AUTH, SASL_AUTH, SASL_STEP]), mechanism, value)
        .prop_map(|(opcode, mechanism, value)| frame(opcode, mechanism.as_bytes(), b"", &value, 5, 0))
}

/// A login that is right, in one step or in two.
fn right() -> impl Strategy<Value = Vec<u8>> {
    use opcode::{SASL_AUTH, SASL_STEP};
    (select(vec!["", USER]), any::<bool>()).prop_map(|(whom, is_whole)| {
        let value = plain(whom, USER, PASSWORD);
        let step = |opcode, value: &[u8]| frame(opcode, b"PLAIN", b"", value, 5, 0);
        if is_whole {
            step(SASL_AUTH, &value)
        } else {
            [step(SASL_AUTH, b""), step(SASL_STEP, &value)].concat()
        }
    })
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    use opcode::*;
    let opcodes = vec![VERSION, VERSION, NOOP, GETK, DELETE, 0x7f, STAT, QUIT, FLUSH];
    select(opcodes).prop_map(|opcode| match opcode {
        GETK | DELETE => frame(opcode, b"nobody's", b"", b"", 6, 0),
        STAT => frame(opcode, b"detail off", b"", b"", 6, 0),
        _ => frame(opcode, b"", b"", b"", 6, 0),
    })
}

/// A conversation: wrong logins, perhaps a right one, requests, perhaps a wrong login again. It does not fail so often that we close and memcached goes
/// on. A second login that is right fails in memcached, and a list of mechanisms has it forget who has logged in: neither stands in a conversation.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let most = LOGIN_FAILURES_MAX as usize - 2;
    let many = |most| proptest::collection::vec(request(), 0..most);
    let wrong_logins = proptest::collection::vec(wrong(), 0..most);
    let versions = select(vec![0usize, 0, 1, 2]);
    let parts = (
        (any::<bool>(), wrong_logins, versions),
        proptest::option::weighted(0.8, right()),
        many(4),
        proptest::option::weighted(0.3, wrong()),
        many(3),
    );
    parts.prop_map(|((lists, wrongs, versions), right, requests, last, rest)| {
        let keyless = |opcode| frame(opcode, b"", b"", b"", 4, 0);
        let mut all = Vec::new();
        all.extend(lists.then(|| keyless(opcode::SASL_LIST)));
        all.extend(wrongs);
        all.extend((0..versions).map(|_| keyless(opcode::VERSION)));
        all.extend(right);
        all.extend(requests);
        all.extend(last);
        all.extend(rest);
        all.concat()
    })
}

#[test]
fn random_sasl_conversations_read_the_same() {
    let folder = Folder::new();
    if !folder.sasldb() {
        return;
    }
    let version = frame(opcode::VERSION, b"", b"", b"", 0, 0);
    let environment: [(&str, &Path); 1] = [("SASL_CONF_PATH", folder.0.path())];
    let Some(memcached) = Memcached::start_in(&["-S"], &environment, &(&version, &[0x81, opcode::VERSION]))
    else {
        return;
    };
    let served = folder.node(true);
    let said = |address: SocketAddr, bytes: &[u8]| {
        let mut said = answer(address, bytes);
        // What `version` answers is each server's own.
        said.iter_mut().filter(|frame| frame.starts_with("[81, 0b")).for_each(|frame| frame.truncate(8));
        said
    };
    let Drawn { mut runner, cases, seed } = Drawn::of(300, 2000);
    let outcome = runner.run(&conversation(), |bytes| {
        let (wanted, got) = (said(memcached.address(), &bytes), said(served.address(), &bytes));
        if wanted != got {
            return Err(TestCaseError::fail(format!("memcached: {wanted:#?}\nmillrace:  {got:#?}")));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("MILLRACE_SEED={seed} MILLRACE_CONVERSATIONS={cases}\n{why}"));
    let net = served.report().net;
    assert!(net.auth_cmds > net.auth_errors && net.auth_errors > 0, "{net:?}");
    // Both count the same: who asks has logged in once more.
    let stats = [
        frame(opcode::SASL_AUTH, b"PLAIN", b"", &plain("", USER, PASSWORD), 1, 0),
        frame(opcode::STAT, b"", b"", b"", 1, 0),
    ]
    .concat();
    let counts = |address| -> Vec<String> {
        let shown = answer(address, &stats)
            .into_iter()
            .filter_map(|frame| frame.find("auth_").map(|at| frame[at..].to_owned()));
        shown.collect()
    };
    assert_eq!(counts(served.address()), counts(memcached.address()));
    // What is wrong in its lengths, and a mechanism's list, which memcached answers whoever asks.
    let wrong = [
        frame(opcode::SASL_AUTH, b"", b"", b"x", 2, 0),
        frame(opcode::SASL_AUTH, b"PLAIN", b"abcd", b"x", 2, 0),
        frame(opcode::SASL_LIST, b"k", b"", b"", 2, 0),
        [
            &frame(opcode::GET, b"", b"", b"", 2, 0)[..HEADER_LEN],
            &frame(opcode::VERSION, b"k", b"", b"", 2, 0),
        ]
        .concat(),
        vec![0x81; HEADER_LEN],
    ];
    for bytes in wrong {
        assert_eq!(
            said(served.address(), &bytes),
            said(memcached.address(), &bytes),
            "{}",
            bytes.escape_ascii()
        );
    }
}

/// A request of a text client and its whole reply, one line each.
fn line() -> impl Strategy<Value = String> {
    let login = prop_oneof![
        4 => Just(format!("{USER} {PASSWORD}")),
        1 => Just(format!("{USER}  {PASSWORD} and more")),
        1 => Just("bob other".to_owned()),
        2 => "[a-t]{1,6}".prop_map(|password| format!("{USER} {password}")),
        1 => "[a-z]{0,4} ?",
        1 => (900usize..1019).prop_map(|len| format!("{USER} {}", "x".repeat(len))),
    ];
    let login = (login, select(vec!["x 0 0", "anything 7 -1"]), select(vec!["", " noreply", " 5"]));
    let login = login
        .prop_map(|(login, before, after)| format!("set {before} {}{after}\r\n{login}\r\n", login.len()));
    let refused = select(vec![
        "get k",
        "gets",
        "set",
        "set x 0 0",
        "set x 0 0 -1",
        "set x 0 0 y",
        "add x 0 0 1",
        "ms x 1",
        "mn",
        "version",
        "quit",
        "",
        "SET x 0 0 1",
        "stats",
        "GET / HTTP/1.1",
    ]);
    prop_oneof![2 => login, 1 => refused.prop_map(|line| format!("{line}\r\n"))]
}

#[test]
fn random_logins_in_text_read_the_same() {
    let folder = Folder::new();
    let users = folder.users();
    let arguments = ["-Y", users.to_str().expect("a path")];
    let Some(memcached) = Memcached::start_in(&arguments, &[], &(b"version\r\n", b"CLIENT_ERROR unauth"))
    else {
        return;
    };
    let served = folder.node(false);
    let Drawn { mut runner, cases, seed } = Drawn::of(200, 2000);
    let most = LOGIN_FAILURES_MAX as usize;
    let outcome = runner.run(&proptest::collection::vec(line(), 1..most), |lines| {
        let (mut theirs, mut ours) = (Client::to(memcached.address()), Client::to(served.address()));
        for line in &lines {
            theirs.send(line);
            ours.send(line);
            let (wanted, got) = (theirs.line(), ours.line());
            if wanted != got {
                return Err(TestCaseError::fail(format!("{line:?}\nmemcached: {wanted}\nmillrace:  {got}")));
            }
            if wanted == "STORED" {
                // From here on it is as any other.
                theirs.ask("mn\r\n", "MN\r\n");
                ours.ask("mn\r\n", "MN\r\n");
                break;
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("MILLRACE_SEED={seed} MILLRACE_CONVERSATIONS={cases}\n{why}"));
}
