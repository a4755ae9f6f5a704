//! The tunnel: a packet that is sealed and sent to the other gateway, and what opens it there.
//!
//! ```text
//! │ Ethernet 14 │ IPv4 20 │ UDP 8 │ "M", version, kind, 0 │ session 4, sequence number 8 │ sealed packet │ tag 16 │
//!                                                         └─ what kernels::Seal writes, and kernels::Open reads ──┘
//! ```
//! The sequence number is the counter of the cipher's nonce, as in RFC 4106: one number for both, so that neither can be reused without the other.
//!
//! The stage only prepares and finishes; the kernel between runs on the host's thread, or in a compute unit on the accelerator's memory. It holds no
//! cipher itself, so that it can move while the tunnel is in use: whoever runs kernels makes them of [`Crypto::keys`].
//!
//! Invariants:
//! 1. A sequence number is looked at before its packet is opened, and taken after: forgeries use nothing up, recordings cost no cipher.
//! 2. What was being opened when the session changed ends.
//!
//! Errors: see [`Reason`]. Sources: RFC 4106, 4303, 768 (no UDP checksum: the tag is one).

pub mod handshake;
pub mod keys;
pub mod replay;

use crate::net::{Link, Made, Meta, Net, Next, Out, Reason};
use crate::packet::{Ipv4, build, ethernet, set_u16, u16_at};
use codec::unit::KernelError;
use codec::unit::kernels::SealingKey;
use handshake::{Handshake, Number};
use keys::{Keys, Secret};
use replay::Window;
use std::ops::Range;
use std::sync::Arc;

/// Bytes before what is sealed, in the packet.
const HEAD: usize = build::HEADER + 8 + 4;
/// Bytes that a packet is longer for: header, nonce and tag.
pub const OVERHEAD: usize = HEAD + 12 + 16;
const VERSION: u8 = 1;
const HELLO: u8 = 0;
const DATA: u8 = 1;

/// A session with the other gateway.
struct Session {
    keys: Keys,
    sealing: Arc<SealingKey>,
    window: Window,
}

/// The stage.
pub struct Crypto {
    net: Arc<Net>,
    handshake: Option<Handshake>,
    session: Option<Session>,
}

/// What is to be done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// No kernel.
    None(Next),
    /// `input` of the slot is sealed, or opened, to the other slot from `output` on; then [`Crypto::finish`].
    Kernel(Job),
}

/// A task of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// It is sealed; opened otherwise.
    pub seals: bool,
    /// In the frame's slot.
    pub input: Range<usize>,
    /// In the result's slot.
    pub output: usize,
    session: u32,
    sequence: u64,
}

impl Job {
    /// Bytes of the result.
    pub fn result(&self) -> usize {
        if self.seals { self.input.len() + 28 } else { self.input.len() - 28 }
    }
}

impl Crypto {
    /// For a network: without a tunnel it passes everything on. `number` was never drawn before.
    pub fn new(net: Arc<Net>, secret: Secret, number: Number) -> Crypto {
        let handshake = net.tunnel.map(|link| {
            let own = net.interfaces[usize::from(link.interface)].address;
            Handshake::new(secret, u8::from(own > link.peer), number)
        });
        Crypto { net, handshake, session: None }
    }

    /// The keys now, for kernels; they change with the session's number.
    pub fn keys(&self) -> Option<(Keys, Arc<SealingKey>)> {
        self.session.as_ref().map(|session| (session.keys, session.sealing.clone()))
    }

