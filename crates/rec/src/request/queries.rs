//! The queries of a request, checked against a model, in the form that the engine takes; and [`Builder`], which makes them of tensors or of
//! features as people write them.
//!
//! Shape: all tables' ids one after another, likewise offsets and weights, so that a request of many tables takes few allocations. Of each table a
//! [`Part`] says where its own are.
//!
//! Tables with a memo plan have keys instead of ids ([`crate::Planned::keys`]): finding them costs what they save, and here it is spent before the engine.
//!
//! Invariants, kept by the builder and relied on by the engine: each table has a part with `len` bags; ids are less than the table's rows; dense features and
//! weights are finite. (The model checks once more before it reads a row; an error there is ours.)
//!
//! Bounds: `most` queries. Everything else is as long as the request that it came in, but for tables without a feature, which cost `len` offsets each.

use super::served::Served;
use super::wrong::{What, Wrong};
use crate::bags::Bags;
use crate::model::{Access, Sparse};
use std::ops::Range;

/// See the head of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queries {
    len: usize,
    dense: Vec<f32>,
    ids: Vec<u32>,
    offsets: Vec<u32>,
    weights: Vec<f32>,
    counts: Vec<u32>,
    parts: Vec<Part>,
}

/// One table's share.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    ids: Range<usize>,
    offsets: Range<usize>,
    weights: Option<Range<usize>>,
    /// If they are keys.
    counts: Option<Range<usize>>,
}

