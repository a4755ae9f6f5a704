//! A model from its files: `model.safetensors`, `model.json` if there is one, and memo plans.
//!
//! All or nothing: a model comes out when every tensor was found, fits and was read; nothing else refers to one before.
//! Table rows are read in pieces and written
//! in the wanted format at once, so loading needs the memory of the model and little more.
//!
//! Bounds: what is allocated follows from tensors whose data was found in the file, and is counted against [`LoadOptions::max_bytes`] before.

mod tables;

use super::layout::{Key, Part, Role, role};
use super::{Interaction, Model, Sparse, width};
use crate::format::RowFormat;
use crate::manifest::{Manifest, Pairs, TableEntry};
use crate::memo::PlanError;
use crate::mlp::{Activation, Layer, Mlp};
use crate::reduce::Pooling;
use crate::tensors::{Tensor, Tensors, TensorsError};
use base::{Bytes, files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The longest manifest that is read.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The format of all tables, whatever the manifest says; without both it is f32.
    pub format: Option<RowFormat>,
    /// The most bytes that tables, layers and plans may take, and what is needed for a while to make them.
    pub max_bytes: Option<u64>,
    /// Memo plans by the names of their tables; they go before those of the manifest.
    pub plans: Vec<(String, PathBuf)>,
}

/// Why there is no model.
#[derive(Debug)]
pub enum LoadError {
    /// A file cannot be read.
    Io(PathBuf, io::Error),
    /// The tensors are none, or one of them cannot be read.
    Tensors(TensorsError),
    /// The manifest is wrong.
    Manifest(String),
    /// A tensor is not what it should be: its name, what it is, what was expected.
    Tensor(String, String, String),
    /// The model would take so many bytes or more, and may take the second number.
    TooLarge(u64, u64),
    /// No memory for this table.
    Memory(String, io::Error),
    /// The memo plan for this table is none.
    Plan(String, PlanError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            LoadError::Tensors(error) => error.fmt(f),
            LoadError::Manifest(what) => write!(f, "manifest: {what}"),
            LoadError::Tensor(name, is, want) => write!(f, "tensor {name:?} {is}; expected {want}"),
            LoadError::TooLarge(bytes, most) => {
                write!(f, "the model takes {} of memory, and may take {}", Bytes(*bytes), Bytes(*most))
            }
            LoadError::Plan(table, error) => write!(f, "memo plan of table {table:?}: {error}"),
            LoadError::Memory(table, error) => write!(f, "table {table:?}: no memory for its rows: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<TensorsError> for LoadError {
    fn from(error: TensorsError) -> LoadError {
        LoadError::Tensors(error)
    }
}

/// The model in `path`: a folder with `model.safetensors` and perhaps `model.json`, or a safetensors file with perhaps a `.json` of the same name beside it.
///
/// # Errors
/// What is missing or wrong, by tensor or field, and what was expected.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Model, LoadError> {
    let file = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
    let json = file.with_extension("json");
    let mut manifest = match files::read(&json, MAX_MANIFEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::default(),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(LoadError::Manifest(error.to_string()));
        }
        Err(error) => return Err(LoadError::Io(json, error)),
        Ok(bytes) => Manifest::parse(&bytes).map_err(LoadError::Manifest)?,
    };
    let tensors = Tensors::open(&file).map_err(|error| match error {
        TensorsError::Io(error) => LoadError::Io(file.clone(), error),
        error => error.into(),
    })?;
    if manifest.name.is_none() {
        let of = if path.is_dir() { path.file_name() } else { path.file_stem() };
        manifest.name = of.map(|name| name.to_string_lossy().into_owned());
    }
    build_in(file.parent(), &manifest, &tensors, options)
}

/// The model of `manifest` and `tensors`. Plans that the manifest names are not read: it is in no folder.
///
/// # Errors
/// As [`load`].
pub fn build(manifest: &Manifest, tensors: &Tensors, options: &LoadOptions) -> Result<Model, LoadError> {
    build_in(None, manifest, tensors, options)
}

