//! Encoding messages that are a few large strings and bytes fields, against prost: objects that were built by copying, and objects
//! that were lent their bytes.
//!
//! Every contestant encodes from its own message in memory into a buffer that it keeps. Between two encodings of one message as
//! many others are encoded as fill the cache, in the rows that say *cold*: there a message comes from memory, as it does in a
//! server that fetches values from a store. *In turn* they come in the order in which they were built, which a processor foresees;
//! *random* in none. Contestants take turns sample by sample, and a ratio is of samples of one round.
//! *build + encode* is the whole way of a reply: from bytes that the program has to the bytes on the wire.
//!
//! `cargo bench -p millrace-codec --bench large [-- --quick]`

#[path = "shapes/plan.rs"]
mod plan;

use base::cpu;
use base::prng::Prng;
use base::spread;
use codec::compile::Compiler;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::object::{Edit, Slot, View};
use codec::schema::Schema;
use codec::table::Table;
use plan::Plan;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};
use std::hint::black_box;

const PROTO: &str = r#"
    syntax = "proto3";
    message Record { string name = 1; string text = 2; bytes body = 3; bytes digest = 4; }
"#;

/// Bytes of `text` and of `body` (`name` has 24, `digest` 32).
const SIZES: [(usize, usize); 5] =
    [(100, 400), (600, 3000), (2000, 14_000), (4000, 60_000), (20_000, 1_000_000)];

/// What a program has.
struct Source {
    name: String,
    text: String,
    body: Vec<u8>,
    digest: Vec<u8>,
}

/// As prost's derive writes it, for four fields.
#[derive(Debug, Default)]
struct Record {
    name: String,
    text: String,
    body: Vec<u8>,
    digest: Vec<u8>,
}

impl Message for Record {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        prost::encoding::string::encode(1, &self.name, buf);
        prost::encoding::string::encode(2, &self.text, buf);
        prost::encoding::bytes::encode(3, &self.body, buf);
        prost::encoding::bytes::encode(4, &self.digest, buf);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: WireType,
        _: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        unreachable!("this program encodes")
    }

    fn encoded_len(&self) -> usize {
        prost::encoding::string::encoded_len(1, &self.name)
            + prost::encoding::string::encoded_len(2, &self.text)
            + prost::encoding::bytes::encoded_len(3, &self.body)
            + prost::encoding::bytes::encoded_len(4, &self.digest)
    }

    fn clear(&mut self) {
        *self = Record::default();
    }
}

/// The same messages for everybody, and the buffers.
struct Subject<'a> {
    kind: Kind<'a>,
    sources: &'a [Source],
    prost: Vec<Record>,
    copied: Vec<View<'a>>,
    lent: Vec<View<'a>>,
    encoder: Encoder,
    out: Vec<u8>,
    arena: Arena,
    /// Which message comes after each.
    after: Vec<u32>,
    /// Which message each contestant takes next.
    next: [u32; ALL.len()],
}

/// What our side knows of a record.
#[derive(Clone, Copy)]
struct Kind<'a> {
    table: &'a Table,
    class: u32,
    slots: [Slot; 4],
}

impl Kind<'_> {
    fn build<'b>(&self, source: &'b Source, arena: &'b Arena, lend: bool) -> View<'b> {
        let size = self.table.message(self.class).size;
        let mut edit = Edit::new(arena, size).expect("room");
        let fields = [source.name.as_bytes(), source.text.as_bytes(), &source.body, &source.digest];
        for (slot, bytes) in self.slots.into_iter().zip(fields) {
            // SAFETY: the slots are of this class's strings and bytes, and the strings are UTF-8.
            unsafe {
                if lend {
                    edit.lend_bytes(slot, bytes);
                } else {
                    edit.set_bytes(slot, bytes).expect("room");
                }
            }
        }
        edit.freeze()
    }

    fn encode<'e>(&self, encoder: &'e mut Encoder, view: View<'_>) -> &'e [u8] {
        // SAFETY: built as this class of this table.
        unsafe { encoder.encoded(self.table, self.class, view) }.expect("a good message")
    }
}

fn encode_prost(out: &mut Vec<u8>, record: &Record) {
    out.clear();
    record.encode(out).expect("room");
    black_box(&out);
}

impl Subject<'_> {
    fn once(&mut self, who: Who, at: usize) {
        match who {
            Who::Prost => encode_prost(&mut self.out, &self.prost[at]),
            Who::Copied => drop(black_box(self.kind.encode(&mut self.encoder, self.copied[at]))),
            Who::Lent => drop(black_box(self.kind.encode(&mut self.encoder, self.lent[at]))),
            Who::BuiltProst => {
                let Source { name, text, body, digest } = &self.sources[at];
                let (name, text, body, digest) = (name.clone(), text.clone(), body.clone(), digest.clone());
                encode_prost(&mut self.out, &Record { name, text, body, digest });
            }
            Who::BuiltCopied | Who::BuiltLent => {
                let view = self.kind.build(&self.sources[at], &self.arena, who == Who::BuiltLent);
                black_box(self.kind.encode(&mut self.encoder, view));
                self.arena.reset();
            }
        }
    }

    /// Nanoseconds of one encoding, of `times`. It goes on where this contestant's last sample ended: begun anew, a short sample would
    /// meet the same messages each time, still in the cache, and the faster contestant fewer of them.
    fn time(&mut self, who: Who, times: usize) -> f64 {
        let mut at = self.next[who as usize];
        let start = cpu::thread_time().0;
        for _ in 0..times {
            self.once(who, at as usize);
            at = self.after[at as usize];
        }
        let ns = (cpu::thread_time().0 - start) as f64 / times as f64;
        self.next[who as usize] = at;
        ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Prost,
    Copied,
    Lent,
    BuiltProst,
    BuiltCopied,
    BuiltLent,
}

