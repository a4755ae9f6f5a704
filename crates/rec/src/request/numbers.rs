//! A tensor's data in JSON: numbers or texts, flat or nested as the shape says; nesting carries nothing that the shape does not, so all are read
//! one after another.
//!
//! Bounds: as long as the body. Nesting is bounded by the JSON reader.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// See the head of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Whole numbers all.
    Whole(Vec<i64>),
    /// At least one is not whole.
    Real(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Numbers {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Whole(all) => all.len(),
            Numbers::Real(all) => all.len(),
            Numbers::Texts(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Numbers, D::Error> {
        let mut numbers = Numbers::Whole(Vec::new());
        Into(&mut numbers).deserialize(from)?;
        Ok(numbers)
    }
}

/// Appends what it reads.
struct Into<'n>(&'n mut Numbers);

impl<'de> DeserializeSeed<'de> for Into<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers or of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Into(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        match self.0 {
            Numbers::Whole(all) => all.push(number),
            Numbers::Real(all) => all.push(number as f64),
            Numbers::Texts(_) => return Err(E::custom("a number among texts")),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if let Numbers::Whole(all) = self.0 {
            *self.0 = Numbers::Real(all.iter().map(|&whole| whole as f64).collect());
        }
        let Numbers::Real(all) = self.0 else { return Err(E::custom("a number among texts")) };
        all.push(number);
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if matches!(self.0, Numbers::Whole(all) if all.is_empty()) {
            *self.0 = Numbers::Texts(Vec::new());
        }
        let Numbers::Texts(all) = self.0 else { return Err(E::custom("a text among numbers")) };
        all.push(text.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_flattened_and_kinds_do_not_mix() {
        let read = |text: &str| serde_json::from_str::<Numbers>(text);
        assert_eq!(read("[[1,2],[3,[4]]]").expect("whole"), Numbers::Whole(vec![1, 2, 3, 4]));
        assert_eq!(read("[1,[2.5]]").expect("real"), Numbers::Real(vec![1.0, 2.5]));
        assert_eq!(read("[18446744073709551615]").expect("real"), Numbers::Real(vec![1.8446744073709552e19]));
        assert_eq!(read(r#"["a",["b"]]"#).expect("texts"), Numbers::Texts(vec!["a".into(), "b".into()]));
        for bad in [r#"[1,"a"]"#, r#"["a",1]"#, "[null]", "[true]", r#"{"a":1}"#, "[1e999]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000))).is_err());
    }
}
