//! Clients over sockets that were silent, beside one over a ring that leaves its server no pause: all of them get what is theirs.
//!
//! One thread drives the server and all clients, so nothing here depends on who runs when.

use base::clock::Clock;
use base::units::Nanos;
use fabric::channel::{CallOptions, Channel, Method, Options as ChannelOptions, Switch, What};
use fabric::link::{Address, LinkOptions, Transport, connect};
use fabric::server::{Options, Server};
use fabric::service::{Incoming, MethodDescriptor, Responder, Service, ServiceDescriptor};
use fabric::status::Status;
use ring::wait::WaitPolicy;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Nothing here takes so long unless it hangs.
const HANG: Nanos = Nanos::from_secs(60);

const fn method(name: &'static str) -> MethodDescriptor {
    MethodDescriptor::new(name, false, false)
}

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "test.Echo",
    methods: &[method("Say"), method("Later")],
    hash: 1,
    descriptors: b"\x0a\x03\x0a\x01a",
};

#[derive(Clone, Default)]
struct Echo {
    later: Arc<Mutex<Vec<Responder>>>,
}

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn unary(&self, method: usize, call: &mut Incoming<'_>) -> Result<(), Status> {
        match method {
            0 => {
                let body = call.body();
                call.reply_bytes(body);
            }
            _ => self.later.lock().expect("no poison").push(call.defer()),
        }
        Ok(())
    }
}

struct Client {
    channel: Channel,
    say: Method,
    later: Method,
    replies: usize,
}

impl Client {
    fn new(address: &Address) -> Client {
        let link = connect(address, &LinkOptions::default()).expect("somebody listens");
        let channel = Channel::over(link, &ChannelOptions::default()).expect("a handshake");
        let [say, later] =
            ["Say", "Later"].map(|name| channel.method(&format!("/test.Echo/{name}")).expect("it is served"));
        Client { channel, say, later, replies: 0 }
    }

    fn call(&mut self, method: Method) {
        self.channel.start(method, &CallOptions::default(), 0, b"so").expect("room");
    }

    fn poll(&mut self) {
        let replies = &mut self.replies;
        self.channel.poll(64, |event| {
            assert_eq!(event.what, What::Reply(b"so"));
            *replies += 1;
        });
    }
}

/// A server, a client over a ring, and others.
struct Rig {
    server: Server,
    echo: Echo,
    addresses: Vec<Address>,
    ring: Client,
    others: Vec<Client>,
    // After the server that listens in it.
    _folder: TempDir,
}

