//! A registry in files, several copies of one. Whoever has the locks beside them leads, for as long as it lives: one controller.
//!
//! ```text
//!   FILE, FILE.2, FILE.3   a copy each of the configuration, as `text` writes it; or FILEs on several disks
//!   FILE.new               the next one of a copy, until it is renamed: whatever is there counts for nothing
//!   FILE.lock              locked by the controller that runs
//!   FILE.damaged           what a copy was before it was repaired
//! ```
//! A copy is written to FILE.new, made durable, renamed, and the directory made durable; so it is the old one or the new one,
//! whole, after a crash at any step. A configuration is stored when most copies have it. The newest that can be read counts, and copies that are
//! older, damaged or missing are written anew from it: so it takes the loss of most copies to lose a configuration.
//!
//! Invariants:
//! 1. What [`Registry::load`] says, most copies have: one that a single copy has, after an attempt that failed, is stored before it counts.
//! 2. A copy that is there and cannot be read (an I/O error) may have a newer one than those that can: nothing is said unless enough can be read
//!    to have at least one copy of whatever was stored. A copy that is gone or damaged is lost for good, and not waited for.
//!
//! Cost: some 1 ms for each copy on a disk that keeps what it says; configurations change when replicas come and go.

use super::{Registry, RegistryError, Swapped, text};
use base::files::Locked;
use base::{Nanos, private};
use protocol::chain::{Configuration, Epoch};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// See the file's head.
#[derive(Debug)]
pub struct FileRegistry {
    chain: u32,
    copies: Vec<Copy>,
    /// Held, not used.
    _locks: Vec<Locked>,
}

/// One of the files.
#[derive(Debug)]
struct Copy {
    path: PathBuf,
    /// What was said of it last: the same is not said again.
    trouble: Option<String>,
}

/// What a copy says.
enum Found {
    Nothing,
    Configuration(Configuration),
    /// Bytes that are no configuration of this chain.
    Damaged(String),
    Unreadable(io::Error),
}

impl FileRegistry {
    /// The registry of a chain. One path stands for three copies beside each other, several for a copy each. The files need not be there, their
    /// directories are made.
    ///
    /// # Errors
    /// Another controller has one of them, or the system's.
    pub fn open(chain: u32, paths: &[PathBuf]) -> Result<FileRegistry, RegistryError> {
        let paths = match paths {
            [one] => vec![one.clone(), with_suffix(one, ".2"), with_suffix(one, ".3")],
            several => several.to_vec(),
        };
        let locks = paths.iter().map(|path| lock(path)).collect::<Result<_, _>>()?;
        let copies = paths.into_iter().map(|path| Copy { path, trouble: None }).collect();
        Ok(FileRegistry { chain, copies, _locks: locks })
    }

    /// Writes all copies; most of them must be durable.
    fn write(&mut self, configuration: &Configuration) -> Result<(), RegistryError> {
        let text = text::emit(self.chain, configuration);
        let all = self.copies.len();
        let mut failed = Vec::new();
        for copy in &mut self.copies {
            if let Err(error) = copy.write(&text) {
                failed.push(error);
            }
        }
        enough(all, failed)
    }

    /// Writes copies anew that do not say what the newest one does; most must have it then. The others are tried again with the next one.
    fn repair(&mut self, newest: &Configuration, found: Vec<Found>) -> Result<(), RegistryError> {
        let text = text::emit(self.chain, newest);
        let (all, mut unwritten) = (self.copies.len(), Vec::new());
        for (copy, found) in self.copies.iter_mut().zip(found) {
            match found {
                Found::Configuration(same) if same == *newest => continue,
                Found::Damaged(why) => {
                    let aside = with_suffix(&copy.path, ".damaged");
                    let kept = fs::rename(&copy.path, &aside).map(|()| aside.display().to_string());
                    copy.say(format!(
                        "{} is damaged ({why}), is kept as {}, and is written anew from another copy",
                        copy.path.display(),
                        kept.unwrap_or_else(|error| format!("nothing ({error})"))
                    ));
                }
                Found::Unreadable(error) => copy.say(failed("read", &copy.path)(error).to_string()),
                Found::Configuration(_) | Found::Nothing => {}
            }
            unwritten.extend(copy.write(&text).err());
        }
        enough(all, unwritten)
    }
}

