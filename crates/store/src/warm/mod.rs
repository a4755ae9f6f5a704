//! A warm restart: a store whose memory lies in files is handed from a process to the next one, without a log and without copying.
//!
//! ```text
//!  process 1                      files                        process 2
//!  Store::resume ──── mark ─────▶ "in use"
//!     serves         writes items into shared mappings
//!  Store::hand_over ─ large values, image, then ─▶ "closed" ──▶ Store::resume: checks all, marks "in use", serves
//!  killed ───────────────────────▶ "in use" ──────────────────▶ Store::resume: starts cold and says why
//! ```
//! Invariants: (1) nothing is changed before "in use" is on the files, and "closed" is the last thing written: what a killed process
//! leaves is never believed; (2) what is believed was checked as a whole: the image by its checksum (`meta`), items and index against
//! each other (`check`); bytes of values are not; (3) room in the file system is held for all of the limit before a store is used
//! (`Region::hold`), what is given to something else excepted; (4) versions go on above all given before.
//!
//! Whose ([`Whose`]): what the home of boxes leaves is for that home alone. Another one, or a node without boxes, is refused before anything is changed:
//! keys and versions are not its own, and boxes may have copies that it would know nothing of. Where keys are divided among homes in another way than
//! when it was left, it begins cold: what is here of a key that was another's meanwhile is old. Nor is it given to a home that says that it never ran.
//!
//! Time: expiry is by unix seconds, so what ended meanwhile is gone. A clock that was set back while no process had the store is taken
//! for one that stood still: every life is shortened by as much, so that none grows.
//!
//! Another limit: segments keep the size they were made with. A lower one evicts (a store in [`Mode::Store`] refuses to start, and
//! leaves the files closed), a higher one grows. One so different that segments do not fit starts cold.
//!
//! Bounds: beside the limit, one large value at a time while they are written and read. Cost: see docs/measurements/warm.md.

mod check;
pub(crate) mod ground;
mod meta;
#[cfg(test)]
mod tests;
mod words;

pub use ground::{Spoiled, Unnamed};
pub use meta::probe;
pub use words::{Asked, Cold, Left, Mistakes, Place, Planted, Refusal, Sound, Start, Whose};

use crate::config::{Config, ConfigError, Mode};
use crate::ghost::Ghosts;
use crate::index::Index;
use crate::item::{DEAD, LARGE};
use crate::large::LargeValue;
use crate::log::{Log, State};
use crate::store::Store;
use base::hash::Hasher64;
use base::pages::{PageKind, Region};
use check::Inventory;
use ground::{Files, Found, Ground, MEMORY, Part};
use meta::Image;
use std::io;
use std::sync::atomic::Ordering;

/// Fewer segments than this in the limit are too few to clean in.
const SEGMENTS_MIN: usize = 16;
/// More than this take too long to look at.
const SEGMENTS_MAX: usize = 1 << 16;

/// Why a store was not taken over.
enum Not {
    Warm(Cold),
    At(Refusal),
}

impl From<Cold> for Not {
    fn from(why: Cold) -> Not {
        Not::Warm(why)
    }
}

impl Store {
    /// The store whose memory lies where it is asked for, as the process before left it, or an empty one whose memory lies there. It is left
    /// to the next process by [`Store::hand_over`]. The seed of the hash is that of the store found, not that of `config`.
    ///
    /// # Errors
    /// [`Refusal`], whose text says what to do.
    pub fn resume(asked: &Asked, config: Config, now: u32) -> Result<(Store, Start), Refusal> {
        Store::resume_hashing((asked, &Sound), config, now, u64::MAX)
    }

    /// The same, with a mistake made on purpose.
    ///
    /// # Errors
    /// As [`Store::resume`].
    pub fn resume_wrongly(
        asked: &Asked,
        config: Config,
        now: u32,
        mistakes: &impl Mistakes,
    ) -> Result<(Store, Start), Refusal> {
        Store::resume_hashing((asked, mistakes), config, now, u64::MAX)
    }

