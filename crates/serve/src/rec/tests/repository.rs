//! A folder of models: which are served, how they come and go while requests are answered, and what its files may say.

use super::*;
use crate::rec::oip::proto::inference::GRPCInferenceServiceClient;
use crate::rec::repository::{Config, Repository};
use crate::rec::source::ModelArgs;
use clap::{Args as _, Command, FromArgMatches as _};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use tempfile::TempDir;

/// A folder of this process, until it is dropped.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::with_prefix("millrace-").expect("a folder"))
    }

    /// A version of a model whose scores are those of [`SCORES`], so many times.
    fn put(&self, name: &str, version: &str, scale: f32) {
        model(scale).write(&self.0.path().join(name).join(version)).expect("written");
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.path().join(path), text).expect("written");
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.0.path().join(path)).expect("it was there");
    }

    fn source(&self) -> Source {
        Box::new(Repository::new(self.0.path().to_owned(), options()))
    }

    fn start(&self) -> Server {
        start_with(self.source(), &[])
    }
}

fn options() -> ModelArgs {
    let matches = ModelArgs::augment_args(Command::new("serve")).get_matches_from(["serve"]);
    ModelArgs::from_arg_matches(&matches).expect("flags")
}

/// How many times [`SCORES`] a model scores, or the error.
fn scale(http: &mut Http, path: &str) -> Result<f32, String> {
    let (status, reply) =
        http.json("POST", &format!("/v2/models/{path}/infer"), &json!({ "inputs": inputs() }));
    if status != 200 {
        return Err(format!("{status} {}", reply["error"].as_str().expect("an error")));
    }
    let data = &reply["outputs"][0]["data"];
    Ok(data[0].as_f64().expect("a score") as f32 / SCORES[0])
}

fn index(http: &mut Http) -> Vec<String> {
    let (status, reply) = http.json("POST", "/v2/repository/index", &Value::Null);
    assert_eq!(status, 200);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let line = |one: &Value| {
        ["name", "version", "state", "reason"].map(|key| text(&one[key])).join(" ").trim_end().to_owned()
    };
    reply.as_array().expect("a list").iter().map(line).collect()
}

/// Loads or unloads.
fn change(http: &mut Http, path: &str) -> (u16, String) {
    let (status, reply) = http.json("POST", &format!("/v2/repository/models/{path}"), &Value::Null);
    (status, reply.to_string())
}

#[test]
fn versions_are_served_as_the_folder_says() {
    let folder = Folder::new();
    for (name, version, scale) in
        [("ads", "2", 2.0), ("ads", "10", 10.0), ("feed", "1", 1.0), ("feed", "3", 3.0)]
    {
        folder.put(name, version, scale);
    }
    folder.write("feed/config.pbtxt", "name: 'feed' version_policy { all {} }");
    fs::create_dir(folder.0.path().join(".git")).expect("a folder");
    fs::create_dir(folder.0.path().join("ads/007")).expect("a folder");
    let server = folder.start();
    let mut http = Http::to(&server);
    assert_eq!(index(&mut http), ["ads 10 READY", "feed 1 READY", "feed 3 READY"]);
    for (path, expected) in [
        ("ads", 10.0),
        ("ads/versions/10", 10.0),
        ("feed", 3.0),
        ("feed/versions/1", 1.0),
        ("feed/versions/3", 3.0),
    ] {
        assert_eq!(scale(&mut http, path), Ok(expected), "{path}");
    }
    for path in ["ads/versions/2", "other", "feed/versions/2", "..", "ads/versions/010"] {
        let why = scale(&mut http, path).expect_err(path);
        assert!(why.starts_with("404"), "{path}: {why}");
    }
    let (_, told) = http.json("GET", "/v2/models/feed", &Value::Null);
    assert_eq!(told["versions"], json!(["1", "3"]));
    let (_, told) = http.json("GET", "/v2/models/feed/versions/1/stats", &Value::Null);
    let stats = &told["model_stats"];
    assert_eq!(
        (stats.as_array().expect("a list").len(), &stats[0]["inference_count"]),
        (1, &json!(2)),
        "{told}"
    );
    let (_, told) = http.json("GET", "/v2/models/stats", &Value::Null);
    let counts: Vec<_> =
        told["model_stats"].as_array().expect("a list").iter().map(|one| &one["inference_count"]).collect();
    assert_eq!(counts, [&json!(4), &json!(2), &json!(4)], "{told}");
    // Over the fabric a name is wanted where there are several.
    let mut client = connect(&server);
    let refused = scores(&mut client, fill).expect_err("of which?");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("ads version 10, feed version 1"), "{refused:?}");
    let named = scores(&mut client, |request| {
        request.set_model("feed")?;
        fill(request)
    });
    assert_eq!(named.expect("the newest"), (SCORES.map(|score| score * 3.0).to_vec(), "3".to_owned()));
}

