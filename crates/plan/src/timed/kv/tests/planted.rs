//! Mistakes of edges that change answers though nothing fails: the same wrong answer by real sockets, in steps that a seed's luck drives as in `millrace sim
//! --node` (whose finders of the same mistakes are in `prove/src/sim/node/tests.rs`), and in modelled time; and none of it without the mistake.

use super::{Once, host};
use crate::timed::kv::{Setup, Timed};
use base::{Nanos, Picos};
use model::system::host::Threads;
use serve::kv::by_hand::{Node, Place, Planted, Width};
use serve::kv::config::Config;
use serve::kv::registers::Id;
use std::cell::RefCell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// More than a socket takes, so that a reply waits for its reader.
const LARGE: usize = 600 << 10;
/// Steps after which nothing more comes.
const STEPS: usize = 400;
/// In modelled time.
const END: Picos = Picos::from_millis(50);

/// What happens, with no faults in it.
struct Scene {
    planted: Planted,
    registers: Vec<(Id, u64)>,
    /// What each client says, all at once.
    says: Vec<Vec<u8>>,
    /// The node is told to stop before it has read any of it.
    stops: bool,
}

/// What each client heard, in order of the bytes.
type Heard = Vec<Vec<u8>>;

fn scenes() -> Vec<Scene> {
    let plain = |planted, says: Vec<Vec<u8>>| Scene { planted, registers: vec![], says, stops: false };
    let set = |key: &str, bytes: usize| format!("set {key} 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes));
    let two = [(); 2].map(|()| format!("{}get a\r\n", set("a", 3)).into_bytes());
    let slow = format!("{}get large\r\nget large\r\nmn\r\n", set("large", LARGE)).into_bytes();
    vec![
        plain(Planted::RepliesCross, two.to_vec()),
        Scene {
            registers: vec![(Id::EdgeReadBuffer, 2048)],
            ..plain(Planted::DoesNotGrow, vec![(set("k", 5000) + "mn\r\n").into_bytes()])
        },
        Scene {
            registers: vec![(Id::NetPipeline, 4)],
            ..plain(Planted::LaggardsStarve, vec!["mg k v\r\n".repeat(30).into_bytes(), two[0].clone()])
        },
        Scene { registers: vec![(Id::NetPipeline, 2)], ..plain(Planted::ResumesOnly, vec![slow]) },
        Scene { stops: true, ..plain(Planted::DrainReadsNothing, two.to_vec()) },
    ]
}

impl Scene {
    fn places(&self) -> Vec<Place> {
        let config = Config::default();
        for &(id, value) in [(Id::StoreMemory, 16 << 20), (Id::StorePages, 0)].iter().chain(&self.registers) {
            config.registers.write(id, value).expect("within its range");
        }
        vec![Place { config, core: 0 }]
    }

    /// So wide that all that is said comes at once, and that a large value does not.
    fn width(&self) -> Width {
        Width { room: 64 << 10, call: 1 << 20 }
    }

    /// Over sockets of the system, one step after the other.
    fn real(&self, planted: Option<Planted>) -> Heard {
        let node = Node::new(1, &self.places(), Nanos::ZERO, (None, planted)).expect("a node");
        let connect = |_| {
            let (ours, theirs) = UnixStream::pair().expect("a socket pair");
            ours.set_nonblocking(true).expect("a socket");
            theirs.set_nonblocking(true).expect("a socket");
            node.accept(0, ours.into());
            node.step_edge(0);
            theirs
        };
        let streams: Vec<UnixStream> = self.says.iter().map(connect).collect();
        // Nothing is read before all have said theirs; what is too much for a socket follows.
        let say = |(mut stream, says): (UnixStream, &Vec<u8>)| {
            let said = stream.write(says).expect("some of it");
            (stream, said, Vec::new())
        };
        let mut clients: Vec<(UnixStream, usize, Vec<u8>)> =
            streams.into_iter().zip(&self.says).map(say).collect();
        if self.stops {
            node.stop();
        }
        let mut room = vec![0; 64 << 10];
        for _ in 0..STEPS {
            node.step_edge(0);
            for ((stream, said, heard), says) in clients.iter_mut().zip(&self.says) {
                // A node that has closed hears nothing more.
                *said += stream.write(&says[*said..]).unwrap_or(0);
                match stream.read(&mut room) {
                    Ok(count) => heard.extend_from_slice(&room[..count]),
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset),
                        "{error}"
                    ),
                }
            }
        }
        sorted(clients.into_iter().map(|(_, _, heard)| heard).collect())
    }

    /// As the simulator of faults drives it: what its threads leave to chance is drawn from a seed.
    fn simulated(&self, seed: u64, planted: Option<Planted>) -> Heard {
        let node = Node::new(1, &self.places(), Nanos::ZERO, (Some(seed), planted)).expect("a node");
        let peers: Vec<_> =
            self.says.iter().map(|_| node.connect(0, self.width()).expect("a descriptor")).collect();
        node.step_edge(0);
        peers.iter().zip(&self.says).for_each(|(peer, says)| peer.send(says));
        if self.stops {
            node.stop();
        }
        let mut heard = vec![Vec::new(); peers.len()];
        for _ in 0..STEPS {
            node.step_edge(0);
            peers.iter().zip(&mut heard).for_each(|(peer, heard)| peer.take(usize::MAX, heard));
        }
        sorted(heard)
    }

    /// In modelled time.
    fn timed(&self, planted: Option<Planted>) -> Heard {
        let setup = Setup {
            host: &host(),
            threads: Threads::asleep(),
            working_set: 16 << 10,
            places: self.places(),
            planted,
            width: self.width(),
        };
        let node = Timed::new(setup).expect("a node");
        let heard: Vec<Rc<RefCell<Vec<u8>>>> = self.says.iter().map(|_| Rc::default()).collect();
        let client = |(says, heard): (&Vec<u8>, &Rc<_>)| (0, Once::new(says, heard));
        node.begin(self.says.iter().zip(&heard).map(client).collect()).expect("descriptors");
        if self.stops {
            // The first bytes wake the edge, which reads nothing so soon.
            node.stop_at(Picos::from_micros(16));
        }
        node.sim().run_until(END);
        node.sim().end_processes();
        sorted(heard.iter().map(|heard| heard.borrow().clone()).collect())
    }
}

/// Who of several that say the same is read first is luck, so clients have no names.
fn sorted(mut heard: Heard) -> Heard {
    heard.sort();
    heard
}

fn shown(heard: &Heard) -> Vec<String> {
    let short = |bytes: &Vec<u8>| {
        format!("{} bytes: {:?}", bytes.len(), bytes[..bytes.len().min(60)].escape_ascii().to_string())
    };
    heard.iter().map(short).collect()
}

#[test]
fn a_mistake_changes_answers_alike_by_sockets_by_luck_and_in_time() {
    for scene in scenes() {
        let right = scene.real(None);
        for planted in [None, Some(scene.planted)] {
            let real = scene.real(planted);
            for (other, how) in (1..4)
                .map(|seed| (scene.simulated(seed, planted), "by luck"))
                .chain([(scene.timed(planted), "in time")])
            {
                assert_eq!(shown(&other), shown(&real), "{:?} {planted:?} {how}", scene.planted);
                assert!(other == real, "{:?} {planted:?} {how}", scene.planted);
            }
            assert_eq!(planted.is_some(), real != right, "{:?}: {:?}", scene.planted, shown(&real));
        }
    }
}
