//! All files of a sweep together: what is there, what is missing, the digest, one file of all.
//!
//! Files are read once, line by line; of each run only where it is and its digest are kept.

use super::Failure;
use super::journal::{Extent, scan};
use model::Platforms;
use model::sweep::Sweep;
use sim::Fingerprint;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Beside the rows: the sweep that they are of.
const FILE: &str = "sweep.toml";

/// Makes `dir` the place of this sweep, or finds that it is.
///
/// # Errors
/// A sentence: it is another sweep's, or cannot be written.
pub fn settle(dir: &Path, text: &str) -> Result<(), Failure> {
    let said = |cause: std::io::Error| format!("{}: {cause}", dir.display());
    fs::create_dir_all(dir).map_err(said)?;
    match fs::read_to_string(dir.join(FILE)) {
        Ok(there) if there == text => Ok(()),
        Ok(_) => Err(format!(
            "{} is of another sweep, or of this one before it was changed; choose another --out",
            dir.display()
        )
        .into()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            // Shards that begin together write the same; each under a name of its own first.
            let new = dir.join(format!(".{FILE}.{}", std::process::id()));
            fs::write(&new, text).and_then(|()| fs::rename(&new, dir.join(FILE))).map_err(said)?;
            Ok(())
        }
        Err(cause) => Err(said(cause).into()),
    }
}

/// All runs that are there.
#[derive(Debug)]
pub struct Gathered {
    sweep: Sweep,
    text: String,
    files: Vec<PathBuf>,
    /// By run: in which file, and where.
    runs: BTreeMap<u64, (usize, Extent)>,
    rows: u64,
    /// Runs whose keys are not those of this model.
    strangers: usize,
}

impl Gathered {
    /// Of these folders.
    ///
    /// # Errors
    /// A sentence: they are of different sweeps, or two files say different things of a run.
    pub fn of(dirs: &[PathBuf]) -> Result<Gathered, Failure> {
        let mut texts = dirs.iter().map(|dir| {
            let file = dir.join(FILE);
            let text = fs::read_to_string(&file)
                .map_err(|cause| format!("{}: {cause}; rows of a sweep have it beside them", file.display()));
            text.map(|text| (file, text))
        });
        let (file, text) = texts.next().expect("there is a folder")?;
        for other in texts {
            let (its, other) = other?;
            if other != text {
                return Err(format!("{} and {} are different sweeps", file.display(), its.display()).into());
            }
        }
        let sweep = Sweep::parse(&text, &file.display().to_string(), &Platforms::shipped())?;
        let files = files(dirs)?;
        let mut all = Gathered { sweep, text, files, runs: BTreeMap::new(), rows: 0, strangers: 0 };
        for at in 0..all.files.len() {
            all.take(at)?;
        }
        match all.strangers {
            0 => Ok(all),
            some if some == all.runs.len() => Ok(all),
            some => {
                Err(format!("{some} of {} runs are of another version of the model", all.runs.len()).into())
            }
        }
    }

    fn take(&mut self, at: usize) -> Result<(), Failure> {
        let name = self.files[at].display().to_string();
        let file = File::open(&self.files[at]).map_err(|cause| format!("{name}: {cause}"))?;
        let mut extents = Vec::new();
        let good = scan(&file, &self.sweep.header(), |extent| extents.push(extent))?;
        good.ok_or_else(|| format!("{name} is no file of this sweep's rows"))?;
        for extent in extents.into_iter().filter(|extent| extent.run < self.sweep.runs()) {
            if let Some((other, its)) = self.runs.get(&extent.run) {
                if (its.key, its.digest) != (extent.key, extent.digest) {
                    let other = self.files[*other].display();
                    return Err(format!(
                        "{other} and {name} differ in run {}: two models, or one that is not deterministic",
                        extent.run
                    )
                    .into());
                }
                continue;
            }
            self.rows += extent.rows;
            self.strangers += usize::from(extent.key != self.sweep.key(extent.run));
            self.runs.insert(extent.run, (at, extent));
        }
        Ok(())
    }

    /// Whether every run is there.
    ///
    /// # Errors
    /// It says which are not.
    pub fn complete(&self) -> Result<(), Failure> {
        let all = self.sweep.runs();
        let missing = all - self.runs.len() as u64;
        if missing == 0 {
            return Ok(());
        }
        let some: Vec<_> = self.missing().take(8).map(|run| run.to_string()).collect();
        let more = if missing > 8 { ", …" } else { "" };
        Err(format!("{missing} of {all} runs are missing: {}{more}", some.join(", ")).into())
    }

    fn missing(&self) -> impl Iterator<Item = u64> {
        (0..self.sweep.runs()).filter(|run| !self.runs.contains_key(run))
    }

    /// How much it is, what is missing, and the digest of what is there.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "runs": self.runs.len(),
            "rows": self.rows,
            "digest": self.digest().to_string(),
            "is_complete": self.complete().is_ok(),
            "missing": self.missing().collect::<Vec<_>>(),
            "is_of_this_model": self.strangers == 0,
        })
    }

    /// Of what all rows say, in the order of runs; keys do not count, so that two models that say the same have the same.
    pub fn digest(&self) -> Fingerprint {
        let mut print = Fingerprint::new();
        for (run, (_, extent)) in &self.runs {
            print.number(*run);
            print.number(extent.digest);
        }
        print
    }

    /// How much it is, and the digest, as a line.
    ///
    /// # Errors
    /// Runs are missing.
    pub fn report(&self) -> Result<String, Failure> {
        self.complete()?;
        let (runs, rows) = (self.runs.len(), self.rows);
        let version = if self.strangers > 0 { ", of another version of the model" } else { "" };
        Ok(format!("{runs} runs, {rows} rows, digest {}{version}\n", self.digest()))
    }

    /// Writes all rows into one file, in the order of runs, and the sweep beside it.
    ///
    /// # Errors
    /// The system's, with the file.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        settle(dir, &self.text)?;
        let (new, file) = (dir.join(".rows.csv.new"), dir.join("rows.csv"));
        let written = self.write_to(&new).and_then(|()| fs::rename(&new, &file));
        written.map_err(|cause| format!("{}: {cause}", file.display()).into())
    }

    fn write_to(&self, new: &Path) -> std::io::Result<()> {
        let mut files = self.files.iter().map(File::open).collect::<Result<Vec<_>, _>>()?;
        let mut out = BufWriter::new(File::create(new)?);
        out.write_all(self.sweep.header().as_bytes())?;
        let mut bytes = Vec::new();
        for (at, extent) in self.runs.values() {
            let file = &mut files[*at];
            file.seek(SeekFrom::Start(extent.from))?;
            bytes.resize(usize::try_from(extent.bytes).expect("a run is short"), 0);
            file.read_exact(&mut bytes)?;
            out.write_all(&bytes)?;
        }
        out.into_inner()?.sync_all()
    }
}

/// Files of rows in these folders, in order.
fn files(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for dir in dirs {
        for entry in fs::read_dir(dir).map_err(|cause| format!("{}: {cause}", dir.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "csv") {
                files.push(path);
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}
