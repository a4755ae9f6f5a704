//! The four services that ask nobody: unique-id, user, url-shorten, social-graph.

use super::proto::social::{
    CheckReplyMut, CheckRequestView, FollowersReplyMut, FollowersRequestView, NextReplyMut, NextRequestView,
    ShortenReplyMut, ShortenRequestView, SocialGraph, UniqueId, UrlShorten, User,
};
use base::hash::{Hasher64, WIRE_SEED};
use base::prng::mix64;
use fabric::service::Context;
use fabric::status::{Code, Status};
use std::sync::atomic::{AtomicU64, Ordering};

/// Users are called `user0` … up to this number.
pub const USERS: u32 = 1000;

/// Gives out numbers.
#[derive(Debug, Default)]
pub struct Numbers(AtomicU64);

impl UniqueId for Numbers {
    fn next(
        &self,
        _: NextRequestView<'_>,
        reply: &mut NextReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        // Only that they differ matters; scattered, they say nothing of how many there were.
        reply.set_id(mix64(self.0.fetch_add(1, Ordering::Relaxed)));
        Ok(())
    }
}

/// Knows [`USERS`] users.
#[derive(Debug)]
pub struct Users;

impl User for Users {
    fn check(
        &self,
        request: CheckRequestView<'_>,
        reply: &mut CheckReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        let number = request.name().strip_prefix("user").and_then(|number| number.parse().ok());
        match number {
            Some(number @ 0..USERS) => {
                reply.set_user(number);
                Ok(())
            }
            _ => Err(Status::new(Code::NotFound, format!("nobody is called {:?}", request.name()))),
        }
    }
}

/// Shortens without remembering: the short form is a hash.
#[derive(Debug)]
pub struct Shortener;

impl UrlShorten for Shortener {
    fn shorten(
        &self,
        request: ShortenRequestView<'_>,
        reply: &mut ShortenReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        for url in request.urls().iter() {
            let hash = Hasher64::new(WIRE_SEED).hash(url.as_bytes());
            reply.push_short(&format!("http://s.ly/{:08x}", hash as u32))?;
        }
        Ok(())
    }
}

/// Users with up to 64 followers, the same at every start.
#[derive(Debug)]
pub struct Graph;

impl SocialGraph for Graph {
    fn followers(
        &self,
        request: FollowersRequestView<'_>,
        reply: &mut FollowersReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        let user = u64::from(request.user());
        for follower in 0..mix64(user) % 64 {
            reply.push_users((mix64(user << 8 | follower) % u64::from(USERS)) as u32)?;
        }
        Ok(())
    }
}
