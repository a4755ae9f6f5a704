//! Lists of operations by number, as `3,5-9`.

/// Writes a rising list; `none` where it is empty.
pub fn show(list: &[usize]) -> String {
    if list.is_empty() {
        return "none".to_string();
    }
    let runs = list.chunk_by(|a, b| a + 1 == *b);
    let show = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(show).collect::<Vec<_>>().join(",")
}

/// Reads what [`show`] writes.
///
/// # Errors
/// In words.
pub fn read(text: &str) -> Result<Vec<usize>, String> {
    const MOST: usize = 1_000_000;
    let number = |text: &str| {
        let number = text.parse().ok().filter(|n: &usize| *n < MOST);
        number.ok_or_else(|| format!("{text:?} is no number of an operation"))
    };
    let mut list = Vec::new();
    for part in text.split(',').filter(|_| text != "none") {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        list.extend(number(first)?..=number(last)?);
    }
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_round_trip() {
        for list in [vec![], vec![3], vec![0, 1, 2, 5, 7, 8]] {
            assert_eq!(read(&show(&list)), Ok(list));
        }
        assert_eq!(show(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert!(["", "x", "1-", "99999999"].iter().all(|bad| read(bad).is_err()));
    }
}
