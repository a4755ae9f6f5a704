//! Generated stubs against each other: every kind of method, over links between threads.

use fabric::channel::{CallOptions, Channel, Options, What};
use fabric::frame::push_metadata;
use fabric::link::{Link, LinkOptions, memory};
use fabric::server::Server;
use fabric::service::{BoxFuture, Context};
use fabric::shared::{Shared, SharedOptions};
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, Streaming};
use proto::parts::{
    AWKWARD, AwkwardClient, AwkwardServer, CountRequest, ECHO, EMPTY, Echo, EchoClient_, EchoServer,
    EmptyClient, Number, SayReply, SayReplyMut, SayRequest, SayRequestView,
};
use ring::wait::WaitPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    include!("generated/parts.rs");
}

struct Parrot;

impl Echo for Parrot {
    fn say(
        &self,
        request: SayRequestView<'_>,
        reply: &mut SayReplyMut<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        if request.text().is_empty() {
            return Err(Status::new(Code::InvalidArgument, "say something"));
        }
        if let Some(tone) = context.metadata_value("tone").map(<[u8]>::to_vec) {
            assert!(context.push_metadata("tone", &tone), "a key that came is one");
        }
        reply.stamp_mut()?.set_at(7);
        Ok(reply.set_text(&request.text().repeat(request.times() as usize))?)
    }

    fn later(&self, request: SayRequestView<'_>, reply: Deferred<SayReply>, _: &mut Context<'_>) {
        let text = request.text().to_owned();
        std::thread::spawn(move || match text.as_str() {
            "fail" => reply.fail(Status::new(Code::Aborted, "as you wish")),
            "drop" => drop(reply),
            text => reply.reply(|reply| reply.set_text(text)),
        });
    }

    fn count(self: Arc<Self>, mut call: Streaming<CountRequest, Number>) -> BoxFuture {
        Box::pin(async move {
            let to = call.request().await?.view().to();
            for value in 1..=i64::from(to) {
                call.replies
                    .send(|number| {
                        number.set_value(value);
                        Ok(())
                    })
                    .await?;
            }
            if to == 13 { Err(Status::new(Code::OutOfRange, "unlucky")) } else { Ok(()) }
        })
    }

    fn sum(self: Arc<Self>, mut call: Streaming<Number, Number>) -> BoxFuture {
        Box::pin(async move {
            let mut sum = 0;
            while let Some(number) = call.requests.next().await.transpose()? {
                if number.view().value() < 0 {
                    return Err(Status::new(Code::InvalidArgument, "negative"));
                }
                sum += number.view().value();
            }
            call.replies
                .send(|number| {
                    number.set_value(sum);
                    Ok(())
                })
                .await
        })
    }

    fn chat(self: Arc<Self>, mut call: Streaming<SayRequest, SayReply>) -> BoxFuture {
        Box::pin(async move {
            while let Some(request) = call.requests.next().await.transpose()? {
                call.replies.send(|reply| reply.set_text(request.view().text())).await?;
            }
            Ok(())
        })
    }
}

/// Has nothing but what the generator wrote.
struct Silent;

impl proto::parts::Awkward for Silent {}
impl proto::parts::Empty for Silent {}

/// Runs `test` against a server on another thread.
fn with_server(test: impl FnOnce(&mut Channel)) {
    with_link(|link| test(&mut Channel::over(link, &Options::default()).expect("a server")));
}

/// As [`with_server`], before the handshake.
fn with_link(test: impl FnOnce(Box<dyn Link>)) {
    let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("a link");
    let mut server = Server::new(Default::default())
        .service(EchoServer::shared(Arc::new(Parrot)))
        .service(AwkwardServer::new(Silent))
        .service(proto::parts::EmptyServer::new(Silent));
    server.accept(theirs, base::Clock::shared().now());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(WaitPolicy::default(), &stop));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            test(ours);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The same stub over a thread's share of a channel, from several threads.
