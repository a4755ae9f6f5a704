//! The models that are served, and their replacement by others while requests go on.
//!
//! Invariants: who takes a model has it for as long as it likes, so a request is checked against and computed by one and the same model, and
//! an old one goes when the last request that came before the swap is answered. All versions of a name change together: a load that fails changes nothing
//! of its name. One load at a time.
//!
//! Cost: a lock and a count for each request, uncontended but during a swap, which is two moves; and comparing names. While models are loaded there is
//! memory for those of one name twice, less those of its versions whose files have not changed: these are kept.

use super::counters::{Counted, Counters, add};
use super::refusal::Refusal;
use rec::request::Served;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where models come from.
pub trait ModelSource: Send + Sync {
    /// The names under which it has models. A source of one model says one that is empty: that model has its own.
    ///
    /// # Errors
    /// They cannot be read.
    fn names(&self) -> Result<Vec<String>, String>;

    /// The versions of one of these that are to be served, at least one.
    ///
    /// # Errors
    /// There are none, or they cannot be read.
    fn versions(&self, name: &str) -> Result<Vec<Offer>, String>;

    /// Loads one of them.
    ///
    /// # Errors
    /// It does not load.
    fn load(&self, name: &str, offer: &Offer) -> Result<Served, String>;

    /// Whether models may come and go beside each other.
    fn is_repository(&self) -> bool;
}

/// A version of a model that a source has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Which; empty: the model says it.
    pub version: String,
    /// Of its files, another if one of them is another. Without: nobody knows, and it is loaded each time.
    pub stamp: Option<u64>,
}

/// Of one model.
impl<F: Fn() -> Result<Served, String> + Send + Sync> ModelSource for F {
    fn names(&self) -> Result<Vec<String>, String> {
        Ok(vec![String::new()])
    }

    fn versions(&self, _: &str) -> Result<Vec<Offer>, String> {
        Ok(vec![Offer::default()])
    }

    fn load(&self, _: &str, _: &Offer) -> Result<Served, String> {
        self()
    }

    fn is_repository(&self) -> bool {
        false
    }
}

/// Where a server's models come from.
pub type Source = Box<dyn ModelSource>;

/// A model that is served, and what was counted of it.
pub struct Model {
    served: Served,
    /// Since its name and version were served first.
    pub counted: Arc<Counted>,
    /// Its name at the source.
    key: String,
    stamp: Option<u64>,
}

impl Deref for Model {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

/// By name, and of one name by version.
type Models = Arc<[Arc<Model>]>;

/// See the head of the file.
pub struct Shelf {
    current: Mutex<Models>,
    source: Source,
    counters: Arc<Counters>,
    /// Held while some are loaded.
    loading: Mutex<Loading>,
    /// Why names of the source are not served, or not as they are there now. Never held while something is loaded: lists are asked for meanwhile.
    reasons: Mutex<BTreeMap<String, String>>,
}

/// Of loads before.
#[derive(Default)]
struct Loading {
    /// The server has begun: loads are counted.
    is_started: bool,
    generation: u64,
}

/// A model in the list of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Its name.
    pub name: String,
    /// Its version; empty where none is served.
    pub version: String,
    /// READY or UNAVAILABLE.
    pub state: &'static str,
    /// Why it is not, or why it is an old one.
    pub reason: String,
}

