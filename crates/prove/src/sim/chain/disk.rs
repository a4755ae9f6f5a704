//! What a replica has that may outlive it: the media of its log and of its checkpoints, and what becomes of them when the process or the
//! machine ends.
//!
//! Log and image are those of processes ([`serve::chain::disk`]), opened as processes open them; only the media are [`Crashing`]. A process
//! that ends leaves all that it wrote; of what was not persisted a power cut then takes any lines of 64 bytes. Media of a class that does not
//! survive what happened are lost.

use super::script;
use base::Prng;
use protocol::chain::replica::Replica;
use protocol::chain::{Durability, Incarnation, Planted};
use serve::chain::disk::start::{self, Parts, Start};
use serve::chain::disk::{DiskImage, DiskLog};
use std::path::PathBuf;
use store::image::checkpoint::{self, Checkpoint};
use store::image::{BLOCK, Config};
use store::redo::media::{Crashing, Fault};
use store::redo::{Class, Judge, Media as _};

/// Bytes of an image: 16 pages, of which each size of items takes one.
const IMAGE: u64 = 16 * BLOCK as u64;
/// All keys, and all sessions with their replies.
const ITEMS: usize = 1024;
/// Whose log it is.
const IDENTITY: u64 = 7;
/// A life that is still to come.
const NEXT: Incarnation = Incarnation(u64::MAX);
/// Bytes before the records of a log.
const LOG_HEAD: usize = 8192;

/// The log that is simulated.
pub type SimLog = DiskLog<Crashing>;
/// The image that is simulated.
pub type SimImage = DiskImage<Crashing>;
/// The machine that is simulated.
pub type Machine = Replica<SimImage, SimLog, Option<Planted>>;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// kill -9, or it stops itself.
    Process,
    /// The machine has no power.
    Power,
}

/// The media of a replica. Those of one that runs are with the machine.
#[derive(Debug)]
pub struct Disk {
    made: script::Disk,
    /// None before the first life, and where they were lost: made when it starts.
    media: Option<Media>,
    /// The life that made the log; the next, if there is none.
    born: Incarnation,
    /// The last life that began with less than there was.
    lacked: Incarnation,
}

#[derive(Clone, Debug)]
struct Media {
    log: Crashing,
    data: Crashing,
}

/// How large images are, all of them.
fn config() -> Config {
    Config { bytes: IMAGE, page: BLOCK, items: ITEMS, hash_seed: base::hash::WIRE_SEED }
}

/// An empty image without checkpoints.
pub fn empty() -> SimImage {
    let image = store::image::Image::new(&config()).expect("an image that is small");
    DiskImage::new(image, None, PathBuf::new(), None)
}

fn class(durability: Durability) -> Class {
    match durability {
        Durability::Volatile => Class::Volatile,
        Durability::ProcessCrash => Class::ProcessCrash,
        Durability::PowerLoss => Class::PowerLoss,
    }
}

impl Disk {
    /// A new one.
    pub fn new(made: script::Disk) -> Disk {
        Disk { made, media: None, born: NEXT, lacked: Incarnation(0) }
    }

    /// What it was made with.
    pub fn made(&self) -> &script::Disk {
        &self.made
    }

    /// Whether something is not there that a replica acknowledged which began to serve in this life.
    pub fn has_lost_since(&self, life: Incarnation) -> bool {
        self.born.max(self.lacked) > life
    }

    /// A life begins: what it finds.
    ///
    /// # Errors
    /// The media fail, or make no sense; they are what they were.
    pub fn open(&mut self, life: Incarnation, planted: Option<Planted>) -> Result<Parts<Crashing>, String> {
        let is_new = self.media.is_none();
        let Media { log, data } = self.media.clone().unwrap_or_else(|| self.make());
        let judge = if planted == Some(Planted::TruncateMidLog) { Judge::FirstBad } else { Judge::Proof };
        let (log, recovery) =
            start::open_log(log, is_new, IDENTITY, judge).map_err(|error| error.to_string())?;
        let mut start = Start::new(data, is_new, &config()).map_err(|error| error.to_string())?;
        if is_new {
            self.born = life;
        }
        if start.damaged > 0 {
            self.lacked = life;
        }
        if planted == Some(Planted::ReplayTooLittle)
            && let Some(checkpoint) = &mut start.checkpoint
        {
            checkpoint.planted = Some(checkpoint::Planted::ReplayTooLittle);
        }
        start.join(log, &recovery.unwrap_or_default(), self.born, |name| PathBuf::from(name))
    }

    fn make(&self) -> Media {
        let class = class(self.made.class);
        let data = usize::try_from(Checkpoint::<Crashing>::medium_bytes(&config())).expect("it is small");
        Media {
            log: Crashing::new(LOG_HEAD + self.made.log).with_class(class),
            data: Crashing::new(data).with_class(class),
        }
    }

    /// A life ends. Power may have failed already, within an operation.
    pub fn close(&mut self, machine: &Machine, end: End, luck: &mut Prng) {
        let data = machine.image().media().expect("it has checkpoints").clone();
        let media = Media { log: machine.log().media().clone(), data };
        let is_off = media.log.is_off() || media.data.is_off();
        self.media = Some(media);
        self.end(if is_off { End::Power } else { end }, luck);
    }

    /// The process or the power ends, whether or not there is a process.
    pub fn end(&mut self, end: End, luck: &mut Prng) {
        match (self.made.class, end) {
            (Durability::Volatile, _) | (Durability::ProcessCrash, End::Power) => self.lose(),
            (_, End::Process) => {}
            (Durability::PowerLoss, End::Power) => {
                let media = self.media.take();
                self.media =
                    media.map(|Media { log, data }| Media { log: log.crash(luck), data: data.crash(luck) });
            }
        }
    }

    /// The media are lost.
    pub fn lose(&mut self) {
        (self.media, self.born) = (None, NEXT);
    }

    /// Does something to the media of a process that runs: the log's, and that of the checkpoints.
    pub fn borrow(machine: &mut Machine, deed: impl FnOnce((&mut Crashing, &mut Crashing))) {
        // They belong to two parts of the machine, which lends one at a time.
        let mut log = machine.log().media().clone();
        deed((&mut log, machine.image_mut().media_mut().expect("it has checkpoints")));
        *machine.log_mut().media_mut() = log;
    }

    /// Both media, of a process that is down.
    pub fn media_mut(&mut self) -> Option<(&mut Crashing, &mut Crashing)> {
        self.media.as_mut().map(|Media { log, data }| (log, data))
    }
}

/// One of the next operations of one of the media goes wrong.
pub fn spoil((log, data): (&mut Crashing, &mut Crashing), fault: Fault, luck: &mut Prng) {
    let media = if luck.below(3) == 0 { data } else { log };
    media.inject(media.operations() + luck.below(4), fault);
}

/// Some bytes decay, of records of the log mostly.
pub fn decay((log, data): (&mut Crashing, &mut Crashing), luck: &mut Prng) {
    let (media, head) = if luck.below(8) == 0 { (data, 0) } else { (log, LOG_HEAD) };
    let mut bytes = vec![0; media.len() as usize];
    media.read_at(0, &mut bytes).expect("all of it");
    let used: Vec<usize> = (head..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    if used.is_empty() {
        return;
    }
    for _ in 0..=luck.below(2) {
        let at = used[luck.below(used.len() as u64) as usize];
        media.corrupt(at as u64, 1 << luck.below(8));
    }
}
