//! Embedding bags: which rows of one table each query of a batch takes.
//!
//! Shape: CSR. `values[offsets[i]..offsets[i + 1]]` are the ids of bag `i`; `offsets` has one entry more than there are bags.
//! An empty bag is allowed and reduces to zeros, as in PyTorch's `EmbeddingBag`.
//!
//! Values name rows of a table, or are *keys*: rows of a memo plan's arena that stand for more ids than there are keys ([`Bags::keys`]).

use std::fmt;

/// The bags of one table for a batch of queries, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a> {
    values: &'a [u32],
    offsets: &'a [u32],
    weights: Option<&'a [f32]>,
    counts: Option<&'a [u32]>,
}

/// Why numbers are no bags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BagsError {
    /// There must be an offset for each bag and one more, the first of them 0.
    NoFirst,
    /// The offset at this place is less than the one before it.
    Descends(usize),
    /// The last offset is the first number, there are as many values as the second.
    Ends(u32, usize),
    /// There are as many weights as the first number, and as many values as the second.
    Weights(usize, usize),
    /// The weight at this place is no finite number.
    Weight(usize),
    /// There are as many counts as the first number, and as many bags as the second.
    Counts(usize, usize),
    /// The id at this place is none of the table, which has so many rows.
    Id {
        /// Place in the values.
        at: usize,
        /// What is there.
        id: u32,
        /// Rows of the table.
        rows: u32,
    },
}

impl fmt::Display for BagsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BagsError::NoFirst => {
                f.write_str("offsets must begin with 0 and have one entry more than there are bags")
            }
            BagsError::Descends(at) => write!(f, "offset {at} is less than the one before it"),
            BagsError::Ends(last, values) => {
                write!(f, "the last offset is {last}, but there are {values} values")
            }
            BagsError::Weights(weights, values) => {
                write!(f, "there are {weights} weights for {values} values; each value needs one")
            }
            BagsError::Counts(counts, bags) => {
                write!(f, "there are {counts} counts for {bags} bags of keys; each bag needs one")
            }
            BagsError::Weight(at) => write!(f, "weight {at} is not a finite number"),
            BagsError::Id { at, id, rows } => {
                write!(f, "value {at} is id {id}, but the table has rows 0 to {}", rows.saturating_sub(1))
            }
        }
    }
}

impl std::error::Error for BagsError {}

impl<'a> Bags<'a> {
    /// Bags over `values`, each value with its weight if there are `weights`.
    ///
    /// # Errors
    /// Offsets that do not begin at 0, descend, or do not end at the values' number; a wrong number of weights; a weight that is not finite.
    pub fn new(
        values: &'a [u32],
        offsets: &'a [u32],
        weights: Option<&'a [f32]>,
    ) -> Result<Bags<'a>, BagsError> {
        if offsets.first() != Some(&0) {
            return Err(BagsError::NoFirst);
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(BagsError::Descends(at + 1));
        }
        let last = *offsets.last().expect("there is a first");
        if last as usize != values.len() {
            return Err(BagsError::Ends(last, values.len()));
        }
        if let Some(weights) = weights {
            if weights.len() != values.len() {
                return Err(BagsError::Weights(weights.len(), values.len()));
            }
            if let Some(at) = weights.iter().position(|weight| !weight.is_finite()) {
                return Err(BagsError::Weight(at));
            }
        }
        Ok(Bags { values, offsets, weights, counts: None })
    }

    /// Bags of keys: what [`crate::Planned::keys`] made of bags that had as many ids as `counts` says.
    ///
    /// # Errors
    /// As [`Bags::new`]; there must be a count for each bag.
    pub fn keys(
        values: &'a [u32],
        offsets: &'a [u32],
        weights: Option<&'a [f32]>,
        counts: &'a [u32],
    ) -> Result<Bags<'a>, BagsError> {
        let bags = Bags::new(values, offsets, weights)?;
        match counts.len() == bags.len() {
            true => Ok(Bags { counts: Some(counts), ..bags }),
            false => Err(BagsError::Counts(counts.len(), bags.len())),
        }
    }

    /// How many bags there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no bag.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of all bags, one after another.
    pub fn values(&self) -> &'a [u32] {
        self.values
    }

    /// Where each bag begins, and where the last ends.
    pub fn offsets(&self) -> &'a [u32] {
        self.offsets
    }

    /// A weight for each value, if they are weighted.
    pub fn weights(&self) -> Option<&'a [f32]> {
        self.weights
    }

    /// If values are keys, how many ids each bag had.
    pub fn counts(&self) -> Option<&'a [u32]> {
        self.counts
    }

    /// Which values are bag `at`'s.
    pub fn span(&self, at: usize) -> std::ops::Range<usize> {
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }

    /// That every id is one of a table with so many `rows`.
    ///
    /// # Errors
    /// The first id that is not.
    pub fn check(&self, rows: u32) -> Result<(), BagsError> {
        // The largest first: one pass without branches, and the place is looked for only when there is one.
        if self.values.iter().fold(0, |most, &id| most.max(id)) < rows || self.values.is_empty() {
            return Ok(());
        }
        let at = self.values.iter().position(|&id| id >= rows).expect("the largest is too large");
        Err(BagsError::Id { at, id: self.values[at], rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bag_is_refused_with_its_place() {
        let new = |values: &'static [u32], offsets: &'static [u32], weights: Option<&'static [f32]>| {
            Bags::new(values, offsets, weights).expect_err("refused")
        };
        assert_eq!(new(&[], &[], None), BagsError::NoFirst);
        assert_eq!(new(&[1], &[1], None), BagsError::NoFirst);
        assert_eq!(new(&[1, 2], &[0, 2, 1], None), BagsError::Descends(2));
        assert_eq!(new(&[1, 2], &[0, 1], None), BagsError::Ends(1, 2));
        assert_eq!(new(&[1, 2], &[0, 2], Some(&[1.0])), BagsError::Weights(1, 2));
        assert_eq!(new(&[1, 2], &[0, 2], Some(&[1.0, f32::NAN])), BagsError::Weight(1));
        let counts = Bags::keys(&[1, 2], &[0, 2], None, &[2, 3]).expect_err("refused");
        assert_eq!(counts, BagsError::Counts(2, 1));
    }

    #[test]
    fn ids_are_checked_against_the_rows() {
        let bags = Bags::new(&[3, 0, 7], &[0, 1, 1, 3], None).expect("bags");
        assert_eq!((bags.len(), bags.span(1), bags.span(2)), (3, 1..1, 1..3));
        assert_eq!(bags.check(8), Ok(()));
        assert_eq!(bags.check(7), Err(BagsError::Id { at: 2, id: 7, rows: 7 }));
        assert_eq!(bags.check(0), Err(BagsError::Id { at: 0, id: 3, rows: 0 }));
        assert_eq!(Bags::new(&[], &[0, 0], None).expect("an empty bag").check(0), Ok(()));
    }
}
