//! The frame before every UDP datagram: 8 bytes, big endian.
//!
//! ```text
//!  0      2        4       6          8
//!  ├──────┼────────┼───────┼──────────┼─────────
//!  │  id  │sequence│ count │ reserved │ text …
//! ```
//!
//! A request is one datagram; a reply may take several, all with the request's id. The payload is ordinary text protocol:
//! give each datagram a fresh [`Parser`](super::Parser).
//!
//! Source: memcached's `doc/protocol.txt`, "UDP protocol".

/// Bytes of the frame.
pub const FRAME_LEN: usize = 8;

/// Payload bytes of a reply datagram that memcached sends, small enough for one Ethernet frame.
pub const PAYLOAD_MAX: usize = 1400 - FRAME_LEN;

/// The frame's fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Chosen by the client, returned with every datagram of the reply.
    pub request_id: u16,
    /// Which datagram of the message this is, from 0.
    pub sequence: u16,
    /// How many datagrams the message has.
    pub count: u16,
}

/// Why a datagram is not a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpError {
    /// Shorter than its frame: drop it.
    Short,
    /// Part of a larger message: answer [`Line::MultiPacket`](super::Line::MultiPacket).
    MultiPacket(Frame),
}

impl Frame {
    /// Splits a datagram into frame and text. The reserved field is ignored.
    pub fn parse(datagram: &[u8]) -> Result<(Frame, &[u8]), UdpError> {
        let Some((head, text)) = datagram.split_first_chunk::<FRAME_LEN>() else {
            return Err(UdpError::Short);
        };
        let field = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
        let frame = Frame { request_id: field(0), sequence: field(2), count: field(4) };
        if frame.count == 1 { Ok((frame, text)) } else { Err(UdpError::MultiPacket(frame)) }
    }

    /// The frame as it travels.
    pub fn emit(self) -> [u8; FRAME_LEN] {
        let mut out = [0; FRAME_LEN];
        out[0..2].copy_from_slice(&self.request_id.to_be_bytes());
        out[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..6].copy_from_slice(&self.count.to_be_bytes());
        out
    }
}

/// The datagrams of a reply, each with the frame to send before it; `None` where the reply is too long for 65 535 of them.
///
/// `payload_max` must not be 0.
pub fn datagrams(
    request_id: u16,
    reply: &[u8],
    payload_max: usize,
) -> Option<impl Iterator<Item = (Frame, &[u8])>> {
    let count = u16::try_from(reply.len().div_ceil(payload_max)).ok()?;
    let frame = move |sequence| Frame { request_id, sequence: sequence as u16, count };
    Some(reply.chunks(payload_max).enumerate().map(move |(sequence, text)| (frame(sequence), text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_one_datagram() {
        let datagram = b"\x12\x34\x00\x00\x00\x01\x00\x00get a\r\n";
        let frame = Frame { request_id: 0x1234, sequence: 0, count: 1 };
        assert_eq!(Frame::parse(datagram), Ok((frame, &b"get a\r\n"[..])));
        assert_eq!(Frame::parse(&datagram[..7]), Err(UdpError::Short));
        assert_eq!(Frame::parse(b""), Err(UdpError::Short));
        for count in [0, 2, 256] {
            let frame = Frame { count, ..frame };
            assert_eq!(Frame::parse(&frame.emit()), Err(UdpError::MultiPacket(frame)));
        }
    }

    proptest! {
        #[test]
        fn emit_and_parse_are_inverse(request_id: u16, sequence: u16, text: Vec<u8>) {
            let frame = Frame { request_id, sequence, count: 1 };
            let datagram = [&frame.emit()[..], &text].concat();
            prop_assert_eq!(Frame::parse(&datagram), Ok((frame, &text[..])));
        }

        #[test]
        fn datagrams_carry_the_whole_reply(len in 0usize..5000, payload_max in 1usize..1500) {
            let reply: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let parts: Vec<_> = datagrams(7, &reply, payload_max).expect("fits").collect();
            prop_assert_eq!(&parts.iter().flat_map(|p| p.1).copied().collect::<Vec<_>>(), &reply);
            for (i, (frame, text)) in parts.iter().enumerate() {
                let count = parts.len() as u16;
                prop_assert_eq!(*frame, Frame { request_id: 7, sequence: i as u16, count });
                prop_assert!(text.len() <= payload_max);
            }
        }
    }

    #[test]
    fn a_reply_beyond_all_datagrams_is_refused() {
        let reply = vec![0; 65_536];
        assert!(datagrams(1, &reply, 1).is_none());
        assert_eq!(datagrams(1, &reply[1..], 1).map(Iterator::count), Some(65_535));
    }
}
