//! Histories as JSON Lines, as in `docs/history.md`.

use super::{Answer, Call, Event, History, What};
use base::Picos;
use serde_json::{Map, Value as Json};
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// A line may have this many bytes; longer ones are refused. Values are at most some hundred bytes, keys are what they are.
const LONGEST_LINE: u64 = 1 << 20;

/// Why a history could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file.
    Io(io::Error),
    /// A line, counted from 1, and what is wrong with it.
    Line(usize, String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Line(number, reason) => write!(f, "line {number}: {reason}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// Bytes as a string, or, if they are not UTF-8, as `{"hex":"…"}`.
pub fn json_of_bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Json::from(Map::from_iter([("hex".to_string(), Json::from(hex))]))
        }
    }
}

/// What [`json_of_bytes`] wrote.
///
/// # Errors
/// In words, for anything else.
pub fn bytes_of_json(json: &Json) -> Result<Vec<u8>, String> {
    if let Some(text) = json.as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let digits = json.get("hex").and_then(Json::as_str).map(str::as_bytes).unwrap_or(b"?");
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?) as u8);
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| format!("{json} stands for no bytes"))
}

impl<O: Call, R: Answer> History<O, R> {
    /// Writes one line for each event.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.events.iter().try_for_each(|event| self.write_line(event, out))
    }

    fn write_line(&self, event: &Event<O, R>, out: &mut impl Write) -> io::Result<()> {
        let (kind, call, detail) = match &event.what {
            What::Call { op, .. } => ("call", event, ("a", op.args())),
            What::Return { call, ret } => ("return", &self.events[*call], ("r", ret.fields())),
        };
        let What::Call { key, op } = &call.what else { unreachable!("a return names the place of a call") };
        let name = Json::from(op.name());
        let key = json_of_bytes(key);
        write!(out, r#"{{"t":{},"e":"{kind}","c":{},"id":{}"#, event.at.0, event.client, event.id)?;
        writeln!(out, r#","op":{name},"k":{key},"{}":{}}}"#, detail.0, Json::from(detail.1))
    }

    /// Reads what [`History::write`] or anything else wrote so. Empty lines and fields that are not known are passed over.
    ///
    /// # Errors
    /// Those of `from`, and of the first line that does not make sense.
    pub fn read(from: &mut impl BufRead) -> Result<Self, ReadError> {
        let mut history = History::new();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if from.take(LONGEST_LINE + 1).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.len() as u64 > LONGEST_LINE {
                return Err(ReadError::Line(number, format!("it is longer than {LONGEST_LINE} bytes")));
            }
            if !line.trim_ascii().is_empty() {
                history.read_line(&line).map_err(|reason| ReadError::Line(number, reason))?;
            }
        }
        Ok(history)
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), String> {
        let json: Json = serde_json::from_slice(line).map_err(|error| format!("it is no JSON: {error}"))?;
        let field = |name: &str| json.get(name).ok_or_else(|| format!("{name:?} is missing"));
        let number = |name| field(name)?.as_u64().ok_or_else(|| format!("{name:?} is no whole number"));
        let text = |name| field(name)?.as_str().ok_or_else(|| format!("{name:?} is no text"));
        let object = |name| field(name)?.as_object().ok_or_else(|| format!("{name:?} is no object"));
        let (at, id) = (Picos(number("t")?), number("id")?);
        let client = u32::try_from(number("c")?).map_err(|_| "\"c\" is no number of a client".to_string())?;
        let (name, key) = (text("op")?, bytes_of_json(field("k")?)?);
        match text("e")? {
            "call" => self.try_call(at, client, id, &key, O::read(name, object("a")?)?),
            "return" => {
                let call = self.try_return(at, id, R::read(object("r")?)?)?;
                let call = &self.events[call];
                let is_same =
                    matches!(&call.what, What::Call { key: k, op } if **k == *key && op.name() == name);
                if is_same && call.client == client {
                    return Ok(());
                }
                Err(format!(
                    "operation {id} was called by another client, for another key, or is no {name:?}"
                ))
            }
            other => Err(format!("\"e\" is \"call\" or \"return\", not {other:?}")),
        }
    }
}
