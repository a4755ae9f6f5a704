//! What a controller says of its cluster to whoever has no file: the file, with homes where they are now.
//!
//! ```text
//!   the file as it lies there, if it is still this rack's ──╮
//!   else the file as it was read first ─────────────────────┴─▶ + homes that moved since ─▶ + paths of keys from the root
//! ```
//! It has all of the file, chains too, and no secret: keys are in files of their own.

use super::topology::Topology;
use crate::cluster::file::text;
use crate::process::table::Source;
use protocol::coherence::moved::Moved;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the head of the file.
#[derive(Debug)]
pub struct Told {
    file: PathBuf,
    /// As it was read first.
    first: String,
    topology: Arc<Topology>,
}

impl Told {
    /// Of the file in which this topology is.
    pub fn new(file: &Path, topology: &Arc<Topology>) -> Told {
        // Of a rack that was made in this process, or whose file is gone by now, what is known of it.
        let first = std::fs::read_to_string(file).unwrap_or_else(|_| topology.text());
        Told { file: file.to_owned(), first, topology: Arc::clone(topology) }
    }

    /// The text, where controllers have heard this of homes that moved.
    pub fn text<'a>(&self, heard: impl Iterator<Item = &'a Moved>) -> String {
        let mut moved = Moved::default();
        heard.for_each(|one| {
            moved.learn(one);
        });
        let is_ours = |text: &String| {
            Topology::parse(text, &self.file).is_ok_and(|read| read.is_but_for_ranges(&self.topology))
        };
        let now = std::fs::read_to_string(&self.file).ok().filter(is_ours);
        let mut text = now.unwrap_or_else(|| self.first.clone());
        let known = Topology::parse(&text, &self.file).map(|read| (**read.layout().moved()).clone());
        let known = known.unwrap_or_default();
        for (home, place) in moved.iter() {
            if known.of(home).is_some_and(|known| known.epoch >= place.epoch) {
                continue;
            }
            // A file that is written so that it cannot be changed stays as it is: boxes say where the home is.
            // Where operators find it there is not known: they see it as its controllers do.
            let changed = text::moved(&self.source(&text), home.0, (place.address, None), place.epoch.0);
            let changed = changed.and_then(|text| text::without_key(&self.source(&text), home.0, "admin"));
            text = changed.unwrap_or(text);
        }
        let folder = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = folder.parent().unwrap_or(Path::new("/"));
        text::with_whole_paths(&self.source(&text), folder).unwrap_or(text)
    }

    fn source(&self, text: &str) -> Source {
        Source::of(&self.file, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::coherence::NodeId;
    use protocol::coherence::moved::Place;
    use protocol::wire::{Epoch, HomeId};
    use std::net::SocketAddr;
    use tempfile::TempDir;

    const TEXT: &str = "\
# Ours.
[cluster]
key = \"rack.key\"
[[box]]
id = 1
address = \"127.0.0.1:1\"
[[home]]
id = 1
address = \"127.0.0.1:2\"
admin = \"127.0.0.1:99\"
box = 1
[[chain]]
number = 7
[[chain.replica]]
id = 1
address = \"tcp:127.0.0.1:9\"
";

    fn moved(port: u16, epoch: u32) -> Moved {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Moved::from_iter([(HomeId(1), Place::new(address, Epoch(epoch)).expect("somebody's"))])
    }

    #[test]
    fn homes_are_where_the_last_order_has_them_and_all_else_is_the_file() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let file = folder.path().join("rack.toml");
        let write = |text: &str| std::fs::write(&file, text).expect("a file");
        write(TEXT);
        let topology = Arc::new(Topology::read(&file).expect("a good file"));
        let told = Told::new(&file, &topology);
        let port = |text: &str| {
            let read = Topology::parse(text, &file).expect("a good file");
            read.book().address_of(NodeId::Home(HomeId(1))).expect("it is there").port()
        };
        let key = format!("key = \"{}\"", folder.path().join("rack.key").display());
        assert_eq!(told.text([].into_iter()), TEXT.replace("key = \"rack.key\"", &key));
        let [old, new] = [moved(5, 9), moved(6, 12)];
        for heard in [[&old, &new], [&new, &old]] {
            let text = told.text(heard.into_iter());
            assert!(port(&text) == 6 && text.contains("moved = 12") && text.contains("number = 7"), "{text}");
            assert!(!text.contains(":99"), "{text}");
        }
        // The file was changed since, too: by a later order, by an earlier one, and so that it is no file of this rack any more.
        let changed = |port: u16, epoch: u32| {
            TEXT.replace("127.0.0.1:2\"", &format!("127.0.0.1:{port}\"\nmoved = {epoch}"))
        };
        write(&changed(8, 20));
        assert_eq!(port(&told.text([&new].into_iter())), 8);
        write(&changed(8, 10));
        assert_eq!(port(&told.text([&new].into_iter())), 6);
        for other in ["[[", &TEXT.replace("127.0.0.1:1", "127.0.0.1:3")] {
            write(other);
            let text = told.text([&new].into_iter());
            assert!(port(&text) == 6 && text.contains("127.0.0.1:1\""), "{text}");
        }
    }
}
