//! The testee of protobuf's public conformance runner: binary, JSON and text format; what else there is is answered `skipped`.
//!
//! Shape: on stdin and stdout, 4 bytes of length (little-endian) and a `ConformanceRequest`, answered by as many and a
//! `ConformanceResponse`. Both go through the codec as well. Two arguments say how messages are decoded, `borrowed`,
//! `owned`, or by an accelerator that writes across (`one-shot`, `field-by-field`), and who writes them: `encoder`, or a strategy of serialising for
//! an accelerator, `cpu-only`, `accelerator-only` or
//! `memory-affinity`.
//!
//! `tests/conformance.rs` starts it.

#[path = "../tests/differential/serialisers.rs"]
mod serialisers;

use codec::compile::Compiler;
use codec::decode::{Decoder, Limits, Writes};
use codec::encode::{EncodeError, Encoder, Strategy};
use codec::memory::Arena;
use codec::object::dynamic::Value;
use codec::object::{Dynamic, DynamicMut};
use codec::place::{Accelerator, Live, Options};
use codec::schema::Types;
use codec::text::{TextError, format, json};
use serialisers::Serialisers;
use std::io::{self, Read, Write};
use std::sync::Arc;

const FILES: [&str; 6] = [
    "conformance/conformance.proto",
    "google/protobuf/test_messages_proto2.proto",
    "google/protobuf/test_messages_proto3.proto",
    "google/protobuf/test_messages_proto2_editions.proto",
    "google/protobuf/test_messages_proto3_editions.proto",
    "google/protobuf/test_messages_edition2023.proto",
];

/// Of `WireFormat`.
const PROTOBUF: i128 = 1;
const JSON: i128 = 2;
const TEXT_FORMAT: i128 = 4;
/// `JSON_IGNORE_UNKNOWN_PARSING_TEST` of `TestCategory`.
const IGNORE_UNKNOWN: i128 = 3;

/// Which member of `ConformanceResponse.result`, and what is in it.
type Answer = (&'static str, Vec<u8>);

/// Who writes messages.
enum Writer {
    Encoder(Box<Encoder>),
    Serialisers(Box<Serialisers>, Strategy),
}

impl Writer {
    fn write(&mut self, message: Dynamic) -> Result<Vec<u8>, EncodeError> {
        let (table, class, root) = (message.types().table(), message.class(), message.view());
        // SAFETY: a Dynamic is an object of its class of its table.
        unsafe {
            match self {
                Writer::Encoder(encoder) => encoder.encoded(table, class, root).map(|bytes| bytes.to_vec()),
                Writer::Serialisers(both, strategy) => both.write(*strategy, table, class, root),
            }
        }
    }
}

/// The schemas of conformance.proto and of all test messages.
fn types() -> Types {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proto");
    let schema = Compiler::new().include(folder).compile(&FILES);
    Types::new(schema.unwrap_or_else(|error| panic!("{error}")))
}

fn class(types: &Types, name: &str) -> u32 {
    types.schema().class(name).unwrap_or_else(|| panic!("no message is called {name}"))
}

/// How messages are decoded.
enum Reader {
    Borrowed,
    Owned,
    Accelerator(Box<Accelerator>),
}

/// What the runner sends is meant to be accepted, whatever it takes.
const LIMITS: Limits = Limits { depth: 100, input_bytes: 64 << 20, slack_bytes: 1 << 30, amplification: 64 };

/// What came.
enum Payload {
    Binary(Vec<u8>),
    Json(Vec<u8>),
    Text(Vec<u8>),
}

/// What is to be done with it.
struct Asked {
    name: String,
    output: i128,
    ignore_unknown: bool,
    print_unknown: bool,
}

impl Asked {
    fn answer(&self, message: Dynamic, writer: &mut Writer) -> Answer {
        let (member, written) = match self.output {
            PROTOBUF => ("protobuf_payload", writer.write(message).map_err(|error| error.to_string())),
            JSON => {
                let printed =
                    json::print(message, &json::PrintOptions { one_line: true, ..Default::default() });
                ("json_payload", printed.map(String::into_bytes).map_err(|error| error.to_string()))
            }
            TEXT_FORMAT => {
                let options = format::PrintOptions { unknown: self.print_unknown, ..Default::default() };
                let printed = format::print(message, &options);
                ("text_payload", printed.map(String::into_bytes).map_err(|error| error.to_string()))
            }
            _ => ("skipped", Ok(b"binary, JSON and text format only".to_vec())),
        };
        match written {
            Ok(bytes) => (member, bytes),
            Err(error) => ("serialize_error", error.into_bytes()),
        }
    }
}

/// A message from text, which must be UTF-8.
fn text<'a>(
    bytes: &[u8],
    parse: impl FnOnce(&str) -> Result<DynamicMut<'a, 'a>, TextError>,
) -> Result<Dynamic<'a>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    parse(text).map(DynamicMut::freeze).map_err(|error| error.to_string())
}

struct Testee {
    types: Types,
    reader: Reader,
    decoder: Decoder,
    writer: Writer,
}