#[test]
fn models_come_and_go_and_what_has_not_changed_stays() {
    let folder = Folder::new();
    folder.put("ads", "1", 1.0);
    folder.put("feed", "1", 5.0);
    let server = folder.start();
    let mut http = Http::to(&server);
    let loads = |server: &Server| server.counters().loads.load(Ordering::Relaxed);
    let (ads, feed) = (server.shelf().find("ads", None), server.shelf().find("feed", None));
    let (ads, feed) = (ads.expect("it is served"), feed.expect("it is served"));
    // Nothing is new.
    server.shelf().reload().expect("all load");
    assert_eq!(loads(&server), 0);
    assert!(Arc::ptr_eq(&ads, &server.shelf().find("ads", None).expect("it is served")));
    // A version more: it alone is loaded, and the model before goes.
    folder.put("ads", "2", 2.0);
    assert_eq!(change(&mut http, "ads/load").0, 200);
    assert_eq!((loads(&server), scale(&mut http, "ads")), (1, Ok(2.0)));
    assert!(Arc::ptr_eq(&feed, &server.shelf().find("feed", None).expect("it is served")));
    // A third that is none: the second goes on, and the list says why.
    folder.put("ads", "3", 3.0);
    folder.write("ads/3/model.safetensors", "none");
    let (status, why) = change(&mut http, "ads/load");
    assert!(status == 400 && why.contains("safetensors"), "{why}");
    assert_eq!(scale(&mut http, "ads"), Ok(2.0));
    let listed = index(&mut http);
    assert!(listed[0].starts_with("ads 2 READY ") && listed[0].contains("safetensors"), "{listed:?}");
    let why = server.shelf().reload().expect_err("one does not load");
    assert!(why.starts_with("model ads: "), "{why}");
    // Both versions, the third mended.
    folder.put("ads", "3", 4.0);
    folder.write("ads/config.pbtxt", "version_policy { specific { versions: [2, 3] } }");
    server.shelf().reload().expect("all load");
    assert_eq!(index(&mut http), ["ads 2 READY", "ads 3 READY", "feed 1 READY"]);
    assert_eq!(scale(&mut http, "ads"), Ok(4.0));
    // Unloaded until it is loaded; a new one comes, an old one goes.
    assert_eq!(change(&mut http, "feed/unload"), (200, "{}".to_owned()));
    assert!(scale(&mut http, "feed").expect_err("unloaded").starts_with("404"));
    assert_eq!(index(&mut http)[2], "feed  UNAVAILABLE unloaded");
    folder.put("home", "1", 7.0);
    assert_eq!(index(&mut http)[3], "home  UNAVAILABLE not loaded yet");
    assert_eq!(change(&mut http, "home/load").0, 200);
    assert_eq!(scale(&mut http, "home"), Ok(7.0));
    assert_eq!(change(&mut http, "feed/load").0, 200);
    assert_eq!(scale(&mut http, "feed"), Ok(5.0));
    folder.remove("ads");
    server.shelf().reload().expect("all load");
    assert_eq!(index(&mut http), ["feed 1 READY", "home 1 READY"]);
    for path in ["ads/load", "nobody/unload", "..%2Fetc/load"] {
        assert_eq!(change(&mut http, path).0, 404, "{path}");
    }
}

#[test]
fn requests_of_many_models_are_each_answered_by_theirs() {
    let folder = Folder::new();
    for at in 1..=5 {
        folder.put(&format!("m{at}"), "1", at as f32);
    }
    let server = folder.start();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut http = Http::to(server);
                let mut client = connect(server);
                for round in 0..60 {
                    let at = (round * 7 + thread * 3) % 5 + 1;
                    assert_eq!(scale(&mut http, &format!("m{at}")), Ok(at as f32));
                    let by_fabric = scores(&mut client, |request| {
                        request.set_model(&format!("m{at}"))?;
                        fill(request)
                    });
                    assert_eq!(by_fabric.expect("scores").0, SCORES.map(|score| score * at as f32));
                }
            });
        }
    });
    let answered: u64 =
        server.shelf().all().iter().map(|model| model.counted.requests.load(Ordering::Relaxed)).sum();
    assert_eq!(answered, 4 * 60 * 2);
}

