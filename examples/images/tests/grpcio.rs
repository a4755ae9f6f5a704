//! The unit is taken away and given back while grpcio clients upload, in each strategy: no picture is lost, at each change one request of each client is slow at
//! most, by what the server counts, and as much crosses as the codec counts for the same messages alone.
//!
//! `MILLRACE_PYTHON` names a Python with grpcio-tools. Without one it is skipped, visibly; `MILLRACE_REQUIRE_PEERS=1` makes a skip a failure.

use base::Prng;
use codec::encode::Strategy;
use codec::memory::Place;
use codec::unit::kernels::SealingKey;
use images::crossed::{CALM, STRATEGIES, Way, alone};
use images::pictures::{KEY, Picture};
use images::served::{Served, Transport};
use images::service::token;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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

/// Uploads by several clients at once.
const CLIENTS: u64 = 4;
const MANY: u64 = 60;

#[test]
fn a_unit_goes_and_comes_while_grpcio_clients_upload() {
    let picture = Picture::drawn(32, &mut Prng::new(5));
    for (strategy, word) in STRATEGIES {
        let Some(python) = python() else { return };
        let listen = [(Transport::Grpc, "127.0.0.1:0".to_owned())];
        let served = Served::start(&listen, &SealingKey::new(&KEY, 1)).expect("it starts");
        served.set("acc.serialise", word);
        served.set_unit(true);
        let all = 3 * CALM + 2 * (MANY + CALM);
        let mut uploads = Uploads::start(python, &served, &picture, all);
        let mut slow = one_by_one(&mut uploads, &served, strategy, &picture);
        slow.extend(together(&mut uploads, &served, strategy));
        println!("{word}: {all} pictures; slow requests at each change: {slow:?}");
        for id in 0..all {
            let (sealed, on_unit) =
                uploads.reply(id).unwrap_or_else(|| panic!("{word}: picture {id} is lost"));
            picture.is_in(&sealed, &KEY).unwrap_or_else(|wrong| panic!("{word}: picture {id}: {wrong}"));
            assert!(id >= 3 * CALM || on_unit == (id / CALM != 1), "{word}: picture {id}");
        }
        uploads.end();
        served.stop().expect("it ends");
    }
}

/// One client, and every request is looked at: slow requests at each change, which are those whose field the server had to move.
fn one_by_one(uploads: &mut Uploads, served: &Served, strategy: Strategy, picture: &Picture) -> Vec<u64> {
    let mut slow = Vec::new();
    for id in 0..3 * CALM {
        let (on_unit, is_change) = (id / CALM != 1, id % CALM == 0 && id > 0);
        if is_change {
            served.set_unit(on_unit);
        }
        let (before, moves) = (served.figures().lanes.crossed, served.moves());
        uploads.says(&format!("one {id}"));
        uploads.hears("done");
        let crossed = served.figures().lanes.crossed - before;
        let landed = if on_unit != is_change { Place::Acc } else { Place::Host };
        let way = Way { strategy, on_unit, landed };
        assert_eq!(way.is_slow(), is_change);
        assert_eq!(served.moves() - moves, way.moves(), "{strategy:?}, request {id}");
        if is_change {
            slow.push(1);
        }
        // The codec's own are the same for each of a phase, but for the number of the request.
        if is_change || id % CALM == 1 || id % CALM == CALM - 1 {
            assert_eq!(crossed, alone(way, id, picture), "{strategy:?}, request {id}");
        }
    }
    slow
}

/// Several clients at once. What was under way when the unit went is answered, too, and of those requests alone, one for each client, the field may be on the wrong
/// side. One client goes on until the next change counts as the first.
fn together(uploads: &mut Uploads, served: &Served, strategy: Strategy) -> Vec<u64> {
    let phase = |(begin, on_unit): (u64, bool)| {
        let moves = served.moves();
        uploads.says(&format!("many {begin} {} {CLIENTS}", begin + MANY));
        served.set_unit(on_unit);
        uploads.hears("done");
        for id in begin + MANY..begin + MANY + CALM {
            uploads.says(&format!("one {id}"));
            uploads.hears("done");
        }
        // What units made was moved for the CPU, request by request.
        let by_unit = |id: &u64| uploads.reply(*id).is_some_and(|(_, on_unit)| on_unit);
        let made = match strategy {
            Strategy::CpuOnly => (begin..begin + MANY + CALM).filter(by_unit).count() as u64,
            _ => 0,
        };
        let slow = served.moves() - moves - made;
        assert!(
            (1..=CLIENTS).contains(&slow),
            "{strategy:?}: {slow} of {CLIENTS} clients' requests were slow"
        );
        slow
    };
    [(3 * CALM, false), (4 * CALM + MANY, true)].map(phase).to_vec()
}

/// What is asserted above fails where it should: another strategy, another place of the work, and a field that had to move cross otherwise.
#[test]
fn every_way_crosses_otherwise() {
    let picture = Picture::drawn(32, &mut Prng::new(5));
    let ways = STRATEGIES.iter().flat_map(|(strategy, _)| {
        let places = [(true, Place::Acc), (true, Place::Host), (false, Place::Host), (false, Place::Acc)];
        places.map(|(on_unit, landed)| Way { strategy: *strategy, on_unit, landed })
    });
    let counts: Vec<_> = ways.map(|way| (way, alone(way, 3, &picture))).collect();
    for (at, (way, one)) in counts.iter().enumerate() {
        for (other_way, other) in &counts[at + 1..] {
            assert_ne!(one, other, "{way:?} and {other_way:?}");
        }
    }
}
