//! An embedding table: rows of one dimension in one format, on the largest pages that can be had.
//!
//! Rows follow each other at [`RowFormat::row_bytes`]. The whole table is readable 64 bytes beyond its last row, so that kernels may load whole vectors.

use crate::format::RowFormat;
use base::pages::{PageKind, Region};
use std::io;

/// Bytes that may be read behind the last row.
pub const SLACK: usize = 64;

/// Rows of numbers.
pub struct Table {
    rows: u32,
    dim: usize,
    format: RowFormat,
    stride: usize,
    memory: Region,
}

impl Table {
    /// A table of `rows` rows of `dim` numbers, all bytes zero.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn zeroed(rows: u32, dim: usize, format: RowFormat) -> io::Result<Table> {
        let stride = format.row_bytes(dim);
        let len = (rows as usize).checked_mul(stride).and_then(|len| len.checked_add(SLACK));
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        let mut memory = Region::map(len, PageKind::Transparent)?;
        memory.populate(0..len);
        Ok(Table { rows, dim, format, stride, memory })
    }

    /// A table whose row `i` is what `row(i, …)` writes.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn from_rows(
        rows: u32,
        dim: usize,
        format: RowFormat,
        mut row: impl FnMut(u32, &mut [f32]),
    ) -> io::Result<Table> {
        let mut table = Table::zeroed(rows, dim, format)?;
        let mut numbers = vec![0.0; dim];
        for at in 0..rows {
            row(at, &mut numbers);
            table.set_row(at, &numbers);
        }
        Ok(table)
    }

    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Numbers in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How rows are written.
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// Bytes from a row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of all rows.
    pub fn len_bytes(&self) -> usize {
        self.rows as usize * self.stride
    }

    /// All rows as they are written, and [`SLACK`] bytes behind them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the region is mapped, zeroed memory of at least this length, and changes only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.len_bytes() + SLACK) }
    }

    /// All rows, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len_bytes();
        // SAFETY: as in `bytes`, and nobody else has the table.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start(), len) }
    }

    /// Writes `row` at `at`.
    pub fn set_row(&mut self, at: u32, row: &[f32]) {
        let (format, stride) = (self.format, self.stride);
        let start = at as usize * stride;
        format.encode(row, &mut self.bytes_mut()[start..start + stride]);
    }

    /// Reads the row at `at` into `row`.
    pub fn row(&self, at: u32, row: &mut [f32]) {
        assert!(at < self.rows, "row {at} of {}", self.rows);
        let start = at as usize * self.stride;
        self.format.decode(&self.bytes()[start..start + self.stride], row);
    }
}
