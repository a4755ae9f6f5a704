//! The unit is taken away and given back while grpcio clients upload: a field is moved once each way, no picture is lost, and as much crosses as the
//! codec's accelerator alone makes cross for the same messages.
//!
//! `MILLRACE_PYTHON` names a Python with grpcio-tools. Without one it is skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

use base::Prng;
use codec::crossing::{Counts, Crossing, Shared};
use codec::encode::Strategy;
use codec::memory::Place;
use codec::place::{Accelerator, FieldUnit, Live, Options};
use codec::typed::Message;
use codec::unit::{self, Kernel, kernels::SealingKey};
use images::client::request;
use images::pictures::{KEY, Picture};
use images::proto::photo::{Photo, User};
use images::served::{Served, Transport};
use images::service::{token, work};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// What of the service's request crosses, by an accelerator alone: the work on a unit or on the host, the avatar landed where `landed` says.
fn alone(on_unit: bool, landed: Place, id: u64, picture: &Picture) -> Counts {
    let live = Arc::new(Live::new(User::types().table().clone()));
    live.set_target(User::AVATAR, landed);
    let options = Options { threads: 0, acc_bytes: 16 << 20, ..Options::default() };
    let mut accelerator =
        Accelerator::in_this_thread(vec![live], options, Arc::new(Shared::default())).expect("memory");
    let key = SealingKey::new(&KEY, 1000 + id as u32);
    let mut unit = FieldUnit::new("alone", &accelerator, unit::Options::default());
    unit.program(work(&key)).expect("a thread");
    let before = accelerator.crossing().counts();
    let wire = request(id, &token(id), &picture.raw);
    let mut user = accelerator.receive(User::CLASS, wire).expect("a good message");
    let mut photo = accelerator.message(Photo::CLASS).expect("room");
    let to = if on_unit { Place::Acc } else { Place::Host };
    let moved = accelerator.move_field(&mut user, &[User::AVATAR], to).expect("room");
    assert_eq!(moved, landed != to);
    if on_unit {
        let room = work(&key).output_bound(picture.raw.len()) as u32;
        unit.run(&user, &[User::AVATAR], &mut photo, &[Photo::SEALED], room).expect("it works");
    } else {
        let mut sealed = vec![0; work(&key).output_bound(picture.raw.len())];
        let len = work(&key).run(&picture.raw, &mut sealed).expect("a picture");
        Photo::placed_mut(&mut photo).expect("of this class").set_sealed(&sealed[..len]).expect("room");
    }
    let mut edit = Photo::placed_mut(&mut photo).expect("of this class");
    edit.set_id(id);
    edit.set_made_by(if on_unit { "unit" } else { "host" }).expect("room");
    accelerator.send(&photo, Strategy::MemoryAffinity, 16).expect("a good message");
    accelerator.crossing().counts() - before
}