/// Why a model was not loaded or unloaded.
#[derive(Debug)]
pub enum LoadError {
    /// There is none.
    Refused(Refusal),
    /// It does not load; those that were served go on.
    Failed(String),
    /// Of a server of one model.
    Only,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Refused(why) => why.fmt(f),
            LoadError::Failed(why) => write!(f, "the model does not load, the old one goes on: {why}"),
            LoadError::Only => {
                f.write_str("it is the only model of this server, which would have none without it")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl Shelf {
    /// With all models of `source`.
    ///
    /// # Errors
    /// One of them does not load, or there is none.
    pub fn new(source: Source, counters: &Arc<Counters>) -> Result<Shelf, String> {
        let (current, loading) = (Mutex::new(Models::from([])), Mutex::default());
        let counters = Arc::clone(counters);
        let shelf = Shelf { current, source, counters, loading, reasons: Mutex::default() };
        let names = shelf.source.names()?;
        let mut loading = shelf.loading();
        for name in &names {
            shelf.load_name(name, &mut loading).map_err(|why| of_name(name, why))?;
        }
        loading.is_started = true;
        drop(loading);
        Ok(shelf)
    }

    fn current(&self) -> MutexGuard<'_, Models> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loading(&self) -> MutexGuard<'_, Loading> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reasons(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are served, by name and version.
    pub fn all(&self) -> Models {
        Arc::clone(&self.current())
    }

    /// The model of this name and version; without a version the newest, and without a name the only one.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Model>, Refusal> {
        let all = self.all();
        let is_meant = |model: &Arc<Model>| {
            let is_named = match (name, &all[..]) {
                ("", [first, .., last]) => first.name == last.name,
                ("", _) => true,
                _ => model.name == name,
            };
            is_named && version.is_none_or(|version| model.version == version)
        };
        let found = all.iter().rev().find(|model| is_meant(model));
        found.map(Arc::clone).ok_or_else(|| no_model(name, version, &all))
    }

    /// All versions of a name, from the oldest; or this one.
    ///
    /// # Errors
    /// There are none.
    pub fn versions(&self, name: &str, version: Option<&str>) -> Result<Vec<Arc<Model>>, Refusal> {
        let newest = self.find(name, version)?;
        let all = self.all();
        let of_name = all.iter().filter(|model| {
            model.name == newest.name && version.is_none_or(|version| model.version == version)
        });
        Ok(of_name.map(Arc::clone).collect())
    }

    /// Loads what the source has under the name of a model beside what is served of it, and puts it in its place.
    ///
    /// # Errors
    /// As [`LoadError`] says.
    pub fn load(&self, name: &str) -> Result<Arc<Model>, LoadError> {
        let mut loading = self.loading();
        let key = self.key(name)?;
        self.load_name(&key, &mut loading).map_err(LoadError::Failed)?;
        drop(loading);
        self.find(name, None).map_err(LoadError::Refused)
    }

    /// Serves a model no more, until it is loaded.
    ///
    /// # Errors
    /// As [`LoadError`] says.
    pub fn unload(&self, name: &str) -> Result<(), LoadError> {
        let _loading = self.loading();
        let key = self.key(name)?;
        if !self.source.is_repository() {
            return Err(LoadError::Only);
        }
        self.put(&key, Vec::new());
        self.reasons().insert(key, "unloaded".to_owned());
        Ok(())
    }

    /// Loads all that the source has, name after name; what it has no more is served no more.
    ///
    /// # Errors
    /// Some do not load: those that were served under these names go on.
    pub fn reload(&self) -> Result<(), String> {
        let mut loading = self.loading();
        let names = self.source.names()?;
        let mut failed = Vec::new();
        for name in &names {
            failed.extend(self.load_name(name, &mut loading).err().map(|why| of_name(name, why)));
        }
        let gone: Vec<String> = self.all().iter().map(|model| model.key.clone()).collect();
        gone.iter().filter(|key| !names.contains(key)).for_each(|key| self.put(key, Vec::new()));
        self.reasons().retain(|name, _| names.contains(name));
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// All that are served, and the source's names of which none is. It does not wait for what is being loaded.
    pub fn index(&self) -> Vec<Indexed> {
        let all = self.all();
        let reasons = self.reasons().clone();
        let reason = |key: &str| reasons.get(key).cloned().unwrap_or_default();
        let served = all.iter().map(|model| Indexed {
            name: model.name.clone(),
            version: model.version.clone(),
            state: "READY",
            reason: reason(&model.key),
        });
        let mut index: Vec<Indexed> = served.collect();
        for name in self.source.names().unwrap_or_default() {
            if !all.iter().any(|model| model.key == name) {
                let reason = Some(reason(&name)).filter(|why| !why.is_empty());
                let reason = reason.unwrap_or_else(|| "not loaded yet".to_owned());
                index.push(Indexed { name, version: String::new(), state: "UNAVAILABLE", reason });
            }
        }
        index
    }

    /// The name at the source of a model.
    fn key(&self, name: &str) -> Result<String, LoadError> {
        let all = self.all();
        if let Some(model) = all.iter().find(|model| model.name == name) {
            return Ok(model.key.clone());
        }
        let names = self.source.names().map_err(LoadError::Failed)?;
        let known = names.into_iter().find(|known| !known.is_empty() && known == name);
        known.ok_or_else(|| LoadError::Refused(no_model(name, None, &all)))
    }

    /// All versions of a name of the source, or none of them.
    fn load_name(&self, key: &str, loading: &mut Loading) -> Result<(), String> {
        match self.loaded(key, loading) {
            Ok(models) => {
                self.reasons().remove(key);
                self.put(key, models);
                Ok(())
            }
            Err(why) => {
                add(&self.counters.failed_loads, u64::from(loading.is_started));
                self.reasons().insert(key.to_owned(), why.clone());
                Err(why)
            }
        }
    }

    fn loaded(&self, key: &str, loading: &mut Loading) -> Result<Vec<Arc<Model>>, String> {
        let old: Vec<_> = self.all().iter().filter(|model| model.key == key).map(Arc::clone).collect();
        let mut models = Vec::new();
        for offer in self.source.versions(key)? {
            let same = |model: &&Arc<Model>| {
                offer.stamp.is_some() && model.stamp == offer.stamp && model.version == offer.version
            };
            if let Some(same) = old.iter().find(same) {
                models.push(Arc::clone(same));
                continue;
            }
            let mut served = self.source.load(key, &offer)?;
            add(&self.counters.loads, u64::from(loading.is_started));
            loading.generation += 1;
            served.generation = loading.generation;
            if key.is_empty() {
                // It keeps the name under which it is served.
                old.iter().for_each(|old| served.name.clone_from(&old.name));
            } else {
                key.clone_into(&mut served.name);
                served.version.clone_from(&offer.version);
            }
            let before = old.iter().find(|old| old.version == served.version);
            let counted = before.map_or_else(Arc::default, |old| Arc::clone(&old.counted));
            models.push(Arc::new(Model { served, counted, key: key.to_owned(), stamp: offer.stamp }));
        }
        Ok(models)
    }

    /// Puts these in the place of what is served under a name of the source.
    fn put(&self, key: &str, models: Vec<Arc<Model>>) {
        let others = self.all();
        let mut all: Vec<_> = others.iter().filter(|model| model.key != key).map(Arc::clone).collect();
        all.extend(models);
        all.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| by_version(&a.version, &b.version)));
        // Given back outside of the lock: tables are large.
        let old = std::mem::replace(&mut *self.current(), all.into());
        drop((old, others));
    }
}

/// Numbers by their size; other words by their letters, before them.
fn by_version(a: &str, b: &str) -> Ordering {
    let number = |version: &str| version.parse::<u64>().ok();
    number(a).cmp(&number(b)).then_with(|| a.cmp(b))
}

fn of_name(name: &str, why: String) -> String {
    if name.is_empty() { why } else { format!("model {name}: {why}") }
}

/// Models that a refusal names.
const MAX_LISTED: usize = 8;

fn no_model(name: &str, version: Option<&str>, all: &[Arc<Model>]) -> Refusal {
    let short = |text: &str| text.chars().take(100).collect::<String>();
    let asked = match (name, version) {
        ("", _) => "without a name".to_owned(),
        (_, Some(version)) => format!("{} version {}", short(name), short(version)),
        (_, None) => short(name),
    };
    let listed = all.iter().take(MAX_LISTED).map(|model| format!("{} version {}", model.name, model.version));
    let mut served = listed.collect::<Vec<_>>().join(", ");
    if all.len() > MAX_LISTED {
        served += &format!(" and {} more", all.len() - MAX_LISTED);
    }
    if all.is_empty() {
        served.push_str("none");
    }
    Refusal::NoModel { asked, served }
}
