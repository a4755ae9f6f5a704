//! A request's tensors as queries.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `dense` | FP32 | [queries, dense features] |
//! | `TABLE.values` | INT64 | [ids of all bags] |
//! | `TABLE.offsets` | INT32 | [queries] or [queries + 1] |
//! | `TABLE.weights` | FP32 | [ids of all bags]; may be left out |
//! | `features` | BYTES | [queries]; instead of all tables: `table: feature; table: feature; …` |
//!
//! `TABLE` is a table's name, or t0, t1, … by place.

use super::body::{Data, Request, Tensor};
use super::numbers::Numbers;
use super::queries::{Builder, Queries, cut};
use super::served::Served;
use super::wrong::{What, Wrong};

/// The queries of a request, of which there may be `most`.
///
/// # Errors
/// What is wrong with which tensor.
pub fn queries(request: &Request<'_>, served: &Served, most: usize) -> Result<Queries, Wrong> {
    let mut builder = Builder::new(served, most);
    let mut tables: Vec<[Option<&Tensor<'_>>; 3]> = vec![[None; 3]; served.tables()];
    let mut features = None;
    let mut dense = None;
    for tensor in &request.inputs {
        let place = match &tensor.name[..] {
            "dense" => &mut dense,
            "features" => &mut features,
            name => place(name, served, &mut tables)?,
        };
        if place.replace(tensor).is_some() {
            return Err(Wrong::of(&tensor.name, What::Twice));
        }
    }
    if let Some(tensor) = dense {
        let width = served.model().dense();
        if tensor.shape.len() != 2 || tensor.shape[1] != width {
            let want = format!("FP32 [queries, {width}]");
            return Err(Wrong::of("dense", What::Shape { want, have: format!("{:?}", tensor.shape) }));
        }
        builder.len(tensor.shape[0], "dense")?;
        builder.dense(tensor.reals()?.iter())?;
    }
    for [values, offsets, weights] in tables {
        let name = values.or(offsets).or(weights).and_then(|tensor| tensor.name.rsplit_once('.'));
        let Some((name, _)) = name else { continue };
        let missing = |kind: &str, want| Wrong::of(&format!("{name}.{kind}"), What::Missing(want));
        let values = values.ok_or_else(|| missing("values", "INT64 ids of all bags"))?;
        let offsets = offsets.ok_or_else(|| missing("offsets", "INT32, where each bag begins"))?;
        for tensor in [Some(values), Some(offsets), weights].into_iter().flatten() {
            if tensor.shape.len() != 1 {
                let have = format!("{:?}", tensor.shape);
                return Err(Wrong::of(&tensor.name, What::Shape { want: "one dimension".to_owned(), have }));
            }
        }
        let weights = weights.map(Tensor::reals).transpose()?;
        let mut weights = weights.as_ref().map(Reals::iter);
        let weights = weights.as_mut().map(|weights| weights as &mut dyn ExactSizeIterator<Item = f32>);
        builder.bags(name, values.longs()?.iter(), offsets.ints()?.iter(), weights)?;
    }
    if let Some(tensor) = features {
        let texts = tensor.texts()?;
        builder.features(texts.into_iter().map(features_of))?;
    }
    builder.finish()
}

/// The features in a text.
fn features_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    let pieces = std::iter::from_fn(move || {
        let (piece, behind) = cut(rest?, b';').map_or((rest?, None), |(piece, behind)| (piece, Some(behind)));
        rest = behind;
        Some(piece.trim_ascii())
    });
    pieces.filter(|piece| !piece.is_empty())
}

/// Where a tensor of a table belongs.
fn place<'t, 'r, 'b>(
    name: &str,
    served: &Served,
    tables: &'t mut [[Option<&'r Tensor<'b>>; 3]],
) -> Result<&'t mut Option<&'r Tensor<'b>>, Wrong> {
    let split = name.rsplit_once('.').and_then(|(table, kind)| {
        let kind = ["values", "offsets", "weights"].iter().position(|known| *known == kind)?;
        Some((table, kind))
    });
    let Some((table, kind)) = split else {
        let why = "the model takes none; it takes dense, features, and of each table .values, .offsets and .weights";
        return Err(Wrong::of(name, What::Data(why.to_owned())));
    };
    let at = served.table(table).ok_or_else(|| Wrong::no_table(name, table, served))?;
    Ok(&mut tables[at][kind])
}

