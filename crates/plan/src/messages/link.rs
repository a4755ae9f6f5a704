//! A crossing that takes time: the codec's copies and counts, and what a link would take for each, in virtual time.
//!
//! ```text
//!  codec, for real ── Charged<Modelled> ── bytes copied, transactions counted
//!                            └─ charge ── Link: span, round trip ──▶ a lane's virtual clock, and a journal of what crossed
//! ```
//! Discipline, as `model::component::DeviceDma` has it: a transaction takes the link as long as its bytes do or, if it is small, as long as the device
//! needs to form one. A write is posted: the lane goes on when the link has taken it. Whoever reads waits a round trip besides. A doorbell is on its way for
//! `mmio`; a notification is a write that is seen half a round trip later. A coherent link carries lines, whole ones.
//!
//! Why here and not in `model`: the model knows no codec and the codec no model; this crate runs what is real on modelled hardware (`timed`). All numbers
//! are from platform files: none is here.
//!
//! The clock is of one lane alone. What lanes beside each other make of a link is the kernel's to say, of the journal: `counted` gives it to the same
//! experiments that the model runs on drawn shapes.

use base::Picos;
use codec::crossing::{Charge, Transaction};
use model::pcie::Generation;
use model::platform::{LoadError, Platform, Platforms, picos, transfer};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a link is like, seen from the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// For tables.
    pub name: String,
    /// The least time of a transaction.
    pub per_transaction: Picos,
    /// From a read's request to its first byte.
    pub round_trip: Picos,
    /// From a host's store to the device's knowing of it.
    pub mmio: Picos,
    /// What crosses is a multiple of this many bytes.
    pub line: u64,
    /// Bits of payload a second.
    pub bits: f64,
}

/// A link by name, as flags have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That of platform `pcie-rpc-accelerator`, or of another generation and width.
    Pcie(Option<(Generation, u32)>),
    /// The coherent link of the simulated Dagger, in the same platform's table `upi`.
    Upi,
    /// That of platform `cxl-type2`.
    Cxl,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let wrong = || {
            format!(
                "`{text}` is no link: there are pcie, pcie:GENERATION:LANES (1 to 5, 1 to 32), upi and cxl"
            )
        };
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("pcie"), None, None, None) => Ok(Kind::Pcie(None)),
            (Some("upi"), None, None, None) => Ok(Kind::Upi),
            (Some("cxl"), None, None, None) => Ok(Kind::Cxl),
            (Some("pcie"), Some(generation), Some(lanes), None) => {
                let all =
                    [Generation::One, Generation::Two, Generation::Three, Generation::Four, Generation::Five];
                let number: usize = generation.parse().map_err(|_| wrong())?;
                let generation = *number.checked_sub(1).and_then(|at| all.get(at)).ok_or_else(wrong)?;
                let lanes = lanes.parse().ok().filter(|lanes| (1..=32).contains(lanes)).ok_or_else(wrong)?;
                Ok(Kind::Pcie(Some((generation, lanes))))
            }
            _ => Err(wrong()),
        }
    }
}

impl Link {
    /// Of the shipped platforms, or of those that stand for them.
    ///
    /// # Errors
    /// A platform lacks a number.
    pub fn load(platforms: &Platforms, kind: Kind) -> Result<Link, LoadError> {
        let board = platforms.named("pcie-rpc-accelerator")?;
        match kind {
            Kind::Pcie(shape) => Link::pcie(&board, shape),
            Kind::Upi => Link::upi(&board),
            Kind::Cxl => {
                let device = platforms.named("cxl-type2")?;
                Link::cxl(&device)
            }
        }
    }

