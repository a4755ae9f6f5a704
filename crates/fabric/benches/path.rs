//! What a call costs the processor on its whole way: encode, ring, decode, handler, encode, ring, decode, through generated stubs, both sides
//! in one thread.
//!
//! Why one thread: no line of memory changes cores, so what is left is what the two programs do, and the same from run to run. What
//! the way between two cores adds is `millrace rpc bench`.
//!
//! ```text
//! cargo bench -p millrace-fabric --bench path                      ns per call and side, median and quartiles of short rounds
//! cargo bench -p millrace-fabric --bench path -- shm 8 100000      so many calls of one combination, to be counted:
//! valgrind --tool=callgrind target/release/deps/path-… shm 8 100000      inclusive counts of `ask`, `serve`, `take`
//! ```
//! *watched* is the same with a monitor at its default sampling on both sides.

use base::clock::Clock;
use base::spread;
use fabric::channel::{CallOptions, Channel, Options};
use fabric::link::{LinkOptions, memory};
use fabric::monitor::Monitor;
use fabric::server::{self, Server};
use fabric::service::Context;
use fabric::status::Status;
use proto::demo::{Echo, EchoClient, EchoServer, SayReply, SayReplyMut, SayRequestView};
use std::thread;
use tempfile::TempDir;

#[allow(clippy::undocumented_unsafe_blocks, missing_docs, dead_code)]
mod proto {
    include!("../examples/echo/echo.rs");
}

const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const CALLS: usize = 10_000;
const ROUNDS: usize = 101;
const WINDOWS: [usize; 4] = [1, 8, 32, 64];

struct Repeat;

impl Echo for Repeat {
    #[inline]
    fn say(
        &self,
        request: SayRequestView<'_>,
        reply: &mut SayReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        Ok(reply.set_text(request.text())?)
    }
}

/// Client and server of one connection.
struct Both {
    channel: Channel,
    client: EchoClient,
    server: Server,
    clock: Clock,
}

impl Both {
    fn over(transport: &str, monitors: Option<[Monitor; 2]>) -> Both {
        let mut server = Server::new(server::Options::default()).service(EchoServer::new(Repeat));
        let mut options = Options::default();
        if let Some([asking, serving]) = monitors {
            (server, options.monitor) = (server.monitor(&serving), Some(asking));
        }
        let clock = Clock::shared();
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("s");
        let connecting = match transport {
            "memory" => {
                let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("descriptors");
                server.accept(theirs, clock.now());
                thread::spawn(move || Channel::over(ours, &options))
            }
            _ => {
                let address = format!("{transport}:{}", path.display()).parse().expect("shm or unix");
                server = server.listen(&address).expect("nobody else listens there");
                thread::spawn(move || Channel::connect(&address, &options))
            }
        };
        while !connecting.is_finished() {
            server.poll(clock.now());
            // The other thread may have this core alone to run on.
            thread::yield_now();
        }
        let channel = connecting.join().expect("no panic").expect("the server answers");
        let client = EchoClient::new(&channel).expect("it serves Echo");
        Both { channel, client, server, clock }
    }

    #[inline(never)]
    fn ask(&mut self, window: usize) {
        for user in 0..window {
            let options = CallOptions::default();
            let asked = self.client.say_async(&mut self.channel, &options, user as u64, |r| r.set_text(TEXT));
            asked.expect("room for a window");
        }
        self.channel.flush();
    }

    #[inline(never)]
    fn serve(&mut self, window: usize) {
        let mut served = 0;
        while served < window {
            served += self.server.poll(self.clock.now());
        }
    }

    #[inline(never)]
    fn take(&mut self, window: usize) {
        let mut taken = 0;
        while taken < window {
            taken += self.channel.poll(window, |mut event| {
                assert_eq!(event.message::<SayReply>().expect("a reply").text(), TEXT);
            });
        }
    }

    /// ns per call of the client and of the server.
    fn round(&mut self, window: usize, calls: usize) -> [f64; 2] {
        let mut sides = [0; 2];
        for _ in 0..calls / window {
            let begin = self.clock.now();
            self.ask(window);
            let asked = self.clock.now();
            self.serve(window);
            let served = self.clock.now();
            self.take(window);
            let end = self.clock.now();
            sides[0] += asked.since(begin).0 + end.since(served).0;
            sides[1] += served.since(asked).0;
        }
        sides.map(|side| side as f64 / (calls / window * window) as f64)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [transport, window, calls, rest @ ..] = &args[..] {
        let window = window.parse().expect("a window");
        let monitors = rest.first().map(|_| [Monitor::default(), Monitor::default()]);
        Both::over(transport, monitors).round(window, calls.parse().expect("calls"));
        return;
    }
    println!("ns per call, 64-byte echo in one thread; median [p10..p90] of {ROUNDS} rounds");
    println!(
        "{:>7} {:>6}  {:>22}  {:>22}  {:>22}  {:>16}",
        "link", "window", "client", "server", "both", "watched / not"
    );
    for transport in ["memory", "shm"] {
        let mut plain = Both::over(transport, None);
        let mut watched = Both::over(transport, Some([Monitor::default(), Monitor::default()]));
        for window in WINDOWS {
            let mut columns: [Vec<f64>; 4] = Default::default();
            for _ in 0..ROUNDS {
                let [client, server] = plain.round(window, CALLS);
                let [watching, serving] = watched.round(window, CALLS);
                let both = client + server;
                let row = [client, server, both, (watching + serving) / both];
                columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            let [client, server, both, ratio] = columns.map(|column| {
                let digits = if spread::median(column.iter().copied()) < 10.0 { 3 } else { 1 };
                spread::text(column, digits)
            });
            println!("{transport:>7} {window:>6}  {client:>22}  {server:>22}  {both:>22}  {ratio:>16}");
        }
    }
}