#[test]
fn calls_over_a_shared_channel() {
    with_link(|link| {
        let channel = Channel::over(link, &Options::default()).expect("a server");
        let shared = Shared::new(channel, &SharedOptions::default()).expect("a thread");
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let mut member = shared.member().expect("room");
                scope.spawn(move || {
                    let client = EchoClient_::new(&member).expect("it is served");
                    let text = format!("thread {thread}");
                    for _ in 0..20 {
                        let reply = client.say(&mut member, &soon(), |request| {
                            request.set_times(2);
                            request.set_text(&text)
                        });
                        assert_eq!(reply.expect("a reply").view().text(), text.repeat(2));
                    }
                });
            }
        });
    });
}

fn soon() -> CallOptions<'static> {
    CallOptions::within(Duration::from_secs(30))
}

#[test]
fn a_call_that_waits() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let reply = client.say(channel, &soon(), |request| {
            request.set_times(2);
            request.set_text("ha")
        });
        let reply = reply.expect("a reply");
        assert_eq!((reply.view().text(), reply.view().stamp().map(|stamp| stamp.at())), ("haha", Some(7)));

        let failed = client.say(channel, &soon(), |_| Ok(())).expect_err("there is nothing to say");
        assert_eq!((failed.code(), failed.message()), (Code::InvalidArgument, "say something"));
    });
}

#[test]
fn calls_that_do_not_wait() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let mut metadata = Vec::new();
        assert!(push_metadata(&mut metadata, "tone", b"low"));
        let options = CallOptions { metadata: &metadata, ..soon() };
        for user in 0..20 {
            let fill = |request: &mut proto::parts::SayRequestMut<'_, '_>| {
                request.set_times(1);
                request.set_text(&format!("number {user}"))
            };
            client.say_async(channel, &options, user, fill).expect("started");
        }
        // A call that waits leaves the others' events where they are.
        client.later(channel, &soon(), |request| request.set_text("x")).expect("a reply");
        let mut seen = [false; 20];
        while seen.contains(&false) {
            channel.poll(7, |mut event| {
                let tone = event.metadata_entries().find(|(key, _)| *key == "tone").map(|(_, value)| value);
                assert_eq!(tone, Some(&b"low"[..]));
                let user = event.user;
                let reply = event.message::<SayReply>().expect("a reply");
                assert_eq!(reply.text(), format!("number {user}"));
                assert!(!std::mem::replace(&mut seen[user as usize], true), "one outcome per call");
            });
            channel.wait(WaitPolicy::default(), Some(Duration::from_secs(1)));
        }
    });
}

#[test]
fn answers_that_come_later() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let mut later = |text: &str| {
            let outcome = client.later(channel, &soon(), |request| request.set_text(text));
            outcome.map(|reply| reply.view().text().to_owned()).map_err(|status| status.code())
        };
        assert_eq!(later("hello"), Ok("hello".to_owned()));
        assert_eq!(later("fail"), Err(Code::Aborted));
        assert_eq!(later("drop"), Err(Code::Internal));
    });
}

#[test]
fn replies_as_a_stream() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let count = |to| {
            move |request: &mut proto::parts::CountRequestMut<'_, '_>| {
                request.set_to(to);
                Ok(())
            }
        };
        let numbers = client.count(channel, &soon(), count(1000)).expect("started");
        let numbers: Vec<i64> = numbers.map(|number| number.expect("a number").view().value()).collect();
        assert_eq!(numbers, (1..=1000).collect::<Vec<i64>>());

        let mut numbers = client.count(channel, &soon(), count(13)).expect("started");
        assert_eq!(numbers.by_ref().take(13).filter(Result::is_ok).count(), 13);
        let end = numbers.next().expect("an end").expect_err("unlucky");
        assert_eq!(end.code(), Code::OutOfRange);
        assert!(numbers.next().is_none());
        drop(numbers);

        // One that is given up leaves nothing behind.
        let mut numbers = client.count(channel, &soon(), count(1_000_000)).expect("started");
        assert!(numbers.next().expect("a first number").is_ok());
        drop(numbers);
        let numbers = client.count(channel, &soon(), count(3)).expect("started");
        assert_eq!(numbers.count(), 3);
        channel.poll(64, |event| panic!("nobody else's: {:?}", event.what));
    });
}

