use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const MUCH: usize = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_dictionary_is_a_map(features in prop::collection::vec(("[a-c\t]{0,4}", 0u32..40), 0..60), seed: u64) {
        let mut model: HashMap<&str, u32> = HashMap::new();
        let mut text = String::new();
        for (feature, id) in &features {
            if !model.contains_key(feature.as_str()) {
                model.insert(feature, *id);
                text += &format!("{feature}\t{id}\n");
            }
        }
        // A line that is empty but for its own number's row is one without a feature.
        prop_assume!(!text.lines().enumerate().any(|(at, line)| line == format!("\t{at}")));
        let mut dictionary = Dictionary::read(text.as_bytes(), 40, Unknown::Skip, MUCH).expect("features once");
        prop_assert_eq!(dictionary.len(), model.len());
        let mut remap: Vec<u32> = (0..40).collect();
        remap.rotate_left((seed % 40) as usize);
        for round in 0..2 {
            for feature in ["", "a", "b", "ab", "abc", "\t", "d"].into_iter().chain(features.iter().map(|f| f.0.as_str())) {
                let want = model.get(feature).map(|&id| if round == 0 { id } else { remap[id as usize] });
                prop_assert_eq!(dictionary.id(feature), want, "{:?}", feature);
            }
            if round == 0 {
                dictionary.rename(&remap);
            }
        }
    }
}

#[test]
fn lines_without_a_row_count() {
    let dictionary =
        Dictionary::read("red\n\r\nblue\r\n7\t0\n".as_bytes(), 3, Unknown::Row(1), MUCH).expect("colours");
    let ids = ["red", "blue", "7", "green"].map(|feature| dictionary.id(feature));
    assert_eq!(ids, [Some(0), Some(2), Some(0), Some(1)]);
}

#[test]
fn what_is_no_dictionary_is_refused_with_its_line() {
    let read = |text: &str, unknown, most| Dictionary::read(text.as_bytes(), 3, unknown, most).err();
    assert!(matches!(read("a\nb\nc\nd\n", Unknown::Skip, MUCH), Some(DictionaryError::Id(4, 3))));
    assert!(matches!(read("a\nb\t3\n", Unknown::Skip, MUCH), Some(DictionaryError::Id(2, 3))));
    assert!(matches!(read("a\nb\tx\n", Unknown::Skip, MUCH), Some(DictionaryError::Id(2, 3))));
    assert!(matches!(read("a\nb\na\t2\n", Unknown::Skip, MUCH), Some(DictionaryError::Twice(3, _))));
    assert!(matches!(read("a\n", Unknown::Row(3), MUCH), Some(DictionaryError::Unknown(3, 3))));
    assert!(matches!(read("abc\nd\n", Unknown::Skip, 3), Some(DictionaryError::TooLong(3))));
    assert!(read("ab\nd\n", Unknown::Skip, 3).is_none());
    // A line without an end is not read to it.
    let endless = io::BufReader::new(io::repeat(b'a'));
    assert!(matches!(Dictionary::read(endless, 3, Unknown::Skip, 1000), Err(DictionaryError::TooLong(1000))));
    assert!(matches!(Dictionary::read(&[0xff, b'\n'][..], 3, Unknown::Skip, 9), Err(DictionaryError::Io(_))));
}

#[test]
fn hashed_features_get_the_same_rows_everywhere_and_spread() {
    let mut dictionary = Dictionary::hashing(100);
    // Frozen: rows that training gave to features.
    assert_eq!(["red", "blue", ""].map(|feature| dictionary.id(feature)), FROZEN.map(Some));
    let mut hits = [0; 100];
    (0..100_000).for_each(|n| hits[dictionary.id(&n.to_string()).expect("hashed") as usize] += 1);
    assert!(hits.iter().all(|hits| (850..1150).contains(hits)), "{hits:?}");
    dictionary.rename(&(0..100).rev().collect::<Vec<_>>());
    assert_eq!(dictionary.id("red"), Some(99 - FROZEN[0]));
}

const FROZEN: [u32; 3] = [98, 40, 53];
