//! Writes a datagram into the buffer that goes to the socket: whole ([`emit`]), or piece by piece as the sender finds room ([`Writer`]).

use super::{BLOCKED, Body, Datagram, HEADER, Kind, MAGIC, Pieces, RUN, STATE, State, Terms, VERSION};

/// A datagram being appended to a buffer; [`Writer::seal`] finishes it.
pub(in crate::session) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut Vec<u8>, kind: Kind, session: u64, token: u64) -> Writer<'o> {
        let start = out.len();
        let mut head = [0; HEADER];
        head[4..6].copy_from_slice(&MAGIC);
        head[6] = VERSION;
        head[7] = kind as u8;
        head[8..16].copy_from_slice(&session.to_le_bytes());
        head[16..24].copy_from_slice(&token.to_le_bytes());
        out.extend_from_slice(&head);
        Writer { out, start }
    }

    /// A Data without pieces yet, or an Ack.
    pub(in crate::session) fn state(
        out: &'o mut Vec<u8>,
        numbered: bool,
        session: u64,
        token: u64,
        state: &State,
    ) -> Writer<'o> {
        let kind = if numbered { Kind::Data } else { Kind::Ack };
        let writer = Writer::new(out, kind, session, token);
        let acks = &state.acks;
        let mut fixed = [0; STATE - HEADER];
        fixed[0..8].copy_from_slice(&state.packet.to_le_bytes());
        fixed[8..16].copy_from_slice(&state.floor.to_le_bytes());
        fixed[16..24].copy_from_slice(&state.granted_bytes.to_le_bytes());
        fixed[24..32].copy_from_slice(&state.granted_messages.to_le_bytes());
        fixed[32..40].copy_from_slice(&acks.next.to_le_bytes());
        fixed[40..44].copy_from_slice(&state.ack_delay_us.to_le_bytes());
        fixed[44] = acks.count;
        fixed[45] = u8::from(state.blocked) * BLOCKED;
        writer.out.extend_from_slice(&fixed);
        for (received, missing) in &acks.runs[..usize::from(acks.count)] {
            writer.out.extend_from_slice(&received.to_le_bytes());
            writer.out.extend_from_slice(&missing.to_le_bytes());
        }
        writer
    }

    /// Begins the run of pieces, which are given with [`Writer::piece`].
    pub(in crate::session) fn run(&mut self, message: u64, fragment: u32, unit: u16) {
        self.out.extend_from_slice(&message.to_le_bytes());
        self.out.extend_from_slice(&fragment.to_le_bytes());
        self.out.extend_from_slice(&unit.to_le_bytes());
    }

    /// The next piece, in two halves where it wraps around its ring.
    pub(in crate::session) fn piece(&mut self, total: u32, bytes: (&[u8], &[u8])) {
        self.out.extend_from_slice(&total.to_le_bytes());
        self.out.extend_from_slice(bytes.0);
        self.out.extend_from_slice(bytes.1);
    }

    /// Bytes of the datagram as it stands.
    pub(in crate::session) fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Writes the number of pieces and the checksum; returns the datagram's length.
    pub(in crate::session) fn seal(self, pieces: u16) -> usize {
        if pieces > 0 {
            self.out[self.start + 70..self.start + 72].copy_from_slice(&pieces.to_le_bytes());
        }
        let datagram = &mut self.out[self.start..];
        let sum = crc32c::crc32c(&datagram[4..]);
        datagram[..4].copy_from_slice(&sum.to_le_bytes());
        datagram.len()
    }
}

/// Bytes left for pieces in a Data of `datagram_bytes` whose state names `runs` runs of acks.
pub(in crate::session) fn room_for_pieces(writer: &Writer<'_>, datagram_bytes: usize) -> usize {
    datagram_bytes.saturating_sub(writer.len() + RUN)
}

/// Appends a datagram and returns its length.
pub fn emit(out: &mut Vec<u8>, datagram: &Datagram<'_>) -> usize {
    let Datagram { session, token, body } = *datagram;
    let kind = match body {
        Body::Open { .. } => Kind::Open,
        Body::Retry { .. } => Kind::Retry,
        Body::Accept { .. } => Kind::Accept,
        Body::Refuse { .. } => Kind::Refuse,
        Body::Close(_) => Kind::Close,
        Body::Closed(_) => Kind::Closed,
        Body::Reset(_) => Kind::Reset,
        Body::Data(state, pieces) => return emit_data(out, session, token, &state, pieces),
        Body::Ack(state) => return Writer::state(out, false, session, token, &state).seal(0),
    };
    let writer = Writer::new(out, kind, session, token);
    match body {
        Body::Open { cookie, terms } => emit_terms(writer.out, cookie, &terms, 0),
        Body::Accept { opener, epoch, terms } => emit_terms(writer.out, opener, &terms, epoch),
        Body::Retry { cookie } => writer.out.extend_from_slice(&cookie.to_le_bytes()),
        Body::Refuse { reason, version } => {
            writer.out.extend_from_slice(&[reason, version, 0, 0, 0, 0, 0, 0])
        }
        Body::Close(notice) | Body::Closed(notice) | Body::Reset(notice) => {
            writer.out.extend_from_slice(&notice.epoch.to_le_bytes());
            writer.out.extend_from_slice(&[notice.reason, 0, 0, 0, 0, 0, 0, 0]);
        }
        Body::Data(..) | Body::Ack(_) => {}
    }
    writer.seal(0)
}

fn emit_data(out: &mut Vec<u8>, session: u64, token: u64, state: &State, pieces: Pieces<'_>) -> usize {
    let mut writer = Writer::state(out, true, session, token, state);
    if pieces.count > 0 {
        writer.run(pieces.message, pieces.fragment, pieces.unit);
        for piece in pieces {
            writer.piece(piece.total, (piece.bytes, &[]));
        }
    }
    writer.seal(pieces.count)
}

fn emit_terms(out: &mut Vec<u8>, first: u64, terms: &Terms, last: u64) {
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&terms.datagram_bytes.to_le_bytes());
    out.extend_from_slice(&terms.max_message.to_le_bytes());
    out.extend_from_slice(&terms.granted_bytes.to_le_bytes());
    out.extend_from_slice(&terms.granted_messages.to_le_bytes());
    out.extend_from_slice(&terms.max_ack_delay_us.to_le_bytes());
    out.extend_from_slice(&last.to_le_bytes());
}