impl Rig {
    /// With a client for each of these transports.
    fn new(transports: &[Transport]) -> Rig {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = || format!("fabric-idle-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let echo = Echo::default();
        let mut server = Server::new(Options::default()).service(echo.clone());
        for address in [
            Address::Memory(name()),
            Address::Unix(folder.path().join("s")),
            "tcp:127.0.0.1:0".parse().expect("an address"),
            "udp:127.0.0.1:0".parse().expect("an address"),
        ] {
            server = server.listen(&address).expect("nobody else listens there");
        }
        let addresses: Vec<Address> = server.addresses().cloned().collect();
        let at = |transport: Transport| {
            let found = addresses.iter().find(|address| address.transport() == transport);
            Client::new(found.expect("it listens there"))
        };
        // While they connect somebody has to answer.
        let stop = AtomicBool::new(false);
        let (ring, others) = std::thread::scope(|scope| {
            scope.spawn(|| server.run(WaitPolicy::default(), &stop));
            let clients =
                (at(Transport::Memory), transports.iter().map(|&transport| at(transport)).collect());
            stop.store(true, Ordering::Relaxed);
            clients
        });
        Rig { server, echo, addresses, ring, others, _folder: folder }
    }

    /// Goes on, with work over the ring in every turn, until `done`.
    fn until(&mut self, mut done: impl FnMut(&mut Rig) -> bool) {
        let clock = Clock::shared();
        let begun = clock.now();
        while !done(self) {
            let before = self.ring.replies;
            self.ring.call(self.ring.say);
            while self.ring.replies == before {
                self.server.poll(clock.now());
                self.ring.poll();
            }
            self.others.iter_mut().for_each(Client::poll);
            assert!(clock.now().since(begun) < HANG, "it hangs");
        }
    }

    fn are_calm(&self) -> bool {
        let mut others = self
            .server
            .connections(Clock::shared().now())
            .filter(|connection| connection.transport != Transport::Memory);
        others.all(|connection| connection.is_calm)
    }

    /// Until all others are calm.
    fn calm(transports: &[Transport]) -> Rig {
        let mut rig = Rig::new(transports);
        rig.until(|rig| rig.are_calm());
        rig
    }
}

const SOCKETS: [Transport; 4] = [Transport::Unix, Transport::Tcp, Transport::Udp, Transport::Udp];

#[test]
fn calm_clients_get_their_replies() {
    let mut rig = Rig::calm(&SOCKETS);
    for round in 1..=20 {
        for at in 0..SOCKETS.len() {
            let client = &mut rig.others[at];
            client.call(client.say);
            rig.until(|rig| rig.others[at].replies == round);
        }
        if round % 5 == 0 {
            rig.until(|rig| rig.are_calm());
        }
    }
}

#[test]
fn a_calm_session_hears_what_another_of_its_socket_read() {
    let mut rig = Rig::calm(&[Transport::Udp, Transport::Udp]);
    for round in 1..=10 {
        // The first one works all the time, so that it is busy, and its link reads the socket in every turn.
        let mut asked = 0;
        let mut begun = false;
        rig.until(|rig| {
            if rig.others[0].replies == asked {
                asked += 1;
                let client = &mut rig.others[0];
                client.call(client.say);
            }
            let calm: Vec<_> =
                rig.server.connections(Clock::shared().now()).map(|connection| connection.is_calm).collect();
            if !begun && asked > 10 && calm == [false, false, true] {
                begun = true;
                let client = &mut rig.others[1];
                client.call(client.say);
            }
            rig.others[1].replies == round
        });
        rig.until(|rig| rig.others[0].replies == asked);
        rig.others[0].replies = 0;
    }
}

#[test]
fn deferred_replies_reach_calm_clients() {
    let mut rig = Rig::calm(&SOCKETS);
    rig.others.iter_mut().for_each(|client| client.call(client.later));
    let all = |rig: &mut Rig| rig.echo.later.lock().expect("no poison").len() == SOCKETS.len();
    rig.until(|rig| all(rig) && rig.are_calm());
    for later in rig.echo.later.lock().expect("no poison").drain(..) {
        later.reply_bytes(b"so");
    }
    rig.until(|rig| rig.others.iter().all(|client| client.replies == 1));
}

#[test]
fn the_end_of_calm_clients_is_noticed() {
    let mut rig = Rig::calm(&SOCKETS);
    rig.others.clear();
    rig.until(|rig| rig.server.connections(Clock::shared().now()).count() == 1);
}

#[test]
fn calm_clients_switch_transports() {
    let mut rig = Rig::calm(&SOCKETS);
    for at in 0..SOCKETS.len() {
        // No session over UDP, which only opens when another thread answers.
        let there = &rig.addresses[1 + at % 2];
        let link = connect(there, &LinkOptions::default()).expect("somebody listens");
        rig.others[at].channel.switch(link).expect("it can be switched");
        rig.until(|rig| rig.others[at].channel.switching() == Switch::Idle);
        let client = &mut rig.others[at];
        client.call(client.say);
        rig.until(|rig| rig.others[at].replies == 1);
    }
}

#[test]
fn a_sleeping_server_hears_calm_clients() {
    let mut rig = Rig::calm(&SOCKETS);
    let stop = AtomicBool::new(false);
    let Rig { server, others, .. } = &mut rig;
    let sleeping = WaitPolicy { spin: 0, pause: 0, ..WaitPolicy::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(sleeping, &stop));
        for client in others {
            for _ in 0..10 {
                let reply = client.channel.call_bytes(client.say, &CallOptions::within(HANG.into()), b"so");
                assert_eq!(reply.expect("a reply").body, b"so");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
