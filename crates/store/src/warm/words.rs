//! What is said about memory that is left and taken over: where it lies, whose it is, how a store began, and why not.

use super::Unnamed;
use crate::config::ConfigError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where memory lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// In files of this directory.
    Directory(PathBuf),
    /// In these files, of this process alone.
    Unnamed(Arc<Unnamed>),
}

/// Whose keys and versions lie in a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of a node without boxes.
    #[default]
    Node,
    /// Those of a home of boxes.
    Home {
        /// Its name.
        number: u16,
        /// How keys are divided among homes: a checksum.
        division: u32,
    },
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Node => f.write_str("a node without boxes"),
            Whose::Home { number, .. } => write!(f, "home {number}"),
        }
    }
}

/// Which memory is asked for, and by whom.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where it lies.
    pub place: Place,
    /// Who asks.
    pub whose: Whose,
    /// Who asks says that it never ran before.
    pub is_first: bool,
}

impl Asked {
    /// That in `directory`, by this node or home, which may have run before.
    pub fn of(directory: &Path, whose: Whose) -> Asked {
        Asked { place: Place::Directory(directory.to_owned()), whose, is_first: false }
    }
}

/// Which mistake is made on purpose.
pub trait Mistakes {
    /// Whether it is this one.
    fn has(&self, planted: Planted) -> bool;
}

/// None: production.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Mistakes for Sound {
    #[inline(always)]
    fn has(&self, _planted: Planted) -> bool {
        false
    }
}

impl Mistakes for Planted {
    fn has(&self, planted: Planted) -> bool {
        *self == planted
    }
}

/// Mistakes that can be made on purpose, one at a time, to see that tests and the simulator (`millrace sim --durability none`) find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Nobody asks whether the index refers to what is there.
    EntriesAreBelieved,
    /// A store in use is not marked: what a killed process leaves is believed.
    InUseIsNotSaid,
    /// The last version is forgotten.
    VersionIsForgotten,
    /// Large values stay behind.
    LargeStayBehind,
    /// Another version's memory is believed.
    AnyLayout,
    /// What another home left is believed.
    Anybodys,
    /// A home that says that it never ran is given what it left.
    FirstIsBelieved,
}

/// How a store began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what the process before left.
    Warm {
        /// Items.
        items: usize,
        /// Bytes of them, headers and keys included.
        bytes: u64,
        /// Seconds since it was left.
        away: u32,
        /// Seconds by which the clock was set back meanwhile; items live no longer for it.
        set_back: u32,
    },
    /// Empty.
    Cold(Cold),
}

/// Why a store began empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cold {
    /// Nothing was there.
    New,
    /// Something was there that is not of our making; it stays as it is, and the memory is anonymous and cannot be handed over.
    Foreign(String),
    /// A process that had it was killed, or had no room to close it.
    NotClosed,
    /// Of this other version of the layout.
    OtherLayout(String),
    /// Made with another hash function.
    OtherHash,
    /// Keys were divided among homes in another way.
    OtherDivision,
    /// Its segments do not fit this limit: bytes of one.
    OtherSize(usize),
    /// This file is not as long as it was.
    Shorter(&'static str),
    /// Checksums or structure: what does not fit.
    Damaged(&'static str),
}

impl fmt::Display for Cold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cold::New => write!(f, "nothing was left there"),
            Cold::Foreign(what) => write!(
                f,
                "{what}, so it stays as it is and nothing will be left for the next process: name another directory"
            ),
            Cold::NotClosed => write!(f, "the process that had it did not stop in order"),
            Cold::OtherLayout(version) => write!(f, "it has layout {version} of another millrace"),
            Cold::OtherHash => write!(f, "it was made with another hash function"),
            Cold::OtherDivision => write!(
                f,
                "keys were divided among homes in another way when it was left, and some may have been another home's since"
            ),
            Cold::OtherSize(segment) => {
                write!(f, "its segments of {} do not fit this memory limit", base::Bytes(*segment as u64))
            }
            Cold::Shorter(file) => write!(f, "{file} is shorter than it was"),
            Cold::Damaged(what) => write!(f, "it is damaged: {what}"),
        }
    }
}

/// Why there is no store. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The settings.
    Config(ConfigError),
    /// Another process has the files in this directory.
    Locked(PathBuf),
    /// What lies in this directory was left by the first, and the second asks for it.
    NotYours(PathBuf, Whose, Whose),
    /// What lies in this directory says that who asks for it did run before.
    NotFirst(PathBuf),
    /// The directory that this one is to be made in is not there.
    NoDirectory(PathBuf),
    /// The file system has no room for all of the memory.
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// The limit, bytes.
        memory: usize,
    },
    /// At this, the system said that.
    System(String, String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Config(e) => e.fmt(f),
            Refusal::Locked(place) => {
                write!(
                    f,
                    "another process has its memory in {}; stop it, or name another directory",
                    place.display()
                )
            }
            Refusal::NotYours(place, left, asks) => write!(
                f,
                "{} has the memory of {left}, and this is {asks}: name another directory, or remove that one if nobody needs it",
                place.display()
            ),
            Refusal::NotFirst(place) => write!(
                f,
                "{} was left by an earlier life of this home, so boxes may have copies of its items: start without --home-first",
                place.display()
            ),
            Refusal::NoDirectory(place) => {
                write!(
                    f,
                    "there is no directory to make {} in; make it, or name another one",
                    place.display()
                )
            }
            Refusal::NoRoom { directory, memory } => write!(
                f,
                "the file system of {} has no room for {} of memory; make room there, or give the node less memory",
                directory.display(),
                base::Bytes(*memory as u64)
            ),
            Refusal::System(doing, why) => write!(f, "cannot {doing}: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What was left for the next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Items.
    pub items: usize,
    /// Bytes of them.
    pub bytes: u64,
}