const ALL: [Who; 6] = [Who::Prost, Who::Copied, Who::Lent, Who::BuiltProst, Who::BuiltCopied, Who::BuiltLent];

/// Where a message comes from, and which comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// From the cache.
    Warm,
    /// From memory, in the order in which they were built.
    InTurn,
    /// From memory, in no order.
    Random,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Warm => "warm",
            Order::InTurn => "cold, in turn",
            Order::Random => "cold, random",
        }
    }

    /// Which of `count` messages comes after each: one ring through all of them.
    fn ring(self, count: usize, prng: &mut Prng) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        if self == Order::Random {
            for last in (1..count).rev() {
                order.swap(last, prng.below(last as u64 + 1) as usize);
            }
        }
        let mut after = vec![0; count];
        for at in 0..count {
            after[order[at] as usize] = order[(at + 1) % count];
        }
        after
    }
}

fn main() {
    let plan = Plan::asked_for();
    let core = cpu::allowed_cores()[0];
    cpu::pin_to(core).expect("an allowed core");
    let schema = Compiler::new().source("r.proto", PROTO).compile(&["r.proto"]).expect("it compiles");
    println!(
        "{:<22}{:>12}{:>22}{:>22}{:>22}{:>22}",
        "bytes", "prost ns", "copied, x prost", "lent, x prost", "build+encode, copied", "build+encode, lent"
    );
    for (text, body) in SIZES {
        for order in [Order::Warm, Order::InTurn, Order::Random] {
            measure(&schema, text, body, order, &plan);
        }
    }
    println!("\n{}, core {core}, {} rounds; times as fast as prost", cpu::model_name(), plan.rounds);
}

fn measure(schema: &Schema, text: usize, body: usize, order: Order, plan: &Plan) {
    let mut prng = Prng::new(body as u64);
    // In all a few times the largest cache of a core; or some of them, of as many lengths, so that source and target lie to each other in
    // every way: which `memcpy` likes some of and not others.
    let count = match order {
        Order::Warm => ((2 << 20) / (text + body)).clamp(1, 64),
        Order::InTurn | Order::Random => (64 << 20) / (text + body) + 1,
    };
    let letters = |len: usize, prng: &mut Prng| -> String {
        (0..len).map(|_| char::from(b'a' + prng.below(26) as u8)).collect()
    };
    let sources: Vec<Source> = (0..count)
        .map(|index| Source {
            name: letters(24, &mut prng),
            text: letters(text + prng.below(64) as usize, &mut prng),
            body: letters(body + index % 64 * body / 640, &mut prng).into_bytes(),
            digest: letters(32, &mut prng).into_bytes(),
        })
        .collect();
    let (arena, lent_arena, table) = (Arena::default(), Arena::default(), schema.table());
    let class = schema.class("Record").expect("it is there");
    let entries = table.entries(table.message(class));
    let slots = std::array::from_fn(|index| Slot::new(index as u32, entries[index].offset));
    let kind = Kind { table: &table, class, slots };
    let mut subject = Subject {
        kind,
        sources: &sources,
        prost: Vec::new(),
        copied: Vec::new(),
        lent: Vec::new(),
        encoder: Encoder::default(),
        out: Vec::new(),
        arena: Arena::default(),
        after: order.ring(count, &mut prng),
        next: [0; ALL.len()],
    };
    for source in &sources {
        let Source { name, text, body, digest } = source;
        let (name, text, body, digest) = (name.clone(), text.clone(), body.clone(), digest.clone());
        subject.prost.push(Record { name, text, body, digest });
        subject.copied.push(kind.build(source, &arena, false));
        subject.lent.push(kind.build(source, &lent_arena, true));
    }
    check(&mut subject);
    let times = ALL.map(|who| {
        let ns = subject.time(who, count.max(8)).max(1.0);
        ((plan.sample_ns / ns) as usize).max(1)
    });
    let mut samples = [const { Vec::<f64>::new() }; ALL.len()];
    for round in 0..plan.rounds {
        for turn in 0..ALL.len() {
            let who = (round + turn) % ALL.len();
            samples[who].push(subject.time(ALL[who], times[who]));
        }
    }
    let ratio = |own: usize, base: usize| {
        spread::text(samples[base].iter().zip(&samples[own]).map(|(base, own)| base / own), 2)
    };
    println!(
        "{:<22}{:>12.0}{:>22}{:>22}{:>22}{:>22}",
        format!("{} {}", text + body, order.name()),
        spread::median(samples[0].clone()),
        ratio(1, 0),
        ratio(2, 0),
        ratio(4, 3),
        ratio(5, 3),
    );
}

/// Everybody writes the same bytes.
fn check(subject: &mut Subject<'_>) {
    for at in 0..subject.sources.len() {
        let expected = subject.prost[at].encode_to_vec();
        for view in [subject.copied[at], subject.lent[at]] {
            assert_eq!(subject.kind.encode(&mut subject.encoder, view), expected);
        }
    }
}
