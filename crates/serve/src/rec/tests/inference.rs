//! The Open Inference Protocol as clients of gRPC speak it, statistics, and what is compressed over HTTP.

use super::*;
use crate::gzip;
use crate::rec::oip::proto::inference as proto;
use crate::rec::preprocess::{Reader, inference};
use crate::rec::shelf::Shelf;
use codec::encode::Encoder;
use codec::memory::{Arena, OutOfMemory};
use codec::typed::{Message as _, MessageView as _};
use proptest::prelude::*;
use proto::{GRPCInferenceServiceClient, ModelInferRequest, ModelInferRequestMut};

/// A client of the fabric that calls the same methods: the gateway passes them on as they are.
struct Inference(Channel, GRPCInferenceServiceClient, CallOptions<'static>);

impl Inference {
    fn to(server: &Server) -> Inference {
        let channel = Channel::connect(&server.addresses()[0], &Options::default()).expect("a connection");
        let client = GRPCInferenceServiceClient::new(&channel).expect("the service");
        Inference(channel, client, CallOptions::within(Duration::from_secs(20)))
    }

    /// Scores, from typed contents or bytes, and the request's id.
    fn infer(
        &mut self,
        fill: impl FnOnce(&mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> Result<(Vec<f32>, String), Status> {
        let Inference(channel, client, options) = self;
        let reply = client.model_infer(channel, options, fill)?;
        let view = reply.view();
        let output = view.outputs().get(0).expect("scores");
        assert_eq!((view.model_name(), view.model_version(), output.name()), ("tiny", "1", "scores"));
        assert_eq!((output.datatype(), output.shape()), ("FP32", &[2, 1][..]));
        assert!(view.parameters().get("together").expect("it is there").int64_param() >= 2);
        let scores = match view.raw_output_contents().get(0) {
            None => output.contents().expect("one or the other").fp32_contents().to_vec(),
            Some(bytes) => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
        };
        Ok((scores, view.id().to_owned()))
    }

    fn refused(
        &mut self,
        fill: impl FnOnce(&mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory>,
    ) -> (Code, String) {
        let status = self.infer(fill).expect_err("refused");
        (status.code(), status.message().to_owned())
    }
}

/// The tensors of [`inputs`], their data to be added.
const SHAPES: [(&str, &str, &[i64]); 5] = [
    ("dense", "FP32", &[2, 2]),
    ("item.values", "INT64", &[2]),
    ("item.offsets", "INT32", &[3]),
    ("t1.values", "INT64", &[2]),
    ("t1.offsets", "INT32", &[2]),
];

fn typed(request: &mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory> {
    request.set_model_name("tiny")?;
    for (at, (name, datatype, shape)) in SHAPES.into_iter().enumerate() {
        let mut input = request.push_inputs()?;
        input.set_name(name)?;
        input.set_datatype(datatype)?;
        input.set_shape(shape)?;
        let mut contents = input.contents_mut()?;
        match at {
            0 => contents.set_fp32_contents(&[0.5, 1.0, 2.0, 3.0])?,
            1 => contents.set_int64_contents(&[1, 2])?,
            2 => contents.set_int_contents(&[0, 2, 2])?,
            3 => contents.set_int64_contents(&[4, 4])?,
            _ => contents.set_int_contents(&[0, 0])?,
        }
    }
    Ok(())
}

fn raw(request: &mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory> {
    request.set_model_name("tiny")?;
    request.set_id("seven")?;
    for (name, datatype, shape) in SHAPES {
        let mut input = request.push_inputs()?;
        input.set_name(name)?;
        input.set_datatype(datatype)?;
        input.set_shape(shape)?;
    }
    let longs = |all: &[i64]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>();
    let ints = |all: &[i32]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>();
    let dense: Vec<u8> = [0.5f32, 1.0, 2.0, 3.0].iter().flat_map(|one| one.to_le_bytes()).collect();
    for data in [dense, longs(&[1, 2]), ints(&[0, 2, 2]), longs(&[4, 4]), ints(&[0, 0])] {
        request.push_raw_input_contents(&data)?;
    }
    Ok(())
}

#[test]
fn typed_and_raw_contents_give_the_model_s_scores_in_their_form() {
    let server = start();
    let mut inference = Inference::to(&server);
    assert_eq!(inference.infer(typed).expect("scores"), (SCORES.to_vec(), String::new()));
    assert_eq!(inference.infer(raw).expect("scores"), (SCORES.to_vec(), "seven".to_owned()));
    let features = inference.infer(|request| {
        request.set_model_name("tiny")?;
        request.set_model_version("1")?;
        let mut dense = request.push_inputs()?;
        dense.set_name("dense")?;
        dense.set_datatype("FP32")?;
        dense.set_shape(&[2, 2])?;
        dense.contents_mut()?.set_fp32_contents(&[0.5, 1.0, 2.0, 3.0])?;
        let mut features = request.push_inputs()?;
        features.set_name("features")?;
        features.set_datatype("BYTES")?;
        features.set_shape(&[2])?;
        let mut texts = features.contents_mut()?;
        texts.push_bytes_contents(b"item: 1; t0: 2")?;
        texts.push_bytes_contents(b"user: 4; user: 4")
    });
    assert_eq!(features.expect("scores").0, SCORES);
}

#[test]
fn what_is_wrong_with_a_request_over_grpc_is_named() {
    let server = start();
    let mut inference = Inference::to(&server);
    let invalid = |refused: (Code, String), text: &str| {
        assert!(refused.0 == Code::InvalidArgument && refused.1.contains(text), "{refused:?}: {text}");
    };
    let with = |change: fn(&mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory>| {
        move |request: &mut ModelInferRequestMut<'_, '_>| {
            typed(request)?;
            change(request)
        }
    };
    invalid(
        inference.refused(with(|r| r.inputs_mut(1).set_shape(&[-1]))),
        "tensor item.values: a size in its shape",
    );
    invalid(
        inference.refused(with(|r| r.inputs_mut(1).set_shape(&[3]))),
        "tensor item.values: the shape says 3",
    );
    invalid(
        inference.refused(with(|r| r.inputs_mut(0).set_datatype("FP64"))),
        "tensor dense: contents may be",
    );
    invalid(inference.refused(with(|r| r.push_raw_input_contents(b""))), "raw_input_contents has data of 1");
    invalid(inference.refused(with(|r| r.push_outputs()?.set_name("other"))), "tensor other");
    invalid(
        inference.refused(with(|r| {
            r.inputs_mut(0).clear_contents();
            Ok(())
        })),
        "tensor dense: it has no data",
    );
    invalid(
        inference.refused(|request| {
            raw(request)?;
            request.inputs_mut(2).contents_mut()?.set_int_contents(&[0])
        }),
        "tensor item.offsets: it has contents, and raw",
    );
    invalid(
        inference.refused(|request| {
            raw(request)?;
            request.inputs_mut(3).set_shape(&[1])
        }),
        "tensor t1.values: 16 bytes are no INT64",
    );
    assert_eq!(inference.refused(with(|r| r.set_model_name("other"))).0, Code::NotFound);
    assert_eq!(inference.refused(with(|r| r.set_model_version("2"))).0, Code::NotFound);
}

#[test]
fn statistics_are_the_same_over_both_protocols() {
    let server = start();
    let mut inference = Inference::to(&server);
    inference.infer(typed).expect("scores");
    inference.refused(|_| Ok(()));
    let mut http = Http::to(&server);
    let (status, told) = http.json("GET", "/v2/models/tiny/stats", &Value::Null);
    let model = &told["model_stats"][0];
    let stats = &model["inference_stats"];
    assert_eq!(
        (status, &model["name"], &model["inference_count"]),
        (200, &json!("tiny"), &json!(2)),
        "{told}"
    );
    assert_eq!((&stats["success"]["count"], &stats["fail"]["count"]), (&json!(1), &json!(1)), "{told}");
    assert_eq!(http.json("GET", "/v2/models/stats", &Value::Null).1, told);
    assert_eq!(http.ask("GET", "/v2/models/other/stats", "", b"").0, 404);
    let Inference(channel, client, options) = &mut inference;
    let reply = client.model_statistics(channel, options, |_| Ok(())).expect("told");
    let model = reply.view().model_stats().get(0).expect("one");
    let success = model.inference_stats().expect("some").success().expect("some");
    assert_eq!((model.inference_count(), model.execution_count(), success.count()), (2, 1, 1));
    assert_eq!(json!(success.ns()), stats["success"]["ns"]);
    let (status, head, page) = http.ask("GET", "/metrics", "", b"");
    let page = String::from_utf8(page).expect("text");
    assert!(status == 200 && head.contains("content-type: text/plain"), "{head}");
    crate::metrics::lint::hold(&page);
    assert!(page.contains("millrace_rec_queries_total 2\n"), "{page}");
}

#[test]
fn bodies_are_compressed_both_ways_within_bounds() {
    let server = start_with(Box::new(|| Ok(served(1))), &[("rec.body", "64k")]);
    let mut http = Http::to(&server);
    let mut ask = |headers: &str, body: &[u8]| http.ask("POST", "/v2/models/tiny/infer", headers, body);
    let body = json!({ "inputs": inputs() }).to_string().into_bytes();
    let packed = gzip::packed(&body).expect("JSON is shorter");
    let (status, head, reply) = ask("Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n", &packed);
    let reply: Value = serde_json::from_slice(&reply).expect("it is short, and not compressed");
    assert_eq!((status, &reply["outputs"][0]["data"]), (200, &json!(SCORES)), "{head}");
    // Many queries: their answer is worth it, for who takes it.
    let many = json!({ "inputs": [
        tensor("dense", "FP32", json!([500, 2]), json!(vec![1; 1000])),
        tensor("features", "BYTES", json!([500]), json!(vec!["item: 1"; 500])),
    ] });
    let packed = gzip::packed(many.to_string().as_bytes()).expect("JSON is shorter");
    let (_, head, plain) = ask("Content-Encoding: gzip\r\n", &packed);
    assert!(!head.contains("content-encoding"), "{head}");
    let (status, head, reply) = ask("Content-Encoding: gzip\r\nAccept-Encoding: br, gzip\r\n", &packed);
    assert!(status == 200 && head.contains("content-encoding: gzip"), "{head}");
    let of = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON")["outputs"].take();
    assert_eq!(of(&gzip::unpacked(&reply, 1 << 20).expect("gzip")), of(&plain));
    // What grows beyond rec.body, is no gzip, or compressed otherwise.
    let bomb = gzip::packed(&vec![b' '; 1 << 20]).expect("blanks are shorter");
    for (headers, body, want) in [
        ("Content-Encoding: gzip\r\n", &bomb[..], 413),
        ("Content-Encoding: gzip\r\n", &body, 400),
        ("Content-Encoding: gzip\r\n", &packed[..packed.len() - 1], 400),
        ("Content-Encoding: br\r\n", &body, 415),
        ("Content-Encoding: identity\r\n", &body, 200),
    ] {
        let (status, head, _) = Http::to(&server).ask("POST", "/v2/models/tiny/infer", headers, body);
        assert_eq!(status, want, "{headers}{head}");
    }
}

/// A request that nothing is wrong with.
fn encoded(fill: fn(&mut ModelInferRequestMut<'_, '_>) -> Result<(), OutOfMemory>) -> Vec<u8> {
    let (arena, mut encoder) = (Arena::default(), Encoder::default());
    let mut request = ModelInferRequest::new(&arena).expect("memory");
    fill(&mut request).expect("memory");
    ModelInferRequest::freeze(request).encode(&mut encoder).expect("encoded").to_vec()
}

proptest! {
    /// Bytes of anybody, most of them nearly a request: an error, or as many queries as the model computes.
    #[test]
    fn any_bytes_are_queries_or_refused(
        is_raw in any::<bool>(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..4,
        bytes in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let mut body = encoded(if is_raw { raw } else { typed });
        let at = at.index(body.len());
        let end = (at + cut).min(body.len());
        body.splice(at..end, bytes);
        let shelf = Shelf::new(Box::new(|| Ok(served(1))), &Arc::default()).expect("a model");
        let served = shelf.find("tiny", None).expect("it is served");
        let find = |name: &str, version: Option<&str>| shelf.find(name, version);
        if let Ok((queries, ..)) = inference(&body, &mut Reader::default(), find, 8, || ()) {
            prop_assert!((1..=8).contains(&queries.len()));
            let bags = [queries.bags(0), queries.bags(1)];
            let batch = Batch { len: queries.len(), dense: queries.dense(), bags: &bags };
            let (mut scratch, mut scores) = (Scratch::default(), Vec::new());
            served.model().infer(&batch, Tuning::default(), &mut scratch, &mut scores).expect("it was checked");
            prop_assert_eq!(scores.len(), queries.len());
        }
    }
}
