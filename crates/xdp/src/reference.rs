//! The XDP program's rules once more, in safe Rust: what it must be equal to, frame by frame, and what answers where there is no
//! XDP. It shares nothing with the C but the table: packets are read by [`Packet::parse`], replies made by [`Header::reply`](protocol::wire::Header::reply).

pub mod filter;

use crate::entries::{Entries, Held};
use crate::options::Live;
use base::Nanos;
use protocol::coherence::compute::{Effect, Item, Operation, Outcome, apply};
use protocol::wire::{Flags, HEADER, Opcode, Packet, Sharers, Status, Ttl, Verb};

const ETHERNET: usize = 14;
const TAGGED: usize = 18;
const IP: usize = 20;
const UDP: usize = 8;

/// A box without a kernel.
#[derive(Clone, Copy)]
pub struct Reference<'a> {
    /// The copies.
    pub entries: &'a Entries,
    /// The registers.
    pub live: Live,
    /// Of the interface.
    pub mtu: u32,
}

impl Reference<'_> {
    /// The frame that is sent back; none where this one is passed on.
    pub fn answer(&self, frame: &[u8], now: Nanos) -> Option<Vec<u8>> {
        let link = self.recognise(frame)?;
        let payload = &frame[link + IP + UDP..];
        let packet = Packet::parse(payload).ok().filter(|packet| self.is_plain_read(packet))?;
        let held = self.entries.find(packet.key())?;
        if held.lease_end <= now || held.expires <= now {
            return None;
        }
        let reply = self.reply(&packet, &held, now)?;
        self.has_room(link, frame.len(), reply.len())
            .then(|| turn_round(&frame[..link + IP + UDP], link, &reply))
    }

    /// Bytes before the IP header of a datagram to the box.
    fn recognise(&self, frame: &[u8]) -> Option<usize> {
        if frame.len() < ETHERNET + IP + UDP + HEADER || frame[0] & 1 == 1 || !self.live.enabled {
            return None;
        }
        let link = if frame[12..14] == [0x81, 0x00] { TAGGED } else { ETHERNET };
        if frame[link - 2..link] != [0x08, 0x00] {
            return None;
        }
        let ip = &frame[link..];
        let number = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        let plain = ip.len() >= IP + UDP + HEADER && ip[0] == 0x45 && ip[9] == 17 && ip[8] != 0;
        let whole = plain && number(6) & !0x4000 == 0 && usize::from(number(2)) == ip.len();
        let meant = whole
            && number(22) == self.live.port
            && self.live.address.is_none_or(|address| ip[16..20] == address.octets());
        let fits = meant && usize::from(number(24)) == ip.len() - IP && number(20) != 0;
        (fits && internet_sum(&ip[..IP]) == 0xffff).then_some(link)
    }

    fn is_plain_read(&self, packet: &Packet<'_>) -> bool {
        let flags = match packet.opcode() {
            Opcode::Request(Verb::Get) => Flags::NONE,
            Opcode::Request(Verb::CondPut | Verb::Min | Verb::Max | Verb::Or) => Flags::TRY,
            _ => return false,
        };
        packet.flags() == flags
            && packet.value().is_empty()
            && packet.kind().code() == 0
            && packet.status() == Status::Ok
            && packet.header().sharers == Sharers::default()
            && packet.header().hops == 0
            && packet.proof().is_none()
            && packet.origin().is_none()
    }

    fn has_room(&self, link: usize, frame: usize, payload: usize) -> bool {
        let reply = IP + UDP + payload;
        match (link + reply).saturating_sub(frame) {
            0 => true,
            longer => longer <= self.live.max_growth as usize && reply <= self.mtu as usize,
        }
    }

    /// What the user tier says to such a request when it has this copy; none to an operation on what is no number.
    fn reply(&self, request: &Packet<'_>, held: &Held, now: Nanos) -> Option<Vec<u8>> {
        let mut header = request.header().reply(Status::Ok);
        header.epoch = self.live.epoch;
        header.flags = Flags::FROM_BOX;
        header.version = held.version;
        let mut value = &held.value[..];
        match compute(request, held) {
            Some(outcome) if outcome.status == Status::NotNumber => return None,
            Some(Outcome { status, number, effect: Effect::Nothing }) => {
                header.flags = Flags::FROM_BOX.with(Flags::TRY);
                (header.status, header.operand) = (status, number);
                value = &[];
            }
            _ => {
                header.item_flags = held.item_flags;
                header.kind = held.kind;
                header.ttl = Ttl::until(held.expires, now);
            }
        }
        let mut bytes = Vec::new();
        header.emit(request.key(), value, (None, 0), &mut bytes);
        Some(bytes)
    }
}

/// What a try does to this copy; none of a GET.
fn compute(request: &Packet<'_>, held: &Held) -> Option<Outcome> {
    let Opcode::Request(verb) = request.opcode() else { return None };
    let item = Item {
        value: held.value.clone(),
        flags: held.item_flags,
        kind: held.kind,
        version: held.version,
        end: held.expires,
    };
    (verb != Verb::Get).then(|| apply(&Operation::of(verb, &request.to_message()), Some(&item)))
}

fn turn_round(headers: &[u8], link: usize, payload: &[u8]) -> Vec<u8> {
    let mut frame = [headers, payload].concat();
    frame[..12].rotate_left(6);
    let ip = &mut frame[link..];
    ip[12..20].rotate_left(4);
    ip[2..4].copy_from_slice(&((IP + UDP + payload.len()) as u16).to_be_bytes());
    ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
    ip[8] = 64;
    ip[10..12].fill(0);
    let sum = !internet_sum(&ip[..IP]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[20..24].rotate_left(2);
    ip[24..26].copy_from_slice(&((UDP + payload.len()) as u16).to_be_bytes());
    ip[26..28].fill(0);
    frame
}

/// The Internet's checksum of whole 16-bit words, not yet inverted.
fn internet_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
