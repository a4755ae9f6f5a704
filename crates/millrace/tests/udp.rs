//! UDP: frames, replies of several datagrams, the cap on amplification, and what gets no answer.

use protocol::memcache::udp::{FRAME_LEN, Frame, PAYLOAD_MAX};
use serve::kv::Server;
use serve::kv::config::Config;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn node(registers: &[(&str, &str)]) -> Server {
    let mut config = Config::default();
    config.listen.tcp.clear();
    config.listen.udp = vec!["127.0.0.1:0".parse().expect("an address")];
    for (name, value) in registers {
        config.registers.set(name, value).expect("a register of this name with such a value");
    }
    Server::start(&config).expect("a node")
}

struct Client {
    socket: UdpSocket,
    next_id: u16,
}

impl Client {
    fn of(node: &Server) -> Client {
        Client::from(node, "127.0.0.1:0".parse().expect("an address"))
    }

    fn from(node: &Server, address: SocketAddr) -> Client {
        let socket = UdpSocket::bind(address).expect("a free port");
        socket.connect(node.udp()[0]).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        Client { socket, next_id: 1 }
    }

    fn send(&mut self, text: impl AsRef<[u8]>) -> u16 {
        self.next_id += 1;
        let frame = Frame { request_id: self.next_id, sequence: 0, count: 1 };
        let datagram = [&frame.emit()[..], text.as_ref()].concat();
        self.socket.send(&datagram).expect("sent");
        self.next_id
    }

    /// The next reply: its id, its text, and how many datagrams it took.
    fn receive(&self) -> (u16, String, usize) {
        let (id, bytes, datagrams) = self.receive_bytes();
        (id, String::from_utf8(bytes).expect("text"), datagrams)
    }

    /// The same, where it may be no text.
    fn receive_bytes(&self) -> (u16, Vec<u8>, usize) {
        let (mut parts, mut id) = (Vec::new(), 0);
        loop {
            let mut room = [0; 2048];
            let n = self.socket.recv(&mut room).expect("a reply");
            assert!(n <= FRAME_LEN + PAYLOAD_MAX && n <= 1400, "a datagram of {n} bytes");
            let field = |i: usize| u16::from_be_bytes([room[i], room[i + 1]]);
            let (request_id, sequence, count) = (field(0), field(2), field(4));
            assert_eq!(usize::from(sequence), parts.len(), "loopback keeps the order");
            id = if parts.is_empty() { request_id } else { id };
            assert_eq!(request_id, id);
            parts.push(room[FRAME_LEN..n].to_vec());
            if parts.len() == usize::from(count) {
                return (id, parts.concat(), parts.len());
            }
        }
    }

    fn ask(&mut self, text: impl AsRef<[u8]>) -> String {
        let id = self.send(text);
        let (answered, reply, _) = self.receive();
        assert_eq!(answered, id);
        reply
    }
}

#[test]
fn a_datagram_gets_the_replies_of_all_its_requests() {
    let node = node(&[]);
    let mut client = Client::of(&node);
    assert_eq!(client.ask("set k 1 0 5\r\nhello\r\nget k\r\n"), "STORED\r\nVALUE k 1 5\r\nhello\r\nEND\r\n");
    assert_eq!(client.ask("mg k v\r\nnonsense\r\n"), "VA 5\r\nhello\r\nERROR\r\n");
    // No reply wanted, and quit: nothing comes, so the next reply is the next request's.
    client.send("set k 0 0 5 noreply\r\nworld\r\n");
    client.send("quit\r\n");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 5\r\nworld\r\nEND\r\n");
    assert_eq!(client.ask("get k"), "CLIENT_ERROR incomplete request in message\r\n");
    assert_eq!(client.ask("set k 0 0 9\r\nhal"), "CLIENT_ERROR incomplete request in message\r\n");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 5\r\nworld\r\nEND\r\n");
    assert_eq!(node.report().net.curr_connections, 0, "a socket is no connection");
    node.stop();
}

#[test]
fn each_datagram_is_in_text_or_in_binary() {
    use protocol::memcache::binary::{HEADER_LEN, REPLY_MAGIC, REQUEST_MAGIC, opcode};
    let node = node(&[]);
    let mut client = Client::of(&node);
    let request = |opcode, key: &[u8]| {
        let mut header = [0; HEADER_LEN];
        (header[0], header[1], header[3], header[11]) =
            (REQUEST_MAGIC, opcode, key.len() as u8, key.len() as u8);
        [&header[..], key].concat()
    };
    let empty = |opcode| {
        let mut header = vec![0; HEADER_LEN];
        (header[0], header[1]) = (REPLY_MAGIC, opcode);
        header
    };
    let mut ask = |bytes: &[u8]| {
        let id = client.send(bytes);
        let (answered, reply, _) = client.receive_bytes();
        assert_eq!(answered, id);
        reply
    };
    assert_eq!(ask(b"set k 0 0 5\r\nhello\r\n"), b"STORED\r\n");
    let hit = ask(&[request(opcode::GETQ, b"none"), request(opcode::GETK, b"k")].concat());
    assert!(hit.starts_with(&[REPLY_MAGIC, opcode::GETK]) && hit.ends_with(b"\0\0\0\0khello"), "{hit:?}");
    // Of what is cut short only the whole requests are answered; the next datagram begins anew.
    let whole = request(opcode::NOOP, b"");
    assert_eq!(ask(&[&whole[..], &whole[..10]].concat()), empty(opcode::NOOP));
    // There is no connection that could end.
    assert_eq!(ask(&[request(opcode::QUIT, b""), whole.clone()].concat()), empty(opcode::QUIT));
    let refused = ask(&[request(opcode::GET, b""), whole.clone()].concat());
    assert!(refused.ends_with(b"Invalid arguments"), "{refused:?}");
    assert_eq!(ask(&whole), empty(opcode::NOOP));
    assert_eq!(ask(b"get k\r\n"), b"VALUE k 0 5\r\nhello\r\nEND\r\n");
    node.stop();
}

