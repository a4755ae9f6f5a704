//! Reads a datagram: its sum, its version, and whether what it says fits together and its length.

use super::{
    Acks, BLOCKED, Body, Datagram, Kind, MAX_PACKET, NOTICE, Notice, OPEN, ParseError, Pieces, REFUSE, RETRY,
    RUN, STATE, State, Terms, VERSION, session_of, u64_at,
};

/// Reads a datagram.
///
/// # Errors
/// [`ParseError`]; such a datagram is as good as lost.
pub fn parse(bytes: &[u8]) -> Result<Datagram<'_>, ParseError> {
    let session = session_of(bytes).ok_or(ParseError::Foreign)?;
    if u32_at(bytes, 0) != crc32c::crc32c(&bytes[4..]) {
        return Err(ParseError::Checksum);
    }
    parse_unsummed(bytes, session)
}

/// [`parse`] without the sum: only a planted bug and fuzzing go past it.
pub(in crate::session) fn parse_unsummed(bytes: &[u8], session: u64) -> Result<Datagram<'_>, ParseError> {
    let (version, kind, token) = (bytes[6], bytes[7], u64_at(bytes, 16));
    if version != VERSION && kind != Kind::Refuse as u8 {
        let open = kind == Kind::Open as u8;
        return Err(ParseError::Version { version, open, session, token });
    }
    let body = parse_body(kind, bytes).ok_or(ParseError::Malformed)?;
    Ok(Datagram { session, token, body })
}

fn parse_body(kind: u8, bytes: &[u8]) -> Option<Body<'_>> {
    let long = |len: usize| (bytes.len() == len).then_some(());
    let notice = || long(NOTICE).map(|()| Notice { epoch: u64_at(bytes, 24), reason: bytes[32] });
    Some(match kind {
        k if k == Kind::Open as u8 => {
            long(OPEN)?;
            Body::Open { cookie: u64_at(bytes, 24), terms: terms(bytes) }
        }
        k if k == Kind::Retry as u8 => {
            long(RETRY)?;
            Body::Retry { cookie: u64_at(bytes, 24) }
        }
        k if k == Kind::Accept as u8 => {
            long(OPEN)?;
            Body::Accept { opener: u64_at(bytes, 24), epoch: u64_at(bytes, 56), terms: terms(bytes) }
        }
        k if k == Kind::Refuse as u8 => {
            long(REFUSE)?;
            Body::Refuse { reason: bytes[24], version: bytes[25] }
        }
        k if k == Kind::Data as u8 => {
            let (state, pieces) = parse_data(bytes)?;
            Body::Data(state, pieces)
        }
        k if k == Kind::Ack as u8 => match parse_data(bytes)? {
            (state, Pieces { count: 0, .. }) => Body::Ack(state),
            _ => return None,
        },
        k if k == Kind::Close as u8 => Body::Close(notice()?),
        k if k == Kind::Closed as u8 => Body::Closed(notice()?),
        k if k == Kind::Reset as u8 => Body::Reset(notice()?),
        _ => return None,
    })
}

fn terms(bytes: &[u8]) -> Terms {
    Terms {
        datagram_bytes: u32_at(bytes, 32),
        max_message: u32_at(bytes, 36),
        granted_bytes: u64_at(bytes, 40),
        granted_messages: u32_at(bytes, 48),
        max_ack_delay_us: u32_at(bytes, 52),
    }
}

fn parse_data(bytes: &[u8]) -> Option<(State, Pieces<'_>)> {
    if bytes.len() < STATE {
        return None;
    }
    let (runs, flags) = (usize::from(bytes[68]), bytes[69]);
    let count = u16_at(bytes, 70);
    let mut acks = Acks::below(u64_at(bytes, 56));
    let rest = bytes.get(STATE + 4 * runs..)?;
    for run in bytes[STATE..STATE + 4 * runs].chunks_exact(4) {
        acks.push(u16_at(run, 0), u16_at(run, 2)).then_some(())?;
    }
    let state = State {
        packet: u64_at(bytes, 24),
        floor: u64_at(bytes, 32),
        granted_bytes: u64_at(bytes, 40),
        granted_messages: u64_at(bytes, 48),
        acks,
        ack_delay_us: u32_at(bytes, 64),
        blocked: flags & BLOCKED != 0,
    };
    let sound = state.packet < MAX_PACKET && state.floor <= state.packet && acks.next <= MAX_PACKET;
    if !sound || flags & !BLOCKED != 0 || !acks.is_sound() {
        return None;
    }
    Some((state, parse_pieces(count, rest)?))
}

fn parse_pieces(count: u16, bytes: &[u8]) -> Option<Pieces<'_>> {
    if count == 0 {
        return bytes.is_empty().then_some(Pieces::NONE);
    }
    let (run, bytes) = bytes.split_at_checked(RUN)?;
    let unit = u16_at(run, 12);
    if unit == 0 {
        // Fragments of nothing would go on for ever, and past the last number that there is.
        return None;
    }
    let pieces = Pieces { count, unit, message: u64_at(run, 0), fragment: u32_at(run, 8), bytes };
    let mut check = pieces;
    while check.split_first().is_some() {}
    (check.count == 0 && check.bytes.is_empty()).then_some(pieces)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four: &[u8; 4] = bytes[at..].first_chunk().expect("the length was checked");
    u32::from_le_bytes(*four)
}