fn build_in(
    folder: Option<&Path>,
    manifest: &Manifest,
    tensors: &Tensors,
    options: &LoadOptions,
) -> Result<Model, LoadError> {
    let mut assumed = Vec::new();
    let parts = Parts::of(tensors)?;
    let mut budget = tables::Budget { taken: 0, most: options.max_bytes };
    // As they are read, and in panels that are filled up to 16 outputs.
    let of_layers = parts.layers.values().flatten().flatten().map(|tensor| tensor.len() as u64 * 8);
    budget.take(of_layers.fold(0, u64::saturating_add))?;
    let mut bottom = layers(tensors, &parts.layers, Part::Bottom)?;
    let mut top = layers(tensors, &parts.layers, Part::Top)?;
    let dim = bottom.last().map_or(0, |layer| layer.bias.len());
    if let Some(dense) = manifest.dense.filter(|&dense| dense != bottom[0].inputs) {
        return Err(LoadError::Manifest(format!(
            "dense is {dense}, but the bottom MLP takes {}",
            bottom[0].inputs
        )));
    }
    activations(manifest, &parts, &mut bottom, &mut top, &mut assumed)?;
    let wanted = wanted(manifest, &parts.tables, &mut assumed)?;
    let interaction = interaction(manifest, dim, wanted.len(), &top[0], &mut assumed)?;
    let pairs = manifest.pairs.unwrap_or_else(|| {
        let pairs = if parts.is_torchrec { Pairs::Upper } else { Pairs::Lower };
        if interaction == Interaction::Dot {
            assumed.push(format!("pairs {pairs:?}, as {}", parts.family()).to_lowercase());
        }
        pairs
    });
    if interaction == Interaction::Dot && pairs == Pairs::Upper {
        to_lower(&mut top[0], dim, wanted.len() + 1);
    }
    let is_table = |name: &str| wanted.iter().any(|(_, entry)| entry.name == name);
    if let Some((name, _)) = options.plans.iter().find(|(name, _)| !is_table(name)) {
        let what = format!("there is a memo plan for table {name:?}, but no such table");
        return Err(LoadError::Manifest(what));
    }
    // All of them before the first is read: whoever waits for a large model is told at once.
    let shapes = wanted
        .iter()
        .map(|(tensor, entry)| tables::Shape::of(tensor, entry, dim, options))
        .collect::<Result<Vec<_>, _>>()?;
    budget.take(shapes.iter().map(tables::Shape::bytes).fold(0, u64::saturating_add))?;
    let mut sparse = Vec::with_capacity(wanted.len());
    for ((tensor, entry), shape) in wanted.into_iter().zip(shapes) {
        let table = tables::read(tensors, tensor, &entry.name, shape)?;
        let pooling = entry.pooling.map_or(Pooling::Sum, Pooling::from);
        sparse.push(match tables::plan_file(folder, &entry, options)? {
            Some(file) => tables::planned(&file, entry.name, table, pooling, &mut budget)?,
            None => Sparse::new(entry.name, table, pooling),
        });
    }
    let mut model = Model::new(sparse, Mlp::new(bottom), Mlp::new(top), interaction);
    model.name = manifest.name.clone().unwrap_or_else(|| "model".to_owned());
    model.version = manifest.version.clone().unwrap_or_else(|| "1".to_owned());
    model.assumed = assumed;
    Ok(model)
}

type LayerNames<'a> = BTreeMap<(Part, (u32, u32)), [Option<&'a Tensor>; 2]>;

/// Tensors by what they are.
struct Parts<'a> {
    /// In the order of their keys.
    tables: Vec<(Key, &'a Tensor)>,
    /// Weight and bias.
    layers: LayerNames<'a>,
    is_torchrec: bool,
}

impl<'a> Parts<'a> {
    fn of(tensors: &'a Tensors) -> Result<Parts<'a>, LoadError> {
        let mut parts = Parts { tables: Vec::new(), layers: BTreeMap::new(), is_torchrec: false };
        for tensor in tensors.iter() {
            let wrong =
                |is: &str, want: &str| LoadError::Tensor(tensor.name.clone(), is.to_owned(), want.to_owned());
            let (role, is_torchrec) = role(&tensor.name).ok_or_else(|| {
                wrong(
                    "is no table and no layer",
                    "emb_l.{k}.weight, bot_l.{i}.weight, top_l.{i}.weight and their biases, or TorchRec's names; leave out what the model does not need",
                )
            })?;
            parts.is_torchrec |= is_torchrec;
            match role {
                Role::Table(key) => parts.tables.push((key, tensor)),
                Role::Layer { part, order, bias } => {
                    let place = &mut parts.layers.entry((part, order)).or_default()[usize::from(bias)];
                    if place.replace(tensor).is_some() {
                        return Err(wrong("is there under two names", "one"));
                    }
                }
            }
        }
        parts.tables.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(pair) = parts.tables.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let is = format!("is the table of {:?} too", pair[1].1.name);
            return Err(LoadError::Tensor(pair[0].1.name.clone(), is, "one".to_owned()));
        }
        // Places count from 0: one that is left out is a table that was lost.
        let places = parts
            .tables
            .iter()
            .filter_map(|(key, _)| if let Key::Place(at) = key { Some(*at) } else { None });
        if let Some((want, have)) = (0..).zip(places).find(|(want, have)| want != have) {
            let (name, want) = (format!("emb_l.{want}.weight"), format!("it before emb_l.{have}.weight"));
            return Err(LoadError::Tensor(name, "is missing".to_owned(), want));
        }
        Ok(parts)
    }

