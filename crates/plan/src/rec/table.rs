//! The table of a model that a plan is made for, and where the plan is kept.

use super::files::{self, Failure};
use rec::manifest::{Manifest, TableEntry};
use rec::{Lists, LoadOptions, Plan};
use std::io;
use std::path::{Path, PathBuf};

/// One table of a model on disk.
pub(super) struct Target {
    name: String,
    rows: u32,
    hash: u64,
    /// The manifest's file, and what is to stand in it; the plan's name is not there yet.
    json: PathBuf,
    manifest: Manifest,
}

impl Target {
    /// The table `name` of the model in `path`, or its only one.
    ///
    /// # Errors
    /// The model does not load; it has no such table; it has several and none is named.
    pub(super) fn of(path: &Path, name: Option<&str>) -> Result<Target, Failure> {
        let tensors = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
        let json = tensors.with_extension("json");
        let kept = match base::files::read(&json, rec::model::load::MAX_MANIFEST) {
            Ok(bytes) => Some(Manifest::parse(&bytes).map_err(|what| format!("{}: {what}", json.display()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{}: {error}", json.display()).into()),
        };
        // By the rows themselves: a plan that stands there now may be of older ones.
        let mut manifest = kept.unwrap_or_default();
        let mut bare = manifest.clone();
        bare.tables.iter_mut().flatten().for_each(|entry| entry.plan = None);
        let tensors =
            rec::tensors::Tensors::open(&tensors).map_err(|e| format!("{}: {e}", tensors.display()))?;
        let model = rec::model::load::build(&bare, &tensors, &LoadOptions::default())?;
        let names = || model.tables().iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
        let table = match (name, model.tables()) {
            (None, [table]) => table,
            (None, _) => {
                return Err(
                    format!("the model has several tables; name one with --table: {}", names()).into()
                );
            }
            (Some(name), tables) => (tables.iter().find(|table| table.name == name))
                .ok_or_else(|| format!("the model has no table {name:?}; it has {}", names()))?,
        };
        // In the model's order and by its names, the loader finds their tensors again.
        let entry = |table: &rec::Sparse| TableEntry { name: table.name.clone(), ..TableEntry::default() };
        manifest.tables.get_or_insert_with(|| model.tables().iter().map(entry).collect());
        Ok(Target { name: table.name.clone(), rows: table.rows(), hash: table.hash(), json, manifest })
    }

    /// `lists` over the rows of this table.
    ///
    /// # Errors
    /// They name more rows than there are.
    pub(super) fn fit(&self, lists: Lists) -> Result<Lists, Failure> {
        let features = lists.features();
        match lists.over(self.rows) {
            Ok(lists) if lists.features() == self.rows => Ok(lists),
            _ => Err(format!(
                "the lists name rows 1 to {features}, but table {:?} has {}; were they imported for another model?",
                self.name, self.rows
            )
            .into()),
        }
    }

    /// Writes `plan`, then its name into the manifest: whoever loads the model in between finds the old one whole.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn keep(mut self, plan: &Plan) -> Result<PathBuf, Failure> {
        // Names of tables may be paths of modules.
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name = format!("{}.plan", self.name.chars().map(plain).collect::<String>());
        let file = self.json.with_file_name(&name);
        files::write(&file, |sink| sink.write_all(&plan.save(self.hash)))?;
        let mine = |entry: &&mut TableEntry| entry.name == self.name;
        let entry =
            self.manifest.tables.iter_mut().flatten().find(mine).expect("the manifest names every table");
        entry.plan = Some(name);
        files::write(&self.json, |sink| sink.write_all(self.manifest.to_json().as_bytes()))?;
        Ok(file)
    }
}
