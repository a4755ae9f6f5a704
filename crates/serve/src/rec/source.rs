//! Where the command's models come from: a folder, a folder of many, or random numbers.

use super::repository::Repository;
use super::shelf::Source;
use super::synthetic::Synthetic;
use base::Bytes;
use clap::Args;
use rec::features::{Dictionary, Unknown};
use rec::request::Served;
use rec::{LoadError, LoadOptions, RowFormat};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// See the head of the file.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// The model's folder (docs/rec.md says what is in it). Without one a random model is served
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,

    /// A folder of models instead: DIR/NAME/VERSION has model.safetensors, DIR/NAME/config.pbtxt says which versions are served (without it the greatest)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "name", "row_format"])]
    pub repository: Option<PathBuf>,

    /// Rewrite its tables' rows in this format: f32, f16, int8, int4
    #[arg(long, value_name = "FORMAT", requires = "model")]
    pub row_format: Option<RowFormat>,

    /// The name under which it is served; else its own
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Refuse a model that takes more memory than this, such as 4g. Without it: more than nine tenths of what is available when it is loaded
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<Bytes>,

    /// What a random model is like.
    #[command(flatten)]
    pub synthetic: Synthetic,
}

impl ModelArgs {
    /// What loads it, each time anew; or those that there are, and those that change.
    pub fn source(&self) -> Source {
        let from = self.clone();
        if let Some(folder) = &self.repository {
            return Box::new(Repository::new(folder.clone(), from));
        }
        Box::new(move || {
            let mut served = from.load()?;
            if let Some(name) = &from.name {
                served.name.clone_from(name);
            }
            Ok(served)
        })
    }

    /// The most bytes that a model may take now. One that took more than there are would not be refused: its server would be killed, with the model
    /// that it serves.
    fn max_bytes(&self) -> Option<u64> {
        let given = self.max_memory.map(|bytes| bytes.0);
        given.or_else(|| base::memory::available().map(|bytes| bytes / 10 * 9))
    }

    fn load(&self) -> Result<Served, String> {
        if let Some(path) = &self.model {
            return self.load_folder(path, self.row_format);
        }
        self.synthetic.check()?;
        let bytes = self.synthetic.bytes();
        match self.max_bytes().filter(|&most| bytes > most) {
            Some(most) => Err(told(LoadError::TooLarge(bytes, most))),
            None => self.synthetic.model(),
        }
    }

    /// The model in a folder, its rows in this format.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load_folder(&self, path: &Path, format: Option<RowFormat>) -> Result<Served, String> {
        let options = LoadOptions { format, max_bytes: self.max_bytes(), ..LoadOptions::default() };
        let mut served = Served::new(rec::load(path, &options).map_err(told)?);
        let names: Vec<String> = served.names().map(str::to_owned).collect();
        for (table, name) in names.iter().enumerate() {
            // Beside the model; a name that leaves the folder names no dictionary.
            let is_plain = !name.contains(['/', '\\']) && served.rows(table) > 0;
            let file = path.join(format!("{name}.features"));
            if is_plain && file.is_file() {
                served.set_dictionary(table, dictionary(&file, served.rows(table))?);
            }
        }
        Ok(served)
    }
}

fn told(error: LoadError) -> String {
    match error {
        LoadError::TooLarge(..) => format!("{error}; --max-memory sets another bound"),
        other => other.to_string(),
    }
}

/// Bytes of features that a dictionary may have.
const MOST_FEATURES: usize = 1 << 30;

/// The dictionary in a file.
fn dictionary(path: &Path, rows: u32) -> Result<Dictionary, String> {
    let file = base::files::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let read = Dictionary::read(BufReader::new(file), rows, Unknown::Hash, MOST_FEATURES);
    read.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        model: ModelArgs,
    }

    #[test]
    fn a_model_beyond_its_bound_is_refused_with_what_to_do() {
        let with = |bound: &str| {
            let line = ["serve", "--tables=2", "--rows=100", "--bottom=8", "--top=8", "--max-memory", bound];
            Line::try_parse_from(line).expect("a line").model.load()
        };
        let why = with("10k").expect_err("two tables of 25 KiB");
        assert!(why.contains("may take 10.0 KiB; --max-memory"), "{why}");
        assert_eq!(with("1m").expect("enough").tables(), 2);
        let line = ["serve", "--tables=1000", "--rows=4g"];
        let line = Line::try_parse_from(line).expect("a line").model;
        let why = line.load().expect_err("no machine has a petabyte");
        assert!(why.contains("may take"), "{why}");
    }
}
