//! A node: memcached clients over TCP with pipelines of reads and writes, and an operator who looks at the admin port.

use crate::program::Program;
use crate::talk::Talk;
use crate::{PATIENCE, absorbed, for_seeds, found, rough};
use faults::{Kind, Lie, Rates};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Looks at the admin port until told not to; every request is answered.
fn operator(address: &str, rounds: u64, may_close: bool, patience: Duration) -> Result<(), String> {
    for round in 0..rounds {
        let path = if round % 3 == 0 { "metrics" } else { "healthz" };
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(patience))?;
            write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        match ask() {
            Ok(text) if text.starts_with("HTTP/1.1 200") => {}
            Ok(text) if may_close && text.is_empty() => {}
            Err(e) if may_close && !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            other => return Err(format!("the admin port's {path}: {other:?}")),
        }
    }
    Ok(())
}

fn scenario(seed: u64, rates: Rates<'_>, lie: Lie, patience: Duration) -> Result<String, String> {
    let mode = if seed.is_multiple_of(2) { "engine.mode=shared" } else { "engine.mode=dedicated" };
    let program = Program::start(seed, |_| {
        ["up", "-p", "0", "-m", "256", "-M", "-t", "2", "--admin", "0", "--set", mode]
            .map(str::to_owned)
            .into()
    });
    let address = program.word("clients on ");
    let admin = program.word("registers on http://");
    let may_close = rates.iter().any(|(kind, _)| *kind == Kind::Reset);
    let talk = |name| Talk::new(&address, name, seed, patience).with(rates);
    // Whatever is opened once, for good.
    talk(9).run(2).and(operator(&admin, 3, false, patience))?;
    program.until_as_before(&program.descriptors())?;
    let before = program.descriptors();
    program.control.arm(rates, lie);
    let talked = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=3)
            .map(|name| {
                let mut talk = talk(name);
                scope.spawn(move || talk.run(25).map(|()| talk))
            })
            .collect();
        let looked = scope.spawn(|| operator(&admin, 10, may_close, patience));
        let talked: Result<Vec<_>, String> =
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect();
        looked.join().expect("it does not panic").and(talked)
    });
    let ended = talked.and_then(|talks| {
        program.control.disarm();
        talks.into_iter().try_for_each(|mut talk| talk.read_all())?;
        program.until_as_before(&before)
    });
    ended.map_err(|why| program.because(&why))?;
    program.end()
}

#[test]
fn a_node_absorbs_what_a_kernel_may_do() {
    for_seeds(4, |seed| scenario(seed, absorbed(), Lie::No, PATIENCE));
}

#[test]
fn a_node_serves_on_when_connections_are_reset() {
    for_seeds(4, |seed| scenario(seed, rough(), Lie::No, PATIENCE));
}

/// The checks find bugs: each of these is the effect of one.
#[test]
fn planted_bugs_of_a_nodes_driver_are_found() {
    // Nobody waits this long but for what never comes.
    let hung = Duration::from_secs(3);
    for lie in [
        Lie::ShortTakenForWhole,
        Lie::ShortWrittenAgain,
        Lie::ShortTakenForEnd,
        Lie::AgainCloses,
        Lie::NoDescriptorsEndsAccepting,
    ] {
        found(lie, |seed, lie| scenario(seed, absorbed(), lie, hung));
    }
    found(Lie::BellLost, |seed, lie| scenario(seed, &[(Kind::Lost, 3000)], lie, hung));
}