    /// The same, with hashes of the bits in `mask` only, so that tests see collisions.
    fn resume_hashing(
        (asked, mistakes): (&Asked, &impl Mistakes),
        mut config: Config,
        now: u32,
        mask: u64,
    ) -> Result<(Store, Start), Refusal> {
        config.memory_ceiling = config.memory_ceiling.max(config.memory);
        config.checked().map_err(Refusal::Config)?;
        let (files, meta) = match Files::take(&asked.place)? {
            Found::Ours(files, meta) => (files, meta),
            Found::Foreign(what) => {
                let mut store = Store::new(config).map_err(Refusal::Config)?;
                store.mask(mask);
                return Ok((store, Start::Cold(Cold::Foreign(what))));
            }
        };
        is_entitled(asked, &files, &meta, mistakes)?;
        let whose = asked.whose;
        let why = match warm(&files, (&config, whose), &meta, now, (mask, mistakes)) {
            Ok((mut store, start)) => {
                store.files = Some((files, whose));
                return Ok((store, start));
            }
            Err(Not::At(refusal)) => return Err(refusal),
            Err(Not::Warm(why)) => why,
        };
        let mut store = cold(&files, config, whose)?;
        store.mask(mask);
        store.files = Some((files, whose));
        Ok((store, Start::Cold(why)))
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests see collisions"))]
    fn mask(&mut self, _mask: u64) {
        #[cfg(test)]
        {
            self.hash_mask = _mask;
        }
    }

    /// Whether its memory lies in files, to be handed over.
    pub fn is_in_files(&self) -> bool {
        self.files.is_some()
    }

    /// Leaves everything in its files for the next process and says so there; `None` where the memory lies in none, and is gone.
    ///
    /// # Errors
    /// The system's, in words; the next process will start cold.
    pub fn hand_over(self, now: u32) -> Result<Option<Left>, String> {
        self.hand_over_owing(now, None)
    }

    /// The same, with a flush of that second, which may have begun, for the next process to do; instead of the store's own, which is done if it is due.
    ///
    /// # Errors
    /// As [`Store::hand_over`].
    pub fn hand_over_owing(mut self, now: u32, flush: Option<u32>) -> Result<Option<Left>, String> {
        let Some((files, whose)) = self.files.take() else { return Ok(None) };
        self.advance(now);
        while self.cleaning.is_some() {
            self.clean_some(now, usize::MAX);
        }
        let stats = self.stats();
        let system = |e: io::Error| format!("nothing is left in {}: {e}", files.directory().display());
        let large = self.put_large_away(&files).map_err(system)?;
        let image = Image {
            version: self.version,
            epoch: self.epoch,
            flush_at: flush.unwrap_or(self.flush_at),
            closed_at: now,
            limit: self.budget.limit as u64,
            hash_seed: self.config.hash_seed,
            hash_check: hash_check(&self.hasher),
            counters: self.stats,
            geometry: self.log.geometry(),
            kept: self.log.kept(),
            index: self.index.shape(),
            ghosts: self.ghosts.as_ref().map_or(0, |ghosts| ghosts.bytes() as u64),
            large,
        };
        files.sync(&MEMORY).and_then(|()| files.mark_closed(whose, &image.emit())).map_err(system)?;
        Ok(Some(Left { items: stats.items, bytes: stats.item_bytes }))
    }

    /// Writes every large value to the file for them and has its stub say where. Bytes of that file.
    fn put_large_away(&mut self, files: &Files) -> io::Result<u64> {
        let total: u64 = self.log.segments.iter().map(|s| s.large).sum();
        #[cfg(all(test, not(miri)))]
        let total = if tests::Chosen.has(Planted::LargeStayBehind) { 0 } else { total };
        if total == 0 {
            self.log.segments.iter_mut().for_each(|s| s.large = 0);
            files.empty(&[Part::Large])?;
            return Ok(0);
        }
        let mut region = Region::in_file(files.get(Part::Large)?, total as usize, PageKind::Base)?;
        let mut to = 0;
        for number in 0..self.log.segments.len() {
            // 0 also says that the stubs own nothing any more, to whoever drops the store.
            if std::mem::take(&mut self.log.segments[number].large) == 0 {
                continue;
            }
            let (start, used) = (self.log.start_of(number), self.log.segments[number].used as usize);
            let mut at = 0;
            while at < used {
                let item = self.item_at(start + at);
                let header = item.load();
                if header.state & (LARGE | DEAD) == LARGE {
                    let bytes = header.outside();
                    region.hold(to..to + bytes)?;
                    let value = item.large_take();
                    // SAFETY: `to + bytes` is at most `total`, which the mapping has.
                    unsafe {
                        std::ptr::copy_nonoverlapping(value.as_ptr(), region.start().add(to), value.len())
                    };
                    item.put_away(to as u64);
                    to += bytes;
                }
                at += header.footprint();
            }
        }
        files.sync(&[Part::Large])?;
        Ok(total)
    }
}

fn hash_check(hasher: &Hasher64) -> u64 {
    hasher.hash(b"millrace warm memory")
}

/// Whether who asks may have what lies there, whatever state it is in.
fn is_entitled(asked: &Asked, files: &Files, meta: &[u8], mistakes: &impl Mistakes) -> Result<(), Refusal> {
    let place = || files.directory().to_owned();
    if let Some(left) = meta::whose(meta) {
        let number = |whose| if let Whose::Home { number, .. } = whose { Some(number) } else { None };
        if number(left) != number(asked.whose) && !mistakes.has(Planted::Anybodys) {
            return Err(Refusal::NotYours(place(), left, asked.whose));
        }
    }
    // Of what cannot be read somebody was the owner, too.
    if asked.is_first && !meta.is_empty() && !mistakes.has(Planted::FirstIsBelieved) {
        return Err(Refusal::NotFirst(place()));
    }
    Ok(())
}

/// An empty store in `files`.
fn cold(files: &Files, config: Config, whose: Whose) -> Result<Store, Refusal> {
    let system =
        |e: io::Error| Refusal::System(format!("use {}", files.directory().display()), e.to_string());
    // What is there is of no use to this process, but may be to one with other settings: it goes when there is room for what comes.
    if files.room().map_err(system)? < config.memory as u64 {
        return Err(Refusal::NoRoom { directory: files.directory().to_owned(), memory: config.memory });
    }
    files.mark_in_use(whose).map_err(|e| no_room(files, &config, e))?;
    files.empty(&MEMORY).and_then(|()| files.empty(&[Part::Large])).map_err(system)?;
    let made = Store::empty_on(config.clone(), &Ground::Files(files));
    let held = made.and_then(|mut store| store.log.hold(&store.budget).map(|()| store));
    held.map_err(|e| {
        // It is of no use to anybody.
        let _ = files.empty(&MEMORY);
        no_room(files, &config, e)
    })
}

fn no_room(files: &Files, config: &Config, error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            Refusal::NoRoom { directory: files.directory().to_owned(), memory: config.memory }
        }
        _ => Refusal::System(format!("use {}", files.directory().display()), error.to_string()),
    }
}

