//! The lab of calls: two boxes, one with its XDP program, a home behind each, servers and gateways, each a process; and a client for each way.

use super::Answered;
use crate::lab::process::Started;
use crate::lab::run::counted;
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
use serve::inc::{Client, Topology, plan};
use serve::rpc::demo::proto::demo::{ECHO, EchoClient, SayReply, SayRequest};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One box before one home.
const SHAPE: Shape = Shape { tors: 1, roots: 0, homes: 1, controllers: 0 };
/// Whatever is read twice is kept, until the lab ends.
const SETTINGS: [(&str, &str); 3] =
    [("coherence.worth", "0"), ("coherence.bypass", "0"), ("coherence.lease", "60000000")];
/// The box without XDP and its home listen beside the others, so many ports up: an interface has one program, which lets their packets pass.
const BESIDE: u16 = 1;
/// Ports in the home's namespace: servers with the cache of the box with XDP, and of the one without; the one without a cache.
const SERVERS: [u16; 3] = [7001, 7002, 7003];
/// Which of them has no cache.
const UNCACHED: usize = 2;
/// Ports in the client's namespace: the gateway that asks the cache with XDP, and the one that asks none.
const GATEWAYS: [u16; 2] = [7004, 7005];
/// No call takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
const SAY: &str = "/demo.Echo/Say";

/// Who answers, and how he is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The box with its XDP program, asked first by the client of the fabric.
    Xdp,
    /// The box without, in the same way.
    Box,
    /// The server, with the reply that the cache has.
    Server,
    /// The handler of a server without a cache.
    Handler,
    /// The box with its XDP program, asked first by the gateway.
    GrpcXdp,
    /// The handler, by the gateway.
    Grpc,
}

impl Way {
    /// All.
    pub const ALL: [Way; 6] = [Way::Xdp, Way::Box, Way::Server, Way::Handler, Way::GrpcXdp, Way::Grpc];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Xdp => "box, XDP",
            Way::Box => "box",
            Way::Server => "server, kept",
            Way::Handler => "server, handler",
            Way::GrpcXdp => "gRPC, box, XDP",
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
    /// The one with XDP, and the one without.
    boxes: Vec<Started>,
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
        let beside = |node| {
            let address = network::address_of(node);
            SocketAddr::new(address.ip(), address.port() + BESIDE)
        };
        let plain = Topology::two_levels(&SHAPE, beside, &plan::registers(&plan.settings)?)?;
        let files = [state::topology_file(name), state::folder(name).join("plain.toml")];
        plain.write(&files[1])?;
        let mut rig = Rig { callers: Vec::new(), boxes: Vec::new(), site };
        rig.start_processes(&files)?;
        let space = rig.site.network().namespace(network::client(1));
        let topologies = [rig.site.topology(), &plain];
        let callers = namespace::within(&space, || {
            Way::ALL
                .into_iter()
                .map(|way| connect(topologies, way))
                .collect::<Result<Vec<_>, String>>()
                .map_err(LabError::Call)
        })?;
        rig.callers = callers;
        Ok(rig)
    }

    /// With the files of both topologies.
    fn start_processes(&mut self, files: &[PathBuf; 2]) -> Result<(), LabError> {
        let (home, tor) = (NodeId::Home(HomeId(1)), NodeId::Box(BoxId(1)));
        let (at_home, at_box) = (self.site.network().namespace(home), self.site.network().namespace(tor));
        self.site.start_node(home, Life::First)?.await_ready()?;
        self.boxes.push(self.site.start_node(tor, Life::First)?);
        let words = |node| command::node(&files[1], node, Life::First, &[]);
        self.site.start("home without XDP", &at_home, &words(home))?.await_ready()?;
        self.boxes.push(self.site.start("box without XDP", &at_box, &words(tor))?);
        self.boxes.iter_mut().try_for_each(Started::await_ready)?;
        let by_client = self.site.network().namespace(network::client(1));
        for index in 0..SERVERS.len() {
            let cache = files.get(index).map(PathBuf::as_path);
            let listen = server(index).to_string();
            let words = command::rpc(&["serve", "--insecure", "--listen", &listen], cache);
            self.site.start(&format!("server-{index}"), &at_home, &words)?.await_ready()?;
        }
        for (index, to) in [0, UNCACHED].into_iter().enumerate() {
            let cache = files.get(to).map(PathBuf::as_path);
            let (listen, to) = (gateway(index).to_string(), server(to).to_string());
            let words = command::rpc(&["gateway", "--insecure", "--listen", &listen, &to], cache);
            self.site.start(&format!("gateway-{index}"), &by_client, &words)?.await_ready()?;
        }
        Ok(())
    }

    /// The client of a way.
    pub fn caller(&mut self, way: Way) -> &mut dyn Say {
        self.callers[way as usize].as_mut()
    }

    /// Ends the boxes, and says what they answered: the one with XDP, and the one without.
    pub fn answered(&mut self) -> Vec<Answered> {
        self.boxes.iter().for_each(Started::stop);
        let count = |node: &mut Started| {
            node.wait();
            let said = node.said();
            let line = said.lines().last().unwrap_or_default();
            Answered { program: counted(line, "xdp hits"), process: counted(line, "hits") }
        };
        self.boxes.iter_mut().map(count).collect()
    }
}

fn connect(topologies: [&Topology; 2], way: Way) -> Result<Box<dyn Say>, String> {
    let open = |index| {
        let options = Options { timeout: PATIENCE, ..Options::default() };
        Reconnecting::connect(&server(index), &options).map_err(|error| error.to_string())
    };
    Ok(match way {
        Way::Xdp | Way::Box => {
            let at = usize::from(way == Way::Box);
            let cache = Client::init(topologies[at], Some(1)).map_err(|error| error.to_string())?;
            let caller = Cached::new(open(at)?, cache, &ECHO).map_err(|status| status.to_string())?;
            let echo = EchoClient::new(&caller).map_err(|error| error.to_string())?;
            Box::new(ByCache { caller, echo })
        }
        Way::Server | Way::Handler => {
            let caller = open(if way == Way::Handler { UNCACHED } else { 0 })?;
            let echo = EchoClient::new(&caller).map_err(|error| error.to_string())?;
            Box::new(Direct { caller, echo })
        }
        Way::GrpcXdp | Way::Grpc => {
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
