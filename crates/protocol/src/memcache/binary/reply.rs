//! Frames: what [`Reply`] writes where a binary request is answered.

use super::super::Meta;
use super::super::emit::{MetaCounted, MetaDeleted, MetaHit, MetaStored, Reply};
use super::super::lines::Line;
use super::{Asked, HEADER_LEN, REPLY_MAGIC, Sasl, opcode};

/// What a frame says before its value, besides the lengths.
#[derive(Default)]
struct Frame<'a> {
    status: u16,
    extras: &'a [u8],
    key: &'a [u8],
    cas: u64,
}

/// "Out of memory": its text says of what.
const NO_MEMORY: u16 = 0x82;
/// "Busy".
const BUSY: u16 = 0x85;
/// "Temporary failure".
const FAILED: u16 = 0x86;
/// "Invalid arguments".
const INVALID: u16 = 0x04;

/// "Authentication error".
const REFUSED: u16 = 0x20;
/// "Authentication continue".
const CONTINUES: u16 = 0x21;

/// "Unknown command".
const UNKNOWN: u16 = 0x81;

/// The status and the text for a line of the text protocol; none where it says that all is as expected.
fn status(line: &[u8]) -> Option<(u16, &[u8])> {
    const EXPECTED: [Line; 7] =
        [Line::Ok, Line::End, Line::Stored, Line::Deleted, Line::Touched, Line::Reset, Line::MetaNoop];
    const FIXED: [(Line, u16, &str); 16] = [
        (Line::NotFound, 0x01, "Not found"),
        (Line::Exists, 0x02, "Data exists for key."),
        (Line::TooLarge, 0x03, "Too large."),
        (Line::BadFormat, INVALID, "Invalid arguments"),
        (Line::NotStored, 0x05, "Not stored."),
        (Line::NonNumeric, 0x06, "Non-numeric server-side value for incr or decr"),
        (Line::FlushRefused, REFUSED, "Auth failure."),
        (Line::Unauthenticated, REFUSED, "Auth failure."),
        (Line::LoginFailed, REFUSED, "Auth failure."),
        (Line::NoRead, REFUSED, "No right to read this key"),
        (Line::NoWrite, REFUSED, "No right to write this key"),
        (Line::NoReadAll, REFUSED, "No right to read all keys"),
        (Line::NoRight, REFUSED, "No right to anything here"),
        (Line::NoAdmin, REFUSED, "No right to administer"),
        (Line::Error, UNKNOWN, "Unknown command"),
        (Line::Busy, BUSY, "busy"),
    ];
    if EXPECTED.iter().any(|expected| expected.bytes() == line) {
        return None;
    }
    if let Some((_, status, text)) = FIXED.iter().find(|(fixed, ..)| fixed.bytes() == line) {
        return Some((*status, text.as_bytes()));
    }
    let text = line.strip_suffix(b"\r\n").unwrap_or(line);
    let no_memory = [Line::OutOfMemory, Line::OutOfMemoryArith, Line::OutOfMemoryVivify];
    Some(if let Some(text) = text.strip_prefix(b"SERVER_ERROR ") {
        let is_memory = no_memory.iter().any(|known| known.bytes() == line);
        (if is_memory { NO_MEMORY } else { FAILED }, text)
    } else if let Some(text) = text.strip_prefix(b"CLIENT_ERROR ") {
        (INVALID, text)
    } else {
        (UNKNOWN, text)
    })
}

