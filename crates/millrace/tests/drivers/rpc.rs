//! Calls over each transport of the fabric: every one has the outcome that it is to have.

use crate::grpc::Grpc;
use crate::program::Program;
use crate::{PATIENCE, absorbed, for_seeds, found, rough};
use base::prng::{Prng, mix64};
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::Address;
use faults::{Kind, Lie, Rates};
use serve::rpc::demo::proto::demo::EchoClient;
use std::time::Duration;

/// Datagrams that are lost.
const WEATHER: Rates<'static> = &[
    (Kind::Lost, 500),
    (Kind::NoBuffers, 200),
    (Kind::Again, 500),
    (Kind::Short, 500),
    (Kind::Interrupted, 500),
];

struct Talk {
    address: Address,
    may_close: bool,
    patience: Duration,
    prng: Prng,
}

impl Talk {
    fn connect(&self) -> Result<(Channel, EchoClient), String> {
        let options = Options { timeout: self.patience, ..Options::default() };
        let channel = Channel::connect(&self.address, &options).map_err(|e| e.to_string())?;
        let client = EchoClient::new(&channel).map_err(|e| format!("{e:?}"))?;
        Ok((channel, client))
    }

    fn run(&mut self, calls: u64) -> Result<(), String> {
        let mut open = None;
        for _ in 0..calls {
            let length = match self.prng.below(10) {
                0 => 60_000,
                1 => 3_000,
                few => few as usize * 9,
            };
            let word = mix64(self.prng.next_u64());
            let text: String =
                (0..length).map(|i| char::from(b'a' + ((word >> (i % 60)) % 26) as u8)).collect();
            let answer = match &mut open {
                Some((channel, client)) => Ok((channel, client)),
                none => self.connect().map(|pair| {
                    let (channel, client) = none.insert(pair);
                    (channel, client)
                }),
            };
            let answer = answer.and_then(|(channel, client): (&mut Channel, &mut EchoClient)| {
                let reply = client
                    .say(channel, &CallOptions::within(self.patience), |request| request.set_text(&text));
                reply.map_err(|status| format!("{status:?}"))
            });
            match answer {
                Ok(reply) if reply.view().text() == text => {}
                Ok(reply) => return Err(format!("{length} bytes are answered {:?}", reply.view().text())),
                Err(_) if self.may_close => open = None,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

fn scenario(
    seed: u64,
    transport: &str,
    rates: Rates<'_>,
    lie: Lie,
    patience: Duration,
) -> Result<String, String> {
    let mut address = String::new();
    let program = Program::start(seed, |folder| {
        address = match transport {
            "tcp" | "udp" => format!("{transport}:127.0.0.1:0"),
            path => format!("{path}:{}", folder.join("s").display()),
        };
        ["rpc", "serve", "--until-eof", "--listen", &address].map(str::to_owned).into()
    });
    let address = format!("{transport}:{}", program.word(&format!("{transport}:")));
    let address: Address = address.parse().map_err(|e| format!("{address}: {e:?}"))?;
    let may_close = rates.iter().any(|(kind, _)| *kind == Kind::Reset);
    let talk =
        |name| Talk { address: address.clone(), may_close, patience, prng: Prng::for_entity(seed, name, 1) };
    talk(9).run(1)?;
    program.until_as_before(&program.descriptors())?;
    program.control.arm(rates, lie);
    let talked = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=2).map(|name| scope.spawn(move || talk(name).run(60))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    });
    program.control.disarm();
    let again = talked.and_then(|()| {
        let mut talk = talk(3);
        talk.may_close = false;
        talk.run(3)
    });
    again.map_err(|why| program.because(&why))?;
    program.end()
}

/// Clients of gRPC at the fabric's own port: their streams change hands with what came of them.
fn grpc_scenario(seed: u64) -> Result<String, String> {
    let program = Program::start(seed, |_| {
        ["rpc", "serve", "--until-eof", "--listen", "tcp:127.0.0.1:0"].map(str::to_owned).into()
    });
    let address = program.word("tcp:");
    let talk = |connections: u64| {
        for connection in 0..connections {
            let mut grpc = Grpc::connect(&address);
            for call in 0..20 {
                let text = format!("{connection}, {call}");
                assert_eq!(grpc.say(&text), text);
            }
        }
    };
    // The gateway is connected by its first call.
    talk(1);
    program.until_as_before(&program.descriptors())?;
    program.control.arm(absorbed(), Lie::No);
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(|| talk(5))));
    program.control.disarm();
    program.end()
}

#[test]
fn clients_of_grpc_are_handed_over_through_what_a_kernel_may_do() {
    for_seeds(4, grpc_scenario);
}

#[test]
fn calls_go_through_what_a_kernel_may_do() {
    for_seeds(4, |seed| {
        let transport = ["tcp", "udp", "unix", "shm"][(seed % 4) as usize];
        let rates = if transport == "udp" { WEATHER } else { absorbed() };
        scenario(seed, transport, rates, Lie::No, PATIENCE)
    });
}

#[test]
fn calls_go_on_when_connections_are_reset() {
    for_seeds(4, |seed| {
        let transport = ["tcp", "unix", "shm"][(seed % 3) as usize];
        scenario(seed, transport, rough(), Lie::No, PATIENCE)
    });
}

#[test]
fn planted_bugs_of_the_fabrics_streams_are_found() {
    let hung = Duration::from_secs(3);
    for lie in [Lie::ShortTakenForWhole, Lie::ShortWrittenAgain, Lie::ShortTakenForEnd, Lie::AgainCloses] {
        found(lie, |seed, lie| scenario(seed, "tcp", absorbed(), lie, hung));
    }
}
