//! A folder of models, laid out as Triton lays out its own:
//!
//! ```text
//! DIR/NAME/config.pbtxt                which versions are served, and how; may be left out
//! DIR/NAME/VERSION/model.safetensors   and what belongs to it; VERSION is a number from 1
//! ```
//! What the file may say: message `ModelConfig` of `inference.proto`, of which `name`, `platform`, `backend`, `version_policy` and parameter `row_format` are
//! heeded. Anything else is refused with what to do instead, so that nobody believes that it is obeyed.
//!
//! Bounds: [`MAX_MODELS`] names, [`MAX_VERSIONS`] versions of each, [`MAX_CONFIG`] bytes of a file.

use super::oip::describe::PLATFORM;
use super::oip::proto::inference as proto;
use super::shelf::{ModelSource, Offer};
use super::source::ModelArgs;
use codec::decode::{Decoder, Limits};
use codec::encode::Encoder;
use codec::memory::Arena;
use codec::text::format;
use codec::typed::Message;
use proto::model_version_policy::PolicyChoice;
use proto::{ModelConfig, ModelConfigView};
use rec::RowFormat;
use rec::request::Served;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Names at most.
pub const MAX_MODELS: usize = 1024;
/// Versions of a name at most.
pub const MAX_VERSIONS: usize = 1024;
/// Bytes at most of a model's `config.pbtxt`.
pub const MAX_CONFIG: u64 = 64 << 10;

/// See the head of the file.
pub struct Repository {
    folder: PathBuf,
    /// How each of its models is loaded.
    options: ModelArgs,
}

/// What a model's `config.pbtxt` says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    policy: Policy,
    row_format: Option<RowFormat>,
}

/// Which versions are served.
#[derive(Debug, PartialEq, Eq)]
enum Policy {
    /// So many of the greatest.
    Latest(u32),
    All,
    /// These.
    Specific(Vec<u64>),
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::Latest(1)
    }
}

impl Config {
    /// Reads `config.pbtxt` of the model `name`.
    ///
    /// # Errors
    /// What is wrong where, or what cannot be had.
    pub fn parse(text: &str, name: &str) -> Result<Config, String> {
        let arena = Arena::default();
        let types = ModelConfig::types();
        let parsed = format::parse(types, ModelConfig::CLASS, text, &arena, &Limits::default());
        let parsed = parsed.map_err(|error| error.to_string())?;
        let mut encoder = Encoder::default();
        let bytes = parsed.freeze().encode(&mut encoder).map_err(|error| error.to_string())?;
        let config = ModelConfig::decode(&mut Decoder::default(), bytes, &arena);
        Config::of(config.map_err(|error| error.to_string())?, name)
    }

    fn of(config: ModelConfigView<'_>, name: &str) -> Result<Config, String> {
        if ![name, ""].contains(&config.name()) {
            let said = config.name();
            return Err(format!(
                "name is {said:?}, and the folder's {name:?}: leave it out, or say the same"
            ));
        }
        for said in [config.platform(), config.backend()] {
            if !["", PLATFORM].contains(&said) {
                return Err(format!("{said:?} is not served: expected {PLATFORM:?}, or nothing"));
            }
        }
        for (field, is_there, instead) in [
            ("input", !config.input().is_empty(), "the model says what it takes"),
            ("output", !config.output().is_empty(), "the model says what it gives"),
            ("max_batch_size", config.max_batch_size() != 0, "set register rec.batch"),
            (
                "dynamic_batching",
                config.dynamic_batching().is_some(),
                "set registers rec.linger and rec.batch",
            ),
        ] {
            if is_there {
                return Err(format!("{field} cannot be set here: leave it out; {instead}"));
            }
        }
        let mut read = Config::default();
        for (key, value) in config.parameters().iter() {
            match key {
                "row_format" => {
                    let format = value.string_value();
                    let wrong = |why| format!("parameter row_format {format:?}: {why}");
                    read.row_format = Some(format.parse().map_err(wrong)?);
                }
                other => return Err(format!("parameter {other:?} is unknown: expected row_format")),
            }
        }
        let policy = config.version_policy().and_then(|policy| policy.policy_choice());
        read.policy = match policy {
            None => Policy::default(),
            Some(PolicyChoice::Latest(latest)) => Policy::Latest(latest.num_versions().max(1)),
            Some(PolicyChoice::All(_)) => Policy::All,
            Some(PolicyChoice::Specific(specific)) => {
                let versions = specific.versions().iter().map(|&version| u64::try_from(version));
                let versions: Vec<u64> = versions.collect::<Result<_, _>>().unwrap_or_default();
                if versions.is_empty() || versions.contains(&0) {
                    return Err("version_policy.specific: expected versions from 1".to_owned());
                }
                Policy::Specific(versions)
            }
        };
        Ok(read)
    }

