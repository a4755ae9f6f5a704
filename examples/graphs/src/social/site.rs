//! What browsers talk to: it has posts composed and timelines read.

use super::*;
use crate::asks::{Asks, built};
use crate::tier::{Beside, Peer};
use fabric::service::Context;
use fabric::stub::{Deferred, NotServed};

/// See the file's head.
pub struct Pages {
    asks: Asks,
    compose: Peer<ComposeClient>,
    home: Peer<HomeTimelineClient>,
    by_user: Peer<UserTimelineClient>,
}

impl Pages {
    pub fn new(beside: &Beside<'_>) -> Result<Pages, NotServed> {
        Ok(Pages {
            asks: beside.asks.clone(),
            compose: beside.peer(0, &COMPOSE, ComposeClient::new)?,
            home: beside.peer(1, &HOME_TIMELINE, HomeTimelineClient::new)?,
            by_user: beside.peer(2, &USER_TIMELINE, UserTimelineClient::new)?,
        })
    }
}

/// Which posts are asked for.
#[derive(Clone, Copy)]
struct Range {
    req_id: i64,
    user_id: i64,
    start: i32,
    stop: i32,
}

impl Range {
    fn of(request: ReadTimelineRequestView<'_>) -> Range {
        let (req_id, user_id) = (request.req_id(), request.user_id());
        Range { req_id, user_id, start: request.start(), stop: request.stop() }
    }

    fn fill(self, request: &mut ReadTimelineRequestMut<'_, '_>) {
        request.set_req_id(self.req_id);
        request.set_user_id(self.user_id);
        request.set_start(self.start);
        request.set_stop(self.stop);
    }
}

impl Site for Pages {
    fn compose_post(
        &self,
        request: ComposePostRequestView<'_>,
        reply: Deferred<Done>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (req_id, user_id, post_type) = (request.req_id(), request.user_id(), request.post_type());
        let (username, text) = (request.username().to_owned(), request.text().to_owned());
        let ids = request.media_ids().to_vec();
        let kinds: Vec<String> = request.media_types().iter().map(str::to_owned).collect();
        let compose = self.compose;
        self.asks.spawn(async move {
            let done = job.ask::<Done>(compose.to("ComposePost"), move |channel, options, at| {
                compose.client.compose_post_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_username(&username)?;
                        request.set_user_id(user_id);
                        request.set_text(&text)?;
                        ids.iter().try_for_each(|&id| request.push_media_ids(id).map(drop))?;
                        kinds.iter().try_for_each(|kind| request.push_media_types(kind).map(drop))?;
                        request.set_post_type(post_type);
                        Ok(())
                    })
                })
            });
            let done = job.answer(done).await;
            job.reply(reply, done, |_, _| Ok(()));
        });
    }

    fn read_home_timeline(
        &self,
        request: ReadTimelineRequestView<'_>,
        reply: Deferred<Posts>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (home, range) = (self.home, Range::of(request));
        self.asks.spawn(async move {
            let posts = job.ask::<Posts>(home.to("Read"), move |channel, options, at| {
                home.client.read_async(channel, options, at, |request| {
                    built(request, |request| {
                        range.fill(request);
                        Ok(())
                    })
                })
            });
            let posts = job.answer(posts).await;
            job.reply(reply, posts, |reply, posts| copy_posts(posts.view(), reply));
        });
    }

    fn read_user_timeline(
        &self,
        request: ReadTimelineRequestView<'_>,
        reply: Deferred<Posts>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (by_user, range) = (self.by_user, Range::of(request));
        self.asks.spawn(async move {
            let posts = job.ask::<Posts>(by_user.to("Read"), move |channel, options, at| {
                by_user.client.read_async(channel, options, at, |request| {
                    built(request, |request| {
                        range.fill(request);
                        Ok(())
                    })
                })
            });
            let posts = job.answer(posts).await;
            job.reply(reply, posts, |reply, posts| copy_posts(posts.view(), reply));
        });
    }
}
