//! The lab of calls: a home, a box with its XDP program, servers and gateways, each a process; and a client for each way.

use crate::lab::site::require_root;
use crate::lab::{LabError, Plan, Site, command, namespace, network, state};
use bench::grpc::Grpc;
use client::replies::Cached;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::typed::{Message, MessageView, Owned};
use fabric::channel::{CallOptions, Options, Reconnecting};
use fabric::link::Address;
use protocol::coherence::{Life, NodeId};
use protocol::wire::{BoxId, HomeId};
use serde::Serialize;
use serve::inc::topology::Shape;
use serve::inc::{Client, Topology};
use serve::rpc::demo::proto::demo::{ECHO, EchoClient, SayReply, SayRequest};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// One box before one home.
const SHAPE: Shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
/// Whatever is read twice is kept, until the lab ends.
const SETTINGS: [(&str, &str); 3] =
    [("coherence.worth", "0"), ("coherence.bypass", "0"), ("coherence.lease", "60000000")];
/// Ports in the home's namespace: the server with the cache, and the one without.
const SERVERS: [u16; 2] = [7001, 7002];
/// Ports in the client's namespace: the gateway that asks the cache, and the one that does not.
const GATEWAYS: [u16; 2] = [7003, 7004];
/// No call takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
const SAY: &str = "/demo.Echo/Say";

/// Who answers, and how he is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The box, asked first by the client of the fabric.
    Box,
    /// The server, with the reply that the cache has.
    Server,
    /// The handler of a server without a cache.
    Handler,
    /// The box, asked first by the gateway.
    GrpcBox,
    /// The handler, by the gateway.
    Grpc,
}

impl Way {
    /// All.
    pub const ALL: [Way; 5] = [Way::Box, Way::Server, Way::Handler, Way::GrpcBox, Way::Grpc];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Box => "box, XDP",
            Way::Server => "server, kept",
            Way::Handler => "server, handler",
            Way::GrpcBox => "gRPC, box, XDP",
            Way::Grpc => "gRPC, handler",
        })
    }
}

/// What was said.
pub struct Said {
    /// The same text, if all is well.
    pub text: String,
    /// The cache answered, as far as the client sees.
    pub is_kept: bool,
}

/// Calls the method.
pub trait Say: Send {
    /// Waits for the reply.
    ///
    /// # Errors
    /// In words.
    fn say(&mut self, text: &str) -> Result<Said, String>;
}

/// See the head of the file.
pub struct Rig {
    callers: Vec<Box<dyn Say>>,
    site: Site,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // `lab down` removes what is left.
        let _ = self.site.remove();
    }
}

impl Rig {
    /// Starts all of it, in namespaces of a lab of this name.
    ///
    /// # Errors
    /// There is no place for it, or a process does not start.
    pub fn start(name: &str) -> Result<Rig, LabError> {
        require_root("lab rpc")?;
        let settings = SETTINGS.map(|(name, value)| (name.to_string(), value.to_string()));
        let plan = Plan {
            topology: None,
            shape: SHAPE,
            clients: 1,
            settings: settings.to_vec(),
            links: Vec::new(),
            xdp: true,
        };
        let site = Site::build(name, &plan, None)?;
        let mut rig = Rig { callers: Vec::new(), site };
        rig.start_processes()?;
        let space = rig.site.network().namespace(network::client(1));
        let topology = rig.site.topology();
        let callers = namespace::within(&space, || {
            Way::ALL
                .into_iter()
                .map(|way| connect(topology, way))
                .collect::<Result<Vec<_>, String>>()
                .map_err(LabError::Call)
        })?;
        rig.callers = callers;
        Ok(rig)
    }

