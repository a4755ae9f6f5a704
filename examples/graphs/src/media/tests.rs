//! The site of movie reviews as its users see it, over links in memory.

use super::*;
use crate::measure::{self, Load};
use fabric::channel::{CallOptions, Channel};
use fabric::status::{Code, Status};
use ring::wait::WaitPolicy;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn rig(name: &str) -> Rig {
    Rig { transport: "memory".to_owned(), folder: name.into(), wait: WaitPolicy::BLOCK, traces: None }
}

fn review(
    site: &SiteClient,
    channel: &mut Channel,
    req_id: i64,
    title: &str,
    rating: i32,
) -> Result<(), Status> {
    let done = site.compose(channel, &CallOptions::default(), |request| {
        request.set_req_id(req_id);
        request.set_username(&username(4))?;
        request.set_title(title)?;
        request.set_rating(rating);
        request.set_text(&format!("review {req_id}"))
    });
    done.map(drop)
}

#[test]
fn a_review_is_on_its_movies_page_and_its_rating_counts() {
    let rig = rig("reviews");
    let graph = start(&rig).expect("it starts");
    let mut channel = rig.client(graph.address("site")).expect("it is there");
    let site = SiteClient::new(&channel).expect("it serves");
    let count = parts::AT_ONCE as i64;
    for number in 0..count {
        review(&site, &mut channel, number, &title(9), number as i32).expect("it is composed");
    }
    let mut read = |movie| {
        let page = site.read_page(&mut channel, &CallOptions::default(), |request| {
            request.set_movie_id(&movie_id(movie))?;
            request.set_review_stop(3);
            Ok(())
        });
        page.expect("it is read")
    };
    let page = read(9);
    let page = page.view();
    let texts: Vec<&str> = page.reviews().iter().map(|review| review.text()).collect();
    let newest: Vec<String> = (0..count).rev().take(3).map(|number| format!("review {number}")).collect();
    assert_eq!(texts, newest);
    let movie = page.movie_info().expect("its movie");
    assert_eq!((movie.title(), movie.num_rating()), (&*title(9), count as i32));
    let sum: i64 = (0..count).sum();
    assert!((movie.avg_rating() - sum as f64 / count as f64).abs() < 1e-9);
    assert!(page.reviews().iter().all(|review| review.user_id() == 4 && review.movie_id() == movie_id(9)));
    assert!(read(10).view().reviews().iter().next().is_none());
}

/// Four parts are there: what is missing is its title. Nothing is listed.
#[test]
fn a_review_of_no_movie_is_refused_and_never_complete() {
    let rig = rig("no-movie");
    let graph = start(&rig).expect("it starts");
    let mut channel = rig.client(graph.address("site")).expect("it is there");
    let site = SiteClient::new(&channel).expect("it serves");
    let refused = review(&site, &mut channel, 1, "Nothing", 3).expect_err("there is no such movie");
    assert_eq!(refused.code(), Code::NotFound);
    let again = review(&site, &mut channel, 1, &title(1), 3).expect_err("parts of that number are there");
    assert_eq!(again.code(), Code::AlreadyExists);
}

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
        measure::media(&rig("load"), &load, [50, 50, 0], &AtomicBool::new(false)).expect("it runs");
    let [closed, open] = &measured.points[..] else { panic!("two points") };
    for point in [closed, open] {
        assert_eq!((point.failed, &point.example), (0, &None));
    }
    assert!(closed.done > 0.0 && measured.tiers == 14);
    let middle = closed.seen.all.around(0.5).expect("requests");
    assert!(middle.app.0 > 0 && middle.codec.0 > 0 && middle.network() > middle.codec, "{middle:?}");
}
