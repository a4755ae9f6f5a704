//! The social network as its users see it, over links in memory.

use super::*;
use crate::measure::{self, Load};
use crate::traces::Traces;
use base::trace::Kind;
use fabric::channel::{CallOptions, Channel};
use fabric::monitor::Span;
use fabric::status::Code;
use ring::wait::WaitPolicy;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn rig(name: &str, traces: Option<Traces>) -> Rig {
    Rig { transport: "memory".to_owned(), folder: name.into(), wait: WaitPolicy::BLOCK, traces }
}

fn post(
    site: &SiteClient,
    channel: &mut Channel,
    user: i64,
    text: &str,
) -> Result<(), fabric::status::Status> {
    let done = site.compose_post(channel, &CallOptions::default(), |request| {
        request.set_req_id(7);
        request.set_username(&username(user))?;
        request.set_user_id(user);
        request.set_text(text)?;
        request.push_media_ids(55)?;
        request.push_media_types("png").map(drop)
    });
    done.map(drop)
}

/// Texts of the newest posts of a timeline.
fn read(site: &SiteClient, channel: &mut Channel, user: i64, home: bool) -> Vec<(i64, String)> {
    let options = CallOptions::default();
    let fill = |request: &mut ReadTimelineRequestMut<'_, '_>| {
        request.set_user_id(user);
        request.set_stop(10);
        Ok(())
    };
    let posts = match home {
        true => site.read_home_timeline(channel, &options, fill),
        false => site.read_user_timeline(channel, &options, fill),
    };
    let posts = posts.expect("it is read");
    let post = |post: PostView<'_>| (post.creator().expect("somebody").user_id(), post.text().to_owned());
    posts.view().posts().iter().map(post).collect()
}

#[test]
fn a_post_is_on_its_users_timeline_and_at_its_followers_homes() {
    let rig = rig("posts", None);
    let graph = start(&rig).expect("it starts");
    let mut channel = rig.client(graph.address("site")).expect("it is there");
    let site = SiteClient::new(&channel).expect("it serves");
    let (follower, stranger) = {
        let of = &leaves::friends()[3];
        (
            *of.first().expect("a friend"),
            (4..USERS as i64).find(|user| !of.contains(user)).expect("a stranger"),
        )
    };
    let mentioned =
        (stranger + 1..USERS as i64).find(|user| !leaves::friends()[3].contains(user)).expect("another");
    let text =
        format!("look @{} @nobody at http://a.example/long and https://b.example/ soon", username(mentioned));
    post(&site, &mut channel, 3, "the first").expect("it is posted");
    post(&site, &mut channel, 3, &text).expect("it is posted");

    let own = read(&site, &mut channel, 3, false);
    assert_eq!(own.iter().map(|(user, _)| *user).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(own[1].1, "the first");
    let words: Vec<&str> = own[0].1.split(' ').collect();
    assert!(
        words.len() == 8
            && words[4].starts_with("http://short-url/")
            && words[6].starts_with("http://short-url/")
    );
    assert!(words[4] != words[6] && words[1] == format!("@{}", username(mentioned)));
    assert_eq!(read(&site, &mut channel, follower, true), own);
    assert_eq!(read(&site, &mut channel, mentioned, true), own[..1]);
    assert!(read(&site, &mut channel, stranger, true).is_empty());
}

#[test]
fn a_post_of_nobody_is_refused_and_is_on_no_timeline() {
    let rig = rig("nobody", None);
    let graph = start(&rig).expect("it starts");
    let mut channel = rig.client(graph.address("site")).expect("it is there");
    let site = SiteClient::new(&channel).expect("it serves");
    let refused = post(&site, &mut channel, USERS as i64, "hello").expect_err("nobody has this number");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(read(&site, &mut channel, USERS as i64, false).is_empty());
}

/// A post is one trace: twelve calls, each of the call that made it. (When they were is not compared: a server's span begins when its poll does, which
/// may have lost its processor before the request was sent.)
#[test]
fn a_post_is_one_trace_whose_spans_are_a_tree() {
    let rig = rig("traced", Some(Traces::new(1)));
    let graph = start(&rig).expect("it starts");
    let mut channel = rig.client(graph.address("site")).expect("it is there");
    let site = SiteClient::new(&channel).expect("it serves");
    post(&site, &mut channel, 5, "hello").expect("it is posted");
    drop(channel);
    drop(graph);

    let traces = rig.traces.as_ref().expect("it has");
    let spans: Vec<Span> = traces.all();
    let calls: Vec<&Span> = spans.iter().filter(|span| span.kind != Kind::Part).collect();
    let clients = calls.iter().filter(|span| span.kind == Kind::Client).count();
    assert_eq!((clients, calls.len()), (12, 24), "each call seen from both sides");
    assert!(calls.iter().all(|span| span.context.trace == calls[0].context.trace), "one trace");
    for span in &calls {
        let Some(number) = span.parent else { continue };
        let parent = calls.iter().find(|parent| parent.context.span == number).expect("it is in the trace");
        assert_ne!(parent.kind, span.kind, "a call is made by what was called, and served by what it calls");
    }
    let chrome: serde_json::Value = serde_json::from_str(&traces.chrome()).expect("JSON");
    assert!(!chrome["traceEvents"].as_array().expect("a list").is_empty());
}

/// All of it, short: every reply checked, and each request's parts no more than its whole.
#[test]
fn a_load_is_answered_and_its_time_is_accounted_for() {
    let load = Load {
        loads: vec![50],
        length: Duration::from_secs(60),
        requests: 60,
        window: 8,
        composed: 20,
        seed: 1,
    };
    let measured =
        measure::social(&rig("load", None), &load, [40, 30, 30], &AtomicBool::new(false)).expect("it runs");
    let [closed, open] = &measured.points[..] else { panic!("two points") };
    for point in [closed, open] {
        assert_eq!((point.failed, &point.example), (0, &None));
    }
    assert!(closed.done > 0.0 && measured.tiers == 12);
    let middle = closed.seen.all.around(0.5).expect("requests");
    assert!(middle.app.0 > 0 && middle.codec.0 > 0 && middle.network() > middle.codec, "{middle:?}");
    assert!(middle.app.plus(middle.codec) <= middle.took, "{middle:?}");
    let composed = &closed.methods[&("social.Text", "ComposeText")];
    assert!(composed.requests.count() >= composed.calls.seen() && composed.calls.seen() > 0);
    assert!(composed.requests.quantile(0.0) > 256 && composed.replies.count() > 0);
}
