//! What is wrong with a request is named, whichever protocol it came by.

use super::*;

/// A server with low bounds.
fn strict() -> Server {
    start_with(Box::new(|| Ok(served(1))), &[("rec.queries", "8"), ("rec.body", "64k")])
}

/// Tensors, the name of the one that is wrong, and words that say why.
fn wrong_tensors() -> Vec<(Vec<Value>, &'static str, &'static str)> {
    let swap = |at: usize, tensor: Value| {
        let mut inputs = inputs();
        inputs[at] = tensor;
        inputs
    };
    let ints = |values: Value| tensor("item.values", "INT64", json!([2]), values);
    let offsets = |values: Value| tensor("item.offsets", "INT32", json!([3]), values);
    vec![
        (swap(0, tensor("dense", "FP64", json!([2, 2]), json!([1, 2, 3, 4]))), "dense", "expected type FP32"),
        (swap(0, tensor("dense", "FP32", json!([4]), json!([1, 2, 3, 4]))), "dense", "FP32 [queries, 2]"),
        (
            swap(0, tensor("dense", "FP32", json!([2, 2]), json!([1, 2, 3]))),
            "dense",
            "4 elements, the data are 3",
        ),
        (swap(0, tensor("dense", "FP32", json!([2, 2]), json!([1, 2, 3, 1e39]))), "dense", "number 3"),
        (swap(0, tensor("dense", "FP32", json!([0, 2]), json!([]))), "dense", "at least one query"),
        (swap(0, tensor("dense", "FP32", json!([9, 2]), json!(vec![0; 18]))), "dense", "at most 8 queries"),
        (swap(0, tensor("dens", "FP32", json!([2, 2]), json!([1, 2, 3, 4]))), "dens", "it takes dense"),
        (inputs()[1..].to_vec(), "dense", "missing"),
        (inputs()[..3].to_vec(), "user.values", "missing"),
        (swap(2, ints(json!([1, 2]))), "item.values", "twice"),
        ([inputs(), vec![offsets(json!([0, 2, 2]))]].concat(), "item.offsets", "twice"),
        (swap(1, ints(json!([1, 10]))), "item.values", "from 0 to 9, value 1 is 10"),
        (swap(1, ints(json!([-1, 1]))), "item.values", "value 0 is -1"),
        (swap(1, ints(json!([1, 2.5]))), "item.values", "whole numbers"),
        (swap(1, ints(json!([1, "2"]))), "", "no infer request in JSON"),
        (
            swap(1, tensor("item.values", "INT32", json!([2]), json!([1, 2]))),
            "item.values",
            "expected type INT64",
        ),
        (swap(1, tensor("items.values", "INT64", json!([2]), json!([1, 2]))), "items.values", "it has item"),
        (swap(2, offsets(json!([1, 2, 2]))), "item.offsets", "first offset"),
        (swap(2, offsets(json!([0, 2, 1]))), "item.offsets", "offset 2 is less"),
        (swap(2, offsets(json!([0, 1, 1]))), "item.offsets", "number of values, 2"),
        (swap(2, offsets(json!([0, 3, 3]))), "item.offsets", "offset 1 is greater"),
        (
            swap(2, tensor("item.offsets", "INT32", json!([1]), json!([0]))),
            "item.offsets",
            "INT32 [2] or [3]",
        ),
        (
            swap(2, tensor("item.offsets", "INT32", json!([1, 3]), json!([0, 2, 2]))),
            "item.offsets",
            "one dimension",
        ),
        (
            [inputs(), vec![tensor("item.weights", "FP32", json!([1]), json!([1]))]].concat(),
            "item.weights",
            "expected 2 numbers",
        ),
        (
            [inputs(), vec![tensor("item.weights", "FP32", json!([2]), json!([1, -1e39]))]].concat(),
            "item.weights",
            "number 1",
        ),
        (swap(0, tensor("dense", "FP32", json!([u64::MAX, u64::MAX]), json!([1]))), "dense", "too large"),
    ]
}

#[test]
fn wrong_tensors_are_named() {
    let server = strict();
    let mut http = Http::to(&server);
    for (inputs, name, why) in wrong_tensors() {
        let (status, reply) = http.json("POST", "/v2/models/tiny/infer", &json!({ "inputs": inputs }));
        let error = reply["error"].as_str().unwrap_or_default();
        let names = name.is_empty() || error.starts_with(&format!("tensor {name}: "));
        assert!(status == 400 && names && error.contains(why), "{status} {error:?}: expected {name}: {why}");
    }
    let counters = server.counters();
    assert!(counters.refused.load(Ordering::Relaxed) > 20);
}

#[test]
fn wrong_features_paths_and_bodies_are_named() {
    let server = strict();
    let mut http = Http::to(&server);
    let features = |text: &str| {
        let dense = tensor("dense", "FP32", json!([1, 2]), json!([1, 2]));
        json!({ "inputs": [dense, tensor("features", "BYTES", json!([1]), json!([text]))] })
    };
    for (text, why) in [("item", "is no `table: feature`"), ("x: 1", "no table"), ("item: 10", "beyond")] {
        let (status, reply) = http.json("POST", "/v2/models/tiny/infer", &features(text));
        assert!(status == 400 && reply["error"].as_str().is_some_and(|error| error.contains(why)), "{reply}");
    }
    let (status, reply) =
        http.json("POST", "/v2/models/tiny/infer", &features("item: blue; item: blue; user: ann"));
    assert_eq!(status, 200, "words are hashed: {reply}");
    for (path, body, want) in [
        ("/v2/models/other/infer", "{}", 404),
        ("/v2/models/tiny/versions/7/infer", "{}", 404),
        ("/v2/models/tiny/infer", "{", 400),
        ("/v2/models/tiny/infer", "{\"inputs\": 3}", 400),
        ("/v2/nothing", "", 404),
        ("/v2/models/tiny/infer", &"x".repeat(70_000), 413),
    ] {
        let (status, _, reply) = Http::to(&server).ask("POST", path, "", body.as_bytes());
        let reply: Value = serde_json::from_slice(&reply).expect("JSON");
        assert_eq!((status, reply["error"].is_string()), (want, true), "{path} {reply}");
    }
}

#[test]
fn what_is_wrong_with_a_call_of_the_fabric_is_named() {
    let server = strict();
    let mut client = connect(&server);
    let mut refused =
        |fill: &dyn Fn(&mut InferRequestMut<'_, '_>) -> Result<(), codec::memory::OutOfMemory>| {
            let status = scores(&mut client, fill).expect_err("refused");
            (status.code(), status.message().to_owned())
        };
    let wrong = refused(&|request| {
        fill(request)?;
        request.bags_mut(1).set_values(&[4, 5])
    });
    assert_eq!(
        wrong,
        (Code::InvalidArgument, "tensor user.values: expected ids from 0 to 4, value 1 is 5".to_owned())
    );
    assert_eq!(refused(&|request| request.set_model("other")).0, Code::NotFound);
    assert_eq!(refused(&|_| Ok(())).0, Code::InvalidArgument);
    let both = refused(&|request| {
        fill(request)?;
        request.push_queries().map(|_| ())
    });
    assert!(both.1.starts_with("tensor dense: it is given twice"), "{both:?}");
}
