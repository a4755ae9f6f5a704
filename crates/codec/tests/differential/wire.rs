//! A wire writer of the tests' own, which can also write what no encoder would, and a reader of unknown fields.

/// One record. A message is a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub number: u32,
    pub payload: Payload,
    /// Bytes by which tag, length and varint value are longer than need be, as far as that is legal.
    pub pad: usize,
    /// On the oracle's side the record has this number instead: see `oracle`.
    pub renumbered: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
    Message(Vec<Piece>),
    Group(Vec<Piece>),
    Packed(Vec<Payload>),
    /// A packed run of a closed enum in which the marked values are not its; they get the given number on the oracle's side.
    PackedEnum(Vec<(u64, bool)>, u32),
}

/// Whose bytes are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    Ours,
    Oracle,
}

/// The bytes of a message.
pub fn render(pieces: &[Piece], side: Side) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        write(piece, side, &mut out);
    }
    out
}

/// True if the two sides differ.
pub fn differs(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| {
        piece.renumbered.is_some()
            || match &piece.payload {
                Payload::Message(inner) | Payload::Group(inner) => differs(inner),
                Payload::PackedEnum(values, _) => values.iter().any(|value| value.1),
                _ => false,
            }
    })
}

fn write(piece: &Piece, side: Side, out: &mut Vec<u8>) {
    let number = piece.renumbered.filter(|_| side == Side::Oracle).unwrap_or(piece.number);
    let tag = |wire: u64, out: &mut Vec<u8>| varint(u64::from(number) << 3 | wire, piece.pad, 5, out);
    let run = |bytes: &[u8], out: &mut Vec<u8>| {
        tag(2, out);
        varint(bytes.len() as u64, piece.pad, 5, out);
        out.extend_from_slice(bytes);
    };
    match &piece.payload {
        Payload::Varint(value) => {
            tag(0, out);
            varint(*value, piece.pad, 10, out);
        }
        Payload::Fixed64(value) => {
            tag(1, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Payload::Fixed32(value) => {
            tag(5, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Payload::Bytes(bytes) => run(bytes, out),
        Payload::Message(inner) => run(&render(inner, side), out),
        Payload::Group(inner) => {
            tag(3, out);
            out.extend_from_slice(&render(inner, side));
            tag(4, out);
        }
        Payload::Packed(values) => run(&packed(values, piece.pad), out),
        Payload::PackedEnum(values, shadow) => {
            let stays = |value: &&(u64, bool)| side == Side::Ours || !value.1;
            let kept: Vec<_> = values.iter().filter(stays).map(|value| Payload::Varint(value.0)).collect();
            run(&packed(&kept, piece.pad), out);
            for value in values.iter().filter(|value| !stays(value)) {
                varint(u64::from(*shadow) << 3, 0, 5, out);
                varint(value.0, 0, 10, out);
            }
        }
    }
}

fn packed(values: &[Payload], pad: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Payload::Varint(value) => varint(*value, pad, 10, &mut out),
            Payload::Fixed64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Payload::Fixed32(value) => out.extend_from_slice(&value.to_le_bytes()),
            other => panic!("{other:?} cannot be packed"),
        }
    }
    out
}

/// Writes a varint with `pad` bytes more than it needs, but not more than `most` in all.
pub fn varint(mut value: u64, pad: usize, most: usize, out: &mut Vec<u8>) {
    let least = (64 - value.leading_zeros()).div_ceil(7).max(1) as usize;
    let bytes = (least + pad).min(most);
    for _ in 1..bytes {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// One unknown field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    Number(u32, u64),
    Bytes(Vec<u8>),
    Group(Vec<(u32, Unknown)>),
}

/// The records of runs of unknown fields, which are well-formed because a decoder has passed them.
pub fn unknown_fields(bytes: &[u8]) -> Vec<(u32, Unknown)> {
    let mut rest = bytes;
    let fields = read_until(&mut rest, None);
    assert!(rest.is_empty(), "unknown fields end where they end");
    fields
}

fn read_until(rest: &mut &[u8], group: Option<u32>) -> Vec<(u32, Unknown)> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = read_varint(rest) as u32; // What else its five bytes hold is dropped.
        let number = tag >> 3;
        let field = match tag & 7 {
            0 => Unknown::Number(0, read_varint(rest)),
            1 => Unknown::Number(1, u64::from_le_bytes(take(rest, 8).try_into().expect("8 bytes"))),
            2 => {
                let length = read_varint(rest) as usize;
                Unknown::Bytes(take(rest, length).to_vec())
            }
            3 => Unknown::Group(read_until(rest, Some(number))),
            4 => {
                assert_eq!(group, Some(number), "the end of another group among unknown fields");
                break;
            }
            5 => Unknown::Number(5, u32::from_le_bytes(take(rest, 4).try_into().expect("4 bytes")).into()),
            wire => panic!("wire type {wire} among unknown fields"),
        };
        fields.push((number, field));
    }
    fields.sort_by_key(|field| field.0);
    fields
}

fn read_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in 0..10 {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(count);
    *rest = tail;
    head
}
