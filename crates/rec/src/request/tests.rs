//! Requests against a model with a memo plan: whatever form an id comes in, it ends at its row.

use super::*;
use crate::lists::Lists;
use crate::memo::{Growth, Limits};
use crate::{Batch, Dictionary, Model, Scratch, Synth, Tuning, Unknown};

const ROWS: u32 = 12;

/// A model of two tables, and the same with a plan for the first.
fn models() -> [Model; 2] {
    let shape =
        Synth { tables: 2, rows: ROWS, dim: 16, dense: 1, bottom: vec![], top: vec![1], ..Synth::default() };
    let [plain, mut planned] = [(); 2].map(|()| Model::synth(&shape).expect("memory"));
    let mut lists = Lists::new(ROWS).expect("rows");
    for ids in [&[11, 2, 7][..], &[2, 11], &[5, 7, 11, 2], &[0, 9]] {
        lists.push(5, ids).expect("a query");
    }
    let plan = Growth::new(&lists, 2.0, Limits::default(), |_| ()).plan(2.0);
    assert_ne!(plan.remap(), (0..ROWS).collect::<Vec<_>>(), "a plan that renames");
    planned.plan(0, plan).expect("memory");
    [plain, planned]
}

fn score(served: &Served, body: &str) -> Vec<f32> {
    let request = Request::parse(body.as_bytes(), None).unwrap_or_else(|e| panic!("{e}: {body}"));
    let queries = queries(&request, served, 8).unwrap_or_else(|e| panic!("{e}: {body}"));
    let bags = [queries.bags(0), queries.bags(1)];
    let batch = Batch { len: queries.len(), dense: queries.dense(), bags: &bags };
    let mut scores = Vec::new();
    let (tuning, mut scratch) = (Tuning::default(), Scratch::default());
    let inferred = served.model().infer(&batch, tuning, &mut scratch, &mut scores);
    inferred.expect("checked");
    scores
}

#[test]
fn an_id_ends_at_its_row_in_every_form_and_with_a_plan() {
    let [mut plain, mut planned] = models().map(Served::new);
    let dense = r#"{"name":"dense","shape":[2,1],"datatype":"FP32","data":[0.5,0.25]}"#;
    let tensors = |table: &str| {
        format!(
            r#"{{"name":"{table}.values","shape":[5],"datatype":"INT64","data":[11,2,7,11,5]}},
               {{"name":"{table}.offsets","shape":[2],"datatype":"INT32","data":[0,3]}}"#
        )
    };
    let features = |words: [&str; 2]| {
        format!(
            r#"{{"inputs":[{dense},{{"name":"features","shape":[2],"datatype":"BYTES","data":["{}","{}"]}}]}}"#,
            words[0], words[1]
        )
    };
    let by_tensor = format!(r#"{{"inputs":[{dense},{},{}]}}"#, tensors("t0"), tensors("t1"));
    let by_number = features(["t0: 11; t0: 2; t0: 7; t1: 11; t1: 2; t1: 7", "t0: 11; t0: 5; t1: 11; t1: 5"]);
    let by_hash = features(["t0: red; t0: blue; t1: red", "t0: green"]);
    let close = |a: Vec<f32>, b: Vec<f32>| {
        assert_eq!((a.len(), b.len()), (2, 2));
        a.iter().zip(&b).for_each(|(a, b)| assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} {b}"));
    };
    let want = score(&plain, &by_tensor);
    assert_ne!(want[0], want[1]);
    close(score(&planned, &by_tensor), want.clone());
    close(score(&plain, &by_number), want.clone());
    close(score(&planned, &by_number), want.clone());
    close(score(&planned, &by_hash), score(&plain, &by_hash));

    let words = "eleven\t11\ntwo\t2\nseven\t7\nfive\t5\n";
    for served in [&mut plain, &mut planned] {
        for table in 0..2 {
            let read =
                Dictionary::read(words.as_bytes(), ROWS, Unknown::Skip, 1 << 20).expect("a dictionary");
            served.set_dictionary(table, read);
        }
    }
    let by_word = features([
        "t0: eleven; t0: two; t0: seven; t1: eleven; t1: two; t1: seven",
        "t0: eleven; t0: five; t1: eleven; t1: five; t1: unheard",
    ]);
    close(score(&plain, &by_word), want.clone());
    close(score(&planned, &by_word), want);
}
