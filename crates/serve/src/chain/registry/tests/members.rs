//! etcd as it is run: three members, of which one and then the leader is killed; with users and passwords; and with certificates.

use super::*;
use ::client::web::Tls;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

/// What a member is started with, and where it is found.
struct Seat {
    words: Vec<String>,
    url: String,
    tls: Option<Tls>,
    child: Option<Child>,
}

impl Seat {
    fn start(&mut self) -> bool {
        let mut command = Command::new("etcd");
        command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = command.spawn().ok();
        self.child.is_some()
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        let web = ::client::web::Web::with_tls(Duration::from_secs(2), 1 << 20, self.tls.as_ref());
        let page = web.post(&format!("{}/v3/{path}", self.url), None, &body.to_string())?;
        let text = if page.is_there { Ok(page.text) } else { Err(page.status) }?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Whether it leads the others, if it answers.
    fn leads(&self) -> Option<bool> {
        let status = self.ask("maintenance/status", &json!({})).ok()?;
        let leader = status["leader"].as_str().filter(|leader| *leader != "0")?;
        Some(status["header"]["member_id"].as_str() == Some(leader))
    }
}

/// An etcd cluster of our own, which ends with the test.
struct Cluster {
    seats: Vec<Seat>,
    _directory: Directory,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.seats.iter_mut().for_each(Seat::kill);
    }
}

impl Cluster {
    fn start(members: usize) -> Option<Cluster> {
        Cluster::with(members, Directory::new(), None)
    }

    /// With what clients show, if members ask for certificates: theirs are in the directory then.
    fn with(members: usize, directory: Directory, tls: Option<&Login>) -> Option<Cluster> {
        let asks = tls.map(|_| {
            let file = |name| directory.0.path().join(name).display().to_string();
            [
                "--client-cert-auth".to_owned(),
                format!("--cert-file={}", file("member.pem")),
                format!("--key-file={}", file("member.key")),
                format!("--trusted-ca-file={}", file("authority.pem")),
            ]
        });
        let tls = tls.map(|login| login.read().expect("files").tls.expect("certificates"));
        let scheme = if tls.is_some() { "https:" } else { "http:" };
        let place = |_| [free_url().replace("http:", scheme), free_url()];
        let places: Vec<[String; 2]> = (0..members).map(place).collect();
        let initial: Vec<String> =
            places.iter().enumerate().map(|(at, [_, peer])| format!("m{at}={peer}")).collect();
        let seat = |(at, [url, peer]): (usize, &[String; 2])| {
            let (name, data) =
                (format!("m{at}"), directory.0.path().join(at.to_string()).display().to_string());
            let words = [
                ["--name", &name],
                ["--data-dir", &data],
                ["--listen-client-urls", url],
                ["--advertise-client-urls", url],
                ["--listen-peer-urls", peer],
                ["--initial-advertise-peer-urls", peer],
                ["--initial-cluster", &initial.join(",")],
                ["--heartbeat-interval", "50"],
                ["--election-timeout", "500"],
                ["--bcrypt-cost", "4"],
            ];
            let words = words.concat().into_iter().chain(asks.iter().flatten().map(String::as_str));
            Seat {
                words: words.map(str::to_owned).collect(),
                url: url.clone(),
                tls: tls.clone(),
                child: None,
            }
        };
        let mut cluster =
            Cluster { seats: places.iter().enumerate().map(seat).collect(), _directory: directory };
        if !cluster.seats.iter_mut().all(Seat::start) {
            assert!(!is_required(), "MILLRACE_REQUIRE_PEERS is set, and there is no etcd");
            eprintln!("SKIPPED: etcd is not installed (Debian: etcd-server)");
            return None;
        }
        cluster.leader();
        Some(cluster)
    }

    /// The member that leads, when one does.
    fn leader(&self) -> usize {
        wait_for("etcd's leader", || {
            self.seats.iter().position(|seat| seat.child.is_some() && seat.leads() == Some(true))
        })
    }

