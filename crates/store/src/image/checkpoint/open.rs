//! Finding the newest checkpoint on a medium, and the image in it.

use super::Checkpoint;
use super::format::{HEADER, Header, Known, Layout, parse_map};
use crate::image::{BLOCK, Bits, Config, ConfigError, Image};
use crate::redo::media::Media;
use std::fmt;
use std::io;

/// Blocks that are read at once.
const RUN: usize = 64;

/// What was on a medium.
#[derive(Debug)]
pub struct Opened<M> {
    /// To go on with.
    pub checkpoint: Checkpoint<M>,
    /// Only bytes: every entry after `redo_from` must be applied to it, at least up to `floor`, then it must be indexed. Empty if something is damaged.
    pub image: Image,
    /// Every entry up to here is in it.
    pub redo_from: u64,
    /// Parts of it may be as late as this, which was committed.
    pub floor: u64,
    /// Where bytes are not what they were: the image must be copied from a neighbour.
    pub damaged: Vec<u64>,
}

/// Why a medium has no checkpoint of this image.
#[derive(Debug)]
pub enum OpenError {
    /// The medium failed.
    Media(io::Error),
    /// No header can be read.
    NoCheckpoint,
    /// It is of an image with other bytes or pages.
    Other {
        /// Bytes of that image.
        bytes: u64,
        /// Bytes of its pages.
        page: usize,
    },
    /// No image can be made so.
    Config(ConfigError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Media(e) => write!(f, "reading a checkpoint: {e}"),
            OpenError::NoCheckpoint => f.write_str(
                "no checkpoint is there: make an empty one, and let the replica join as a new one",
            ),
            OpenError::Other { bytes, page } => {
                write!(
                    f,
                    "the checkpoint is of an image of {bytes} bytes in pages of {page}: start with that size"
                )
            }
            OpenError::Config(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(e: io::Error) -> OpenError {
        OpenError::Media(e)
    }
}

impl<M: Media> Checkpoint<M> {
    /// Finds the newest checkpoint and reads the image.
    ///
    /// # Errors
    /// [`OpenError`]. Damaged bytes are not one: [`Opened::damaged`] says where.
    pub fn open(media: M, config: &Config) -> Result<Opened<M>, OpenError> {
        let mut image = Image::new(config).map_err(OpenError::Config)?;
        let layout = Layout::of(config);
        let headers = [0, 1].map(|number| read_header(&media, layout, number));
        let newest = headers.into_iter().flatten().max_by_key(|header| header.number);
        let header = newest.ok_or(OpenError::NoCheckpoint)?;
        if (header.bytes, header.page as usize) != (config.bytes, config.page) {
            return Err(OpenError::Other { bytes: header.bytes, page: header.page as usize });
        }
        let map = read_map(&media, layout, &header)?;
        let is_whole = map.is_some() && header.extent <= header.bytes && header.redo_from <= header.floor;
        let map = map.unwrap_or_else(|| vec![Known { copy: 1, crc: 0 }; layout.blocks]);
        image.become_bytes();
        let damaged = match is_whole {
            true => read_blocks(&media, layout, &map, &mut image),
            false => (0..layout.blocks).collect(),
        };
        image.dirty = Bits::new(layout.blocks);
        if damaged.is_empty() {
            image.extent = header.extent as usize;
            image.applied = header.redo_from;
        } else {
            image.clear();
            // Whatever comes instead, the next checkpoint has all of it.
            (0..layout.blocks).for_each(|block| image.dirty.set(block));
        }
        let checkpoint = Checkpoint::with(media, layout, header, map);
        let damaged = damaged.into_iter().map(|block| (block * BLOCK) as u64).collect();
        Ok(Opened { checkpoint, image, redo_from: header.redo_from, floor: header.floor, damaged })
    }
}

/// The header in the place of this number, if one can be read there.
fn read_header<M: Media>(media: &M, layout: Layout, place: u64) -> Option<Header> {
    let mut bytes = [0; HEADER];
    media.read_at(layout.header(place).start, &mut bytes).ok()?;
    Header::parse(&bytes).filter(|header| header.number % 2 == place)
}

/// The map that belongs to a header, if its bytes are what they were.
fn read_map<M: Media>(media: &M, layout: Layout, header: &Header) -> io::Result<Option<Vec<Known>>> {
    let at = layout.map(header.number);
    let mut bytes = vec![0; (at.end - at.start) as usize];
    media.read_at(at.start, &mut bytes)?;
    let map = (crc32c::crc32c(&bytes) == header.map_crc).then(|| parse_map(&bytes));
    Ok(map.filter(|map| map.iter().all(|known| known.copy <= 2)))
}

/// Reads the blocks that a map says, and says which are damaged: they cannot be read, or have another checksum.
fn read_blocks<M: Media>(media: &M, layout: Layout, map: &[Known], image: &mut Image) -> Vec<usize> {
    let mut damaged = Vec::new();
    let mut at = 0;
    while at < map.len() {
        let copy = map[at].copy;
        let run = map[at..].iter().take(RUN).take_while(|known| known.copy == copy).count();
        let blocks = at..at + run;
        at += run;
        if copy == 0 {
            continue;
        }
        let bytes = &mut image.memory.bytes_mut()[blocks.start * BLOCK..blocks.end * BLOCK];
        let is_read = media.read_at(layout.blocks(copy, blocks.clone()).start, bytes).is_ok();
        for (block, bytes) in blocks.zip(bytes.chunks_mut(BLOCK)) {
            let at = layout.blocks(copy, block..block + 1).start;
            let is_read = is_read || media.read_at(at, bytes).is_ok();
            if !is_read || crc32c::crc32c(bytes) != map[block].crc {
                damaged.push(block);
            }
        }
    }
    damaged
}