    /// The session's number.
    pub fn session(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.keys.id)
    }

    /// What is to be done with a frame. `room`: bytes of a slot before a frame.
    pub fn prepare(&mut self, meta: Meta, frame: &[u8], room: usize, now_ns: u64, out: &mut Out) -> Work {
        match self.net.tunnel {
            Some(_) if meta.has(Meta::ROUTED) => self.prepare_seal(meta, frame, room),
            Some(link) => match self.of_tunnel(&link, meta, frame) {
                Some((kind, at)) => self.prepare_open(kind, meta, frame, at, room, now_ns, out),
                None => Work::None(Next::Stage(self.net.after_crypto(meta))),
            },
            None if meta.has(Meta::ROUTED) => Work::None(Next::Send),
            None => Work::None(Next::Stage(self.net.after_crypto(meta))),
        }
    }

    fn prepare_seal(&mut self, meta: Meta, frame: &[u8], room: usize) -> Work {
        let Some(session) = &self.session else { return Work::None(Next::Drop(Reason::NoSession)) };
        if frame.len() < ethernet::HEADER + build::HEADER {
            return Work::None(Next::Drop(Reason::Malformed));
        }
        let start = usize::from(meta.start);
        Work::Kernel(Job {
            seals: true,
            input: start + ethernet::HEADER..start + frame.len(),
            output: room + ethernet::HEADER + HEAD,
            session: session.keys.id,
            sequence: 0,
        })
    }

    /// Whether a frame is the other gateway's: of which kind, and where in it the tunnel's part is.
    fn of_tunnel(&self, link: &Link, meta: Meta, frame: &[u8]) -> Option<(u8, Range<usize>)> {
        let own = &self.net.interfaces[usize::from(link.interface)];
        let (dst, _, ethertype) = ethernet::read(frame)?;
        if meta.interface != link.interface || dst != own.mac || ethertype != ethernet::IPV4 {
            return None;
        }
        let packet = &frame[ethernet::HEADER..];
        let ip = Ipv4::parse(packet).ok()?;
        let body = packet.get(ip.header..ip.len).filter(|body| body.len() >= 12)?;
        let is_ours = (ip.src, ip.dst, ip.proto, ip.is_fragment) == (link.peer, own.address, 17, false);
        if !is_ours || u16_at(body, 2) != link.port || body[8..10] != [b'M', VERSION] {
            return None;
        }
        let start = ethernet::HEADER + ip.header + 12;
        Some((body[10], start..ethernet::HEADER + ip.len))
    }

    #[allow(clippy::too_many_arguments)] // what `prepare` was given, and what it found
    fn prepare_open(
        &mut self,
        kind: u8,
        meta: Meta,
        frame: &[u8],
        at: Range<usize>,
        room: usize,
        now_ns: u64,
        out: &mut Out,
    ) -> Work {
        let bytes = &frame[at.clone()];
        if kind == HELLO {
            self.hear(bytes, now_ns, out);
            return Work::None(Next::Taken);
        }
        let drop = |reason| Work::None(Next::Drop(reason));
        if kind != DATA || bytes.len() < 28 + build::HEADER {
            return drop(Reason::Malformed);
        }
        let id = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let sequence = u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"));
        let Some(session) = self.session.as_ref().filter(|session| session.keys.id == id) else {
            return drop(Reason::NoSession);
        };
        if !session.window.is_fresh(sequence) {
            return drop(Reason::Replay);
        }
        let start = usize::from(meta.start);
        Work::Kernel(Job {
            seals: false,
            input: start + at.start..start + at.end,
            output: room + ethernet::HEADER,
            session: id,
            sequence,
        })
    }

    /// The kernel is done: writes the headers around its result in the result's slot. `before` is the slot that it read.
    pub fn finish(
        &mut self,
        job: &Job,
        meta: &mut Meta,
        before: &[u8],
        after: &mut [u8],
        outcome: Result<usize, KernelError>,
    ) -> Next {
        let Some(session) = self.session.as_mut().filter(|session| session.keys.id == job.session) else {
            return Next::Drop(Reason::NoSession);
        };
        let len = match outcome {
            Ok(len) => len,
            Err(KernelError::Corrupt) => return Next::Drop(Reason::NotSealed),
            Err(_) => return Next::Drop(Reason::TooLong),
        };
        if job.seals {
            return self.finish_seal(job, meta, before, after, len);
        }
        if !session.window.take(job.sequence) {
            return Next::Drop(Reason::Replay);
        }
        let start = job.output - ethernet::HEADER;
        let own = self.net.interfaces[usize::from(meta.interface)].mac;
        ethernet::write(&mut after[start..], own, own, ethernet::IPV4);
        *meta = Meta { start: start as u16, len: (len + ethernet::HEADER) as u16, ..meta.with(Meta::OPENED) };
        Next::Stage(self.net.after_crypto(*meta))
    }

    fn finish_seal(&self, job: &Job, meta: &mut Meta, before: &[u8], after: &mut [u8], len: usize) -> Next {
        let Some(link) = self.net.tunnel else { return Next::Drop(Reason::NoSession) };
        let start = job.output - HEAD - ethernet::HEADER;
        let head = &before[job.input.start - ethernet::HEADER..job.input.start];
        after[start..start + ethernet::HEADER].copy_from_slice(head);
        let packet = &mut after[start + ethernet::HEADER..job.output + len];
        self.write_head(&link, packet, DATA);
        *meta = Meta { start: start as u16, len: (ethernet::HEADER + HEAD + len) as u16, ..*meta };
        Next::Send
    }

    /// Writes what stands before the tunnel's part of a packet.
    fn write_head(&self, link: &Link, packet: &mut [u8], kind: u8) {
        let own = self.net.interfaces[usize::from(link.interface)].address;
        build::ipv4_header(packet, own, link.peer, 17, 64);
        let udp_len = (packet.len() - build::HEADER) as u16;
        let udp = &mut packet[build::HEADER..HEAD];
        for (at, value) in [(0, link.port), (2, link.port), (4, udp_len), (6, 0)] {
            set_u16(udp, at, value);
        }
        udp[8..].copy_from_slice(&[b'M', VERSION, kind, 0]);
    }

    fn say(&self, bytes: &[u8], out: &mut Out) {
        let Some(link) = self.net.tunnel else { return };
        let mut packet = vec![0; HEAD];
        packet.extend_from_slice(bytes);
        self.write_head(&link, &mut packet, HELLO);
        out.made.push(Made::local(&packet));
    }

    fn hear(&mut self, bytes: &[u8], now_ns: u64, out: &mut Out) {
        let Some(handshake) = &mut self.handshake else { return };
        let heard = handshake.hear(bytes, now_ns);
        for bytes in &heard.say {
            self.say(bytes, out);
        }
        if let Some(keys) = heard.session {
            let sealing = SealingKey::new(&keys.seal, keys.id);
            self.session = Some(Session { keys, sealing, window: Window::default() });
        }
    }

    /// What is due: a question to the other gateway.
    pub fn tick(&mut self, now_ns: u64, out: &mut Out) {
        if let Some(bytes) = self.handshake.as_mut().and_then(|handshake| handshake.tick(now_ns)) {
            self.say(&bytes, out);
        }
    }
}

#[cfg(test)]
mod tests;