    /// Those that are served of these, which are in order.
    fn chosen(&self, mut there: Vec<u64>) -> Result<Vec<u64>, String> {
        match &self.policy {
            Policy::All => {}
            Policy::Latest(count) => drop(there.drain(..there.len().saturating_sub(*count as usize))),
            Policy::Specific(wanted) => {
                if let Some(absent) = wanted.iter().find(|wanted| !there.contains(wanted)) {
                    return Err(format!("version_policy.specific: there is no version {absent}"));
                }
                there.retain(|version| wanted.contains(version));
            }
        }
        Ok(there)
    }
}

impl Repository {
    /// In this folder.
    pub fn new(folder: PathBuf, options: ModelArgs) -> Repository {
        Repository { folder, options }
    }

    fn config(&self, name: &str) -> Result<Config, String> {
        let path = self.folder.join(name).join("config.pbtxt");
        let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        match base::files::read(&path, MAX_CONFIG) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(error) => Err(told(&error)),
            Ok(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| told(&"expected text in UTF-8"))?;
                Config::parse(&text, name).map_err(|why| told(&why))
            }
        }
    }
}

impl ModelSource for Repository {
    fn names(&self) -> Result<Vec<String>, String> {
        let names = folders(&self.folder, MAX_MODELS)?;
        if names.is_empty() {
            return Err(format!(
                "{}: there is no model: expected folders NAME/VERSION with model.safetensors, such as ctr/1",
                self.folder.display()
            ));
        }
        Ok(names)
    }

    fn versions(&self, name: &str) -> Result<Vec<Offer>, String> {
        let (config, folder) = (self.config(name)?, self.folder.join(name));
        let mut there: Vec<u64> =
            folders(&folder, MAX_VERSIONS)?.iter().filter_map(|name| version(name)).collect();
        there.sort_unstable();
        if there.is_empty() {
            let folder = folder.display();
            return Err(format!(
                "{folder}: there is no version: expected a folder 1, 2 or so with model.safetensors"
            ));
        }
        let chosen = config.chosen(there).map_err(|why| format!("{}: {why}", folder.display()))?;
        let offer = |version: u64| {
            let version = version.to_string();
            let stamp = stamp(&folder.join(&version), &config)?;
            Ok(Offer { version, stamp: Some(stamp) })
        };
        chosen.into_iter().map(offer).collect()
    }

    fn load(&self, name: &str, offer: &Offer) -> Result<Served, String> {
        let format = self.config(name)?.row_format;
        self.options.load_folder(&self.folder.join(name).join(&offer.version), format)
    }

    fn is_repository(&self) -> bool {
        true
    }
}

/// The number that a folder's name is; a zero before it makes it none.
fn version(name: &str) -> Option<u64> {
    let is_number = name.bytes().all(|digit| digit.is_ascii_digit()) && !name.starts_with('0');
    is_number.then(|| name.parse().ok())?
}

/// The names of the folders in a folder, of which there may be so many, in order; hidden ones are none.
fn folders(path: &Path, most: usize) -> Result<Vec<String>, String> {
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(told)? {
        let name = entry.map_err(told)?.file_name();
        // A link to a folder is one.
        if !path.join(&name).is_dir() {
            continue;
        }
        match name.into_string() {
            Ok(name) if !name.starts_with('.') => names.push(name),
            _ => {}
        }
        if names.len() > most {
            return Err(format!("{}: expected at most {most} folders", path.display()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Another number if a file in `folder` is another, or the model is loaded in another way.
fn stamp(folder: &Path, config: &Config) -> Result<u64, String> {
    let told = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let about = fs::metadata(&path).map_err(told)?;
        files.push((path, about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
    }
    files.sort_unstable();
    let mut hasher = DefaultHasher::new();
    (files, config.row_format.map(|format| format.to_string())).hash(&mut hasher);
    Ok(hasher.finish())
}
