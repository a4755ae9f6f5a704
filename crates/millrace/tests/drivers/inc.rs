//! The in-network cache's nodes in a process, with sockets that lose datagrams and refuse them: what one client wrote, it and another see, in order.

use crate::for_seeds;
use crate::program::Program;
use faults::{Kind, Lie, Rates};
use serve::inc::client::ClientError;
use serve::inc::{Client, Topology};
use std::path::PathBuf;
use std::process::Command;

const WEATHER: Rates<'static> = &[
    (Kind::Lost, 400),
    (Kind::NoBuffers, 200),
    (Kind::Again, 500),
    (Kind::Short, 1000),
    (Kind::Interrupted, 500),
];

const KEYS: u64 = 4;

/// What the writer of a key knows of it.
#[derive(Clone, Copy, Default)]
struct Known {
    done: u64,
    tried: u64,
}

fn number(client: &mut Client, key: &str) -> Result<Option<u64>, String> {
    match client.get(key.as_bytes()) {
        Ok(None) => Ok(Some(0)),
        Ok(Some(item)) => String::from_utf8_lossy(&item.value).parse().map(Some).map_err(|e| format!("{e}")),
        Err(ClientError::NotDone | ClientError::Unknown) => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

/// Writes keys of its own and reads the other's.
fn talk(topology: &Topology, name: u16, rounds: u64) -> Result<u64, String> {
    let mut client = Client::init(topology, Some(name)).map_err(|e| e.to_string())?;
    let mut known = [Known::default(); KEYS as usize];
    let mut seen = [0; KEYS as usize];
    let mut answered = 0;
    for round in 1..=rounds {
        let at = (round % KEYS) as usize;
        let (mine, other) = (format!("{name}-{at}"), format!("{}-{at}", 3 - name));
        known[at].tried = round;
        match client.set(mine.as_bytes(), round.to_string().as_bytes()) {
            Ok(_) => known[at].done = round,
            Err(ClientError::NotDone | ClientError::Unknown) => {}
            Err(e) => return Err(e.to_string()),
        }
        if let Some(found) = number(&mut client, &mine)? {
            let Known { done, tried } = known[at];
            if !(done..=tried).contains(&found) {
                return Err(format!("{mine} has {found}, and {done} was acknowledged, {tried} written last"));
            }
            answered += 1;
        }
        if let Some(found) = number(&mut client, &other)? {
            if found < seen[at] {
                return Err(format!("{other} has {found}, and had {}", seen[at]));
            }
            seen[at] = found;
        }
    }
    Ok(answered)
}

/// Nodes of a topology, in one process; and the topology's file.
pub fn nodes(seed: u64) -> (Program, PathBuf) {
    nodes_with(seed, 1)
}

/// The same, with boxes of so many cores.
fn nodes_with(seed: u64, cores: u8) -> (Program, PathBuf) {
    let mut file = PathBuf::new();
    let program = Program::start(seed, |folder| {
        let printed = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["inc", "topology", "--free-ports", "--set", "coherence.patience=20000000"])
            .args(["--set", &format!("coherence.cores={cores}")])
            .output()
            .expect("the program");
        file = folder.join("rack.toml");
        std::fs::write(&file, printed.stdout).expect("a file");
        let file = file.display().to_string();
        ["inc", "run", "--until-eof", "--first", "--all", "--topology", &file].map(str::to_owned).into()
    });
    let _ = program.word("controller:0 at ");
    (program, file)
}

fn scenario(seed: u64, cores: u8, rates: Rates<'_>, lie: Lie) -> Result<String, String> {
    let (program, file) = nodes_with(seed, cores);
    let topology = Topology::read(&file).map_err(|e| e.to_string())?;
    program.control.arm(rates, lie);
    let talked = std::thread::scope(|scope| {
        let topology = &topology;
        let threads: Vec<_> = [1, 2].map(|name| scope.spawn(move || talk(topology, name, 60))).into();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .sum::<Result<u64, String>>()
    });
    program.control.disarm();
    let answered = talked.map_err(|why| program.because(&why))?;
    // A minute of patience covers any weather: most is answered.
    if answered < 60 {
        return Err(program.because(&format!("{answered} of 120 reads were answered")));
    }
    program.end()
}

#[test]
fn the_cache_is_coherent_while_datagrams_are_lost() {
    for_seeds(3, |seed| scenario(seed, 1, WEATHER, Lie::No));
}

#[test]
fn boxes_of_several_cores_are_too() {
    for_seeds(3, |seed| scenario(seed, 3, WEATHER, Lie::No));
}
