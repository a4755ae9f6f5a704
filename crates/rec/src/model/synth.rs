//! Models of random numbers, for demonstrations and tests, and writing a model to files.

use super::{Interaction, LoadError, Model, Sparse, width};
use crate::format::RowFormat;
use crate::manifest::{Activations, Manifest, Pairs, TableEntry};
use crate::mlp::{Activation, Layer, Mlp};
use crate::reduce::Pooling;
use crate::table::Table;
use crate::tensors::{self, Pieces};
use base::Prng;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// What a random model looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Synth {
    /// The same seed gives the same model.
    pub seed: u64,
    /// How many tables.
    pub tables: usize,
    /// Rows of each.
    pub rows: u32,
    /// Numbers in a row.
    pub dim: usize,
    /// How rows are written.
    pub format: RowFormat,
    /// What becomes of a bag's rows, in all tables.
    pub pooling: Pooling,
    /// How vectors meet.
    pub interaction: Interaction,
    /// Dense features.
    pub dense: usize,
    /// Outputs of the bottom MLP's layers but the last, which has `dim`.
    pub bottom: Vec<usize>,
    /// Outputs of the top MLP's layers.
    pub top: Vec<usize>,
}

impl Default for Synth {
    /// The layers of the reference implementation's Kaggle model, with eight tables of 64 numbers.
    fn default() -> Synth {
        Synth {
            seed: 1,
            tables: 8,
            rows: 100_000,
            dim: 64,
            format: RowFormat::F32,
            pooling: Pooling::Sum,
            interaction: Interaction::Dot,
            dense: 13,
            bottom: vec![512, 256],
            top: vec![512, 256, 1],
        }
    }
}

/// A number between -`most` and `most`.
fn number(rng: &mut Prng, most: f32) -> f32 {
    (rng.next_u64() as i64 as f32) * (most / 9.223_372e18)
}

impl Synth {
    /// Bytes of its tables and, about, of its layers.
    pub fn bytes(&self) -> u64 {
        let row = self.format.row_bytes(self.dim) as u64;
        let of_tables = (self.tables as u64).saturating_mul(u64::from(self.rows)).saturating_mul(row);
        let inputs = width(self.interaction, self.dim, self.tables).unwrap_or(usize::MAX);
        let bottom = [self.dense].into_iter().chain(self.bottom.iter().copied()).chain([self.dim]);
        let top = [inputs].into_iter().chain(self.top.iter().copied());
        let of_layers = |sizes: Vec<usize>| {
            let numbers = sizes.windows(2).map(|pair| pair[0].saturating_mul(pair[1]) as u64);
            // As they are made, and in panels.
            numbers.fold(0, u64::saturating_add).saturating_mul(8)
        };
        [of_layers(bottom.collect()), of_layers(top.collect())]
            .into_iter()
            .fold(of_tables, u64::saturating_add)
    }

    /// The model.
    ///
    /// # Errors
    /// No memory for the tables.
    ///
    /// # Panics
    /// If a size is zero, or `dim` is odd for int4.
    pub fn build(&self) -> Result<Model, LoadError> {
        let mut rng = Prng::new(self.seed);
        let width = width(self.interaction, self.dim, self.tables).expect("sizes that can be counted");
        let bottom: Vec<usize> =
            [self.dense].iter().chain(&self.bottom).chain([&self.dim]).copied().collect();
        let top: Vec<usize> = [width].iter().chain(&self.top).copied().collect();
        let mut layers = |sizes: &[usize], last: Activation| -> Vec<Layer> {
            let count = sizes.len() - 1;
            let pairs = sizes.windows(2).enumerate();
            pairs
                .map(|(nth, pair)| {
                    // The spread that keeps numbers of one size from layer to layer.
                    let most = (6.0 / (pair[0] + pair[1]) as f32).sqrt();
                    Layer {
                        weight: (0..pair[0] * pair[1]).map(|_| number(&mut rng, most)).collect(),
                        bias: (0..pair[1]).map(|_| number(&mut rng, 0.1)).collect(),
                        inputs: pair[0],
                        activation: if nth + 1 == count { last } else { Activation::Relu },
                    }
                })
                .collect()
        };
        let (bottom, top) = (layers(&bottom, Activation::Relu), layers(&top, Activation::Sigmoid));
        let mut tables = Vec::with_capacity(self.tables);
        for at in 0..self.tables {
            let row = |_, row: &mut [f32]| row.iter_mut().for_each(|x| *x = number(&mut rng, 0.1));
            let table = Table::from_rows(self.rows, self.dim, self.format, row);
            let name = format!("t{at}");
            let table = table.map_err(|error| LoadError::Memory(name.clone(), error))?;
            tables.push(Sparse::new(name, table, self.pooling));
        }
        Ok(Model::new(tables, Mlp::new(bottom), Mlp::new(top), self.interaction))
    }
}

