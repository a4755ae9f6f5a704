//! The testee of protobuf's public conformance runner: binary payloads only, everything else is answered `skipped`.
//!
//! Shape: on stdin and stdout, 4 bytes of length (little-endian) and a `ConformanceRequest`, answered by as many and a
//! `ConformanceResponse`. Both go through the codec as well. Two arguments say how messages are decoded, `borrowed` or
//! `owned`, and who writes them: `encoder`, or a strategy of serialising for an accelerator, `cpu-only`, `accelerator-only` or
//! `memory-affinity`.
//!
//! `tests/conformance.rs` starts it.

#[path = "../tests/differential/serialisers.rs"]
mod serialisers;

use codec::compile::Compiler;
use codec::decode::{Decoder, Limits};
use codec::encode::{EncodeError, Encoder, Strategy};
use codec::memory::Arena;
use codec::object::{Addr, Object, Ref, View};
use codec::schema::Schema;
use codec::table::{Entry, Table};
use serialisers::Serialisers;
use std::io::{self, Read, Write};

const FILES: [&str; 6] = [
    "conformance/conformance.proto",
    "google/protobuf/test_messages_proto2.proto",
    "google/protobuf/test_messages_proto3.proto",
    "google/protobuf/test_messages_proto2_editions.proto",
    "google/protobuf/test_messages_proto3_editions.proto",
    "google/protobuf/test_messages_edition2023.proto",
];

/// `WireFormat.PROTOBUF`.
const PROTOBUF: i32 = 1;

/// Which member of `ConformanceResponse.result`, and what is in it.
type Answer = (&'static str, Vec<u8>);

/// The schemas of conformance.proto and of all test messages.
struct Known {
    schema: Schema,
    table: Table,
}

impl Known {
    fn new() -> Known {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proto");
        let schema = Compiler::new().include(folder).compile(&FILES);
        let schema = schema.unwrap_or_else(|error| panic!("{error}"));
        Known { table: schema.table(), schema }
    }

    fn class(&self, name: &str) -> u32 {
        self.schema.class(name).unwrap_or_else(|| panic!("no message is called {name}"))
    }

    fn entry(&self, class: u32, field: &str) -> (u32, Entry) {
        let index =
            self.schema.messages()[class as usize].index(field).expect("a field of conformance.proto");
        (index as u32, self.table.entries(self.table.message(class))[index])
    }
}

/// A message read by field name.
struct Named<'a> {
    known: &'a Known,
    class: u32,
    view: View<'a>,
}

impl<'a> Named<'a> {
    fn entry(&self, name: &str) -> (u32, Entry) {
        self.known.entry(self.class, name)
    }

    fn has(&self, name: &str) -> bool {
        // SAFETY: the entry is of the view's class.
        unsafe { self.view.has(self.entry(name).0) }
    }

    fn number(&self, name: &str) -> i32 {
        // SAFETY: as in `has`; this is called for enums.
        unsafe { self.view.scalar(self.entry(name).1.offset) }
    }

    fn bytes(&self, name: &str) -> &'a [u8] {
        // SAFETY: as in `has`; this is called for strings and bytes.
        unsafe { self.view.bytes(self.entry(name).1.offset) }
    }
}

/// Who writes messages.
enum Writer {
    Encoder(Encoder),
    Serialisers(Box<Serialisers>, Strategy),
}

impl Writer {
    /// The message, encoded.
    ///
    /// # Safety
    /// `root` is an object of `class` of `table`.
    unsafe fn write(&mut self, table: &Table, class: u32, root: View) -> Result<Vec<u8>, EncodeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Writer::Encoder(encoder) => encoder.encoded(table, class, root).map(|bytes| bytes.to_vec()),
                Writer::Serialisers(both, strategy) => both.write(*strategy, table, class, root),
            }
        }
    }
}

struct Testee {
    known: Known,
    owned: bool,
    decoder: Decoder,
    writer: Writer,
}

impl Testee {
    fn new(owned: bool, writer: Writer) -> Testee {
        // What the runner sends is meant to be accepted, whatever it takes.
        let limits = Limits { slack_bytes: 1 << 30, ..Limits::default() };
        Testee { known: Known::new(), owned, decoder: Decoder::new(limits), writer }
    }

    /// What a request asks for.
    fn answer(&mut self, request: &[u8]) -> Answer {
        let Testee { known, owned, decoder, writer } = self;
        let arena = Arena::default();
        let class = known.class("conformance.ConformanceRequest");
        let view = Decoder::default().borrowed(&known.table, class, request, &arena);
        let view = view.expect("the runner writes protobuf");
        let request = Named { known, class, view };
        if request.bytes("message_type") == b"conformance.FailureSet" {
            return ("protobuf_payload", Vec::new());
        }
        if !request.has("protobuf_payload") || request.number("requested_output_format") != PROTOBUF {
            return ("skipped", b"binary payloads only".to_vec());
        }
        let name = String::from_utf8_lossy(request.bytes("message_type"));
        let Some(class) = known.schema.class(&name) else {
            return ("runtime_error", format!("no message is called {name}").into_bytes());
        };
        let payload = request.bytes("protobuf_payload");
        let arena = Arena::default();
        let decoded = if *owned {
            decoder.owned(&known.table, class, payload, &arena)
        } else {
            decoder.borrowed(&known.table, class, payload, &arena)
        };
        let view = match decoded {
            Ok(view) => view,
            Err(error) => return ("parse_error", error.to_string().into_bytes()),
        };
        // SAFETY: the view was decoded as this class of this table.
        match unsafe { writer.write(&known.table, class, view) } {
            Ok(bytes) => ("protobuf_payload", bytes),
            Err(error) => ("serialize_error", error.to_string().into_bytes()),
        }
    }

    /// The response with that answer, encoded.
    fn response(&mut self, (member, value): &Answer) -> Vec<u8> {
        let class = self.known.class("conformance.ConformanceResponse");
        let (index, entry) = self.known.entry(class, member);
        let table = &self.known.table;
        let size = table.message(class).size as usize;
        let arena = Arena::default();
        let object = Object::at(arena.alloc(size).expect("room for a response"));
        let value = Ref { addr: Addr::host(value.as_ptr().cast_mut()), len: value.len() as u32, capacity: 0 };
        // SAFETY: the object has its class's size and begins as zeros; the entry is a string or bytes member of its oneof.
        unsafe {
            object.start().write_bytes(0, size);
            object.choose(index, entry.offset);
            object.set(index);
            object.write(entry.offset, value);
            self.writer.write(table, class, View::of(object)).expect("it is small")
        }
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
    let owned = match decode.as_str() {
        "borrowed" => false,
        "owned" => true,
        other => panic!("{other}: messages are decoded `borrowed` or `owned`"),
    };
    let writer = match write.as_str() {
        "encoder" => Writer::Encoder(Encoder::default()),
        "cpu-only" => with(Strategy::CpuOnly),
        "accelerator-only" => with(Strategy::AcceleratorOnly),
        "memory-affinity" => with(Strategy::MemoryAffinity),
        other => panic!("{other}: nobody who writes is called that"),
    };
    let mut testee = Testee::new(owned, writer);
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