/// The store that the process before left in `files`, if all of it fits.
fn warm(
    files: &Files,
    (config, whose): (&Config, Whose),
    meta: &[u8],
    now: u32,
    (mask, mistakes): (u64, &impl Mistakes),
) -> Result<(Store, Start), Not> {
    let image = meta::parse(meta, mistakes.has(Planted::AnyLayout))?;
    if meta::whose(meta).is_some_and(|left| left != whose) && !mistakes.has(Planted::Anybodys) {
        return Err(Cold::OtherDivision.into());
    }
    let system = |e: io::Error| {
        Not::At(Refusal::System(format!("use {}", files.directory().display()), e.to_string()))
    };
    let config = Config { hash_seed: image.hash_seed, ..config.clone() };
    let hasher = Hasher64::new(config.hash_seed);
    if hash_check(&hasher) != image.hash_check {
        return Err(Cold::OtherHash.into());
    }
    lengths(files, &image)?;
    let (log, index, used) = structure(files, &config, &image, system)?;
    let found = check::walk(
        &log,
        &index,
        |key| hasher.hash(key) & mask,
        &image,
        mistakes.has(Planted::EntriesAreBelieved),
    )?;
    let large: usize = found.segments.iter().map(|s| s.large as usize).sum();
    let ghosts = if config.mode == Mode::Cache { Ghosts::bytes_in(config.memory) } else { 0 };
    if image.ghosts != ghosts as u64 {
        files.empty(&[Part::Ghosts]).map_err(system)?;
    }
    let mut store = Store::of(config, log, index, &Ground::Files(files)).map_err(system)?;
    store.mask(mask);
    // Until they are read, large values are in their file.
    store.budget.large_counter().fetch_add(large, Ordering::Relaxed);
    let floor = store.budget.spent() + 2 * store.log.segment_bytes();
    if store.config.mode == Mode::Store && (store.budget.limit as u64) < image.limit.min(floor as u64) {
        return Err(Not::At(Refusal::Config(ConfigError::BelowUse { asked: store.budget.limit, floor })));
    }
    store.log.hold(&store.budget).map_err(|e| Not::At(no_room(files, &store.config, e)))?;
    store.budget.large_counter().fetch_sub(large, Ordering::Relaxed);

    // Nothing was changed so far but room that is held. From here on it is the store's.
    if !mistakes.has(Planted::InUseIsNotSaid) {
        files.mark_in_use(whose).map_err(system)?;
    }
    store.index.adopt(&used);
    take_over(&mut store, files, &image, &found)?;
    if mistakes.has(Planted::VersionIsForgotten) {
        store.version = 0;
    }
    let set_back = image.closed_at.saturating_sub(now);
    if set_back > 0 {
        check::shorten(&mut store, set_back);
    }
    while store.budget.is_over() {
        store.release_wanted = store.budget.spent() - store.budget.limit;
        if store.clean(now, 1) == 0 {
            break;
        }
    }
    let stats = store.stats();
    let away = now.saturating_sub(image.closed_at);
    Ok((store, Start::Warm { items: stats.items, bytes: stats.item_bytes, away, set_back }))
}

