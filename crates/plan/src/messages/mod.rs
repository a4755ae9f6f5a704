//! `millrace model messages`: the messages of HyperProtoBench and of five services of DeathStarBench through the real codec, over a modelled link.
//!
//! ```text
//!  family: values ── the codec's lanes and serialisers, for real ── Charged<Modelled>: counts, and the link's time ──▶ crossings, time alone
//!                                       │ counted                                      └─▶ the model's accelerator: throughput
//!                                       └── the host's part of sending, timed on this machine ──▶ CPU
//! ```
//! The experiments are those of `millrace repro run P-E1 …`, with counted messages in place of drawn shapes, and so are the published results that they
//! are held against.
//!
//! | file | what |
//! |---|---|
//! | [`family`] | where messages come from |
//! | [`cpp`] | HyperProtoBench's value files |
//! | [`tree`] | a message as values |
//! | [`link`] | links in virtual time, and the crossing that charges for them |
//! | [`counted`] | what the codec makes cross for a message |
//! | [`host`] | what the processor does for it, measured |
//! | `show` | tables |

pub mod counted;
pub mod cpp;
pub mod family;
pub mod host;
pub mod link;
mod show;
pub mod tree;

use clap::Args;
use codec::memory::CHUNK;
use counted::{Counted, Counter};
use family::Family;
use host::Sending;
use link::{Clocked, Kind, Link};
use model::experiment::Rows;
use model::experiment::compare::{Compared, compare};
use model::platform::Platforms;
use model::system::rpcacc::experiments::{ALL, of_traffic};
use model::system::rpcacc::mean::{average, geomean};
use model::system::rpcacc::traffic::{Bench, Traffic};
use serve::process::progress;
use show::Seen;
use std::error::Error;
use std::path::PathBuf;
use std::rc::Rc;

/// Send production-shaped messages through the codec and its accelerator over a modelled link
///
/// Messages of HyperProtoBench (from a checkout, or drawn by the model's profiles) and of five services of DeathStarBench go through the real lanes and
/// serialisers: one-shot and field by field, by the three strategies. What crosses is exact; times over the link and throughput are in virtual
/// time, by the numbers of platform `pcie-rpc-accelerator`; the processor's part is measured on this machine. Beside them: what RPCAcc's authors printed, and
/// whether it is met within 25 %.
#[derive(Args, Debug)]
pub struct Messages {
    /// A checkout of github.com/google/HyperProtoBench: its benchN/benchmark.proto and benchmark.inc [default: messages drawn by the model's profiles]
    #[arg(long, value_name = "DIR")]
    hyperprotobench: Option<PathBuf>,

    /// Links whose time alone is shown: pcie, pcie:GENERATION:LANES, upi, cxl
    #[arg(long, value_name = "LINK", value_delimiter = ',', default_values = ["pcie", "upi", "cxl"])]
    link: Vec<Kind>,

    /// Use the platform of this file in place of the shipped one of its name; several with commas
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    platform: Vec<String>,

    /// How often the processor's part of a message is measured
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,

    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

type Failure = Box<dyn Error>;

/// Why a result may be missed by the codec's messages.
const WHY: &[(&str, &str)] = &[
    (
        "P-R8 a",
        "measured on this machine, whose caches have what is sent: what a copy is of all the work depends on the bench's long fields and on caches",
    ),
    (
        "P-R8 b",
        "most strings of the interface's messages are shorter than what copy engines take (the model's shapes miss it for the same reason): the \
         authors' must be longer",
    ),
    (
        "P-R10",
        "the authors' reference is protobuf's C++, which goes through a message twice; our CPU encoder goes once, from the back, and costs little \
         more than laying values out as they are: there is less to save",
    ),
];

impl Messages {
    /// Does it.
    ///
    /// # Errors
    /// A file of the checkout or of the model that is wrong: where, and what to do.
    pub fn run(&self) -> Result<(), Failure> {
        crate::print(&self.text()?)
    }