#[test]
fn requests_as_a_stream() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let mut numbers = client.sum(channel, &soon()).expect("started");
        for value in 1..=1000 {
            numbers
                .send(|number| {
                    number.set_value(value);
                    Ok(())
                })
                .expect("taken");
        }
        assert_eq!(numbers.finish().expect("a sum").view().value(), 500_500);

        let empty = client.sum(channel, &soon()).expect("started");
        assert_eq!(empty.finish().expect("a sum").view().value(), 0);

        // The handler gives up: sending ends with its status.
        let mut numbers = client.sum(channel, &soon()).expect("started");
        let status = loop {
            if let Err(status) = numbers.send(|number| {
                number.set_value(-1);
                Ok(())
            }) {
                break status;
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument);
    });
}

#[test]
fn streams_both_ways() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let mut chat = client.chat(channel, &soon()).expect("started");
        for round in 0..300 {
            let text = format!("round {round}");
            chat.send(|request| request.set_text(&text)).expect("taken");
            assert_eq!(chat.next().expect("more").expect("a reply").view().text(), text);
        }
        chat.finish().expect("taken");
        assert!(chat.next().is_none());
    });
}

#[test]
fn events_of_a_stream_that_is_not_waited_for() {
    with_server(|channel| {
        let client = EchoClient_::new(channel).expect("it is served");
        let fill = |request: &mut proto::parts::CountRequestMut<'_, '_>| {
            request.set_to(100);
            Ok(())
        };
        client.count_async(channel, &soon(), 5, fill).expect("started");
        let (mut numbers, mut over) = (0, false);
        while !over {
            channel.poll(64, |event| {
                assert_eq!(event.user, 5);
                numbers += u32::from(matches!(event.what, What::Item(_)));
                over |= event.what.is_terminal();
            });
            channel.wait(WaitPolicy::default(), Some(Duration::from_secs(1)));
        }
        assert_eq!(numbers, 100);
    });
}

#[test]
fn methods_that_nobody_wrote() {
    with_server(|channel| {
        EmptyClient::new(channel).expect("it is served, empty as it is");
        let client = AwkwardClient::new(channel).expect("it is served");
        let status = client.new_(channel, &soon(), |_| Ok(())).expect_err("nobody wrote it");
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("/parts.Awkward/New"), "{status}");
        // The rpc of that name, and the one that does not wait for `Say`.
        client.say_async(channel, &soon(), |_| Ok(())).expect_err("nobody wrote it");
        client.say_async_(channel, &soon(), 1, |_| Ok(())).expect("started");
    });
}

#[test]
fn a_peer_without_the_service_is_told_apart() {
    let (ours, theirs) = memory::pair(&LinkOptions::default()).expect("a link");
    let mut server = Server::new(Default::default());
    server.accept(theirs, base::Clock::shared().now());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(WaitPolicy::default(), &stop));
        let channel = Channel::over(ours, &Options::default()).expect("a server");
        let missing = EchoClient_::new(&channel).expect_err("it serves nothing");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(missing.method, "/parts.Echo/Say");
        assert!(missing.to_string().contains("the server has no /parts.Echo/Say"));
    });
}

#[test]
fn descriptors_say_what_the_file_says() {
    assert_eq!((ECHO.name, ECHO.methods.len(), EMPTY.methods.len()), ("parts.Echo", 5, 0));
    assert!(ECHO.methods[4].client_streaming && ECHO.methods[4].server_streaming);
    assert_ne!(ECHO.hash, AWKWARD.hash);
    let schema = codec::schema::Schema::from_descriptor_set(ECHO.descriptors).expect("descriptors");
    let service = schema.service("parts.Echo").expect("it is in its descriptors");
    assert_eq!(fabric::service::schema_hash(&schema, service), ECHO.hash);
}
