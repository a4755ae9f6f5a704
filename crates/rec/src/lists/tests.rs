use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Lists, ListsError> {
    Lists::read(text.as_bytes(), Style::Weighted)
}

fn lists() -> impl Strategy<Value = Lists> {
    let query = (1..100u32, prop::collection::vec(0..40u32, 1..8));
    prop::collection::vec(query, 0..60).prop_map(|queries| {
        let mut lists = Lists::new(40).expect("40");
        queries.iter().for_each(|(weight, ids)| lists.push(*weight, ids).expect("a query"));
        lists
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(lists in lists()) {
        let mut text = Vec::new();
        lists.write(&mut text).expect("memory");
        prop_assert_eq!(Lists::read(&text[..], Style::Weighted), Ok(lists));
    }

    #[test]
    fn a_split_keeps_all_queries_and_parts_no_set(lists in lists(), held_out in 0.0..1.0, seed: u64) {
        let (rest, held) = lists.split(held_out, seed);
        let sorted = |parts: &[&Lists]| {
            let mut all: Vec<(u32, Vec<u32>)> =
                parts.iter().flat_map(|part| part.iter().map(|(weight, ids)| (weight, ids.to_vec()))).collect();
            all.sort();
            all
        };
        prop_assert_eq!(sorted(&[&rest, &held]), sorted(&[&lists]));
        prop_assert_eq!(held.repeats(&rest), 0);
        prop_assert_eq!(lists.repeats(&lists), lists.len());
    }

    #[test]
    fn dense_lists_are_the_old_ones_without_rare_ids(lists in lists(), least in 0..400u64) {
        let count = |id: u32| -> u64 {
            lists.iter().map(|(w, ids)| u64::from(w) * ids.iter().filter(|&&x| x == id).count() as u64).sum()
        };
        let kept = |id: &&u32| count(**id) >= least.max(1);
        let expected: Vec<(u32, Vec<u32>)> = lists.iter()
            .map(|(weight, ids)| (weight, ids.iter().filter(kept).copied().collect::<Vec<u32>>()))
            .filter(|(_, ids)| !ids.is_empty()).collect();
        match lists.dense(least) {
            None => prop_assert!(expected.is_empty()),
            Some((dense, old)) => {
                prop_assert!(old.iter().all(|&id| count(id) >= least.max(1)) && old.is_sorted());
                let named = dense.iter().map(|(w, ids)| (w, ids.iter().map(|&id| old[id as usize]).collect()));
                prop_assert_eq!(named.collect::<Vec<(u32, Vec<u32>)>>(), expected);
            }
        }
    }
}

#[test]
fn a_held_out_part_has_about_the_size_asked_for() {
    let mut lists = Lists::new(10_000).expect("10000");
    (0..5_000).for_each(|id| lists.push(1, &[id, id + 1]).expect("a query"));
    let (rest, held) = lists.split(0.2, 1);
    assert_eq!(rest.len() + held.len(), 5_000);
    assert!((900..1_100).contains(&held.len()), "{}", held.len());
    assert_ne!(lists.split(0.2, 2).1, held, "another seed, another part");
}

#[test]
fn sets_are_compared_without_order_and_repetition() {
    let (mut a, mut b) = (Lists::new(9).expect("9"), Lists::new(9).expect("9"));
    [&[3, 1, 2][..], &[1, 2], &[4]].iter().for_each(|ids| a.push(1, ids).expect("a query"));
    [&[2, 3, 1, 1][..], &[2, 2], &[4]].iter().for_each(|ids| b.push(7, ids).expect("a query"));
    assert_eq!((b.repeats(&a), a.repeats(&b)), (2, 2));
}

#[test]
fn both_headers_and_plain_lists_are_read() {
    let with = read("1 5 2 5 2\n3 1 5\n\n 1\t2 2 4 \r\n").expect("a training log");
    assert_eq!((with.features(), with.len(), with.pins()), (5, 2, 5));
    assert_eq!(with.iter().collect::<Vec<_>>(), [(3, &[0, 4][..]), (1, &[1, 1, 3])]);
    assert_eq!(read("# 5\n3 1 5\n1 2 2 4").expect("a test log"), with);
    let plain = Lists::read(&b"1 5\n2 2 4\n"[..], Style::Plain).expect("a plain log");
    assert_eq!((plain.features(), plain.weight(1), plain.query(1)), (5, 1, &[1, 1, 3][..]));
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let fault = |text: &str| read(text).map_err(|e| (e.line, e.fault)).expect_err("refused");
    for header in ["", "\n", "2 5 1 1 2\n", "1 5 1 1 2 2\n", "# \n", "# x\n", "1 5 1 x 2\n", "3 1 2\n"] {
        assert_eq!(fault(header), (1, Fault::Header), "{header:?}");
    }
    assert_eq!(fault("# 0\n"), (1, Fault::Features(0)));
    assert_eq!(fault("# 4000000000\n"), (1, Fault::Features(4_000_000_000)));
    assert_eq!(fault("# 5\n1 2\n1 2 x\n"), (3, Fault::Number(3)));
    assert_eq!(fault("# 5\n1 -2\n"), (2, Fault::Number(2)));
    assert_eq!(fault("# 5\n1 4294967296\n"), (2, Fault::Number(2)));
    assert_eq!(fault("# 5\n0 1\n"), (2, Fault::Weight));
    assert_eq!(fault("# 5\n1 1\n4\n"), (3, Fault::Empty));
    assert_eq!(fault("# 5\n1 5 6\n"), (2, Fault::Id(6, 5)));
    assert_eq!(fault("# 5\n1 5 0\n"), (2, Fault::Id(0, 5)));
    assert_eq!(fault("1 5 2 3 2\n1 1 2 3\n"), (1, Fault::Count(2, 1)));
    assert_eq!(fault("1 5 1 3 2\n1 1 2\n"), (1, Fault::Count(3, 2)));
    assert_eq!(fault(&"#".repeat(MAX_LINE_BYTES + 1)), (1, Fault::Long));
    let none = Lists::read(&b"\n"[..], Style::Plain).expect_err("nothing");
    assert_eq!((none.line, none.fault), (0, Fault::Features(0)));
}

#[test]
fn a_table_may_have_more_rows_than_its_log_names() {
    let mut lists = Lists::new(3).expect("some");
    lists.push(2, &[0, 2]).expect("a query");
    let wider = lists.clone().over(7).expect("more");
    assert_eq!(
        (wider.features(), wider.query(0), lists.clone().over(1).map(|l| l.features())),
        (7, &[0, 2][..], Ok(3))
    );
    assert!(lists.over(u32::MAX).is_err());
}
