//! Messages that are a few large fields, against C++ protobuf: encode, build by copying and encode, decode and read.
//!
//! | row | its messages | *build + encode* | *decode + read* |
//! |---|---|---|---|
//! | C++ new | own their strings | a new message, copied into | a new message |
//! | C++ reused | the same | one message, cleared and copied into, which keeps its strings' memory | the same |
//! | prost | own their strings | a new message | a new message |
//! | millrace copied | own their bytes, in an arena | an arena that is reset | an arena that is reset |
//! | millrace lent | refer to the program's bytes | as above, nothing copied before encoding | refers to the input |
//!
//! Everyone encodes into a buffer that is kept, from what the program has in strings of its own. Ratios are to C++'s reused message, the
//! fastest that it has (its arenas do not hold the bytes of strings). Before timing, all must encode the same bytes and read the same sums.

use std::hint::black_box;
use std::path::Path;

use base::prng::Prng;
use codec::decode::Decoder;
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::object::{Edit, Slot, View};
use codec::table::Table;
use prost::Message;

use crate::cpp::Program;
use crate::fold::{Sink, Touch};
use crate::goals::Verdict;
use crate::measure::{Figure, Plan, in_turns, processor_ns};
use crate::ours::table_of;
use crate::peers::prost::owned::large::Record;
use crate::report::ratio;

/// Bytes of `text` and of `body`; `name` has 24 and `digest` 32.
pub const SIZES: [(usize, usize); 5] =
    [(100, 400), (600, 3000), (2000, 14_000), (4000, 60_000), (20_000, 1_000_000)];

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    CppNew,
    CppReused,
    Prost,
    Copied,
    Lent,
}

impl Who {
    const ALL: [Who; 5] = [Who::CppNew, Who::CppReused, Who::Prost, Who::Copied, Who::Lent];
    /// Whose times the others are measured by.
    const REFERENCE: usize = Who::CppReused as usize;

    fn name(self) -> &'static str {
        match self {
            Who::CppNew => "C++ new",
            Who::CppReused => "C++ reused",
            Who::Prost => "prost",
            Who::Copied => "millrace copied",
            Who::Lent => "millrace lent",
        }
    }
}

/// What they do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Encode,
    Build,
    Read,
}

impl Work {
    const ALL: [Work; 3] = [Work::Encode, Work::Build, Work::Read];

    fn name(self) -> &'static str {
        match self {
            Work::Encode => "encode",
            Work::Build => "build + encode",
            Work::Read => "decode + read",
        }
    }

    /// The C++ program's word for it; none where somebody does not do it.
    fn in_cpp(self, who: Who) -> Option<&'static str> {
        match (self, who) {
            (Work::Encode, Who::CppReused) => Some("encode"),
            (Work::Build, Who::CppNew) => Some("build-fresh"),
            (Work::Build, Who::CppReused) => Some("build-reused"),
            (Work::Read, Who::CppNew) => Some("decode-fresh"),
            (Work::Read, Who::CppReused) => Some("decode-reused"),
            _ => None,
        }
    }
}

/// One size, measured.
pub struct Outcome {
    /// Bytes of `text` and `body`.
    bytes: usize,
    /// Of each work, of each who takes part.
    figures: Vec<Vec<Option<Figure>>>,
}

/// Measures one size against the C++ program at `program`.
///
/// # Errors
/// The program does not work, or somebody encodes or reads something else than the others.
pub fn measure(
    program: &Path,
    (text, body): (usize, usize),
    seed: u64,
    plan: Plan,
) -> Result<Outcome, String> {
    let records = records(text, body, &mut Prng::new(seed));
    let encoded: Vec<Vec<u8>> = records.iter().map(Message::encode_to_vec).collect();
    let mut cpp = Program::start(program, &encoded)?;
    let arena = Arena::default();
    let mut sides = Sides::new(&records, &encoded, &arena);
    check(&mut sides, &mut cpp)?;
    let mut failed = None;
    let figures = Work::ALL
        .map(|work| {
            in_turns(plan, Who::ALL.len(), 1, |who, times| {
                let who = Who::ALL[who];
                match work.in_cpp(who) {
                    Some(word) => match cpp.time(word, times) {
                        Ok(ns) => Some(ns as f64),
                        Err(error) => {
                            failed = Some(error);
                            None
                        }
                    },
                    None => sides.time(who, work, times),
                }
            })
        })
        .into();
    match failed {
        Some(error) => Err(error),
        None => Ok(Outcome { bytes: text + body, figures }),
    }
}