    fn text(&self) -> Result<String, Failure> {
        let files = self.platform.iter().map(|file| crate::model::platform(file));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let platforms = files.into_iter().fold(Platforms::shipped(), |all, platform| all.with(platform));
        let board = platforms.named("pcie-rpc-accelerator")?;
        let buffer = board.bytes("accelerator.buffer")?;
        if buffer != CHUNK as u64 {
            let why = format!(
                "accelerator.buffer is {buffer} B: the codec's lanes have {CHUNK}, so what crosses could not be counted"
            );
            return Err(why.into());
        }
        let (head, benches) = match &self.hyperprotobench {
            Some(folder) => (format!("messages of {}", folder.display()), family::from_checkout(folder)?),
            None => (
                "messages DRAWN by the model's profiles of HyperProtoBench, not its own".into(),
                family::drawn(),
            ),
        };
        let links =
            self.link.iter().map(|kind| Link::load(&platforms, *kind)).collect::<Result<Vec<_>, _>>()?;
        let pcie = Link::load(&platforms, Kind::Pcie(None))?;
        let copied = usize::try_from(board.bytes("dsa.threshold")?)?;
        let bar = progress::bar(false);
        let mut done = 0.0;
        // Six benches and five services, then the model twice.
        let mut see = |family: &Family| {
            progress::show(&bar, done / 13.0, &family.name);
            done += 1.0;
            self.see(family, &pcie, &links, copied)
        };
        let benches = benches.iter().map(&mut see).collect::<Result<Vec<_>, _>>()?;
        let services = family::services().iter().map(see).collect::<Result<Vec<_>, _>>()?;
        progress::show(&bar, 11.0 / 13.0, "the model's accelerator");
        let mut rows = of_traffic(&traffic(&benches), &platforms, self.seed)?;
        let of_services = of_traffic(&traffic(&services), &platforms, self.seed)?;
        rows.append(cycles(&benches, &services));
        let shapes = of_shapes(&platforms, self.seed)?;
        bar.finish_and_clear();
        let system = model::system::ALL
            .iter()
            .find(|of| of.name == "rpcacc")
            .expect("it is one of the published systems");
        let results = system.results()?;
        let (codec, drawn) = (compare(&results, &rows), compare(&results, &shapes));
        let all: Vec<Seen> = benches.into_iter().chain(services).collect();
        let clocked = Clocked::load(&board)?;
        let tables = [
            (format!("What crosses for a message, exact; {head}; services after DeathStarBench's interface"), show::crossings(&all)),
            ("A lane alone, by the crossing's virtual clock: decoding, then the link's part of sending (a walk reads one thing at a time)".into(), show::alone(&all, &links, &clocked)),
            ("The model's accelerator (4 lanes; a walk with 4 reads under way) over PCIe: throughput of decoding, time of sending with the modelled processor's part".into(), show::modelled(&all, &[&rows, &of_services])),
            (format!("The processor's part of sending, measured: {}; fields of {copied} B and more are those that engines would copy", base::cpu::model_name()), show::host(&all)),
            ("Published, and these messages".into(), show::comparison(&codec, &drawn)),
        ];
        let mut text = String::new();
        for (title, table) in tables {
            text += &format!("{title}\n\n{table}\n");
        }
        text += &remarks(&codec);
        Ok(text)
    }