/// Whether the files are as long as what is in them.
fn lengths(files: &Files, image: &Image) -> Result<(), Cold> {
    let heap = (image.kept.segments.len() as u64).checked_shl(image.geometry.shift).unwrap_or(u64::MAX);
    let wanted = [
        (Part::Heap, heap),
        (Part::Index, image.index.main as u64 * 64),
        (Part::Overflow, image.index.overflow as u64 * 64),
        (Part::Large, image.large),
    ];
    match wanted.into_iter().find(|&(part, bytes)| files.len(part) < bytes) {
        Some((part, _)) => Err(Cold::Shorter(part.name())),
        None => Ok(()),
    }
}

/// Log and index, whose parts fit each other.
fn structure(
    files: &Files,
    config: &Config,
    image: &Image,
    system: impl Fn(io::Error) -> Not,
) -> Result<(Log, Index, crate::index::Used), Not> {
    let ground = Ground::Files(files);
    let segment = 1usize.checked_shl(image.geometry.shift).unwrap_or(usize::MAX);
    let count = config.memory_ceiling / segment;
    if config.memory / segment < SEGMENTS_MIN || count > SEGMENTS_MAX {
        return Err(Cold::OtherSize(segment).into());
    }
    let pages = if segment < base::pages::HUGE_PAGE { PageKind::Base } else { config.pages };
    let heap = count.max(image.kept.segments.len()) * segment;
    let heap = ground.region(Part::Heap, heap, pages).map_err(&system)?;
    let log = Log::resumed(heap, image.geometry, &image.kept, count);
    let log = log.ok_or(Cold::Damaged("its segments contradict each other"))?;
    let kind = Store::index_pages(config, &log);
    let reserve = config.memory_ceiling / 2;
    let main = ground.region(Part::Index, reserve.max(image.index.main * 64), kind).map_err(&system)?;
    let overflow =
        ground.region(Part::Overflow, (reserve / 2).max(image.index.overflow * 64), kind).map_err(&system)?;
    let is_inside = |offset: usize| {
        let segment = log.segments.get(log.segment_of(offset));
        segment.is_some_and(|s| offset - log.start_of(log.segment_of(offset)) < s.used as usize)
    };
    let (index, used) = Index::resumed(main, overflow, image.index, is_inside)
        .map_err(|what| Not::Warm(Cold::Damaged(what)))?;
    Ok((log, index, used))
}

/// Large values are read, accounts and everything that operations go by are as they were.
fn take_over(store: &mut Store, files: &Files, image: &Image, found: &Inventory) -> Result<(), Not> {
    let lost = || Not::Warm(Cold::Damaged("a large value could not be read"));
    if !found.stubs.is_empty() {
        let file = files.get(Part::Large).map_err(|_| lost())?;
        let mut region = Region::in_file(file, image.large as usize, PageKind::Base).map_err(|_| lost())?;
        for stub in &found.stubs {
            // SAFETY: the walk saw that the value lies in the file, whose length was looked at.
            let value = unsafe { std::slice::from_raw_parts(region.start().add(stub.at as usize), stub.len) };
            let value = LargeValue::of(value, &[], store.budget.large_counter()).ok_or_else(lost)?;
            store.item_at(stub.item).large_put(value);
            let at = stub.at as usize;
            // What is read twice is memory taken twice; refused, it goes with the file.
            let _ = region.release(at..at + LargeValue::footprint(stub.len));
        }
    }
    files.empty(&[Part::Large]).map_err(|_| lost())?;
    for (number, s) in found.segments.iter().enumerate() {
        if matches!(store.log.segments[number].state, State::Open | State::Sealed) {
            store.log.recount(number, *s);
        }
    }
    store.version = image.version;
    (store.epoch, store.flush_at, store.stats) = (image.epoch, image.flush_at, image.counters);
    Ok(())
}
