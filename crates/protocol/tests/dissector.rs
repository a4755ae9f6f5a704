//! tshark reads packets with the generated dissector and sees what was written.
//!
//! Skipped, and says so, where tshark is not installed; `MILLRACE_REQUIRE_PEERS=1` makes that a failure.

use base::Nanos;
use protocol::coherence::moved::{Moved, Place};
use protocol::wire::{
    BoxId, ClientId, Control, Epoch, Flags, HomeId, Message, Opcode, Origin, RequestId, Status, Token, Ttl,
    Verb, Version, dissector,
};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// The fields asked for, in this order.
const ASKED: [&str; 20] = [
    "mlrinc.request",
    "mlrinc.opcode",
    "mlrinc.flags",
    "mlrinc.version",
    "mlrinc.client",
    "mlrinc.ttl",
    "mlrinc.epoch",
    "mlrinc.value_len",
    "mlrinc.key_len",
    "mlrinc.status",
    "mlrinc.port",
    "mlrinc.address",
    "mlrinc.sharer_boxes",
    "mlrinc.sharer_tokens",
    "mlrinc.key",
    "mlrinc.moved.home",
    "mlrinc.moved.port",
    "mlrinc.moved.epoch",
    "mlrinc.moved.address",
    "_ws.col.Info",
];

fn fill() -> Message {
    let mut request = Message::request(Verb::Get, b"user:1");
    let header = &mut request.header;
    (header.request, header.client, header.epoch) = (RequestId(258), ClientId(0xabc), Epoch(3));
    header.origin = Origin::new(SocketAddr::from(([10, 0, 1, 2], 4660)));
    assert!(header.sharers.push(BoxId(1), Token(11)));
    assert!(header.sharers.push(BoxId(5), Token(55)));
    let mut reply = request.reply(Status::Miss);
    reply.header.flags = Flags::FROM_BOX;
    (reply.header.version, reply.header.ttl) = (Version(1 << 40), Ttl::new(Nanos(59)));
    reply.value = b"some value".to_vec();
    reply.padding = 3;
    reply
}

/// A table with two homes that have moved, and what else it says behind them.
fn moved() -> Message {
    let place = |address: &str, epoch| {
        Place::new(address.parse().expect("an address"), Epoch(epoch)).expect("somebody's")
    };
    let homes = [(HomeId(1), place("10.0.0.9:7104", 5)), (HomeId(2), place("[fd00::1]:7105", 7))];
    let mut table = Message::new(Opcode::Control(Control::Table), b"");
    (table.header.epoch, table.value) = (Epoch(7), b"rest".to_vec());
    Moved::from_iter(homes).tell(&mut table);
    table
}

/// A capture file of IPv4 packets without a link layer.
fn capture(messages: &[Message]) -> Vec<u8> {
    const RAW_IPV4: u32 = 228;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 1 << 17, RAW_IPV4] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    for message in messages {
        let mut packet = Vec::new();
        message.emit(&mut packet);
        let udp = 8 + packet.len() as u16;
        let len = u32::from(20 + udp);
        [0, 0, len, len].iter().for_each(|word: &u32| file.extend_from_slice(&word.to_le_bytes()));
        file.extend_from_slice(&[0x45, 0]);
        file.extend_from_slice(&(20 + udp).to_be_bytes());
        file.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        [40_000, 40_001, udp, 0].iter().for_each(|half: &u16| file.extend_from_slice(&half.to_be_bytes()));
        file.extend_from_slice(&packet);
    }
    file
}

#[test]
fn tshark_reads_what_was_written() {
    let there = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(
            std::env::var_os("MILLRACE_REQUIRE_PEERS").is_none(),
            "tshark is required, and not installed"
        );
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (script, packets) = (folder.join("mlrinc.lua"), folder.join("mlrinc.pcap"));
    std::fs::write(&script, dissector()).expect("the script is written");
    let mut invalidate = Message::new(Opcode::Control(Control::Invalidate), b"");
    invalidate.header.version = Version(7);
    std::fs::write(&packets, capture(&[fill(), invalidate, moved()])).expect("the capture is written");
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(&packets);
    tshark.args(["-T", "fields", "-E", "separator=;"]).args(ASKED.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().expect("tshark starts");
    let (seen, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = seen.lines().collect();
    let expected = [
        "258;0x41;0x0002;1099511627776;0x0000000000000abc;59;3;10;6;1;4660;::ffff:10.0.1.2;1,5,0,0;11,55,0,0;757365723a31;;;;;\
         GET reply user:1 MISS",
        "0;0x80;0x0000;7;0x0000000000000000;18446744073709551615;0;0;0;0;0;::;0,0,0,0;0,0,0,0;;;;;;INVALIDATE",
        "0;0x86;0x0000;0;0x0000000000000000;18446744073709551615;7;60;0;0;0;::;0,0,0,0;0,0,0,0;;1,2;7104,7105;5,7;\
         ::ffff:10.0.0.9,fd00::1;TABLE",
    ];
    assert_eq!(lines.len(), expected.len(), "{seen}{errors}");
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(*line, expected, "{errors}");
    }
    assert!(!errors.to_lowercase().contains("lua"), "{errors}");
}