impl Reply<'_> {
    /// All of a frame but the value, which follows and is so long.
    fn frame(&mut self, asked: Asked, frame: &Frame<'_>, value_len: usize) {
        let body = frame.extras.len() + frame.key.len() + value_len;
        let mut header = [0; HEADER_LEN];
        (header[0], header[1]) = (REPLY_MAGIC, asked.opcode);
        header[2..4].copy_from_slice(&(frame.key.len() as u16).to_be_bytes());
        header[4] = frame.extras.len() as u8;
        header[6..8].copy_from_slice(&frame.status.to_be_bytes());
        header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        header[12..16].copy_from_slice(&asked.opaque);
        header[16..].copy_from_slice(&frame.cas.to_be_bytes());
        self.bytes(&header);
        self.bytes(frame.extras);
        self.bytes(frame.key);
    }

    /// That all is as expected, which quiet requests are not told.
    fn expected(&mut self, asked: Asked, cas: u64, value: &[u8]) {
        if !asked.is_quiet() {
            self.frame(asked, &Frame { cas, ..Frame::default() }, value.len());
            self.bytes(value);
        }
    }

    /// What this line says.
    #[cold]
    pub(in super::super) fn binary_line(&mut self, asked: Asked, line: &[u8]) {
        match status(line) {
            None => self.expected(asked, 0, b""),
            Some((status, text)) => {
                self.frame(asked, &Frame { status, ..Frame::default() }, text.len());
                self.bytes(text);
            }
        }
    }

    /// The answer to a request of SASL; nothing where a request of the text protocol is answered, which has none.
    pub fn sasl(&mut self, answer: Sasl) {
        let Some(asked) = self.asked() else { return };
        match answer {
            Sasl::Mechanisms => self.expected(asked, 0, b"PLAIN"),
            Sasl::Authenticated => self.expected(asked, 0, b"Authenticated"),
            Sasl::Continues => self.frame(asked, &Frame { status: CONTINUES, ..Frame::default() }, 0),
        }
    }

    /// A text: the version.
    pub(in super::super) fn binary_text(&mut self, asked: Asked, text: &[u8]) {
        self.expected(asked, 0, text);
    }

    /// One statistic.
    pub(in super::super) fn binary_stat(&mut self, asked: Asked, name: &str, value: &[u8]) {
        self.frame(asked, &Frame { key: name.as_bytes(), ..Frame::default() }, value.len());
        self.bytes(value);
    }

    pub(in super::super) fn binary_hit_head(
        &mut self,
        asked: Asked,
        meta: &Meta<'_>,
        hit: &MetaHit,
        value_len: usize,
    ) {
        let frame = Frame {
            extras: &hit.client_flags.to_be_bytes(),
            key: if asked.wants_key() { meta.key_text } else { b"" },
            cas: hit.version,
            ..Frame::default()
        };
        self.frame(asked, &frame, if meta.flags.has(b'v') { value_len } else { 0 });
    }

    pub(in super::super) fn binary_miss(&mut self, asked: Asked, meta: &Meta<'_>) {
        if asked.is_quiet() {
        } else if asked.wants_key() {
            let (status, _) = status(Line::NotFound.bytes()).expect("it is an error");
            self.frame(asked, &Frame { status, key: meta.key_text, ..Frame::default() }, 0);
        } else {
            self.binary_line(asked, Line::NotFound.bytes());
        }
    }

    pub(in super::super) fn binary_stored(&mut self, asked: Asked, stored: MetaStored) {
        let line = match stored {
            MetaStored::Stored { version } => return self.expected(asked, version, b""),
            MetaStored::NotStored => match asked.opcode {
                opcode::ADD | opcode::ADDQ => Line::Exists,
                opcode::REPLACE | opcode::REPLACEQ => Line::NotFound,
                _ => Line::NotStored,
            },
            MetaStored::Exists => Line::Exists,
            MetaStored::NotFound => Line::NotFound,
        };
        self.binary_line(asked, line.bytes());
    }

    pub(in super::super) fn binary_deleted(&mut self, asked: Asked, deleted: MetaDeleted) {
        match deleted {
            MetaDeleted::Deleted => self.expected(asked, 0, b""),
            MetaDeleted::Exists => self.binary_line(asked, Line::Exists.bytes()),
            MetaDeleted::NotFound => self.binary_line(asked, Line::NotFound.bytes()),
        }
    }

    pub(in super::super) fn binary_counted(&mut self, asked: Asked, counted: MetaCounted) {
        let line = match counted {
            MetaCounted::Counted { number, version, .. } => {
                return self.expected(asked, version, &number.to_be_bytes());
            }
            MetaCounted::NotStored => Line::NotStored,
            MetaCounted::Exists => Line::Exists,
            MetaCounted::NotFound => Line::NotFound,
        };
        self.binary_line(asked, line.bytes());
    }
}
