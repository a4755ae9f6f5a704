//! The program on the interfaces of a box, and the memory that it shares with this process. All interfaces have one program and one table.
//!
//! Life: [`Tier::load`] makes maps and program and attaches it; dropping takes it off, as does the process's end, for the link is held by a
//! descriptor and is in no file. [`Tier::upgrade`] puts a new program in the old one's place between two frames, with the same maps.
//!
//! Another process can take over: the old one hands over ([`Tier::release`]) and keeps the link until it ends; the new one's `load` finds the link,
//! takes its maps where they are of the same shape, empties them unless told to adopt, and replaces the program. At every moment a
//! program is on the interface. Whether the old one still lives is asked by its process number.

use crate::bpf::{self, Tried};
use crate::counters::{Counts, Histogram};
use crate::entries::Entries;
use crate::error::LoadError;
use crate::interface;
use crate::layout::{Bucket, Config, Entry, HOMES, Home, Row, WAYS};
use crate::object::{self, Maps, PROGRAM, Sizes, possible_cpus, sight_lines};
use crate::options::{Live, Mode, Options};
use crate::region::Region;
use base::key::Key;
use protocol::wire::{BoxId, HomeId};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// The fast tier.
pub struct Tier {
    shared: Shared,
    program: OwnedFd,
    attached: Vec<Attached>,
    /// The mode of the tier whose maps this one went on with.
    earlier_mode: Option<u32>,
    options: Options,
}

/// An interface that has the program.
#[derive(Debug)]
struct Attached {
    number: u32,
    link: OwnedFd,
}

/// What is left of a tier that was handed over: its program stays on the interfaces as long as this lives or the next has them.
#[derive(Debug)]
pub struct HandedOver {
    _attached: Vec<Attached>,
}

/// The program alone: it can be run on frames that come from nowhere and go nowhere.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Runs it `repeat` times on a frame; counted as any other.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn run(&self, frame: &[u8], repeat: u32) -> io::Result<Tried> {
        bpf::program_try(self.0.as_fd(), frame, repeat)
    }
}

impl Tier {
    /// Loads the program and puts it on interfaces of the calling thread's network namespace, in the place of one that was handed over, if
    /// there is one.
    ///
    /// # Errors
    /// [`LoadError`]: its text says what to do. The program is then on none of them.
    pub fn load<S: AsRef<str>>(interfaces: &[S], mode: Mode, options: Options) -> Result<Tier, LoadError> {
        let mut tier = Tier::unattached(options)?;
        interfaces.iter().try_for_each(|interface| tier.attach(interface.as_ref(), mode))?;
        Ok(tier)
    }