    fn see(&self, family: &Family, pcie: &Link, links: &[Link], copied: usize) -> Result<Seen, String> {
        let failed = |why: String| format!("{}: {why}", family.name);
        let over = |link: &Link| Counter::all(&family.messages, link).map_err(failed);
        let sending = family.messages.iter().map(|message| host::measure(message, copied, self.rounds));
        Ok(Seen {
            name: family.name.clone(),
            counted: over(pcie)?,
            sending: sending.collect::<Result<_, _>>().map_err(failed)?,
            over: links.iter().map(over).collect::<Result<_, _>>()?,
        })
    }
}

fn traffic(families: &[Seen]) -> Vec<Bench> {
    let one = |of: &Counted| Rc::new(of.clone()) as Rc<dyn Traffic>;
    families.iter().map(|family| (family.name.clone(), family.counted.iter().map(one).collect())).collect()
}

/// The same experiments with the model's own shapes.
fn of_shapes(platforms: &Platforms, seed: u64) -> Result<Rows, Failure> {
    let mut rows = Rows::default();
    let ours = ["P-E1", "P-E2", "P-E4", "P-E5", "P-E6", "P-E9"];
    for experiment in ALL.iter().filter(|of| ours.contains(&of.id)) {
        rows.append((experiment.run)(platforms, seed)?);
    }
    Ok(rows)
}

/// What is handed over, and the nanoseconds that are left of serialising.
type Offload = (&'static str, fn(&Sending) -> f64);

/// P-E5 measured: the processor's part with copies, and with copies and encoding, handed over, of all of it. It is of serialising alone: what it takes to
/// hand a message to the accelerator, which is all that a walk asks of the processor, is taken off.
fn cycles(benches: &[Seen], services: &[Seen]) -> Rows {
    const E: &str = "P-E5";
    let mut rows = Rows::default();
    let offloads: [Offload; 2] = [
        ("memcpy offload", |of| of.uncopied[0] - of.uncopied[1]),
        ("memcpy and encoding offload", |of| of.uncopied[2] - of.uncopied[1]),
    ];
    // Never nothing: the clock's steps may be as long as the shortest of messages.
    let whole = |of: &Sending| (of.whole[0] - of.whole[1]).max(1.0);
    for (variant, with) in offloads {
        let ratio = |of: &[Sending]| {
            of.iter().map(|of| with(of).max(0.1)).sum::<f64>() / of.iter().map(whole).sum::<f64>()
        };
        let each = |family: &Seen| family.sending.iter().map(|of| ratio(&[*of])).collect::<Vec<_>>();
        let all: Vec<f64> = benches.iter().flat_map(each).collect();
        let by_service: Vec<f64> = services.iter().map(|family| ratio(&family.sending)).collect();
        let bars = benches.iter().map(|family| average(&each(family))).chain(by_service.iter().copied());
        let saved = |ratios: &[f64]| 100.0 * (1.0 - average(ratios));
        rows.add((E, variant, "all"), "CPU cycles saved", "%", saved(&all));
        rows.add((E, variant, "DeathStarBench"), "CPU cycles saved", "%", saved(&by_service));
        let bars: Vec<f64> = bars.collect();
        let point = "benches and services, geomean";
        rows.add((E, variant, point), "normalised CPU cycles", "ratio", geomean(&bars));
    }
    rows
}

/// What there is to say of results that were missed.
fn remarks(codec: &[Compared<'_>]) -> String {
    let why = |id: &str| WHY.iter().find(|(of, _)| *of == id).map_or("no reason is known", |(_, why)| why);
    show::missed(codec).map(|id| format!("  {id}: {}\n", why(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[derive(clap::Parser)]
    struct Asked {
        #[command(flatten)]
        messages: Messages,
    }

    #[test]
    fn links_are_named_and_those_that_there_are_not_are_refused() {
        use clap::{CommandFactory, Parser};
        Asked::command().debug_assert();
        let asked = |words: &[&str]| Asked::try_parse_from([&["messages"], words].concat());
        assert_eq!(asked(&[]).expect("all have defaults").messages.link.len(), 3);
        let links = asked(&["--link", "pcie:5:8,cxl"]).expect("both are links").messages.link;
        assert_eq!(links.len(), 2);
        let said = asked(&["--link", "isa"]).map(|_| ()).expect_err("no link").to_string();
        assert!(said.contains("pcie:GENERATION:LANES"), "{said}");
    }

    fn asked(hyperprotobench: Option<PathBuf>) -> Messages {
        let link = ["pcie", "upi", "cxl"].map(|kind| kind.parse().expect("a link")).to_vec();
        Messages { hyperprotobench, link, platform: vec![], rounds: 3, seed: 1 }
    }

    #[test]
    fn a_run_says_where_its_messages_are_from_and_holds_them_against_what_was_published() {
        let text = asked(None).text().expect("nothing is missing");
        println!("{text}");
        assert!(text.contains("DRAWN by the model's profiles"));
        for of in [
            "bench0",
            "bench5",
            "ComposePost",
            "PCIe",
            "UPI",
            "CXL",
            "P-R1 ",
            "P-R3 ",
            "P-R6 ",
            "P-R8 a",
            "P-R8 b",
            "P-R10",
            "P-R21",
        ] {
            assert!(text.contains(of), "{of}");
        }
        assert!(!text.contains("NaN"), "every family has every figure");
    }

    #[test]
    fn a_checkout_that_is_not_whole_is_taken_as_far_as_it_goes() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let bench = folder.path().join("bench2");
        std::fs::create_dir_all(&bench).expect("a folder");
        let proto =
            "syntax = \"proto2\"; package b; message M1 { optional string f1 = 1; optional int32 f2 = 2; }";
        let set = "int M1_Set_F1(M1* message, M1* other_message, std::string* serialized) {\n  message->set_f1(\"a string of some length\");\n  \
                   message->set_f2(7);\n  return 0;\n}\n";
        std::fs::write(bench.join("benchmark.proto"), proto).expect("a file");
        std::fs::write(bench.join("benchmark.inc"), set).expect("a file");
        let text = asked(Some(folder.path().to_owned())).text();
        std::fs::write(bench.join("benchmark.inc"), set.replace("f2(7)", "f9(7)")).expect("a file");
        let wrong = asked(Some(folder.path().to_owned())).text();
        let text = text.expect("a bench is there");
        assert!(text.contains("bench2") && !text.contains("bench0") && !text.contains("DRAWN"));
        let wrong = wrong.expect_err("there is no f9").to_string();
        assert!(wrong.contains("benchmark.inc: line 3: b.M1 has no field f9"), "{wrong}");
    }
}