/// Whether most of `all` copies have it, when writing these failed.
fn enough(all: usize, mut failed: Vec<RegistryError>) -> Result<(), RegistryError> {
    if failed.len() * 2 < all { Ok(()) } else { Err(failed.swap_remove(0)) }
}

/// Whether one of the copies that could be read has whatever most copies have.
fn is_newest_seen(found: &[Found]) -> bool {
    let is = |kind: fn(&&Found) -> bool| found.iter().filter(kind).count();
    let read = is(|found| matches!(found, Found::Configuration(_)));
    is(|found| matches!(found, Found::Unreadable(_))) == 0 || read * 2 >= found.len()
}

impl Copy {
    fn read(&self, chain: u32) -> Found {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Unreadable(error),
        };
        text::parse(chain, &text).map_or_else(Found::Damaged, Found::Configuration)
    }

    /// Says once what is wrong with it, and returns that it is.
    fn write(&mut self, text: &str) -> Result<(), RegistryError> {
        let result = self.try_write(text);
        match &result {
            Ok(()) => self.trouble = None,
            Err(error) => {
                let hint = "name copies on other disks with --state A,B,C, or make room";
                self.say(format!(
                    "{error}; a copy of the chain's configuration is older than the others: {hint}"
                ));
            }
        }
        result
    }

    fn try_write(&self, text: &str) -> Result<(), RegistryError> {
        let new = with_suffix(&self.path, ".new");
        let write = || {
            let mut file = private::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(failed("write", &new))?;
        fs::rename(&new, &self.path).map_err(failed("replace", &self.path))?;
        let directory = directory(&self.path);
        File::open(directory).and_then(|file| file.sync_all()).map_err(failed("make durable", directory))
    }

    fn say(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            log::warn!("{trouble}");
            self.trouble = Some(trouble);
        }
    }
}

impl Registry for FileRegistry {
    fn campaign(&mut self) -> Result<Option<Nanos>, RegistryError> {
        Ok(Some(Nanos::MAX))
    }

    fn renew(&mut self) -> Result<Option<Nanos>, RegistryError> {
        Ok(Some(Nanos::MAX))
    }

    fn load(&mut self) -> Result<Option<Configuration>, RegistryError> {
        let mut found: Vec<Found> = self.copies.iter().map(|copy| copy.read(self.chain)).collect();
        let newest = found.iter().filter_map(|found| match found {
            Found::Configuration(configuration) => Some(configuration),
            _ => None,
        });
        if let Some(newest) = newest.max_by_key(|configuration| configuration.epoch).cloned()
            && is_newest_seen(&found)
        {
            self.repair(&newest, found)?;
            return Ok(Some(newest));
        }
        let first = |kind: fn(&Found) -> bool| found.iter().position(kind);
        let unread = first(|found| matches!(found, Found::Unreadable(_)));
        let Some(at) = unread.or_else(|| first(|found| matches!(found, Found::Damaged(_)))) else {
            return Ok(None);
        };
        let path = &self.copies[at].path;
        Err(match found.swap_remove(at) {
            Found::Unreadable(error) => RegistryError::Unread(path.clone(), error),
            Found::Damaged(why) => RegistryError::NotOurs(path.display().to_string(), why),
            Found::Nothing | Found::Configuration(_) => unreachable!("it is neither"),
        })
    }

    fn swap(&mut self, expected: Epoch, next: &Configuration) -> Result<Swapped, RegistryError> {
        let found = self.load()?;
        let is_there = found.as_ref() == Some(next);
        if !is_there && found.as_ref().map_or(Epoch(0), |found| found.epoch) != expected {
            return Ok(Swapped::Other(found));
        }
        // What is there may not be durable, if an attempt before failed.
        self.write(next).map(|()| Swapped::Done)
    }

    fn resign(&mut self) {}

    fn pace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Makes the directory of a copy, and takes its lock.
fn lock(path: &Path) -> Result<Locked, RegistryError> {
    let directory = directory(path);
    private::make_directory(directory).map_err(failed("make", directory))?;
    let beside = with_suffix(path, ".lock");
    let lock =
        OpenOptions::new().create(true).truncate(false).write(true).mode(private::FILE_MODE).open(&beside);
    let lock = lock.map_err(failed("open", &beside))?;
    Locked::new(lock).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => RegistryError::Locked(path.to_path_buf()),
        _ => failed("lock", &beside)(error),
    })
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    move |error| RegistryError::File(what, path.to_path_buf(), error)
}