/// The Python that has grpcio, if any.
fn python() -> Option<Command> {
    let name = std::env::var("MILLRACE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = Command::new(&name).args(["-c", "import grpc, grpc_tools"]).output();
    if imports.is_ok_and(|output| output.status.success()) {
        return Some(Command::new(name));
    }
    let why =
        format!("{name} cannot import grpc and grpc_tools; set MILLRACE_PYTHON to an interpreter that can");
    let required = std::env::var("MILLRACE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!required, "MILLRACE_REQUIRE_PEERS is set, and {why}");
    eprintln!("SKIPPED: {why}");
    None
}

/// The clients.
struct Uploads {
    child: Child,
    ask: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Uploads {
    fn start(mut python: Command, served: &Served, picture: &Picture, count: u64) -> Uploads {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpcio");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("millrace")).expect("a folder");
        std::fs::write(folder.join("millrace/options.proto"), serve::rpc::OPTIONS).expect("written");
        std::fs::write(folder.join("picture.raw"), &picture.raw).expect("written");
        let tokens: Vec<String> = (0..count).map(token).collect();
        std::fs::write(folder.join("tokens"), tokens.join("\n")).expect("written");
        let address = served.address(Transport::Grpc);
        python.arg(home.join("tests/upload.py")).arg(address.trim_start_matches("grpc://"));
        python.arg(home.join("proto")).arg(&folder);
        let mut child =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was found before");
        let (ask, hear) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("it is piped")));
        let mut uploads = Uploads { child, ask, hear, folder };
        uploads.hears("ready");
        uploads
    }

    fn says(&mut self, line: &str) {
        let ask = self.ask.as_mut().expect("it is not over");
        writeln!(ask, "{line}").and_then(|()| ask.flush()).expect("the clients are there");
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("the clients are there");
        assert_eq!(line.trim(), word, "the clients ended: what they said is above");
    }

    /// The reply to a picture, and whether the unit made it.
    fn reply(&self, id: u64) -> Option<(Vec<u8>, bool)> {
        let of = |made_by: &str| std::fs::read(self.folder.join(format!("{id}.{made_by}"))).ok();
        of("unit").map(|sealed| (sealed, true)).or_else(|| of("host").map(|sealed| (sealed, false)))
    }

    fn end(mut self) {
        drop(self.ask.take());
        assert!(self.child.wait().expect("it is ours").success());
    }
}

/// Between two changes: so many requests without an objection make the next change count as the first (`codec::place::votes`).
const CALM: u64 = 130;
/// Uploads by several clients at once.
const CLIENTS: u64 = 4;
const MANY: u64 = 60;

#[test]
fn a_unit_goes_and_comes_while_grpcio_clients_upload() {
    let Some(python) = python() else { return };
    let picture = Picture::drawn(32, &mut Prng::new(5));
    let listen = [(Transport::Grpc, "127.0.0.1:0".to_owned())];
    let served = Served::start(&listen, &SealingKey::new(&KEY, 1)).expect("it starts");
    served.set_unit(true);
    let all = 3 * CALM + 2 * MANY;
    let mut uploads = Uploads::start(python, &served, &picture, all);
    // One client: every request is looked at.
    for id in 0..3 * CALM {
        let (there, is_change) = (id / CALM != 1, id % CALM == 0 && id > 0);
        if is_change {
            served.set_unit(there);
        }
        let (before, moves) = (served.figures().lanes.crossed, served.moves());
        uploads.says(&format!("one {id}"));
        uploads.hears("done");
        let crossed = served.figures().lanes.crossed - before;
        assert_eq!(served.moves() - moves, u64::from(is_change), "request {id}");
        let here = if there { Place::Acc } else { Place::Host };
        let landed = if !is_change {
            here
        } else if there {
            Place::Host
        } else {
            Place::Acc
        };
        // The codec's own are the same for each of a phase, but for the number of the request.
        if is_change || id % CALM == 1 || id % CALM == CALM - 1 {
            assert_eq!(crossed, alone(there, landed, id, &picture), "request {id}");
        }
    }
    // Several at once: whatever was under way when the unit went is answered, too.
    for (begin, there) in [(3 * CALM, false), (3 * CALM + MANY, true)] {
        let moves = served.moves();
        uploads.says(&format!("many {begin} {} {CLIENTS}", begin + MANY));
        served.set_unit(there);
        uploads.hears("done");
        assert!(served.moves() - moves <= 8 * CLIENTS, "{} moves", served.moves() - moves);
    }
    for id in 0..all {
        let (sealed, on_unit) = uploads.reply(id).unwrap_or_else(|| panic!("picture {id} is lost"));
        picture.is_in(&sealed, &KEY).unwrap_or_else(|wrong| panic!("picture {id}: {wrong}"));
        assert!(id >= 3 * CALM || on_unit == (id / CALM != 1), "picture {id}");
    }
    uploads.end();
    served.stop().expect("it ends");
}

/// What is asserted above fails where it should: another picture's reply, and counts of a request whose avatar had to move.
#[test]
fn a_moved_request_crosses_otherwise() {
    let picture = Picture::drawn(32, &mut Prng::new(5));
    let ways = [(true, Place::Acc), (true, Place::Host), (false, Place::Host), (false, Place::Acc)];
    let counts = ways.map(|(on_unit, landed)| alone(on_unit, landed, 3, &picture));
    for (at, one) in counts.iter().enumerate() {
        assert!(counts[at + 1..].iter().all(|other| other != one), "{counts:?}");
    }
}