    fn etcd(&self) -> Etcd {
        let endpoints = self.seats.iter().map(|seat| seat.url.clone()).collect();
        Etcd { leadership: Duration::from_millis(2400), ..Etcd::at(endpoints) }
    }

    fn registry(&self, number: u16) -> EtcdRegistry {
        EtcdRegistry::new(self.etcd(), 5, number).expect("URLs")
    }
}

#[test]
fn of_three_members_one_and_then_the_leader_may_die() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let done = Mutex::new(Vec::new());
    let proposer = |number: u16| Proposer {
        worker: Worker::start(Box::new(cluster.registry(number)), || ()).expect("a thread"),
        who: number.into(),
        until: Nanos::ZERO,
        stored: None,
        proposed: None,
    };
    let mut both = [proposer(0), proposer(1)];
    let mut goes_on = || {
        let before = done.lock().expect("not poisoned").len();
        wait_for("more configurations", || {
            both.iter_mut().for_each(|controller| controller.turn(&done));
            (done.lock().expect("not poisoned").len() >= before + 5).then_some(())
        });
        done.lock().expect("not poisoned").iter().map(|(epoch, _)| *epoch).max().expect("some were stored")
    };
    let has = |cluster: &Cluster, epoch: u64| {
        let stored = wait_for("an answer", || cluster.registry(9).load().ok()).expect("a configuration");
        assert!(stored.epoch >= Epoch(epoch), "{stored:?} came after {epoch}");
    };
    has(&cluster, goes_on());
    let follower = (cluster.leader() + 1) % 3;
    cluster.seats[follower].kill();
    has(&cluster, goes_on());
    assert!(cluster.seats[follower].start());
    // It must be up to date, or two are too few.
    wait_for("its return", || cluster.seats[follower].leads());
    let leader = cluster.leader();
    cluster.seats[leader].kill();
    has(&cluster, goes_on());
    let mut epochs: Vec<u64> = done.lock().expect("not poisoned").iter().map(|(epoch, _)| *epoch).collect();
    assert!(epochs.is_sorted(), "configurations went back: {epochs:?}");
    epochs.dedup();
    assert_eq!(epochs.len(), done.lock().expect("not poisoned").len(), "an epoch was used twice");
}

/// A file with a password.
fn password(cluster: &Cluster, text: &str) -> Login {
    let file = cluster._directory.file();
    write_secret(&file, text);
    Login { user: Some("millrace".to_owned()), password_file: Some(file), ..Login::default() }
}