    fn family(&self) -> &'static str {
        if self.is_torchrec { "TorchRec" } else { "the reference implementation" }
    }
}

/// The layers of one MLP, without activations.
fn layers(tensors: &Tensors, names: &LayerNames<'_>, part: Part) -> Result<Vec<Layer>, LoadError> {
    let mut layers: Vec<Layer> = Vec::new();
    for (_, pair) in names.iter().filter(|((of, _), _)| *of == part) {
        let [Some(weight), Some(bias)] = pair else {
            let there = pair.iter().flatten().next().expect("an entry has one of them");
            let want = "a weight and a bias for each layer".to_owned();
            return Err(LoadError::Tensor(there.name.clone(), "stands alone".to_owned(), want));
        };
        let wrong = |tensor: &Tensor, want: String| {
            Err(LoadError::Tensor(tensor.name.clone(), format!("has shape {:?}", tensor.shape), want))
        };
        let &[outputs, inputs] = weight.shape.as_slice() else {
            return wrong(weight, "two dimensions, outputs and inputs".to_owned());
        };
        if outputs == 0 || inputs == 0 {
            return wrong(weight, "inputs and outputs".to_owned());
        }
        if bias.shape != [outputs] {
            return wrong(bias, format!("[{outputs}], a number for each output of {}", weight.name));
        }
        if let Some(before) = layers.last().filter(|before| before.bias.len() != inputs) {
            return wrong(
                weight,
                format!("[{outputs}, {}], inputs as the layer before has outputs", before.bias.len()),
            );
        }
        layers.push(Layer {
            weight: tensors.numbers(weight)?,
            bias: tensors.numbers(bias)?,
            inputs,
            activation: Activation::Relu,
        });
    }
    if layers.is_empty() {
        let name = match part {
            Part::Bottom => "bot_l.0.weight",
            Part::Top => "top_l.0.weight",
        };
        let want = format!(
            "the {} MLP's layers, in the reference implementation's names or TorchRec's",
            part.name()
        );
        return Err(LoadError::Tensor(name.to_owned(), "is missing".to_owned(), want));
    }
    Ok(layers)
}

/// Gives each layer what follows it.
fn activations(
    manifest: &Manifest,
    parts: &Parts<'_>,
    bottom: &mut [Layer],
    top: &mut [Layer],
    assumed: &mut Vec<String>,
) -> Result<(), LoadError> {
    if let Some(given) = &manifest.activations {
        for (name, given, layers) in [("bottom", &given.bottom, &mut *bottom), ("top", &given.top, &mut *top)]
        {
            if given.len() != layers.len() {
                let (have, want) = (given.len(), layers.len());
                return Err(LoadError::Manifest(format!(
                    "activations.{name} has {have}, but there are {want} layers"
                )));
            }
            layers.iter_mut().zip(given).for_each(|(layer, &activation)| layer.activation = activation);
        }
    } else {
        assumed.push("activations relu".to_owned());
    }
    let last = top.last_mut().expect("there are layers");
    match (manifest.sigmoid, &manifest.activations) {
        (Some(true), _) => last.activation = Activation::Sigmoid,
        (Some(false), Some(_)) if last.activation == Activation::Sigmoid => {
            return Err(LoadError::Manifest(
                "sigmoid is false, but the last of activations.top is sigmoid".to_owned(),
            ));
        }
        (Some(false), None) => last.activation = Activation::Identity,
        (_, Some(_)) => {}
        (None, None) => {
            let is_logit = parts.is_torchrec;
            last.activation = if is_logit { Activation::Identity } else { Activation::Sigmoid };
            let end = if is_logit { "no sigmoid" } else { "a sigmoid" };
            assumed.push(format!("{end} at the end, as {}", parts.family()));
        }
    }
    Ok(())
}

