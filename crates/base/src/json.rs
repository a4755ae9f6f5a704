//! Text as a JSON string: all that traces and the fabric's monitor need of JSON beside numbers they write themselves.

use std::fmt::{self, Write};

/// Prints as a JSON string, quotes included.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c < ' ' => write!(f, "\\u{:04x}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let back: String = serde_json::from_str(&Text(&text).to_string()).expect("JSON");
            prop_assert_eq!(back, text);
        }
    }
}
