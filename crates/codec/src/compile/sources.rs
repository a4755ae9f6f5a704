//! Where the compiler finds a file: embedded, given as text, in an include folder, or one of Google's.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use protox::Error;
use protox::file::{File, FileResolver, GoogleFileResolver};

use super::editions;

/// Files that no include folder may replace.
const EMBEDDED: [(&str, &str); 2] = [
    ("google/protobuf/descriptor.proto", include_str!("../../proto/google/protobuf/descriptor.proto")),
    ("millrace/options.proto", super::OPTIONS),
];

/// An error of ours among protox's; both of its forms are its text.
struct Located(String);

impl std::fmt::Display for Located {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Debug for Located {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Located {}

/// See the head of this file.
pub(super) struct Sources {
    includes: Vec<PathBuf>,
    texts: Vec<(String, String)>,
    google: GoogleFileResolver,
    editions: Rc<RefCell<HashSet<String>>>,
}

impl Sources {
    pub fn new(includes: &[PathBuf], texts: &[(String, String)]) -> Sources {
        let (includes, texts) = (includes.to_vec(), texts.to_vec());
        Sources { includes, texts, google: GoogleFileResolver::new(), editions: Rc::default() }
    }

    /// Names of the edition files that were opened, filled in as they are.
    pub fn editions(&self) -> Rc<RefCell<HashSet<String>>> {
        self.editions.clone()
    }

    /// The text of a file; none if it is not ours to know.
    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let texts = self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        if let Some((_, text)) = EMBEDDED.into_iter().chain(texts).find(|(known, _)| *known == name) {
            return Ok(Some(text.to_owned()));
        }
        for folder in &self.includes {
            let path = folder.join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Some(text)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::new(Located(format!("{}: {error}", path.display())))),
            }
        }
        Ok(None)
    }
}

impl FileResolver for Sources {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        let inside = self.includes.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
        inside.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, Error> {
        let Some(text) = self.text(name)? else { return self.google.open_file(name) };
        let (text, edition) = editions::rewrite(&text)
            .map_err(|(line, what)| Error::new(Located(format!("{name}:{line}: {what}"))))?;
        if edition {
            self.editions.borrow_mut().insert(name.to_owned());
        }
        File::from_source(name, &text)
    }
}