/// The tables in the manifest's order, or in that of their names.
fn wanted<'a>(
    manifest: &Manifest,
    tables: &[(Key, &'a Tensor)],
    assumed: &mut Vec<String>,
) -> Result<Vec<(&'a Tensor, TableEntry)>, LoadError> {
    let Some(entries) = &manifest.tables else {
        let named = tables
            .iter()
            .map(|(key, tensor)| (*tensor, TableEntry { name: key.table_name(), ..TableEntry::default() }));
        let named: Vec<_> = named.collect();
        let names = named.iter().map(|(_, entry)| entry.name.as_str()).collect::<Vec<_>>().join(", ");
        assumed.push(format!("tables in this order, pooling sum: {names}"));
        return Ok(named);
    };
    if entries.len() != tables.len() {
        let (have, want) = (entries.len(), tables.len());
        return Err(LoadError::Manifest(format!(
            "tables has {have} entries, but there are {want} tensors of tables"
        )));
    }
    let mut wanted: Vec<(&Tensor, TableEntry)> = Vec::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        let is_it = |(key, tensor): &&(Key, &'a Tensor)| match (&entry.tensor, key) {
            (Some(name), _) => *name == tensor.name,
            (None, Key::Place(at)) => *at as usize == place,
            (None, Key::Name(_, _, name)) => *name == entry.name,
        };
        let Some((_, tensor)) = tables.iter().find(is_it) else {
            let name = entry.tensor.clone().unwrap_or_else(|| entry.name.clone());
            let want =
                format!("a table for {:?} of the manifest; give its tensor's name in \"tensor\"", entry.name);
            return Err(LoadError::Tensor(name, "is missing".to_owned(), want));
        };
        if let Some((_, other)) =
            wanted.iter().find(|(t, other)| t.name == tensor.name || other.name == entry.name)
        {
            let what = format!("tables {:?} and {:?} have one name or one tensor", other.name, entry.name);
            return Err(LoadError::Manifest(what));
        }
        let numbers = [("rows", entry.rows, tensor.shape.first()), ("dim", entry.dim, tensor.shape.get(1))];
        for (what, said, have) in numbers {
            if said.is_some_and(|said| have.is_none_or(|&have| have as u64 != said)) {
                let want = format!("{what} {} as the manifest has it", said.unwrap_or(0));
                return Err(LoadError::Tensor(
                    tensor.name.clone(),
                    format!("has shape {:?}", tensor.shape),
                    want,
                ));
            }
        }
        wanted.push((tensor, entry.clone()));
    }
    Ok(wanted)
}

/// How vectors meet, such that the top MLP takes it.
fn interaction(
    manifest: &Manifest,
    dim: usize,
    tables: usize,
    top: &Layer,
    assumed: &mut Vec<String>,
) -> Result<Interaction, LoadError> {
    let fits = |&interaction: &Interaction| width(interaction, dim, tables) == Some(top.inputs);
    let found = match manifest.interaction {
        Some(interaction) => Some(interaction).filter(fits),
        None => [Interaction::Dot, Interaction::Concat].into_iter().find(fits),
    };
    let Some(found) = found else {
        let widths =
            [Interaction::Dot, Interaction::Concat].map(|i| width(i, dim, tables).unwrap_or(usize::MAX));
        let want = format!(
            "{} for dot or {} for concat, with {tables} tables of {dim} numbers{}",
            widths[0],
            widths[1],
            manifest
                .interaction
                .map_or(String::new(), |i| format!(" (the manifest says {i:?})").to_lowercase())
        );
        return Err(LoadError::Tensor(
            "top_l.0.weight".to_owned(),
            format!("has {} inputs", top.inputs),
            want,
        ));
    };
    if manifest.interaction.is_none() {
        assumed.push(format!("interaction {found:?}, which fits the top MLP").to_lowercase());
    }
    Ok(found)
}

/// Moves the columns of pairs from the order above the diagonal to that below.
fn to_lower(layer: &mut Layer, dim: usize, vectors: usize) {
    let place = |i: usize, j: usize| dim + i * vectors - i * (i + 1) / 2 + (j - i - 1);
    let from: Vec<usize> =
        (1..vectors).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| place(j, i)).collect();
    let mut row_before = vec![0.0; layer.inputs];
    for row in layer.weight.chunks_exact_mut(layer.inputs) {
        row_before.copy_from_slice(row);
        row[dim..].iter_mut().zip(&from).for_each(|(w, &from)| *w = row_before[from]);
    }
}