    /// Loads the program, and puts it nowhere yet.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn unattached(options: Options) -> Result<Tier, LoadError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(LoadError::Architecture);
        }
        let shared = Shared::map(Maps::create(options.sizes())?)?;
        let program = object::load(object::committed(), &shared.maps)?;
        shared.open(&options);
        shared.config().owner.store(std::process::id(), Relaxed);
        Ok(Tier { shared, program, attached: Vec::new(), earlier_mode: None, options })
    }

    /// Puts the program on one more interface, of the same network namespace and in the same mode as those that have it.
    ///
    /// # Errors
    /// [`LoadError`]; the others keep it.
    pub fn attach(&mut self, interface: &str, mode: Mode) -> Result<(), LoadError> {
        let number = interface::number(interface)?;
        if self.attached.iter().any(|attached| attached.number == number) {
            return Ok(());
        }
        let mtu = interface::mtu(interface);
        let least =
            if self.attached.is_empty() { mtu } else { mtu.min(self.shared.config().mtu.load(Relaxed)) };
        let place = Place { number, mtu: least, netns: interface::namespace(), mode };
        place.write(self.shared.config());
        let link = match bpf::link_create(self.program.as_fd(), number, mode.flags()) {
            Ok(link) => link,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                self.take_over(interface, &place)?
            }
            Err(error) => return Err(interface::refusal(interface, mode, error)),
        };
        self.attached.push(Attached { number, link });
        Ok(())
    }

    /// Takes the program off its interfaces. Entries and counters stay.
    pub fn detach(&mut self) {
        for attached in self.attached.drain(..) {
            // Closing alone would leave it there as long as somebody else who looks through the machine's links has this one open.
            // Nobody has taken over: this tier is the owner as long as it has a link. An error means that it is off already.
            let _already_off = bpf::link_detach(attached.link.as_fd());
        }
    }

    /// How many interfaces have it.
    pub fn attached(&self) -> usize {
        self.attached.len()
    }

    /// Loads the program anew, with the maps as they are, and puts it in the old one's place between two frames.
    ///
    /// # Errors
    /// [`LoadError`]; the old program then stays.
    pub fn upgrade(&mut self) -> Result<(), LoadError> {
        self.upgrade_to(object::committed())
    }

    /// The same with the program of another object file: a newer `bpf/box.o`. Its maps must be laid out as here, which its own build
    /// asserts. The bytes begin at a multiple of 8, as those of a file that was read into a vector do.
    ///
    /// # Errors
    /// [`LoadError`]; the old program then stays, at least on the interface that refused. Both go by the same maps.
    pub fn upgrade_to(&mut self, object: &[u8]) -> Result<(), LoadError> {
        let program = object::load(object, &self.shared.maps)?;
        self.attached.iter().try_for_each(|attached| replace(&attached.link, program.as_fd()))?;
        self.program = program;
        self.shared.config().generation.fetch_add(1, Relaxed);
        Ok(())
    }

    /// How many programs have had these maps.
    pub fn generation(&self) -> u32 {
        self.shared.config().generation.load(Relaxed)
    }

    /// Gives the program to the next process that loads one for this interface. Until then it goes on with the entries as they are, and nobody
    /// invalidates them: homes wait until the leases are over.
    pub fn release(mut self) -> HandedOver {
        HandedOver { _attached: std::mem::take(&mut self.attached) }
    }

    /// Changes the live registers.
    pub fn set_options(&self, live: Live) {
        live.write(self.shared.config());
    }

    /// Says where a home is, for the filter ([`Live::filter`]). Two homes whose numbers have the same lower 8 bits share a place: the one
    /// that was named last has it, and requests for the other go up.
    pub fn set_home(&self, home: HomeId, address: SocketAddrV4) {
        let place = &self.shared.homes[usize::from(home.0) % HOMES];
        place.port.store(0, Relaxed);
        place.number.store(u32::from(home.0), Relaxed);
        place.address.store(u32::from_le_bytes(address.ip().octets()), Relaxed);
        place.port.store(u32::from(address.port()), Relaxed);
    }

    /// A home is nowhere that the program can send to: requests for it go up.
    pub fn forget_home(&self, home: HomeId) {
        let place = &self.shared.homes[usize::from(home.0) % HOMES];
        if place.number.load(Relaxed) == u32::from(home.0) {
            place.port.store(0, Relaxed);
        }
    }

    /// What was seen up to now counts half as much for the filter from here on.
    pub fn age_filter(&self) {
        self.shared.config().window.fetch_add(1, Relaxed);
    }

    /// From now on the program takes and gives proofs as this box, with the clients' key; packets that this process seals as the same box are
    /// numbered by what is returned, too. Without it no write is believed that comes with a proof, and all that come without one are.
    pub fn seal_as(&self, id: BoxId, key: &Key, last: u64) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let config = self.shared.config();
        for (place, word) in config.seal_key.iter().zip(key.words()) {
            place.store(word, Relaxed);
        }
        config.number.store(u32::from(id.0), Relaxed);
        config.counter.store(last, Relaxed);
        config.sealed.store(1, Release);
        let config = Arc::clone(&self.shared.config);
        Arc::new(move || config[0].counter.fetch_add(1, Relaxed) + 1)
    }

    /// The copies.
    pub fn entries(&self) -> &Entries {
        &self.shared.entries
    }

    /// Divides the copies among so many cores: those of all but the first, which this keeps. See [`Entries::split`].
    pub fn split(&mut self, of: u8) -> Vec<Entries> {
        self.shared.entries.split(of)
    }

    /// The copies, for the user tier.
    pub fn entries_mut(&mut self) -> &mut Entries {
        &mut self.shared.entries
    }

    /// What the program counted.
    pub fn counters(&self) -> Counts {
        Counts::of(&self.shared.rows)
    }

    /// Times of hits.
    pub fn hit_times(&self) -> Histogram {
        Histogram::hits(&self.shared.rows)
    }

    /// Times of datagrams that were passed on.
    pub fn pass_times(&self) -> Histogram {
        Histogram::passed(&self.shared.rows)
    }

    /// The program, to be tried.
    ///
    /// # Errors
    /// Without a free descriptor.
    pub fn program(&self) -> io::Result<Program> {
        self.program.try_clone().map(Program)
    }

    /// Goes on where an earlier tier left the interface.
    fn take_over(&mut self, interface: &str, place: &Place) -> Result<OwnedFd, LoadError> {
        let found = find(place, self.options.sizes())
            .map_err(|error| LoadError::of("looking for an earlier program", error))?;
        let Some(found) = found else { return Err(LoadError::Occupied(interface.into())) };
        if found.is(&self.shared) {
            // Its maps came with an interface before.
            let same_mode = self.earlier_mode == Some(place.mode.flags());
            return self.succeed(interface, place, found.link, same_mode);
        }
        let owner = found.config[0].owner.load(Relaxed);
        if owner != 0 && lives(owner) {
            return Err(LoadError::InUse { interface: interface.into(), process: owner });
        }
        let claim = found.config[0].owner.compare_exchange(owner, std::process::id(), AcqRel, Relaxed);
        if let Err(process) = claim {
            return Err(LoadError::InUse { interface: interface.into(), process });
        }
        let Found { link, config, maps, .. } = found;
        let mode = config[0].mode.load(Relaxed);
        // A program that is on an interface already has its maps.
        let shared = match maps.filter(|_| self.attached.is_empty()) {
            Some(maps) => self.share(maps, place, mode),
            None => Ok(()),
        };
        shared
            .and_then(|()| self.succeed(interface, place, link, mode == place.mode.flags()))
            .inspect_err(|_| config[0].owner.store(0, Relaxed))
    }

    /// Puts this program in the place of a link's.
    fn succeed(
        &self,
        interface: &str,
        place: &Place,
        link: OwnedFd,
        same_mode: bool,
    ) -> Result<OwnedFd, LoadError> {
        if same_mode {
            replace(&link, self.program.as_fd())?;
            return Ok(link);
        }
        bpf::link_detach(link.as_fd())
            .map_err(|error| LoadError::of("taking an earlier program off", error))?;
        bpf::link_create(self.program.as_fd(), place.number, place.mode.flags())
            .map_err(|error| interface::refusal(interface, place.mode, error))
    }

    /// Goes on with the maps of an earlier program, which ran in `mode`.
    fn share(&mut self, maps: Maps, place: &Place, mode: u32) -> Result<(), LoadError> {
        let mut shared = Shared::map(maps)?;
        if self.options.adopt {
            shared.entries.repair();
        } else {
            shared.entries.clear();
        }
        self.program = object::load(object::committed(), &shared.maps)?;
        shared.open(&self.options);
        place.write(shared.config());
        self.shared = shared;
        self.earlier_mode = Some(mode);
        Ok(())
    }
}