/// Whole numbers of a tensor.
enum Ints<'t> {
    Json(&'t [i64]),
    /// Of eight bytes.
    Long(&'t [u8]),
    /// Of four.
    Short(&'t [u8]),
}

impl Ints<'_> {
    fn iter(&self) -> impl ExactSizeIterator<Item = i64> {
        let len = match self {
            Ints::Json(all) => all.len(),
            Ints::Long(bytes) => bytes.len() / 8,
            Ints::Short(bytes) => bytes.len() / 4,
        };
        (0..len).map(|at| match self {
            Ints::Json(all) => all[at],
            Ints::Long(bytes) => i64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("eight bytes")),
            Ints::Short(bytes) => {
                i32::from_le_bytes(*bytes[at * 4..].first_chunk().expect("four bytes")).into()
            }
        })
    }
}

/// Numbers of a tensor.
enum Reals<'t> {
    Whole(&'t [i64]),
    Real(&'t [f64]),
    Binary(&'t [u8]),
}

impl Reals<'_> {
    fn iter(&self) -> impl ExactSizeIterator<Item = f32> {
        let len = match self {
            Reals::Whole(all) => all.len(),
            Reals::Real(all) => all.len(),
            Reals::Binary(bytes) => bytes.len() / 4,
        };
        (0..len).map(|at| match self {
            Reals::Whole(all) => all[at] as f32,
            Reals::Real(all) => all[at] as f32,
            Reals::Binary(bytes) => f32::from_le_bytes(*bytes[at * 4..].first_chunk().expect("four bytes")),
        })
    }
}

impl Tensor<'_> {
    fn is_of(&self, want: &'static str) -> Result<(), Wrong> {
        if self.datatype == want {
            return Ok(());
        }
        let have = self.datatype.chars().take(32).collect();
        Err(Wrong::of(&self.name, What::Type { want, have }))
    }

    fn whole(&self, of: for<'t> fn(&'t [u8]) -> Ints<'t>) -> Result<Ints<'_>, Wrong> {
        match &self.data {
            Data::Binary(bytes) => Ok(of(bytes)),
            Data::Json(Numbers::Whole(all)) => Ok(Ints::Json(all)),
            Data::Json(_) => Err(Wrong::of(&self.name, What::Data("expected whole numbers".to_owned()))),
        }
    }

    fn longs(&self) -> Result<Ints<'_>, Wrong> {
        self.is_of("INT64")?;
        self.whole(|bytes| Ints::Long(bytes))
    }

    fn ints(&self) -> Result<Ints<'_>, Wrong> {
        self.is_of("INT32")?;
        self.whole(|bytes| Ints::Short(bytes))
    }

    fn reals(&self) -> Result<Reals<'_>, Wrong> {
        self.is_of("FP32")?;
        match &self.data {
            Data::Binary(bytes) => Ok(Reals::Binary(bytes)),
            Data::Json(Numbers::Whole(all)) => Ok(Reals::Whole(all)),
            Data::Json(Numbers::Real(all)) => Ok(Reals::Real(all)),
            Data::Json(Numbers::Texts(_)) => {
                Err(Wrong::of(&self.name, What::Data("expected numbers".to_owned())))
            }
        }
    }

    fn texts(&self) -> Result<Vec<&str>, Wrong> {
        self.is_of("BYTES")?;
        let wrong = |why: &str| Wrong::of(&self.name, What::Data(why.to_owned()));
        match &self.data {
            Data::Json(Numbers::Texts(all)) => Ok(all.iter().map(String::as_str).collect()),
            Data::Json(numbers) if numbers.is_empty() => Ok(Vec::new()),
            Data::Json(_) => Err(wrong("expected texts")),
            Data::Binary(bytes) => {
                let mut rest = *bytes;
                let count = self.shape.iter().product::<usize>();
                let mut texts = Vec::with_capacity(count.min(rest.len() / 4));
                while let Some((length, behind)) = rest.split_first_chunk() {
                    let length = u32::from_le_bytes(*length) as usize;
                    let (text, behind) = behind
                        .split_at_checked(length)
                        .ok_or_else(|| wrong("a text is longer than the data"))?;
                    texts.push(std::str::from_utf8(text).map_err(|_| wrong("expected texts in UTF-8"))?);
                    rest = behind;
                }
                if rest.is_empty() && texts.len() == count {
                    Ok(texts)
                } else {
                    Err(wrong("the data are not as many texts, each behind its length, as the shape says"))
                }
            }
        }
    }
}
