//! An embedding table: rows of one dimension in one format, on the largest pages that can be had.
//!
//! Rows follow each other at [`RowFormat::row_bytes`]. The whole table is readable 64 bytes beyond its last row, so that kernels may load whole vectors.

use crate::format::RowFormat;
use base::hash::Hasher64;
use base::pages::{PageKind, Region};
use std::io;

/// Bytes that may be read behind the last row.
pub const SLACK: usize = 64;

/// Bytes that are hashed at once: a piece stays in the second-level cache.
const HASHED_AT_ONCE: usize = 256 << 10;

/// The hash of a table's contents has its own function, so that it is never mistaken for a key's. Frozen: plans name tables by it.
const HASH_SEED: u64 = 0x7461_626C_652D_6831;

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

    /// A hash of format, shape and every row, the same on every machine: what a memo plan names its table by.
    ///
    /// Cost: a pass over the table, at about memory's pace.
    pub fn hash(&self) -> u64 {
        let hasher = Hasher64::new(HASH_SEED);
        // Format by name, numbers little endian: nothing that depends on a compiler.
        let mut words = self.format.to_string().into_bytes();
        words.resize(8, 0);
        words.extend(u64::from(self.rows).to_le_bytes());
        words.extend((self.dim as u64).to_le_bytes());
        for piece in self.bytes()[..self.len_bytes()].chunks(HASHED_AT_ONCE) {
            words.extend(hasher.hash(piece).to_le_bytes());
        }
        hasher.hash(&words)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(rows: u32, dim: usize, format: RowFormat) -> Table {
        let row = |at, row: &mut [f32]| row.iter_mut().zip(0..).for_each(|(x, i)| *x = (at * 31 + i) as f32);
        Table::from_rows(rows, dim, format, row).expect("memory")
    }

    #[test]
    fn rows_are_read_back_and_lie_on_a_line() {
        let table = counting(7, 6, RowFormat::F32);
        let mut row = [0.0; 6];
        table.row(6, &mut row);
        assert_eq!(row, [186.0, 187.0, 188.0, 189.0, 190.0, 191.0]);
        assert_eq!((table.len_bytes(), table.bytes().len()), (7 * 24, 7 * 24 + SLACK));
        assert!(table.bytes().as_ptr().addr().is_multiple_of(64), "prefetches count lines from there");
    }

    #[test]
    fn the_hash_is_frozen() {
        // A change here makes every plan that was ever written useless.
        assert_eq!(counting(5000, 16, RowFormat::F32).hash(), FROZEN);
    }

    const FROZEN: u64 = 10_827_773_276_012_104_708;

    #[test]
    fn a_bit_a_row_a_dimension_or_a_format_changes_the_hash() {
        let table = counting(64, 16, RowFormat::F32);
        let mut hashes = vec![table.hash()];
        let mut changed = counting(64, 16, RowFormat::F32);
        assert_eq!(changed.hash(), hashes[0]);
        for at in [0, 1, 2048, 4095] {
            changed.bytes_mut()[at] ^= 4;
            hashes.push(changed.hash());
            changed.bytes_mut()[at] ^= 4;
        }
        // All have 4096 zero bytes.
        for (rows, dim, format) in [
            (64, 16, RowFormat::F32),
            (32, 32, RowFormat::F32),
            (128, 8, RowFormat::F32),
            (64, 32, RowFormat::F16),
        ] {
            hashes.push(Table::zeroed(rows, dim, format).expect("memory").hash());
        }
        hashes.push(Table::zeroed(65, 16, RowFormat::F32).expect("memory").hash());
        hashes.push(Table::zeroed(0, 16, RowFormat::F32).expect("memory").hash());
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count, "all differ");
    }
}