    fn start_processes(&mut self) -> Result<(), LabError> {
        let (home, tor) = (NodeId::Home(HomeId(1)), NodeId::Box(BoxId(1)));
        for node in [home, tor] {
            self.site.start_node(node, Life::First)?.await_ready()?;
        }
        let file = state::topology_file(self.site.name());
        let at_home = self.site.network().namespace(home);
        let by_client = self.site.network().namespace(network::client(1));
        for (index, caches) in [true, false].into_iter().enumerate() {
            let cache = caches.then_some(file.as_path());
            let listen = server(index).to_string();
            let words = command::rpc(&["serve", "--insecure", "--listen", &listen], cache);
            self.site.start(&format!("server-{index}"), &at_home, &words)?.await_ready()?;
        }
        for (index, caches) in [true, false].into_iter().enumerate() {
            let cache = caches.then_some(file.as_path());
            let (listen, to) = (gateway(index).to_string(), server(index).to_string());
            let words = command::rpc(&["gateway", "--insecure", "--listen", &listen, &to], cache);
            self.site.start(&format!("gateway-{index}"), &by_client, &words)?.await_ready()?;
        }
        Ok(())
    }

    /// The client of a way.
    pub fn caller(&mut self, way: Way) -> &mut dyn Say {
        self.callers[way as usize].as_mut()
    }
}

fn connect(topology: &Topology, way: Way) -> Result<Box<dyn Say>, String> {
    let open = |index| {
        let options = Options { timeout: PATIENCE, ..Options::default() };
        Reconnecting::connect(&server(index), &options).map_err(|error| error.to_string())
    };
    Ok(match way {
        Way::Box => {
            let cache = Client::init(topology, Some(1)).map_err(|error| error.to_string())?;
            let caller = Cached::new(open(0)?, cache, &ECHO).map_err(|status| status.to_string())?;
            let echo = EchoClient::new(&caller).map_err(|error| error.to_string())?;
            Box::new(ByCache { caller, echo })
        }
        Way::Server | Way::Handler => {
            let caller = open(usize::from(way == Way::Handler))?;
            let echo = EchoClient::new(&caller).map_err(|error| error.to_string())?;
            Box::new(Direct { caller, echo })
        }
        Way::GrpcBox | Way::Grpc => {
            let grpc = Grpc::connect(gateway(usize::from(way == Way::Grpc)))?;
            let (encoder, decoder, arena) = Default::default();
            Box::new(ByGrpc { grpc, encoder, decoder, arena })
        }
    })
}

/// Where a server listens, beside the home.
fn server(index: usize) -> Address {
    let address = SocketAddr::new(network::address_of(NodeId::Home(HomeId(1))).ip(), SERVERS[index]);
    format!("udp:{address}").parse().expect("an address")
}

/// Where a gateway listens, beside the client.
fn gateway(index: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], GATEWAYS[index]))
}

struct ByCache {
    caller: Cached,
    echo: EchoClient,
}

impl Say for ByCache {
    fn say(&mut self, text: &str) -> Result<Said, String> {
        let before = self.caller.hits();
        let reply =
            self.echo.say(&mut self.caller, &CallOptions::within(PATIENCE), |request| request.set_text(text));
        let text = reply.map_err(|status| status.to_string())?.view().text().to_owned();
        Ok(Said { text, is_kept: self.caller.hits() > before })
    }
}

struct Direct {
    caller: Reconnecting,
    echo: EchoClient,
}

impl Say for Direct {
    fn say(&mut self, text: &str) -> Result<Said, String> {
        let reply =
            self.echo.say(&mut self.caller, &CallOptions::within(PATIENCE), |request| request.set_text(text));
        let text = reply.map_err(|status| status.to_string())?.view().text().to_owned();
        Ok(Said { text, is_kept: false })
    }
}

struct ByGrpc {
    grpc: Grpc,
    encoder: Encoder,
    decoder: Decoder,
    arena: Arena,
}

impl Say for ByGrpc {
    fn say(&mut self, text: &str) -> Result<Said, String> {
        self.arena.reset();
        let mut request = SayRequest::new(&self.arena).map_err(|error| error.to_string())?;
        request.set_text(text).map_err(|error| error.to_string())?;
        let encoded = SayRequest::freeze(request).encode(&mut self.encoder);
        let body = encoded.map_err(|error| error.to_string())?;
        let reply = self.grpc.call(SAY, body, None, PATIENCE)?;
        let reply =
            Owned::<SayReply>::decode(&mut self.decoder, &reply).map_err(|error| error.to_string())?;
        Ok(Said { text: reply.view().text().to_owned(), is_kept: false })
    }
}
