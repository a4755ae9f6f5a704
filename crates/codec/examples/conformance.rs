//! The testee of protobuf's public conformance runner: binary payloads only, everything else is answered `skipped`.
//!
//! Shape: on stdin and stdout, 4 bytes of length (little-endian) and a `ConformanceRequest`, answered by as many and a
//! `ConformanceResponse`. Both go through the codec as well. Two arguments say how messages are decoded, `borrowed`,
//! `owned`, or by an accelerator that writes across (`one-shot`, `field-by-field`), and who writes them: `encoder`, or a strategy of serialising for an accelerator, `cpu-only`, `accelerator-only` or
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

/// `WireFormat.PROTOBUF`.
const PROTOBUF: i128 = 1;

/// Which member of `ConformanceResponse.result`, and what is in it.
type Answer = (&'static str, Vec<u8>);

/// Who writes messages.
enum Writer {
    Encoder(Encoder),
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

struct Testee {
    types: Types,
    reader: Reader,
    decoder: Decoder,
    writer: Writer,
}

impl Testee {
    fn new(decode: &str, writer: Writer) -> io::Result<Testee> {
        // What the runner sends is meant to be accepted, whatever it takes.
        let limits = Limits { slack_bytes: 1 << 30, ..Limits::default() };
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
        let format = request.get("requested_output_format").and_then(Value::as_i128);
        match request.get("protobuf_payload").and_then(Value::as_bytes) {
            Some(payload) if format == Some(PROTOBUF) => {
                let payload = payload.to_vec();
                self.round_trip(&name, &payload)
            }
            _ => ("skipped", b"binary payloads only".to_vec()),
        }
    }

    fn round_trip(&mut self, name: &str, payload: &[u8]) -> Answer {
        let Testee { types, reader, decoder, writer } = self;
        let Some(class) = types.schema().class(name) else {
            return ("runtime_error", format!("no message is called {name}").into_bytes());
        };
        let arena = Arena::default();
        let placed;
        let message = match reader {
            Reader::Borrowed => Dynamic::decode(types, class, decoder, payload, &arena),
            Reader::Owned => Dynamic::decode_owned(types, class, decoder, payload, &arena),
            Reader::Accelerator(accelerator) => {
                placed = accelerator.receive(class, payload.to_vec());
                placed.as_ref().map(|message| message.dynamic(types)).map_err(|&error| error)
            }
        };
        match message.map(|message| writer.write(message)) {
            Ok(Ok(bytes)) => ("protobuf_payload", bytes),
            Ok(Err(error)) => ("serialize_error", error.to_string().into_bytes()),
            Err(error) => ("parse_error", error.to_string().into_bytes()),
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
        "encoder" => Writer::Encoder(Encoder::default()),
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