/// Up to 64 messages of 2 MiB in all, of as many lengths, so that source and target lie to each other in every way.
fn records(text: usize, body: usize, prng: &mut Prng) -> Vec<Record> {
    let count = ((2 << 20) / (text + body)).clamp(1, 64);
    let letters = |len: usize, prng: &mut Prng| -> String {
        (0..len).map(|_| char::from(b'a' + prng.below(26) as u8)).collect()
    };
    (0..count)
        .map(|index| Record {
            name: letters(24, prng),
            text: letters(text + prng.below(64) as usize, prng),
            body: letters(body + index % 64 * body / 640, prng).into_bytes(),
            digest: letters(32, prng).into_bytes(),
        })
        .collect()
}

/// What is not C++.
struct Sides<'a> {
    records: &'a [Record],
    encoded: &'a [Vec<u8>],
    kind: Kind,
    copied: Vec<View<'a>>,
    lent: Vec<View<'a>>,
    encoder: Encoder,
    decoder: Decoder,
    arena: Arena,
    out: Vec<u8>,
    touch: Touch,
    next: [[usize; Who::ALL.len()]; Work::ALL.len()],
}

/// What ours knows of a record.
struct Kind {
    table: Table,
    class: u32,
    slots: [Slot; 4],
}

impl Kind {
    fn build<'b>(&self, record: &'b Record, arena: &'b Arena, lend: bool) -> View<'b> {
        let mut edit = Edit::new(arena, self.table.message(self.class).size).expect("room");
        let fields = [record.name.as_bytes(), record.text.as_bytes(), &record.body, &record.digest];
        for (slot, bytes) in self.slots.into_iter().zip(fields) {
            // SAFETY: the slots are of this class's strings and bytes, and the strings are UTF-8.
            unsafe {
                match lend {
                    true => edit.lend_bytes(slot, bytes),
                    false => edit.set_bytes(slot, bytes).expect("room"),
                }
            }
        }
        edit.freeze()
    }

    fn encode<'e>(&self, encoder: &'e mut Encoder, view: View<'_>) -> &'e [u8] {
        // SAFETY: built as this class of this table.
        unsafe { encoder.encoded(&self.table, self.class, view) }.expect("a good message")
    }

    fn read(&self, view: View<'_>, touch: &mut Touch) {
        for slot in self.slots {
            // SAFETY: the slots are of the view's class, of strings and bytes.
            touch.bytes(unsafe { view.bytes(slot.offset) });
        }
    }
}

impl<'a> Sides<'a> {
    fn new(records: &'a [Record], encoded: &'a [Vec<u8>], arena: &'a Arena) -> Sides<'a> {
        let (table, class) = table_of("large.Record");
        let entries = table.entries(table.message(class));
        let slots = std::array::from_fn(|index| Slot::of(&entries[index], index));
        let kind = Kind { table, class, slots };
        let copied = records.iter().map(|record| kind.build(record, arena, false)).collect();
        let lent = records.iter().map(|record| kind.build(record, arena, true)).collect();
        Sides {
            records,
            encoded,
            kind,
            copied,
            lent,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            arena: Arena::default(),
            out: Vec::new(),
            touch: Touch::default(),
            next: Default::default(),
        }
    }

    /// What was encoded, or nothing where something was read, or where this is not done.
    #[inline(always)]
    fn once(&mut self, who: Who, work: Work, at: usize) -> Option<&[u8]> {
        let record = &self.records[at];
        match (work, who) {
            (_, Who::CppNew | Who::CppReused) => None,
            (Work::Encode, Who::Prost) => Some(encode_prost(&mut self.out, record)),
            (Work::Encode, Who::Copied) => Some(self.kind.encode(&mut self.encoder, self.copied[at])),
            (Work::Encode, Who::Lent) => Some(self.kind.encode(&mut self.encoder, self.lent[at])),
            (Work::Build, Who::Prost) => Some(encode_prost(&mut self.out, &record.clone())),
            (Work::Build, _) => {
                self.arena.reset();
                let view = self.kind.build(record, &self.arena, who == Who::Lent);
                Some(self.kind.encode(&mut self.encoder, view))
            }
            (Work::Read, Who::Prost) => {
                let record = Record::decode(&self.encoded[at][..]).expect("prost wrote it");
                self.touch.bytes(record.name.as_bytes());
                self.touch.bytes(record.text.as_bytes());
                self.touch.bytes(&record.body);
                self.touch.bytes(&record.digest);
                None
            }
            (Work::Read, _) => {
                self.arena.reset();
                let (table, class, input) = (&self.kind.table, self.kind.class, &self.encoded[at]);
                let view = match who {
                    Who::Lent => self.decoder.borrowed(table, class, input, &self.arena),
                    _ => self.decoder.owned(table, class, input, &self.arena),
                };
                self.kind.read(view.expect("prost wrote it"), &mut self.touch);
                None
            }
        }
    }

    /// Nanoseconds of `times` messages, going on where this one's last sample ended.
    fn time(&mut self, who: Who, work: Work, times: u32) -> Option<f64> {
        if matches!(who, Who::CppNew | Who::CppReused) {
            return None;
        }
        let mut at = self.next[work as usize][who as usize];
        let start = processor_ns();
        for _ in 0..times {
            black_box(self.once(who, work, at));
            at = if at + 1 == self.records.len() { 0 } else { at + 1 };
        }
        let ns = processor_ns() - start;
        black_box(self.touch.0);
        self.next[work as usize][who as usize] = at;
        Some(ns as f64)
    }

    /// As the C++ program's: the hash of all that is encoded, or the sum of all that is read.
    fn check(&mut self, who: Who, work: Work) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        self.touch = Touch::default();
        for at in 0..self.records.len() {
            for &byte in self.once(who, work, at).unwrap_or_default() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        if work == Work::Read { self.touch.0 } else { hash }
    }
}

fn encode_prost<'o>(out: &'o mut Vec<u8>, record: &Record) -> &'o [u8] {
    out.clear();
    record.encode(out).expect("a vector grows");
    out
}

