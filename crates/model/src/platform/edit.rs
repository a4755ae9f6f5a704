//! Puts another value into a platform's file and leaves everything else as it is: comments, order, spaces.

use super::{LoadError, Platform};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// `text` with number `name` set to `value`, in the number's unit; `file` is for errors.
///
/// # Errors
/// The file is wrong, before or after, or has no such number: none at all, or only that of its base.
pub fn with_value(text: &str, file: &str, name: &str, value: f64) -> Result<String, LoadError> {
    let platform = Platform::parse(text, file)?;
    platform.number(name)?;
    let table = DeTable::parse(text).expect("it was parsed above");
    let span = span(table.get_ref(), name).ok_or_else(|| LoadError::File {
        file: file.into(),
        line: 1,
        why: format!("{name} is a number of its base: state it here with all its parts, or change it there"),
    })?;
    let changed = format!("{}{value}{}", &text[..span.start], &text[span.end..]);
    Platform::parse(&changed, file)?;
    Ok(changed)
}

/// Where the value of the number `name` stands.
fn span(table: &DeTable<'_>, name: &str) -> Option<std::ops::Range<usize>> {
    let inner = |key: &str| table.get(key).map(Spanned::get_ref).and_then(DeValue::as_table);
    // A key may have a dot in it: the names that a key begins are tried.
    for (at, _) in name.match_indices('.') {
        if let Some(found) = inner(&name[..at]).and_then(|below| span(below, &name[at + 1..])) {
            return Some(found);
        }
    }
    inner(name)?.get("value").map(Spanned::span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::shipped::SHIPPED;

    #[test]
    fn only_the_value_changes() {
        let (name, text) = SHIPPED[0];
        let before = Platform::parse(text, name).expect("it is right");
        for (number, its) in before.numbers() {
            let (_, most) = its.range;
            let after = with_value(text, name, number, most).unwrap_or_else(|error| panic!("{error}"));
            let parsed = Platform::parse(&after, name).expect("it is right");
            assert_eq!(parsed.numbers().find(|(name, _)| *name == number).map(|(_, n)| n.value), Some(most));
            let changed = text.lines().zip(after.lines()).filter(|(a, b)| a != b).count();
            assert!(changed <= 1 && text.lines().count() == after.lines().count(), "{number}");
        }
    }

    #[test]
    fn a_number_may_have_a_table_of_its_own_and_must_stay_in_its_range() {
        let text = "name = \"a\"\ntitle = \"b\"\nfamily = \"c\"\n[cpu.post] # why\nvalue = 500 # cycles\nunit = \"cycles\"\n\
                    class = \"assumed\"\nsource = \"x\"\nrange = [100, 1_000]\n";
        let after = with_value(text, "a.toml", "cpu.post", 250.5).expect("it is there");
        assert!(after.contains("[cpu.post] # why\nvalue = 250.5 # cycles\n"), "{after}");
        assert!(with_value(text, "a.toml", "cpu.post", 5.0).is_err());
        let based = text.replacen("family = \"c\"", "base = \"bluefield2-ib\"\nfamily = \"c\"", 1);
        let said = with_value(&based, "a.toml", "pcie.latency", 150.0).map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("a number of its base")));
        assert!(with_value(text, "a.toml", "cpu.pots", 500.0).is_err());
    }
}
