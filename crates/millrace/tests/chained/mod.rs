//! A chain of processes, and a client that wants to know what became of everything.

// Each suite is a program of its own and uses its own part of this module.
#![allow(dead_code)]

use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use protocol::chain::message::{Refusal, RequestId};
use protocol::chain::{Outcome, SessionId, Transaction};
use serve::chain::status::ask;
use serve::txn::info::{Info, Member};
use serve::txn::proto::millrace::TxnClient;
use serve::txn::spawned::Spawned;
use serve::txn::words::{put_request, take_answer, take_opened};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// After this a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// Runs `millrace chain` with these words to its end.
pub fn chain(words: &[&str]) -> Output {
    Command::new(PROGRAM).arg("chain").args(words).output().expect("the program")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The page at the address in a line.
pub fn get(line: &str) -> String {
    let (host, path) =
        line.split_once("http://").and_then(|(_, url)| url.split_once('/')).expect("an address");
    let mut stream = TcpStream::connect(host).expect("somebody listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("text");
    page
}

/// `millrace chain up`.
pub struct Up {
    chain: Option<Spawned>,
    /// Unless somebody else keeps it.
    folder: Option<TempDir>,
}

impl Up {
    pub fn start(words: &[&str]) -> Up {
        Up::again(TempDir::with_prefix("millrace-").expect("a folder"), words)
    }

    /// With what an earlier one left.
    pub fn again(folder: TempDir, words: &[&str]) -> Up {
        let mut up = Up::within(folder.path(), words, &[]);
        up.folder = Some(folder);
        up
    }

    /// With its data in a folder that outlives it, and these in its environment.
    pub fn within(folder: &Path, words: &[&str], environment: &[(&str, PathBuf)]) -> Up {
        // A replica whose file may not grow is to be told so, not killed.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "trap '' XFSZ; exec \"$@\"",
            "sh",
            PROGRAM,
            "chain",
            "up",
            "--until-eof",
            "--port",
            "0",
        ]);
        command.arg("--data").arg(folder).args(words);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let chain = Spawned::of(command, 3).unwrap_or_else(|error| panic!("{error}"));
        Up { chain: Some(chain), folder: None }
    }

    fn chain(&self) -> &Spawned {
        self.chain.as_ref().expect("it runs until this ends")
    }

    pub fn lines(&self) -> Vec<String> {
        self.chain().lines()
    }

    /// The newest line that begins so, when there is one.
    pub fn line(&self, begins: &str) -> String {
        let line = self.chain().wait_for_line(begins, 0, PATIENCE);
        line.unwrap_or_else(|| panic!("nobody says {begins:?}: {:?}", self.lines()))
    }

    /// Where the replicas serve clients.
    pub fn addresses(&self) -> Vec<Address> {
        self.chain().addresses()
    }

    /// The same, for the command line.
    pub fn list(&self) -> String {
        self.addresses().iter().map(Address::to_string).collect::<Vec<_>>().join(",")
    }

    fn process(&self, id: u16) -> i32 {
        let all = self.chain().processes();
        let process = all.iter().find(|(replica, _)| *replica == id).expect("it lives").1;
        i32::try_from(process).expect("a number")
    }

    /// Sends a replica a signal.
    pub fn signal(&self, id: u16, signal: i32) {
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        assert!(self.chain().signal(id, signal), "replica {id} lives");
    }

    /// Kills a replica, and waits until that was noticed.
    pub fn kill(&self, id: u16) {
        let (ended, before) = (format!("replica {id} ended"), self.chain().printed());
        self.signal(id, libc::SIGKILL);
        let noticed = self.chain().wait_for_line(&ended, before, PATIENCE);
        assert!(noticed.is_some(), "{ended}: {:?}", self.lines());
    }

    /// From now on a replica's files may not be written beyond so many bytes.
    pub fn limit_files(&self, id: u16, bytes: u64) {
        let pid = rustix::process::Pid::from_raw(self.process(id)).expect("a process");
        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).expect("it is ours");
    }

    /// Lets all of it end; what it leaves, in the folder that was its own.
    pub fn end(mut self) -> Option<TempDir> {
        let ended = self.chain.take().expect("it runs until this ends").end().expect("it is ours");
        assert!(ended.success(), "{ended}");
        self.folder.take()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(chain) = self.chain.take()
            && std::thread::panicking()
        {
            let lines = chain.lines();
            eprintln!(
                "what the chain said in the end:\n{}",
                lines[lines.len().saturating_sub(40)..].join("\n")
            );
        }
    }
}