    fn pcie(platform: &Platform, shape: Option<(Generation, u32)>) -> Result<Link, LoadError> {
        let bits = platform.bandwidth("pcie.bandwidth")?;
        // The board's is gen 3 x16 (§IV-A); payload is in proportion to what the lanes carry.
        let own = Generation::Three.lane_bits() * 16;
        let (name, bits) = match shape {
            None => ("PCIe".into(), bits),
            Some((generation, lanes)) => {
                let number = generation as usize + 1;
                let share = (generation.lane_bits() * u64::from(lanes)) as f64 / own as f64;
                (format!("PCIe {number} x{lanes}"), bits * share)
            }
        };
        Ok(Link {
            name,
            per_transaction: platform.span("pcie.transaction")?,
            round_trip: platform.span("pcie.latency")?,
            mmio: platform.span("pcie.mmio")?,
            line: 1,
            bits,
        })
    }

    fn upi(platform: &Platform) -> Result<Link, LoadError> {
        let (latency, line) = (platform.span("upi.latency")?, platform.bytes("upi.line")?);
        let bits = platform.bandwidth("upi.bandwidth")?;
        Ok(Link {
            name: "UPI".into(),
            per_transaction: transfer(line, bits),
            round_trip: latency.plus(latency),
            mmio: latency,
            line,
            bits,
        })
    }

    fn cxl(platform: &Platform) -> Result<Link, LoadError> {
        let cycles = |name: &str| platform.cycles(&format!("interconnect.{name}"), "interconnect.clock");
        let (link, depth) = (platform.span("interconnect.link_latency")?, cycles("depth")?);
        let (header, line) = (platform.bytes("interconnect.header")?, model::component::LINE);
        // A line carries a header.
        let bits = platform.bandwidth("interconnect.bandwidth")? * line as f64 / (line + header) as f64;
        let one_way = link.plus(depth);
        Ok(Link {
            name: "CXL".into(),
            per_transaction: cycles("issue")?.max(transfer(line, bits)),
            round_trip: one_way.plus(one_way),
            mmio: one_way,
            line,
            bits,
        })
    }

    /// How long a transaction of `bytes` takes the link.
    pub fn span(&self, bytes: u64) -> Picos {
        transfer(bytes.next_multiple_of(self.line), self.bits).max(self.per_transaction)
    }

    /// How long whoever makes a transaction waits for it.
    pub fn time(&self, transaction: Transaction) -> Picos {
        match transaction {
            Transaction::Write(bytes) => self.span(bytes),
            Transaction::Read(bytes) => self.span(bytes).plus(self.round_trip),
            Transaction::Doorbell(_) | Transaction::GiveBack(_) => self.mmio,
            Transaction::Notify(bytes) => self.span(bytes).plus(Picos(self.round_trip.0 / 2)),
        }
    }
}

/// What crossed since it was last asked, and how long a lane alone was at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// In the order in which a lane made them.
    pub transactions: Vec<Transaction>,
    /// The sum of the times that the lane waited for the link, doorbells and notifications included.
    pub time: Picos,
}

impl Crossed {
    /// Bytes of each write.
    pub fn writes(&self) -> Vec<u64> {
        let write = |of: &Transaction| if let Transaction::Write(bytes) = of { Some(*bytes) } else { None };
        self.transactions.iter().filter_map(write).collect()
    }

    /// Bytes of each read.
    pub fn reads(&self) -> Vec<u64> {
        let read = |of: &Transaction| if let Transaction::Read(bytes) = of { Some(*bytes) } else { None };
        self.transactions.iter().filter_map(read).collect()
    }
}

/// Charges a link's time for what crosses. See the head of the file.
#[derive(Debug)]
pub struct Modelled {
    link: Link,
    crossed: Mutex<Crossed>,
}

impl Modelled {
    /// Nothing has crossed yet.
    pub fn new(link: Link) -> Modelled {
        Modelled { link, crossed: Mutex::default() }
    }

