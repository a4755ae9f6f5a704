//! Memcached clients before the in-network cache: the proxy has the faults, the cache behind it has none.

use crate::program::Program;
use crate::talk::Talk;
use crate::{PATIENCE, absorbed, for_seeds, found, inc, rough};
use faults::{Lie, Rates};
use std::time::Duration;

fn scenario(seed: u64, rates: Rates<'_>, lie: Lie, patience: Duration) -> Result<String, String> {
    let (nodes, file) = inc::nodes(seed);
    let file = file.display().to_string();
    let program = Program::start(seed, |_| {
        ["proxy", "--topology", &file, "--listen", "127.0.0.1:0", "--threads", "2"].map(str::to_owned).into()
    });
    let address = program.word("memcached at ");
    // A value must fit a datagram.
    let talk = |name| Talk::new(&address, name, seed, patience).longest(3000).with(rates);
    talk(9).run(2)?;
    let before = program.descriptors();
    program.control.arm(rates, lie);
    let talked: Result<Vec<_>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=2)
            .map(|name| {
                let mut talk = talk(name);
                scope.spawn(move || talk.run(15).map(|()| talk))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let ended = talked.and_then(|talks| {
        program.control.disarm();
        talks.into_iter().try_for_each(|mut talk| talk.read_all())?;
        program.until_as_before(&before)
    });
    ended.map_err(|why| program.because(&why))?;
    let done = program.end()?;
    nodes.end().map(|_| done)
}

#[test]
fn a_proxy_absorbs_what_a_kernel_may_do() {
    for_seeds(4, |seed| scenario(seed, absorbed(), Lie::No, PATIENCE));
}

#[test]
fn a_proxy_serves_on_when_connections_are_reset() {
    for_seeds(4, |seed| scenario(seed, rough(), Lie::No, PATIENCE));
}

#[test]
fn planted_bugs_of_a_proxys_driver_are_found() {
    let hung = Duration::from_secs(3);
    for lie in [Lie::ShortTakenForWhole, Lie::ShortWrittenAgain, Lie::ShortTakenForEnd, Lie::AgainCloses] {
        found(lie, |seed, lie| scenario(seed, absorbed(), lie, hung));
    }
}