/// Three replicas and a controller, each a process that is started and ended alone: for what `chain up` does not do.
pub struct Members {
    folder: TempDir,
    running: Vec<Child>,
}

impl Members {
    pub fn new() -> Members {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let members = Members { folder, running: Vec::new() };
        let made = Command::new(PROGRAM).args(["key", "new"]).arg(members.path("cluster.key")).output();
        assert!(made.expect("the program").status.success());
        members
    }

    /// A file of theirs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }

    /// Where the replicas serve clients.
    pub fn addresses(&self) -> Vec<Address> {
        (1..=3).map(|id| self.socket(&format!("clients-{id}")).parse().expect("an address")).collect()
    }

    /// What a controller is told, and who does its work for once.
    fn leading(&self) -> Vec<String> {
        let key = self.path("cluster.key").display().to_string();
        let state = self.path("state").display().to_string();
        let words =
            ["--replicas", "1,2,3", "--listen", &self.socket("controller"), "--state", &state, "--key", &key];
        words.map(str::to_owned).into()
    }

    pub fn start_controller(&mut self) {
        let words = self.leading();
        self.spawn("controller", &words);
    }

    pub fn start_replicas(&mut self) {
        let peers: Vec<String> =
            (1..=3).map(|id| format!("{id}={}", self.socket(&format!("peers-{id}")))).collect();
        let (peers, controller) = (peers.join(","), self.socket("controller"));
        let key = self.path("cluster.key").display().to_string();
        for id in 1..=3 {
            let (number, clients) = (id.to_string(), self.socket(&format!("clients-{id}")));
            let data = self.path(&number).display().to_string();
            let words = [
                "--id",
                &number,
                "--listen",
                &clients,
                "--peers",
                &peers,
                "--controllers",
                &controller,
                "--data",
                &data,
                "--key",
                &key,
                "--log-size",
                "8m",
                "--data-size",
                "8m",
            ];
            self.spawn("replica", &words.map(str::to_owned));
        }
    }

    fn spawn(&mut self, role: &str, words: &[String]) {
        let process = Command::new(PROGRAM).args(["chain", role]).args(words).stdout(Stdio::null()).spawn();
        self.running.push(process.expect("the program"));
    }

    /// Kills all.
    pub fn kill(&mut self) {
        for mut process in self.running.drain(..) {
            process.kill().expect("it is ours");
            process.wait().expect("it is ours");
        }
    }

