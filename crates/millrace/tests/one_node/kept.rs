//! gRPC clients and the replies that the in-network cache keeps.

use super::{Grpc, Node, channel, millrace, sample, write};
use fabric::channel::CallOptions;
use serve::rpc::demo::proto::demo::EchoClient;
use tempfile::TempDir;

const NODE: &str = r#"
[admin]
listen = 0

[services.net]
kind = "cache"
topology = "FOLDER/rack.toml"
first = true

[services.demo]
kind = "rpc"
cache = "FOLDER/rack.toml"
workers.count = 1

[[listen]]
service = "demo"
address = "tcp:127.0.0.1:0"

[[listen]]
service = "demo"
protocol = "grpc"
address = "127.0.0.1:0"
"#;

#[test]
fn a_reply_that_a_box_has_never_reaches_the_server() {
    let folder = TempDir::with_prefix("millrace-").expect("a folder");
    let patient = ["coherence.patience=30000000", "coherence.worth=0", "coherence.bypass=0"];
    let words: Vec<&str> = ["inc", "topology", "--free-ports"]
        .into_iter()
        .chain(patient.iter().flat_map(|setting| ["--set", setting]))
        .collect();
    write(&folder, "rack.toml", &millrace(&words));
    let file = write(&folder, "node.toml", &NODE.replace("FOLDER", folder.path().to_str().expect("text")));
    let node = Node::start(&file);
    node.until("/readyz", |status, _| status == 200);
    let mut grpc = Grpc::connect(&node.at("demo", "grpc://"));
    let seen = || {
        let metrics = node.get("/metrics").1;
        [
            "millrace_gateway_cache_lookups_total",
            "millrace_gateway_cache_hits_total",
            "millrace_rpc_replies_hits_total",
            "millrace_rpc_calls_started_total{service=\"demo\",side=\"server\",method=\"/demo.Echo/Say\"}",
        ]
        .map(|name| sample(&metrics, name).unwrap_or(0.0))
    };
    for text in ["one", "one", "one", "other"] {
        assert_eq!(grpc.say(text), text);
    }
    assert_eq!(seen(), [4.0, 2.0, 0.0, 2.0], "asked, found, found by the server, and what it heard of");
    // Who asks the server itself has what it kept for the gateway's.
    let mut channel = channel(&node);
    let echo = EchoClient::new(&channel).expect("it is served");
    let reply = echo.say(&mut channel, &CallOptions::default(), |request| request.set_text("other"));
    assert_eq!(reply.expect("answered").view().text(), "other");
    assert_eq!(seen(), [4.0, 2.0, 1.0, 3.0]);
    // Streams pass by the cache.
    let mut talk = grpc.chat();
    assert_eq!(grpc.exchange(&mut talk, "one"), "one");
    assert_eq!(grpc.end(talk), "0");
    assert_eq!(seen()[0], 4.0);
}