impl Model {
    /// A random model.
    ///
    /// # Errors
    /// No memory for the tables.
    ///
    /// # Panics
    /// If a size is zero, or `dim` is odd for int4.
    pub fn synth(shape: &Synth) -> Result<Model, LoadError> {
        shape.build()
    }

    /// The manifest that says everything about this model.
    pub fn manifest(&self) -> Manifest {
        let table = |(at, sparse): (usize, &Sparse)| TableEntry {
            name: sparse.name.clone(),
            tensor: Some(format!("emb_l.{at}.weight")),
            rows: Some(sparse.rows().into()),
            dim: Some(sparse.dim() as u64),
            format: Some(sparse.format().to_string()),
            pooling: Some(sparse.pooling.into()),
            plan: None,
        };
        let activations = |mlp: &Mlp| mlp.layers().map(|layer| layer.activation).collect();
        Manifest {
            name: Some(self.name.clone()),
            version: Some(self.version.clone()),
            dense: Some(self.dense()),
            tables: Some(self.tables.iter().enumerate().map(table).collect()),
            interaction: Some(self.interaction),
            pairs: Some(Pairs::Lower),
            sigmoid: None,
            activations: Some(Activations { bottom: activations(&self.bottom), top: activations(&self.top) }),
        }
    }

    /// Writes `model.safetensors` and `model.json` into the folder `dir`, which is made if it is not there. Rows are written as they decode; quantised ones
    /// come back within another half step.
    ///
    /// Neither file is ever half there under its name; a reader may see a new one beside an old one, and then finds that they do not fit or reads both.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), LoadError> {
        fs::create_dir_all(dir).map_err(|error| LoadError::Io(dir.to_owned(), error))?;
        let file = |name: &str, fill: &dyn Fn(&mut BufWriter<File>) -> std::io::Result<()>| {
            let (path, part) = (dir.join(name), dir.join(format!("{name}.part")));
            let write = || {
                let mut out = BufWriter::new(File::create(&part)?);
                fill(&mut out)?;
                out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
                fs::rename(&part, &path)
            };
            write().map_err(|error| LoadError::Io(path.clone(), error))
        };
        file("model.safetensors", &|out| self.write_tensors(out))?;
        file("model.json", &|out| out.write_all(self.manifest().to_json().as_bytes()))
    }

    /// Writes the tensors as a safetensors file, in the reference implementation's names.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_tensors(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut tensors: Vec<(String, Vec<usize>, Pieces<'_>)> = Vec::new();
        for (at, sparse) in self.tables.iter().enumerate() {
            let mut rows = 0..sparse.rows();
            let mut row = vec![0.0; sparse.dim()];
            let pieces: Pieces<'_> = Box::new(move |out| {
                for at in rows.by_ref().take(256) {
                    sparse.row(at, &mut row);
                    out.extend_from_slice(&row);
                }
            });
            tensors.push((format!("emb_l.{at}.weight"), vec![sparse.rows() as usize, sparse.dim()], pieces));
        }
        for (name, mlp) in [("bot_l", &self.bottom), ("top_l", &self.top)] {
            for (at, layer) in mlp.layers().enumerate() {
                // Every other: between them stand activations in the reference.
                let name = format!("{name}.{}", at * 2);
                let shape = vec![layer.bias.len(), layer.inputs];
                tensors.push((format!("{name}.weight"), shape, once(layer.weight)));
                tensors.push((format!("{name}.bias"), vec![layer.bias.len()], once(layer.bias)));
            }
        }
        tensors::write(out, tensors)
    }
}

/// All numbers in one piece.
fn once(mut numbers: Vec<f32>) -> Pieces<'static> {
    Box::new(move |out| out.append(&mut numbers))
}
