//! The services that ask nobody: unique-id, user, media, url-shorten, user-mention, social-graph.

use super::*;
use crate::keep::Keep;
use crate::parts::application;
use base::hash::{Hasher64, WIRE_SEED};
use base::prng::{Prng, mix64};
use fabric::service::Context;
use fabric::status::{Code, Status};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Verb;

/// Gives out numbers.
#[derive(Debug, Default)]
pub struct Numbers(AtomicU64);

impl UniqueId for Numbers {
    fn compose_unique_id(
        &self,
        _: UniqueIdRequestView<'_>,
        reply: &mut UniqueIdReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            // Only that they differ matters; scattered, they say nothing of how many there were.
            reply.set_post_id((mix64(self.0.fetch_add(1, Ordering::Relaxed)) >> 1) as i64);
            Ok(())
        })
    }
}

/// Knows [`USERS`] users.
pub struct Users(Keep);

impl Users {
    pub fn new() -> Users {
        let keep = Keep::new(4);
        for user in 0..USERS as i64 {
            keep.put(&user.to_string(), username(user).as_bytes(), Verb::Set).expect("there is room");
        }
        Users(keep)
    }
}

impl User for Users {
    fn compose_creator_with_user_id(
        &self,
        request: CreatorRequestView<'_>,
        reply: &mut CreatorMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let (user, name) = (request.user_id(), request.username());
            let set = self.0.get(&user.to_string(), |known| {
                (known == name.as_bytes()).then(|| {
                    reply.set_user_id(user);
                    reply.set_username(name)
                })
            });
            let unknown = || Status::new(Code::NotFound, format!("user {user} is not called {name:?}"));
            Ok(set.flatten().ok_or_else(unknown)??)
        })
    }
}

/// Pictures and films: that they were uploaded is remembered, they themselves are elsewhere.
pub struct Medias(Keep);

impl Medias {
    pub fn new() -> Medias {
        Medias(Keep::new(16))
    }
}

impl MediaService for Medias {
    fn compose_media(
        &self,
        request: MediaRequestView<'_>,
        reply: &mut MediaReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            if request.media_ids().len() != request.media_types().len() {
                return Err(Status::new(Code::InvalidArgument, "each of media_ids wants one of media_types"));
            }
            for (&id, kind) in request.media_ids().iter().zip(request.media_types().iter()) {
                self.0.put(&id.to_string(), kind.as_bytes(), Verb::Set)?;
                let mut media = reply.push_media()?;
                media.set_media_id(id);
                media.set_media_type(kind)?;
            }
            Ok(())
        })
    }
}

/// Short addresses are hashes of the long ones, which are remembered under them.
pub struct Urls(Keep);

impl Urls {
    pub fn new() -> Urls {
        Urls(Keep::new(32))
    }
}

impl UrlShorten for Urls {
    fn compose_urls(
        &self,
        request: UrlsRequestView<'_>,
        reply: &mut UrlsReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            for long in request.urls().iter() {
                let hash = Hasher64::new(WIRE_SEED).hash(long.as_bytes());
                let short = format!("http://short-url/{hash:016x}");
                self.0.put(&short, long.as_bytes(), Verb::Set)?;
                let mut url = reply.push_urls()?;
                url.set_shortened_url(&short)?;
                url.set_expanded_url(long)?;
            }
            Ok(())
        })
    }
}

/// Whose names these are: names are kept with their numbers.
pub struct Mentions(Keep);

impl Mentions {
    pub fn new() -> Mentions {
        let keep = Keep::new(4);
        for user in 0..USERS as i64 {
            keep.put(&username(user), &user.to_le_bytes(), Verb::Set).expect("there is room");
        }
        Mentions(keep)
    }
}

impl UserMentions for Mentions {
    fn compose_user_mentions(
        &self,
        request: MentionsRequestView<'_>,
        reply: &mut MentionsReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            for name in request.usernames().iter() {
                let user = self.0.get(name, |bytes| bytes.try_into().map(i64::from_le_bytes).ok());
                if let Some(user) = user.flatten() {
                    let mut mention = reply.push_user_mentions()?;
                    mention.set_user_id(user);
                    mention.set_username(name)?;
                }
            }
            Ok(())
        })
    }
}

/// Friends, as many as in DeathStarBench's graph: 18,812 pairs, some users with a hundred, most with few. The same at every start.
pub struct Followers(Keep);

/// Pairs of friends.
const PAIRS: usize = 18_812;

/// Everybody's friends.
pub fn friends() -> Vec<BTreeSet<i64>> {
    let (mut random, mut pairs) = (Prng::new(98), 0);
    let mut of = vec![BTreeSet::new(); USERS as usize];
    while pairs < PAIRS {
        // The lower of two draws: low numbers have more friends.
        let one = random.below(USERS).min(random.below(USERS));
        let other = random.below(USERS);
        if one != other && of[one as usize].insert(other as i64) {
            of[other as usize].insert(one as i64);
            pairs += 1;
        }
    }
    of
}

impl Followers {
    pub fn new() -> Followers {
        let keep = Keep::new(4);
        for (user, followers) in friends().iter().enumerate() {
            let bytes: Vec<u8> = followers.iter().flat_map(|follower| follower.to_le_bytes()).collect();
            keep.put(&user.to_string(), &bytes, Verb::Set).expect("there is room");
        }
        Followers(keep)
    }
}

impl SocialGraph for Followers {
    fn get_followers(
        &self,
        request: FollowersRequestView<'_>,
        reply: &mut FollowersReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let followers = self.0.list(&request.user_id().to_string(), 0, i32::MAX);
            Ok(followers.into_iter().try_for_each(|user| reply.push_user_ids(user).map(drop))?)
        })
    }
}
