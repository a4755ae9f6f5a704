//! Where the command's model comes from: a folder, or random numbers.

use super::served::Served;
use super::shelf::Source;
use super::synthetic::Synthetic;
use clap::Args;
use rec::{LoadOptions, RowFormat};
use std::path::PathBuf;

/// See the head of the file.
#[derive(Args, Clone, Debug)]
pub struct ModelArgs {
    /// The model's folder (docs/rec.md says what is in it). Without one a random model is served
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,

    /// Rewrite its tables' rows in this format: f32, f16, int8, int4
    #[arg(long, value_name = "FORMAT", requires = "model")]
    pub row_format: Option<RowFormat>,

    /// The name under which it is served; else its own
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// What a random model is like.
    #[command(flatten)]
    pub synthetic: Synthetic,
}

impl ModelArgs {
    /// What loads it, each time anew.
    pub fn source(&self) -> Source {
        let from = self.clone();
        Box::new(move || {
            let mut served = from.load()?;
            if let Some(name) = &from.name {
                served.name.clone_from(name);
            }
            Ok(served)
        })
    }

    fn load(&self) -> Result<Served, String> {
        match &self.model {
            None => self.synthetic.model(),
            Some(path) => {
                let model =
                    rec::load(path, &LoadOptions { format: self.row_format, ..LoadOptions::default() });
                model.map(Served::new).map_err(|error| error.to_string())
            }
        }
    }
}