    /// What crossed since the last call.
    pub fn take(&self) -> Crossed {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Crossed> {
        self.crossed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Charge for Modelled {
    fn charge(&self, transaction: Transaction) {
        let mut crossed = self.lock();
        crossed.time = crossed.time.plus(self.link.time(transaction));
        crossed.transactions.push(transaction);
    }
}

/// What a lane works by its clock beside what it waits for the link, of a platform's table `accelerator`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocked {
    hertz: f64,
    message: f64,
    field: f64,
    width: u64,
}

impl Clocked {
    /// As the platform has it.
    ///
    /// # Errors
    /// It lacks a number.
    pub fn load(platform: &Platform) -> Result<Clocked, LoadError> {
        use model::platform::unit::Dimension::{Cycles, Frequency};
        Ok(Clocked {
            hertz: platform.value("accelerator.clock", Frequency)?,
            message: platform.value("accelerator.message", Cycles)?,
            field: platform.value("accelerator.field", Cycles)?,
            width: platform.bytes("accelerator.width")?,
        })
    }

    /// A message of so many fields and `bytes` of input that pass through the lane.
    pub fn decode(&self, fields: u64, bytes: u64) -> Picos {
        picos((self.message + fields as f64 * self.field + bytes.div_ceil(self.width) as f64) / self.hertz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::crossing::{Charged, Crossing};
    use model::component::DeviceDma;
    use model::kernel::Kernel;

    fn link(kind: &str) -> Link {
        Link::load(&Platforms::shipped(), kind.parse().expect("a link"))
            .expect("shipped platforms are complete")
    }

    #[test]
    fn a_link_takes_what_the_models_component_takes() {
        let platform = Platforms::shipped().named("pcie-rpc-accelerator").expect("shipped");
        let mut kernel = Kernel::new(1);
        let dma = DeviceDma::load(&mut kernel, &platform, "pcie").expect("complete");
        let pcie = link("pcie");
        for bytes in [1, 8, 64, 134, 135, 4096, 1_600_000] {
            let write = kernel.program("write", [dma.write(bytes)]);
            let read = kernel.program("read", [dma.read(bytes)]);
            assert_eq!(pcie.time(Transaction::Write(bytes)), kernel.unloaded(write), "{bytes}");
            assert_eq!(pcie.time(Transaction::Read(bytes)), kernel.unloaded(read), "{bytes}");
        }
    }

    #[test]
    fn a_read_waits_and_writes_follow_each_other() {
        let charged = Charged::new(Modelled::new(link("pcie")));
        charged.doorbell(24);
        charged.notify(16);
        let crossed = charged.charge().take();
        assert_eq!(crossed.transactions, [Transaction::Doorbell(24), Transaction::Notify(16)]);
        assert_eq!(crossed.time, Picos::from_nanos(400 + 625).plus(Picos(10_500)));
        assert_eq!(charged.charge().take(), Crossed::default());
        // 64 bytes: 5 ns of the link, but a transaction is 10.5.
        assert_eq!(link("pcie").time(Transaction::Write(64)), Picos(10_500));
        assert_eq!(link("pcie").time(Transaction::Read(12_800)), Picos::from_nanos(2250));
    }

    #[test]
    fn coherent_links_carry_whole_lines_and_generations_scale() {
        let (upi, cxl) = (link("upi"), link("cxl"));
        assert_eq!(upi.span(1), upi.span(64));
        assert_eq!(upi.span(65), upi.span(128));
        assert_eq!((upi.round_trip, cxl.round_trip), (Picos::from_nanos(800), Picos::from_nanos(130)));
        assert!(cxl.span(4096) < upi.span(4096) && upi.span(4096) < link("pcie").span(4096));
        assert_eq!(link("pcie:3:16").span(1 << 20), link("pcie").span(1 << 20));
        let (four, eight) = (link("pcie:4:16").span(1 << 20).0, link("pcie:3:8").span(1 << 20).0);
        assert!(eight.abs_diff(4 * four) < 10, "{four} {eight}");
        for wrong in ["", "pci", "pcie:6:16", "pcie:0:16", "pcie:3:0", "pcie:3", "pcie:3:16:1", "upi:1"] {
            assert!(Kind::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