#[test]
fn requests_of_two_models_gather_in_a_batch_of_each() {
    let folder = Folder::new();
    folder.put("a", "1", 1.0);
    folder.put("b", "1", 2.0);
    // Nobody's batch is full before all have come, and none waits for longer than the test would.
    let server = start_with(folder.source(), &[("rec.linger", "200000"), ("rec.batch", "8")]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let (name, expected) = if thread % 2 == 0 { ("a", 1.0) } else { ("b", 2.0) };
                assert_eq!(scale(&mut Http::to(server), name), Ok(expected));
            });
        }
    });
    // Two queries each, eight of each model: one batch each if all came within the linger, and fewer than requests in any case.
    for model in server.shelf().all().iter() {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((count(&model.counted.requests), count(&model.counted.queries)), (4, 8));
        assert!((1..=4).contains(&count(&model.counted.batches)));
    }
}

#[test]
fn the_configuration_is_told_alike_over_both_protocols() {
    let folder = Folder::new();
    folder.put("ads", "4", 1.0);
    folder.write(
        "ads/config.pbtxt",
        "platform: \"millrace_dlrm\" parameters { key: 'row_format' value { string_value: 'int8' } }",
    );
    let server = start_with(folder.source(), &[("rec.linger", "150"), ("rec.batch", "32")]);
    let mut http = Http::to(&server);
    let (status, told) = http.json("GET", "/v2/models/ads/config", &Value::Null);
    assert_eq!((status, &told["name"], &told["max_batch_size"]), (200, &json!("ads"), &json!(32)), "{told}");
    assert_eq!(told["parameters"]["item.row_format"]["string_value"], json!("int8"));
    assert_eq!(told["input"][0], json!({ "name": "dense", "data_type": "TYPE_FP32", "dims": [-1, 2] }));
    assert_eq!(told["version_policy"]["specific"]["versions"], json!([4]));

    let mut channel = Channel::connect(&server.addresses()[0], &Options::default()).expect("a connection");
    let client = GRPCInferenceServiceClient::new(&channel).expect("the service");
    let options = CallOptions::within(Duration::from_secs(20));
    let reply = client.model_config(&mut channel, &options, |request| request.set_name("ads")).expect("told");
    let config = reply.view().config().expect("a configuration");
    let text = codec::text::json::print(
        codec::typed::MessageView::dynamic(config),
        &codec::text::json::PrintOptions::default(),
    );
    let mut over: Value = serde_json::from_str(&text.expect("JSON")).expect("JSON");
    // protobuf's JSON has its own words for the same: names in camels, 64-bit numbers as texts.
    assert_eq!(over["dynamicBatching"]["maxQueueDelayMicroseconds"], json!("150"), "{over}");
    assert_eq!(told["dynamic_batching"]["max_queue_delay_microseconds"], json!(150));
    let dims = over["input"][0]["dims"].take();
    assert_eq!((dims, &over["input"][0]["dataType"]), (json!(["-1", "2"]), &told["input"][0]["data_type"]));
    assert_eq!(over["input"].as_array().map(Vec::len), told["input"].as_array().map(Vec::len));
    drop(reply);

    let unload = |channel: &mut Channel, name: &str| {
        client.repository_model_unload(channel, &options, |request| request.set_model_name(name)).map(drop)
    };
    let load = |channel: &mut Channel, name: &str| {
        client.repository_model_load(channel, &options, |request| request.set_model_name(name)).map(drop)
    };
    unload(&mut channel, "ads").expect("it was there");
    assert_eq!(scale(&mut http, "ads").expect_err("unloaded").get(..3), Some("404"));
    load(&mut channel, "ads").expect("it loads");
    assert!(scale(&mut http, "ads").is_ok());
    assert_eq!(load(&mut channel, "none").expect_err("there is none").code(), Code::NotFound);
    folder.write("ads/config.pbtxt", "max_batch_size: 4");
    let why = load(&mut channel, "ads").expect_err("it cannot be had");
    assert_eq!(why.code(), Code::FailedPrecondition);
    assert!(why.message().contains("set register rec.batch"), "{why:?}");
}

/// A reply says that the next may be asked for: it found the turn taken, of a thread that had answered and not given it back.
#[test]
fn who_was_answered_may_load_again_at_once() {
    let folder = Folder::new();
    folder.put("ads", "1", 1.0);
    folder.put("feed", "1", 1.0);
    let server = folder.start();
    let mut channel = Channel::connect(&server.addresses()[0], &Options::default()).expect("a connection");
    let client = GRPCInferenceServiceClient::new(&channel).expect("the service");
    let options = CallOptions::within(Duration::from_secs(20));
    for round in 0..200 {
        let loaded = client.repository_model_load(&mut channel, &options, |one| one.set_model_name("ads"));
        loaded.map(drop).unwrap_or_else(|why| panic!("load {round}: {why:?}"));
    }
}

