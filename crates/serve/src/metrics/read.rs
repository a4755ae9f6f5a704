//! A page of metrics, read again: for whoever asks other processes how they are.

/// The sum of a family's samples that have all these labels; none, if there is no such sample.
pub fn sum(page: &str, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
    samples(page, family)
        .filter(|(found, _)| labels.iter().all(|(name, value)| label(found, name) == Some(*value)))
        .fold(None, |sum, (_, value)| Some(sum.unwrap_or(0.0) + value))
}

/// A family's samples: labels as they are written, and value.
pub fn samples<'a>(page: &'a str, family: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(family)?;
        let (labels, value) = match rest.strip_prefix('{') {
            // Nothing that is read here has a brace in a label.
            Some(rest) => rest.split_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        Some((labels, value.trim().parse().ok()?))
    })
}

/// A label's value, as long as nothing in it is escaped.
pub fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn samples_are_summed_by_label() {
        let page = "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4.5\na_b 7\nc 1\n";
        assert_eq!(sum(page, "a", &[("x", "1")]), Some(7.5));
        assert_eq!(sum(page, "a", &[("y", "2")]), Some(3.0));
        assert_eq!((sum(page, "a", &[("y", "9")]), sum(page, "a_b", &[])), (None, Some(7.0)));
        assert_eq!(sum(page, "nothing", &[]), None);
    }

    proptest! {
        /// Another process may be at the port: whatever it says is no reason to panic.
        #[test]
        fn any_text_is_a_page(text in "(a|\\{|\\}|x=|\"|,| |1|\n|é){0,60}") {
            let _ = sum(&text, "a", &[("x", "1")]);
        }
    }
}