/// All say the same as prost.
fn check(sides: &mut Sides<'_>, cpp: &mut Program) -> Result<(), String> {
    for work in Work::ALL {
        let expected = sides.check(Who::Prost, work);
        for who in Who::ALL {
            let said = match work.in_cpp(who) {
                Some(word) => cpp.check(word)?,
                None if matches!(who, Who::CppNew | Who::CppReused) => continue,
                None => sides.check(who, work),
            };
            if said != expected {
                return Err(format!("large: {} differs from prost in {}", who.name(), work.name()));
            }
        }
    }
    Ok(())
}

/// One size's table.
pub fn table(outcome: &Outcome) -> String {
    let mut out = format!("\nlarge: {} bytes a message\n{:<20}", outcome.bytes, "");
    for work in Work::ALL {
        out.push_str(&format!(" {:>17} {:>21}", format!("{} ns", work.name()), "x C++ [p10..p90]"));
    }
    out.push('\n');
    for who in Who::ALL {
        out.push_str(&format!("{:<20}", who.name()));
        for figures in &outcome.figures {
            let (ns, times) = match (&figures[who as usize], &figures[Who::REFERENCE]) {
                (Some(own), Some(cpp)) => (format!("{:.1}", own.ns().p50), ratio(own.times(cpp))),
                _ => Default::default(),
            };
            out.push_str(&format!(" {ns:>17} {times:>21}"));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Which goals are met: not slower than C++ where bytes are copied, 1.3 times as fast where they are lent.
pub fn goals(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    if !outcomes.is_empty() {
        out.push_str("\ngoals against C++, times as fast:\n");
    }
    for outcome in outcomes {
        for (work, who, goal) in [
            (Work::Encode, Who::Copied, 1.0),
            (Work::Build, Who::Copied, 1.0),
            (Work::Encode, Who::Lent, 1.3),
            (Work::Build, Who::Lent, 1.3),
        ] {
            let figures = &outcome.figures[work as usize];
            let (Some(own), Some(cpp)) = (&figures[who as usize], &figures[Who::REFERENCE]) else { continue };
            let asked = format!("{}, {}, against C++ reused", work.name(), who.name());
            let verdict = Verdict { asked, times: own.times(cpp), goal };
            out.push_str(&verdict.line(&format!("large-{}", outcome.bytes)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_cpp_encode_and_read_the_same() {
        let records = records(100, 400, &mut Prng::new(1));
        let encoded: Vec<Vec<u8>> = records.iter().map(Message::encode_to_vec).collect();
        let arena = Arena::default();
        let mut sides = Sides::new(&records, &encoded, &arena);
        for work in Work::ALL {
            let expected = sides.check(Who::Prost, work);
            assert!([Who::Copied, Who::Lent].into_iter().all(|who| sides.check(who, work) == expected));
        }
        let mut others = records.clone();
        others[3].body[7] ^= 1;
        let mut sides = Sides::new(&others, &encoded, &arena);
        let changed = sides.check(Who::Copied, Work::Encode);
        let mut before = Sides::new(&records, &encoded, &arena);
        assert_ne!(changed, before.check(Who::Prost, Work::Encode), "another byte is another hash");
    }

    #[test]
    fn all_agree_with_cpp_where_it_can_be_compiled() {
        let program = match crate::cpp::compile() {
            Ok(program) => program,
            Err(why) => return println!("skipped: {why}"),
        };
        let outcome =
            measure(&program, (100, 400), 1, Plan { rounds: 1, sample_ns: 1e4 }).expect("all agree");
        assert!(outcome.figures.iter().all(|figures| figures[Who::REFERENCE].is_some()));
        assert_eq!(goals(&[outcome]).lines().count(), 6, "an empty line, the head, four goals");
    }
}