#[test]
fn clients_get_their_own_replies() {
    let node = node(&[("net.pipeline", "3")]);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::of(&node)).collect();
    for round in 0..100 {
        let ids: Vec<u16> = clients
            .iter_mut()
            .enumerate()
            .map(|(who, client)| client.send(format!("set k{who} 0 0 3\r\n{round:03}\r\nget k{who}\r\n")))
            .collect();
        for (who, (client, id)) in clients.iter().zip(ids).enumerate() {
            let expected = format!("STORED\r\nVALUE k{who} 0 3\r\n{round:03}\r\nEND\r\n");
            assert_eq!(client.receive(), (id, expected, 1));
        }
    }
}

#[test]
fn a_long_reply_takes_several_datagrams() {
    let node = node(&[("udp.amplification", "1000")]);
    let mut client = Client::of(&node);
    for len in [0, 1, 1300, 1364, 1365, 1366, 5000, 14_000] {
        let value: String = (0..len).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        assert_eq!(client.ask(format!("set k 0 0 {len}\r\n{value}\r\n")), "STORED\r\n");
        let id = client.send("get k\r\n");
        let reply = format!("VALUE k 0 {len}\r\n{value}\r\nEND\r\n");
        let datagrams = reply.len().div_ceil(PAYLOAD_MAX);
        assert!(client.receive() == (id, reply, datagrams), "a value of {len} bytes");
    }
}

/// Frames included, no answer is longer than `udp.amplification` times its request.
#[test]
fn long_replies_to_short_requests_are_refused() {
    const REFUSED: &str = "SERVER_ERROR reply too large for this datagram\r\n";
    let node = node(&[]);
    let mut client = Client::of(&node);
    let request = "get k\r\n";
    let most = (FRAME_LEN + request.len()) * 10 - FRAME_LEN;
    let around = "VALUE k 0 100\r\n\r\nEND\r\n".len();
    for (len, fits) in [(100, true), (most - around, true), (most - around + 1, false), (10_000, false)] {
        let value = "v".repeat(len);
        assert_eq!(client.ask(format!("set k 0 0 {len}\r\n{value}\r\n")), "STORED\r\n");
        let reply = client.ask(request);
        let expected = format!("VALUE k 0 {len}\r\n{value}\r\nEND\r\n");
        assert_eq!(reply, if fits { &expected } else { REFUSED }, "{len}");
    }
    assert_eq!(node.report().net.udp_refusals, 2);
    // A longer request is worth a longer reply.
    let padded = format!("get{}k\r\n", " ".repeat(1200));
    assert!(client.ask(padded).starts_with("VALUE k 0 10000\r\n"));
    // Where even the refusal is too long, silence.
    node.shared().registers.set_live("udp.amplification", "1").expect("a live register");
    client.send(request);
    assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(node.report().net.udp_refusals, 3);
}

#[test]
fn a_request_of_several_datagrams_is_refused() {
    let node = node(&[]);
    let client = Client::of(&node);
    for sequence in 0..2 {
        let frame = Frame { request_id: 77, sequence, count: 2 };
        client.socket.send(&[&frame.emit()[..], b"get k\r\n"].concat()).expect("sent");
        let refusal = "SERVER_ERROR multi-packet request not supported\r\n".to_string();
        assert_eq!(client.receive(), (77, refusal, 1));
    }
}

/// What has no valid frame, or comes from a port like ours (perhaps a server that answers an answer), gets no answer.
#[test]
fn nonsense_gets_no_answer() {
    let node = node(&[]);
    let mut client = Client::of(&node);
    client.socket.send(b"").expect("sent");
    client.socket.send(b"get k\r").expect("sent");
    client.socket.send(b"1234567").expect("sent");
    for (sequence, count) in [(0, 0), (1, 1), (2, 2), (u16::MAX, 0)] {
        let frame = Frame { request_id: 9, sequence, count };
        client.socket.send(&[&frame.emit()[..], b"get k\r\n"].concat()).expect("sent");
    }
    assert_eq!(client.ask("mn\r\n"), "MN\r\n");
    let twin = SocketAddr::from(([127, 0, 0, 2], node.udp()[0].port()));
    let mut twin = Client::from(&node, twin);
    twin.send("nonsense\r\n");
    // Datagrams are answered in order: what would have been said to the twin is said by now.
    assert_eq!(client.ask("mn\r\n"), "MN\r\n");
    for silent in [client, twin] {
        silent.socket.set_nonblocking(true).expect("an open socket");
        let kind = silent.socket.recv(&mut [0; 100]).expect_err("nothing").kind();
        assert_eq!(kind, std::io::ErrorKind::WouldBlock);
    }
}