/// A source whose second load waits until it may go on.
#[test]
fn a_list_does_not_wait_for_what_is_being_loaded() {
    let (begun, begins) = std::sync::mpsc::channel();
    let (goes_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let (may_go_on, loads) = (std::sync::Mutex::new(may_go_on), AtomicU32::new(0));
    let source: Source = Box::new(move || {
        if loads.fetch_add(1, Ordering::Relaxed) > 0 {
            begun.send(()).expect("the test waits");
            may_go_on.lock().expect("nobody panicked").recv().expect("the test says so");
        }
        Ok(served(1))
    });
    let shelf = crate::rec::Shelf::new(source, &Arc::default()).expect("a model");
    std::thread::scope(|scope| {
        let load = scope.spawn(|| shelf.load("tiny").map(|model| model.generation));
        begins.recv().expect("it loads");
        assert_eq!(shelf.index().len(), 1);
        assert!(shelf.find("tiny", None).is_ok());
        goes_on.send(()).expect("it waits");
        assert_eq!(load.join().expect("no panic").expect("it loads"), 2);
    });
}

#[test]
fn the_only_model_is_not_unloaded() {
    let server = start();
    let (status, why) = change(&mut Http::to(&server), "tiny/unload");
    assert!(status == 400 && why.contains("the only model"), "{why}");
}

fn refused(folder: &Folder) -> String {
    crate::rec::Shelf::new(folder.source(), &Arc::default()).err().expect("it is refused")
}

#[test]
fn a_folder_that_is_wrong_is_told_what_is() {
    let folder = Folder::new();
    assert!(refused(&folder).contains("such as ctr/1"), "{}", refused(&folder));
    fs::create_dir_all(folder.0.path().join("ads")).expect("a folder");
    assert!(refused(&folder).contains("there is no version"), "{}", refused(&folder));
    folder.put("ads", "1", 1.0);
    for (config, why) in [
        ("nme: 'ads'", "line 1, column 1"),
        ("name: 'feed'", "leave it out, or say the same"),
        ("platform: 'onnxruntime_onnx'", "\"onnxruntime_onnx\" is not served"),
        ("backend: 'python'", "\"python\" is not served"),
        ("max_batch_size: 8", "rec.batch"),
        ("dynamic_batching {}", "rec.linger"),
        ("input [{ name: 'x' }]", "input cannot be set"),
        ("output [{ name: 'x' }]", "output cannot be set"),
        ("parameters { key: 'x' value { string_value: 'y' } }", "expected row_format"),
        ("parameters { key: 'row_format' value { string_value: 'f64' } }", "row_format \"f64\""),
        ("version_policy { specific { versions: [7] } }", "there is no version 7"),
        ("version_policy { specific { versions: [-1] } }", "expected versions from 1"),
        ("version_policy { specific {} }", "expected versions from 1"),
        ("instance_group [{ count: 2 }]", "instance_group"),
    ] {
        folder.write("ads/config.pbtxt", config);
        let said = refused(&folder);
        assert!(said.contains(why) && said.contains("model ads: "), "{config}: {said}");
    }
    fs::write(folder.0.path().join("ads/config.pbtxt"), [0xff]).expect("written");
    assert!(refused(&folder).contains("UTF-8"));
    folder.write("ads/config.pbtxt", &" ".repeat(65 << 10));
    assert!(refused(&folder).contains("at most 65536"), "{}", refused(&folder));
    assert!(Path::new("/nonexistent-millrace").metadata().is_err());
    let none = Box::new(Repository::new("/nonexistent-millrace".into(), options()));
    assert!(crate::rec::Shelf::new(none, &Arc::default()).is_err());
}

proptest! {
    /// Any text is a configuration, or refused.
    #[test]
    fn any_text_is_a_configuration_or_refused(
        words in proptest::collection::vec(
            prop_oneof![
                Just("name:".to_owned()), Just("'ads'".to_owned()), Just("version_policy".to_owned()), Just("{".to_owned()),
                Just("}".to_owned()), Just("latest".to_owned()), Just("num_versions: 2".to_owned()), Just("all {}".to_owned()),
                Just("specific { versions: [1, 2] }".to_owned()), Just("parameters".to_owned()), ".{0,6}",
            ],
            0..8,
        ),
    ) {
        let text = words.join(" ");
        if let Ok(config) = Config::parse(&text, "ads") {
            prop_assert_eq!(Config::parse(&text, "ads"), Ok(config));
        }
    }
}
