//! A plan as a file.
//!
//! ```text
//!  "MRPLAN01" · table u64 · rows u32 · groups u32 · groups × (size u32, clusters u32) · rows × new id u32 · CRC-32C u32
//! ```
//! Little endian. `table` is the hash of the table that the plan was made for. Offsets and bases follow from the groups and are not written, so a file cannot
//! contradict itself there; what else could be wrong is checked when it is read: sizes, sums, that the new ids are a permutation, the checksum of
//! all before it.
//!
//! Bounds: reading allocates what the file's own length justifies.

use super::{MAX_CLUSTER, Misfit, Plan};
use std::fmt;

const MAGIC: &[u8; 8] = b"MRPLAN01";
const HEAD_BYTES: usize = 24;

/// Why bytes are no plan for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// It does not begin as a plan does.
    Magic,
    /// So many bytes are not as many as it says it has.
    Length(usize),
    /// The checksum is wrong.
    Damaged,
    /// It is for a table with the first hash, the table at hand has the second.
    Table(u64, u64),
    /// It is for a table of so many rows, the table at hand has the second number.
    Rows(u32, u32),
    /// Its groups are none.
    Groups,
    /// Its new ids are no permutation.
    Remap,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PlanError::Magic => {
                f.write_str("this is no plan file, or one of another version; make it with millrace rec plan")
            }
            PlanError::Length(len) => {
                write!(f, "the plan file has {len} bytes, which is not what it announces; copy it again")
            }
            PlanError::Damaged => f.write_str("the plan file's checksum is wrong; copy it again"),
            PlanError::Table(for_table, table) => write!(
                f,
                "the plan was made for a table with hash {for_table:016x}, this one has {table:016x}; plan again for this table"
            ),
            PlanError::Rows(for_rows, rows) => {
                write!(
                    f,
                    "the plan was made for a table of {for_rows} rows, this one has {rows}; plan again for this table"
                )
            }
            PlanError::Groups => {
                f.write_str("the plan's groups are not by size or have not the table's rows")
            }
            PlanError::Remap => f.write_str("the plan gives two ids the same new one"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// The bytes of a file, for a table with this hash.
    pub fn save(&self, table_hash: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.groups.len() * 8 + self.remap.len() * 4 + 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&table_hash.to_le_bytes());
        let mut number = |number: u32| bytes.extend_from_slice(&number.to_le_bytes());
        number(self.rows());
        number(self.groups.len() as u32);
        for (at, group) in self.groups.iter().enumerate() {
            number(group.size);
            number(self.clusters(at));
        }
        self.remap.iter().for_each(|&new| number(new));
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The plan in `bytes`, if it is one for a table of `rows` rows with hash `table_hash`.
    ///
    /// # Errors
    /// It is damaged, or for another table.
    pub fn load(bytes: &[u8], rows: u32, table_hash: u64) -> Result<Plan, PlanError> {
        if !bytes.starts_with(MAGIC) {
            return Err(PlanError::Magic);
        }
        let length = PlanError::Length(bytes.len());
        let (body, sum) =
            bytes.split_last_chunk::<4>().filter(|(body, _)| body.len() >= HEAD_BYTES).ok_or(length)?;
        let number = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let (for_rows, groups) = (number(16), number(20));
        let numbers = u64::from(groups) * 2 + u64::from(for_rows);
        if groups > MAX_CLUSTER || (body.len() - HEAD_BYTES) as u64 != numbers * 4 {
            return Err(length);
        }
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(PlanError::Damaged);
        }
        if for_rows != rows {
            return Err(PlanError::Rows(for_rows, rows));
        }
        let for_table = u64::from_le_bytes(body[8..16].try_into().expect("eight bytes"));
        if for_table != table_hash {
            return Err(PlanError::Table(for_table, table_hash));
        }
        let (sizes, remap) = body[HEAD_BYTES..].split_at(groups as usize * 8);
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
        };
        let sizes: Vec<(u32, u32)> = words(sizes).chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        Plan::from_parts(words(remap), &sizes).map_err(|misfit| match misfit {
            Misfit::Sizes | Misfit::Rows => PlanError::Groups,
            Misfit::Permutation => PlanError::Remap,
        })
    }
}