    /// `chain reset`, while no controller runs.
    pub fn reset(&self) -> Output {
        let words = self.leading();
        let words: Vec<&str> =
            ["reset", "--accept-data-loss"].into_iter().chain(words.iter().map(String::as_str)).collect();
        chain(&words)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Until all three serve in the same configuration, each in the life that it lives now.
pub fn until_all_serve(up: &Up) {
    let said = || format!("{:#?}", up.lines().iter().rev().take(20).collect::<Vec<_>>());
    until_all_serve_at(&up.addresses(), PATIENCE, said);
}

/// The same of the replicas at these addresses; `said` is what else is known when they do not within `patience`.
pub fn until_all_serve_at(addresses: &[Address], patience: Duration, said: impl Fn() -> String) {
    let begun = Instant::now();
    loop {
        let infos: Vec<_> = addresses.iter().filter_map(|address| ask(address, None).ok()).collect();
        let serves = |info: &Info| {
            let members =
                infos.iter().filter(|other| other.epoch == info.epoch).flat_map(|other| &other.members);
            let me =
                |member: &&Member| (member.replica, member.incarnation) == (info.replica, info.incarnation);
            members.filter(|member| me(member) && !member.syncing).count() == 3
        };
        if infos.len() == 3 && infos.iter().all(serves) {
            return;
        }
        assert!(begun.elapsed() < patience, "not all serve: {infos:?}\nwhat was said: {}", said());
        std::thread::yield_now();
    }
}

/// Compares all replicas, and says what the command says.
pub fn checksum(up: &Up, replicas: usize) -> String {
    checksum_at(&up.list(), replicas)
}

/// The same of those at these addresses.
pub fn checksum_at(list: &str, replicas: usize) -> String {
    let output = chain(&["checksum", "--connect", list, "--replicas", &replicas.to_string()]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// A session whose requests all get an outcome, whoever dies.
pub struct Writer {
    addresses: Vec<Address>,
    at: usize,
    connection: Option<(Channel, TxnClient)>,
    session: Option<SessionId>,
    sequence: u64,
    /// How long one replica may take.
    patience: Duration,
}

impl Writer {
    pub fn new(up: &Up) -> Writer {
        Writer::patient(up, Duration::from_secs(2))
    }

    pub fn patient(up: &Up, patience: Duration) -> Writer {
        Writer { patience, ..Writer::of(up.addresses()) }
    }

    /// At these replicas.
    pub fn of(addresses: Vec<Address>) -> Writer {
        let patience = Duration::from_secs(2);
        Writer { addresses, at: 0, connection: None, session: None, sequence: 0, patience }
    }

    /// What became of it. It is sent with the same number until that is known.
    pub fn execute(&mut self, transaction: Transaction) -> Outcome {
        let session = self.session();
        self.sequence += 1;
        let patience = CallOptions::within(self.patience);
        let id = RequestId { session, sequence: self.sequence };
        self.insist(|channel, client| {
            let reply =
                client.execute(channel, &patience, |request| put_request(id, &transaction, request)).ok()?;
            take_answer(reply.view()).expect("a reply").ok()
        })
    }

    fn session(&mut self) -> SessionId {
        if self.session.is_none() {
            let patience = CallOptions::within(self.patience);
            let opened = self.insist(|channel, client| {
                let reply = client.open(channel, &patience, |_| Ok(())).ok()?;
                take_opened(reply.view()).expect("a reply").ok()
            });
            self.session = Some(opened.0);
        }
        self.session.expect("it was opened")
    }

    /// Asks one replica after the other until one of them answers.
    fn insist<T>(&mut self, mut ask: impl FnMut(&mut Channel, &TxnClient) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "nobody answers");
            if self.connection.is_none() {
                let options = Options { timeout: Duration::from_secs(2), ..Options::default() };
                self.connection = Channel::connect(&self.addresses[self.at], &options)
                    .ok()
                    .and_then(|channel| TxnClient::new(&channel).ok().map(|client| (channel, client)));
            }
            if let Some((channel, client)) = &mut self.connection
                && let Some(answer) = ask(channel, client)
            {
                return answer;
            }
            self.connection = None;
            self.at = (self.at + 1) % self.addresses.len();
        }
    }
}

impl Writer {
    /// Whether a chain, perhaps another one, does not know this session.
    pub fn is_refused(&mut self, addresses: Vec<Address>, transaction: Transaction) -> bool {
        let session = self.session.expect("it was opened");
        self.sequence += 1;
        let id = RequestId { session, sequence: self.sequence };
        (self.addresses, self.at, self.connection) = (addresses, 0, None);
        let patience = CallOptions::within(self.patience);
        self.insist(|channel, client| {
            let reply =
                client.execute(channel, &patience, |request| put_request(id, &transaction, request)).ok()?;
            match take_answer(reply.view()).expect("a reply") {
                Ok(_) => Some(false),
                Err(Refusal::NoSession) => Some(true),
                Err(_) => None,
            }
        })
    }
}