impl Testee {
    fn new(decode: &str, writer: Writer) -> io::Result<Testee> {
        let limits = LIMITS;
        let types = types();
        let across = |writes| -> io::Result<Reader> {
            let live = Arc::new(Live::new(types.table().clone()));
            let accelerator = Accelerator::start(live, Options { limits, ..Options::default() })?;
            accelerator.registers().set_writes(writes);
            Ok(Reader::Accelerator(Box::new(accelerator)))
        };
        let reader = match decode {
            "borrowed" => Reader::Borrowed,
            "owned" => Reader::Owned,
            "one-shot" => across(Writes::OneShot)?,
            "field-by-field" => across(Writes::FieldByField)?,
            other => {
                panic!("{other}: messages are decoded `borrowed`, `owned`, `one-shot` or `field-by-field`")
            }
        };
        Ok(Testee { types, reader, decoder: Decoder::new(limits), writer })
    }

    /// What a request asks for.
    fn answer(&mut self, request: &[u8]) -> Answer {
        let Testee { types, decoder, .. } = self;
        let arena = Arena::default();
        let of = class(types, "conformance.ConformanceRequest");
        let request =
            Dynamic::decode(types, of, decoder, request, &arena).expect("the runner writes protobuf");
        let name = request.get("message_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name == "conformance.FailureSet" {
            return ("protobuf_payload", Vec::new());
        }
        let number = |field: &str| request.get(field).and_then(Value::as_i128);
        let asked = Asked {
            name,
            output: number("requested_output_format").unwrap_or(0),
            ignore_unknown: number("test_category") == Some(IGNORE_UNKNOWN),
            print_unknown: number("print_unknown_fields") == Some(1),
        };
        let payload = |field: &str| request.get(field).and_then(Value::as_bytes).map(<[u8]>::to_vec);
        let payload = payload("protobuf_payload")
            .map(Payload::Binary)
            .or_else(|| payload("json_payload").map(Payload::Json))
            .or_else(|| payload("text_payload").map(Payload::Text));
        match payload {
            Some(payload) => self.round_trip(&asked, &payload),
            None => ("skipped", b"binary, JSON and text format only".to_vec()),
        }
    }

    fn round_trip(&mut self, asked: &Asked, payload: &Payload) -> Answer {
        let Testee { types, reader, decoder, writer } = self;
        let Some(class) = types.schema().class(&asked.name) else {
            return ("runtime_error", format!("no message is called {}", asked.name).into_bytes());
        };
        let arena = Arena::default();
        let placed;
        let message = match payload {
            Payload::Binary(payload) => match reader {
                Reader::Borrowed => Dynamic::decode(types, class, decoder, payload, &arena),
                Reader::Owned => Dynamic::decode_owned(types, class, decoder, payload, &arena),
                Reader::Accelerator(accelerator) => {
                    placed = accelerator.receive(class, payload.clone());
                    placed.as_ref().map(|message| message.dynamic(types)).map_err(|&error| error)
                }
            }
            .map_err(|error| error.to_string()),
            Payload::Json(bytes) => text(bytes, |text| {
                let options = json::ParseOptions { ignore_unknown: asked.ignore_unknown, limits: LIMITS };
                json::parse(types, class, text, &arena, &options)
            }),
            Payload::Text(bytes) => text(bytes, |text| format::parse(types, class, text, &arena, &LIMITS)),
        };
        match message {
            Ok(message) => asked.answer(message, writer),
            Err(error) => ("parse_error", error.into_bytes()),
        }
    }

    /// The response with that answer, encoded.
    fn response(&mut self, (member, value): &Answer) -> Vec<u8> {
        let arena = Arena::default();
        let class = class(&self.types, "conformance.ConformanceResponse");
        let mut response = DynamicMut::new(&self.types, class, &arena).expect("room for a response");
        let value = match *member {
            "protobuf_payload" => Value::Bytes(value),
            _ => Value::Str(std::str::from_utf8(value).expect("errors are text")),
        };
        response.set(*member, value).expect("a member of the response");
        self.writer.write(response.freeze()).expect("it is small")
    }
}

/// The next request, `None` at the end.
fn receive(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if input.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut length[1..])?;
    let mut request = vec![0; u32::from_le_bytes(length) as usize];
    input.read_exact(&mut request)?;
    Ok(Some(request))
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let with = |strategy| Writer::Serialisers(Box::default(), strategy);
    let [decode, write] = &arguments[..] else { panic!("how to decode, and who writes") };
    let writer = match write.as_str() {
        "encoder" => Writer::Encoder(Box::default()),
        "cpu-only" => with(Strategy::CpuOnly),
        "accelerator-only" => with(Strategy::AcceleratorOnly),
        "memory-affinity" => with(Strategy::MemoryAffinity),
        other => panic!("{other}: nobody who writes is called that"),
    };
    let mut testee = Testee::new(decode, writer)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some(request) = receive(&mut input)? {
        let answer = testee.answer(&request);
        let response = testee.response(&answer);
        output.write_all(&(response.len() as u32).to_le_bytes())?;
        output.write_all(&response)?;
        output.flush()?;
    }
    Ok(())
}