impl Drop for Tier {
    /// Takes the program off; nobody owns the entries from here on.
    fn drop(&mut self) {
        self.detach();
        let owner = &self.shared.config().owner;
        let _not_ours = owner.compare_exchange(std::process::id(), 0, AcqRel, Relaxed);
    }
}

/// The maps, seen from here.
struct Shared {
    maps: Maps,
    config: Arc<Region<Config>>,
    rows: Region<Row>,
    homes: Region<Home>,
    entries: Entries,
}

impl Shared {
    fn map(maps: Maps) -> Result<Shared, LoadError> {
        let all = || -> io::Result<_> {
            let buckets: Region<Bucket> = {
                let (_, shape) = bpf::map_info(maps.buckets.as_fd())?;
                Region::of_map(maps.buckets.as_fd(), shape.max_entries as usize)?
            };
            let len = buckets.len() * WAYS;
            let entries: Region<Entry> = Region::of_map(maps.entries.as_fd(), len)?;
            let hits: Region<AtomicU64> = Region::of_map(maps.hits.as_fd(), len)?;
            let config = Region::of_map(maps.config.as_fd(), 1)?;
            let (_, shape) = bpf::map_info(maps.owned.as_fd())?;
            let owned = Region::of_map(maps.owned.as_fd(), shape.max_entries as usize)?;
            Ok((
                config,
                Region::of_map(maps.rows.as_fd(), possible_cpus())?,
                Region::of_map(maps.homes.as_fd(), HOMES)?,
                Entries::of(buckets, entries, hits, owned),
            ))
        };
        let (config, rows, homes, entries) =
            all().map_err(|error| LoadError::of("mapping the maps", error))?;
        Ok(Shared { maps, config: Arc::new(config), rows, homes, entries })
    }