#[test]
fn a_user_with_a_password_may_and_others_are_told() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let range = json!({ "key": BASE64.encode("/millrace/"), "range_end": BASE64.encode("/millrace0"), "permType": "READWRITE" });
    for (path, body) in [
        ("auth/user/add", json!({ "name": "root", "password": "r" })),
        ("auth/role/add", json!({ "name": "root" })),
        ("auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("auth/user/add", json!({ "name": "millrace", "password": "water" })),
        ("auth/user/add", json!({ "name": "other", "password": "water" })),
        ("auth/role/add", json!({ "name": "chains" })),
        ("auth/role/grant", json!({ "name": "chains", "perm": range })),
        ("auth/user/grant", json!({ "user": "millrace", "role": "chains" })),
        ("auth/enable", json!({})),
    ] {
        cluster.seats[0].ask(path, &body).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let registry = |login: &Login| {
        let access = login.read().expect("a file");
        EtcdRegistry::new(Etcd { access, ..cluster.etcd() }, 5, 0).expect("a URL")
    };
    let refused = |login: &Login, words: &str| {
        let error = registry(login).load().expect_err("it may not").to_string();
        assert!(
            error.contains("refuses") && error.contains(words) && error.contains("--etcd-user"),
            "{error}"
        );
    };
    refused(&Login::default(), "user name is empty");
    refused(&password(&cluster, "wine\n"), "invalid user ID or password, for user \"millrace\"");
    refused(&Login { user: Some("other".to_owned()), ..password(&cluster, "water") }, "permission denied");
    let right = password(&cluster, "water\n");
    conforms(Box::new(registry(&right)));

    // etcd forgets tokens when it starts again.
    let mut old = registry(&right);
    assert_eq!(old.load().expect("it answers"), Some(configuration(9, 1)));
    cluster.seats[0].kill();
    assert!(cluster.seats[0].start());
    assert_eq!(wait_for("etcd", || old.load().ok()), Some(configuration(9, 1)));

    let file = right.password_file.as_deref().expect("it has one");
    fs::set_permissions(file, Permissions::from_mode(0o644)).expect("it is ours");
    let error = right.read().expect_err("others may read it").to_string();
    assert!(error.contains("chmod 600"), "{error}");
}

/// Writes a file that is its owner's alone.
fn write_secret(path: &Path, text: &str) {
    fs::write(path, text).expect("it writes");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
}

/// Has `openssl` make files in a directory; whether there is one.
fn openssl(directory: &Directory, words: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).current_dir(&directory.0).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// An authority in `authority.pem`, and certificates of it: `member.pem`, `client.pem`. What the client shows; none if nobody makes certificates here.
fn certificates(directory: &Directory) -> Option<Login> {
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let authority = format!("req -x509 {curve} -subj /CN=authority -keyout authority.key -out authority.pem");
    let is_made = openssl(directory, &authority)
        && ["member", "client"].iter().all(|name| {
            // etcd's gateway is a client of its own member, and shows the member's certificate.
            let may = "-addext subjectAltName=IP:127.0.0.1 -addext extendedKeyUsage=serverAuth,clientAuth";
            let own = format!("-subj /CN={name} {may} -addext basicConstraints=CA:FALSE");
            let of = "-CA authority.pem -CAkey authority.key";
            openssl(directory, &format!("req -x509 {curve} {of} {own} -keyout {name}.key -out {name}.pem"))
        });
    let file = |name: &str| Some(directory.0.path().join(name));
    let login = Login {
        ca_file: file("authority.pem"),
        cert_file: file("client.pem"),
        key_file: file("client.key"),
        ..Login::default()
    };
    if !is_made {
        assert!(
            !is_required(),
            "MILLRACE_REQUIRE_PEERS is set, and openssl (3.0 or later) makes no certificates"
        );
        eprintln!("SKIPPED: openssl (3.0 or later) makes no certificates");
    }
    is_made.then_some(login)
}

#[test]
fn members_with_certificates_are_known_and_others_are_not_believed() {
    let directory = Directory::new();
    let Some(login) = certificates(&directory) else { return };
    let other = Directory::new();
    let stranger = certificates(&other).expect("as before");
    let Some(cluster) = Cluster::with(3, directory, Some(&login)) else { return };
    let registry = |login: &Login| {
        let access = login.read().expect("files");
        EtcdRegistry::new(Etcd { access, ..cluster.etcd() }, 5, 0)
    };
    conforms(Box::new(registry(&login).expect("URLs")));
    let refused = |login: &Login, words: &str| {
        let error =
            registry(login).and_then(|mut registry| registry.load()).expect_err("it may not").to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&Login::default(), "--etcd-ca-file");
    // A member that another authority knows is not asked; who shows nothing, or what another authority knows, is not answered.
    refused(&stranger, "invalid peer certificate");
    refused(&Login { cert_file: None, key_file: None, ..login.clone() }, "etcd does not answer");
    refused(
        &Login {
            cert_file: stranger.cert_file.clone(),
            key_file: stranger.key_file.clone(),
            ..login.clone()
        },
        "etcd does not answer",
    );
    let no_key = Login { key_file: login.ca_file.clone(), ..login.clone() };
    fs::set_permissions(login.ca_file.as_ref().expect("a file"), Permissions::from_mode(0o600))
        .expect("ours");
    let error = no_key.read().expect_err("no key").to_string();
    assert!(error.contains("no private key"), "{error}");
    fs::set_permissions(login.key_file.as_ref().expect("a file"), Permissions::from_mode(0o644))
        .expect("ours");
    let error = login.read().expect_err("others may read it").to_string();
    assert!(error.contains("is a key, and others may read it: chmod 600"), "{error}");
}
