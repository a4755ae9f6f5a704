//! Tables of a model that is loaded: what they will be and take, their rows, their memo plans.

use super::{LoadError, LoadOptions};
use crate::format::RowFormat;
use crate::manifest::TableEntry;
use crate::memo::{Plan, PlanError, Planned};
use crate::model::Sparse;
use crate::reduce::Pooling;
use crate::table::Table;
use crate::tensors::{Tensor, Tensors};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of a table read at once.
const PIECE: usize = 1 << 14;

/// The longest memo plan that is read.
const MAX_PLAN: u64 = 20 << 30;

/// What a model takes, against what it may take.
pub(super) struct Budget {
    pub taken: u64,
    pub most: Option<u64>,
}

impl Budget {
    /// Before `bytes` are allocated.
    pub fn take(&mut self, bytes: u64) -> Result<(), LoadError> {
        self.taken = self.taken.saturating_add(bytes);
        match self.most {
            Some(most) if self.taken > most => Err(LoadError::TooLarge(self.taken, most)),
            _ => Ok(()),
        }
    }

    /// After they are freed.
    fn give(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
    }
}

/// What a table is to be.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    rows: u32,
    dim: usize,
    format: RowFormat,
}

impl Shape {
    pub fn of(
        tensor: &Tensor,
        entry: &TableEntry,
        dim: usize,
        options: &LoadOptions,
    ) -> Result<Shape, LoadError> {
        let wrong = |want: String| {
            Err(LoadError::Tensor(tensor.name.clone(), format!("has shape {:?}", tensor.shape), want))
        };
        let format = match (options.format, &entry.format) {
            (Some(format), _) => format,
            (None, Some(name)) => {
                name.parse().map_err(|e| LoadError::Manifest(format!("table {:?}: {e}", entry.name)))?
            }
            (None, None) => RowFormat::F32,
        };
        let rows = match *tensor.shape.as_slice() {
            [rows, have] if have == dim => u32::try_from(rows).ok().filter(|&rows| rows > 0),
            _ => return wrong(format!("two dimensions, rows and {dim}, what the bottom MLP puts out")),
        };
        let Some(rows) = rows else { return wrong("between 1 and 4294967295 rows".to_owned()) };
        if format == RowFormat::Int4 && !dim.is_multiple_of(2) {
            return wrong("an even dimension for int4; load it as int8".to_owned());
        }
        Ok(Shape { rows, dim, format })
    }

    /// Of its rows.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows).saturating_mul(self.format.row_bytes(self.dim) as u64)
    }
}

/// A table from its tensor.
pub(super) fn read(tensors: &Tensors, tensor: &Tensor, name: &str, shape: Shape) -> Result<Table, LoadError> {
    let Shape { rows, dim, format } = shape;
    let mut table = Table::zeroed(rows, dim, format).map_err(|e| LoadError::Memory(name.to_owned(), e))?;
    let each = (PIECE / dim).max(1);
    let mut numbers = vec![0.0; each.min(rows as usize) * dim];
    for first in (0..rows as usize).step_by(each) {
        let count = each.min(rows as usize - first);
        let numbers = &mut numbers[..count * dim];
        tensors.read(tensor, first * dim, numbers)?;
        (first as u32..).zip(numbers.chunks_exact(dim)).for_each(|(at, row)| table.set_row(at, row));
    }
    Ok(table)
}

/// Where the memo plan of a table is, if it has one.
pub(super) fn plan_file(
    folder: Option<&Path>,
    entry: &TableEntry,
    options: &LoadOptions,
) -> Result<Option<PathBuf>, LoadError> {
    if let Some((_, file)) = options.plans.iter().find(|(name, _)| *name == entry.name) {
        return Ok(Some(file.clone()));
    }
    let (Some(folder), Some(plan)) = (folder, &entry.plan) else { return Ok(None) };
    // A model that was copied from somewhere names no other file of this machine.
    if Path::new(plan).file_name() != Some(plan.as_ref()) {
        let what =
            format!("table {:?}: plan {plan:?} is not the name of a file in the model's folder", entry.name);
        return Err(LoadError::Manifest(what));
    }
    Ok(Some(folder.join(plan)))
}

/// `table` by the plan in `file`; the table itself is given back.
pub(super) fn planned(
    file: &Path,
    name: String,
    table: Table,
    pooling: Pooling,
    budget: &mut Budget,
) -> Result<Sparse, LoadError> {
    let io = |error| LoadError::Io(file.to_owned(), error);
    let len = fs::metadata(file).map_err(io)?.len();
    if len > MAX_PLAN.min(u64::from(table.rows()) * 8 + 4096) {
        return Err(LoadError::Plan(name, PlanError::Length(len as usize)));
    }
    // The file, and what is made of it: as much again, and as much while its names are checked.
    budget.take(len.saturating_mul(3))?;
    let hash = table.hash();
    let plan = match Plan::load(&base::files::read(file, len).map_err(io)?, table.rows(), hash) {
        Ok(plan) => plan,
        Err(error) => return Err(LoadError::Plan(name, error)),
    };
    budget.take(u64::from(plan.arena_rows()) * table.stride() as u64)?;
    let planned = Planned::new(plan, &table, table.format());
    let planned = planned.map_err(|error| LoadError::Memory(name.clone(), error))?;
    // The arena holds its rows.
    budget.give(table.len_bytes() as u64 + 2 * len);
    Ok(Sparse::planned(name, planned, hash, pooling))
}
