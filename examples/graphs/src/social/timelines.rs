//! What keeps posts, and the lists of them: post-storage, user-timeline, home-timeline.

use super::*;
use crate::asks::{Asks, Job, built};
use crate::keep::Keep;
use crate::parts::application;
use crate::tier::{Beside, Peer};
use codec::typed::Owned;
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, NotServed};
use std::sync::Arc;

/// Posts by their numbers.
pub struct Posted(Keep);

impl Posted {
    pub fn new() -> Posted {
        Posted(Keep::new(128))
    }
}

impl PostStorage for Posted {
    fn store_post(
        &self,
        request: StorePostRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let post =
                request.post().ok_or_else(|| Status::new(Code::InvalidArgument, "there is no post"))?;
            self.0.put_message(&post.post_id().to_string(), post)
        })
    }

    fn read_posts(
        &self,
        request: ReadPostsRequestView<'_>,
        reply: &mut PostsMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            for id in request.post_ids() {
                if let Some(post) = self.0.message::<Post>(&id.to_string())? {
                    copy_post(post.view(), &mut reply.push_posts()?)?;
                }
            }
            Ok(())
        })
    }
}

/// Reads posts by their numbers.
async fn read(
    job: &mut Job,
    storage: Peer<PostStorageClient>,
    req_id: i64,
    posts: Vec<i64>,
) -> Result<Owned<Posts>, Status> {
    let posts = job.ask::<Posts>(storage.to("ReadPosts"), move |channel, options, at| {
        storage.client.read_posts_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                posts.iter().try_for_each(|&post| request.push_post_ids(post).map(drop))
            })
        })
    });
    job.answer(posts).await
}

/// What each user has posted.
pub struct ByUser {
    asks: Asks,
    keep: Keep,
    storage: Peer<PostStorageClient>,
}

impl ByUser {
    pub fn new(beside: &Beside<'_>) -> Result<ByUser, NotServed> {
        let storage = beside.peer(0, &POST_STORAGE, PostStorageClient::new)?;
        Ok(ByUser { asks: beside.asks.clone(), keep: Keep::new(8), storage })
    }
}

impl UserTimeline for ByUser {
    fn write(
        &self,
        request: WriteUserRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| self.keep.prepend(&request.user_id().to_string(), request.post_id()))
    }

    fn read(&self, request: ReadTimelineRequestView<'_>, reply: Deferred<Posts>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let posts = self.keep.list(&request.user_id().to_string(), request.start(), request.stop());
        let (storage, req_id) = (self.storage, request.req_id());
        self.asks.spawn(async move {
            let posts = read(&mut job, storage, req_id, posts).await;
            job.reply(reply, posts, |reply, posts| copy_posts(posts.view(), reply));
        });
    }
}

/// What those whom each user follows have posted.
pub struct AtHome {
    asks: Asks,
    keep: Arc<Keep>,
    storage: Peer<PostStorageClient>,
    graph: Peer<SocialGraphClient>,
}

impl AtHome {
    pub fn new(beside: &Beside<'_>) -> Result<AtHome, NotServed> {
        let storage = beside.peer(0, &POST_STORAGE, PostStorageClient::new)?;
        let graph = beside.peer(1, &SOCIAL_GRAPH, SocialGraphClient::new)?;
        Ok(AtHome { asks: beside.asks.clone(), keep: Arc::new(Keep::new(8)), storage, graph })
    }
}

impl HomeTimeline for AtHome {
    fn write(&self, request: WriteHomeRequestView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (req_id, user_id, post_id) = (request.req_id(), request.user_id(), request.post_id());
        let mentioned = request.user_mentions_id().to_vec();
        let (keep, graph) = (Arc::clone(&self.keep), self.graph);
        self.asks.spawn(async move {
            let followers =
                job.ask::<FollowersReply>(graph.to("GetFollowers"), move |channel, options, at| {
                    graph.client.get_followers_async(channel, options, at, |request| {
                        built(request, |request| {
                            request.set_req_id(req_id);
                            request.set_user_id(user_id);
                            Ok(())
                        })
                    })
                });
            let written = job.answer(followers).await.and_then(|followers| {
                let mut readers = followers.view().user_ids().to_vec();
                readers.extend(mentioned);
                readers.sort_unstable();
                readers.dedup();
                readers.iter().try_for_each(|user| keep.prepend(&user.to_string(), post_id))
            });
            job.reply(reply, written, |_, ()| Ok(()));
        });
    }

    fn read(&self, request: ReadTimelineRequestView<'_>, reply: Deferred<Posts>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let posts = self.keep.list(&request.user_id().to_string(), request.start(), request.stop());
        let (storage, req_id) = (self.storage, request.req_id());
        self.asks.spawn(async move {
            let posts = read(&mut job, storage, req_id, posts).await;
            job.reply(reply, posts, |reply, posts| copy_posts(posts.view(), reply));
        });
    }
}