impl Queries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` rows of dense features.
    pub fn dense(&self) -> &[f32] {
        &self.dense
    }

    /// How many rows all bags name.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// A table's bags.
    pub fn bags(&self, table: usize) -> Bags<'_> {
        let part = &self.parts[table];
        let weights = part.weights.clone().map(|range| &self.weights[range]);
        let (ids, offsets) = (&self.ids[part.ids.clone()], &self.offsets[part.offsets.clone()]);
        match &part.counts {
            None => Bags::new(ids, offsets, weights),
            Some(counts) => Bags::keys(ids, offsets, weights, &self.counts[counts.clone()]),
        }
        .expect("the builder checked them")
    }
}

impl Queries {
    /// The last part, by keys if its table is planned.
    fn planned(&mut self, table: &Sparse, part: Part) -> Part {
        let Access::Planned(planned) = table.access() else { return part };
        let (ids, offsets) = (self.ids.split_off(part.ids.start), self.offsets.split_off(part.offsets.start));
        let weights = part.weights.clone().map(|range| &self.weights[range]);
        let bags = Bags::new(&ids, &offsets, weights).expect("they were checked");
        planned.keys(&bags, table.pooling, &mut Vec::new(), &mut self.ids, &mut self.offsets);
        let first = self.counts.len();
        self.counts.extend(offsets.windows(2).map(|pair| pair[1] - pair[0]));
        Part {
            ids: part.ids.start..self.ids.len(),
            offsets: part.offsets.start..self.offsets.len(),
            counts: Some(first..self.counts.len()),
            ..part
        }
    }
}

/// `text` before and after the first such byte, an ASCII one. Pieces of requests are so short that a search by single bytes is the quickest.
pub(super) fn cut(text: &str, byte: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|other| other == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// What is behind `name` and a colon.
fn behind<'t>(feature: &'t str, name: &str) -> Option<&'t str> {
    let bytes = feature.as_bytes();
    let is_it =
        bytes.get(name.len()) == Some(&b':') && bytes.iter().zip(name.as_bytes()).all(|(a, b)| a == b);
    is_it.then(|| &feature[name.len() + 1..])
}

/// Makes [`Queries`] of what a request holds.
pub struct Builder<'m> {
    served: &'m Served,
    most: usize,
    len: Option<usize>,
    queries: Queries,
    parts: Vec<Option<Part>>,
    has_dense: bool,
}

impl<'m> Builder<'m> {
    /// For this model, at most so many queries.
    pub fn new(served: &'m Served, most: usize) -> Builder<'m> {
        let parts = vec![None; served.tables()];
        Builder { served, most, len: None, queries: Queries::default(), parts, has_dense: false }
    }

    /// There are so many queries.
    ///
    /// # Errors
    /// Another number was said, or it is none that may be.
    pub fn len(&mut self, len: usize, tensor: &str) -> Result<(), Wrong> {
        match self.len {
            Some(before) if before != len => {
                Err(Wrong::of(tensor, What::Count { what: "queries", want: before, have: len }))
            }
            _ if len == 0 => Err(Wrong::of(tensor, What::NoQueries)),
            _ if len > self.most => Err(Wrong::of(tensor, What::TooMany { most: self.most, have: len })),
            _ => {
                self.len = Some(len);
                Ok(())
            }
        }
    }

    /// Dense features, row after row. Without a length said before, it is theirs.
    ///
    /// # Errors
    /// There are too many or too few, or one is not finite.
    pub fn dense(&mut self, numbers: impl ExactSizeIterator<Item = f32>) -> Result<(), Wrong> {
        const TENSOR: &str = "dense";
        if std::mem::replace(&mut self.has_dense, true) {
            return Err(Wrong::of(TENSOR, What::Twice));
        }
        let (have, width) = (numbers.len(), self.served.model().dense());
        let len = match self.len {
            Some(len) => len,
            None if width == 0 => return Err(Wrong::of(TENSOR, What::NotWanted)),
            None => {
                self.len(have.div_ceil(width), TENSOR)?;
                have.div_ceil(width)
            }
        };
        if have != len * width {
            let what =
                What::Shape { want: format!("FP32 [{len}, {width}]"), have: format!("{have} numbers") };
            return Err(Wrong::of(TENSOR, what));
        }
        self.queries.dense.extend(numbers);
        match self.queries.dense.iter().position(|number| !number.is_finite()) {
            Some(at) => Err(Wrong::of(TENSOR, What::NotFinite(at))),
            None => Ok(()),
        }
    }

    /// The bags of a table. Offsets are one for each bag; the end of the last may follow.
    ///
    /// # Errors
    /// There is no such table or it has its bags already; or they are none.
    pub fn bags(
        &mut self,
        table: &str,
        values: impl ExactSizeIterator<Item = i64>,
        offsets: impl ExactSizeIterator<Item = i64>,
        weights: Option<&mut dyn ExactSizeIterator<Item = f32>>,
    ) -> Result<(), Wrong> {
        let tensor = |kind: &str| format!("{table}.{kind}");
        let at = self.served.table(table);
        let at = at.ok_or_else(|| Wrong::no_table(&tensor("values"), table, self.served))?;
        if self.parts[at].is_some() {
            return Err(Wrong::of(&tensor("values"), What::Twice));
        }
        let count = values.len();
        if self.len.is_none() {
            self.len(offsets.len().saturating_sub(1), &tensor("offsets"))?;
        }
        let part = Part {
            ids: self.ids(values, at, &tensor("values"))?,
            offsets: self.offsets(offsets, count, &tensor("offsets"))?,
            weights: weights.map(|weights| self.weights(weights, count, &tensor("weights"))).transpose()?,
            counts: None,
        };
        self.parts[at] = Some(self.queries.planned(&self.served.model().tables()[at], part));
        Ok(())
    }

    fn ids(
        &mut self,
        values: impl Iterator<Item = i64>,
        table: usize,
        tensor: &str,
    ) -> Result<Range<usize>, Wrong> {
        let rows = self.served.rows(table);
        let ids = &mut self.queries.ids;
        let start = ids.len();
        for value in values {
            let id = u32::try_from(value).ok().filter(|&id| id < rows);
            let Some(id) = id else {
                let at = ids.len() - start;
                return Err(Wrong::of(tensor, What::Id { at, id: value, rows }));
            };
            ids.push(id);
        }
        self.served.rename(table, &mut ids[start..]);
        Ok(start..ids.len())
    }

    fn offsets(
        &mut self,
        offsets: impl ExactSizeIterator<Item = i64>,
        values: usize,
        tensor: &str,
    ) -> Result<Range<usize>, Wrong> {
        let len = self.len.expect("it is known by now");
        let have = offsets.len();
        if have != len && have != len + 1 {
            let want = format!("INT32 [{len}] or [{}]", len + 1);
            return Err(Wrong::of(tensor, What::Shape { want, have: format!("{have} numbers") }));
        }
        let all = &mut self.queries.offsets;
        let start = all.len();
        let mut last = 0;
        for (at, offset) in offsets.enumerate() {
            if at == 0 && offset != 0 {
                return Err(Wrong::of(tensor, What::First(offset)));
            }
            if offset < last {
                return Err(Wrong::of(tensor, What::Descends(at)));
            }
            last = offset;
            // What does not fit is no number of values either.
            let offset = u32::try_from(offset).ok().filter(|&offset| offset as usize <= values);
            all.push(offset.ok_or_else(|| Wrong::of(tensor, What::Beyond { at, values }))?);
        }
        if have == len {
            all.push(u32::try_from(values).map_err(|_| Wrong::of(tensor, What::Beyond { at: len, values }))?);
        } else if last as usize != values {
            return Err(Wrong::of(tensor, What::Ends { last: last as usize, values }));
        }
        Ok(start..all.len())
    }

    fn weights(
        &mut self,
        weights: &mut dyn ExactSizeIterator<Item = f32>,
        values: usize,
        tensor: &str,
    ) -> Result<Range<usize>, Wrong> {
        if weights.len() != values {
            return Err(Wrong::of(
                tensor,
                What::Count { what: "numbers", want: values, have: weights.len() },
            ));
        }
        let all = &mut self.queries.weights;
        let start = all.len();
        all.extend(weights);
        match all[start..].iter().position(|weight| !weight.is_finite()) {
            Some(at) => Err(Wrong::of(tensor, What::NotFinite(at))),
            None => Ok(start..all.len()),
        }
    }

    /// Queries as people write them: of each its features, `table: feature`.
    ///
    /// # Errors
    /// A feature is no such text, or of no table; there are bags already.
    pub fn features<'t, Q, F>(&mut self, queries: Q) -> Result<(), Wrong>
    where
        Q: ExactSizeIterator<Item = F>,
        F: Iterator<Item = &'t str>,
    {
        const TENSOR: &str = "features";
        if self.parts.iter().any(Option::is_some) {
            return Err(Wrong::of(TENSOR, What::Twice));
        }
        let len = queries.len();
        self.len(len, TENSOR)?;
        // Queries come in order, so each table's ids do: what is behind its last offset is the open bag.
        let mut found = vec![(Vec::new(), vec![0]); self.served.tables()];
        // Features of one table mostly follow each other.
        let mut last = None;
        for (query, features) in queries.enumerate() {
            for feature in features {
                let wrong = |why| {
                    let feature = feature.chars().take(64).collect();
                    Wrong::of(TENSOR, What::Feature { query, feature, why })
                };
                let known = last.and_then(|(name, table)| Some((table, behind(feature, name)?)));
                let (table, word) = match known {
                    Some(known) => known,
                    None => {
                        let (name, word) =
                            cut(feature, b':').ok_or_else(|| wrong("is no `table: feature`"))?;
                        let name = name.trim_ascii();
                        let table = self.served.table(name);
                        let table = table.ok_or_else(|| wrong("is of no table of this model"))?;
                        last = Some((name, table));
                        (table, word)
                    }
                };
                let id = self.served.id(table, word.trim_ascii());
                let id = id.map_err(|_| wrong("is a number beyond the table's rows"))?;
                found[table].0.extend(id);
            }
            found.iter_mut().for_each(|(ids, ends): &mut (Vec<u32>, Vec<u32>)| ends.push(ids.len() as u32));
        }
        for (table, (own, ends)) in found.iter_mut().enumerate() {
            if !self.served.has_dictionary(table) {
                self.served.rename(table, own);
            }
            let Queries { ids, offsets, .. } = &mut self.queries;
            let starts = (ids.len(), offsets.len());
            ids.extend_from_slice(own);
            offsets.extend_from_slice(ends);
            let own = Part { ids: starts.0..ids.len(), offsets: starts.1..offsets.len(), ..Part::default() };
            self.parts[table] = Some(self.queries.planned(&self.served.model().tables()[table], own));
        }
        Ok(())
    }

    /// The queries.
    ///
    /// # Errors
    /// A tensor is missing.
    pub fn finish(mut self) -> Result<Queries, Wrong> {
        let missing = self.parts.iter().position(Option::is_none);
        if let Some(table) = missing {
            let tensor = format!("{}.values", self.served.model().tables()[table].name);
            return Err(Wrong::of(
                &tensor,
                What::Missing("INT64 ids of all bags, and their offsets as INT32"),
            ));
        }
        let Some(len) = self.len else { return Err(Wrong::of("dense", What::NoQueries)) };
        if self.served.model().dense() > 0 && !self.has_dense {
            return Err(Wrong::of("dense", What::Missing("FP32, for each query the model's dense features")));
        }
        self.queries.len = len;
        self.queries.parts = self.parts.into_iter().flatten().collect();
        Ok(self.queries)
    }
}