    fn config(&self) -> &Config {
        &self.config[0]
    }

    /// Makes the table ready for a program.
    fn open(&self, options: &Options) {
        let config = self.config();
        let buckets = self.entries.capacity() / WAYS;
        config.bucket_mask.store((buckets - 1) as u32, Relaxed);
        config.filter_mask.store((sight_lines(buckets) - 1) as u32, Relaxed);
        self.homes.iter().for_each(|home| home.port.store(0, Relaxed));
        if config.mtu.load(Relaxed) == 0 {
            config.mtu.store(1500, Relaxed);
        }
        config.sealed.store(0, Relaxed);
        config.generation.fetch_add(1, Relaxed);
        options.live.write(config);
    }
}

/// Where a program is.
struct Place {
    number: u32,
    mtu: u32,
    netns: u64,
    mode: Mode,
}

impl Place {
    fn write(&self, config: &Config) {
        config.mtu.store(self.mtu, Relaxed);
        config.netns.store(self.netns, Relaxed);
        config.mode.store(self.mode.flags(), Relaxed);
    }
}

/// An earlier box's program on an interface.
struct Found {
    link: OwnedFd,
    config: Region<Config>,
    /// Of the map that the config is in.
    id: u32,
    /// None where they are of another shape.
    maps: Option<Maps>,
}

impl Found {
    fn is(&self, shared: &Shared) -> bool {
        bpf::map_id(shared.maps.config.as_fd()).is_ok_and(|id| id == self.id)
    }
}

/// Links name an interface's number and not its namespace, so every box writes that into its config.
fn find(place: &Place, sizes: Sizes) -> io::Result<Option<Found>> {
    for link in bpf::links() {
        let Ok(Some(info)) = bpf::link_info(link.as_fd()) else { continue };
        if info.interface != place.number {
            continue;
        }
        // A program may go while one looks at it.
        let Ok(program) = bpf::program_info(info.program) else { continue };
        if program.name != PROGRAM {
            continue;
        }
        let Some(config) = object::config_of(&program.maps)? else { continue };
        let id = bpf::map_id(config.as_fd())?;
        let config: Region<Config> = Region::of_map(config.as_fd(), 1)?;
        if config[0].netns.load(Relaxed) == place.netns {
            let maps = Maps::of_program(&program.maps, sizes)?;
            return Ok(Some(Found { link, config, id, maps }));
        }
    }
    Ok(None)
}

fn replace(link: &OwnedFd, program: BorrowedFd<'_>) -> Result<(), LoadError> {
    bpf::link_update(link.as_fd(), program).map_err(|error| LoadError::of("replacing the program", error))
}

fn lives(process: u32) -> bool {
    // SAFETY: signal 0 is none; it only asks whether one could be sent.
    let result = unsafe { libc::kill(process as libc::pid_t, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}
