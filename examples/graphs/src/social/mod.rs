//! A social network: what happens when somebody posts, and when somebody reads a timeline.
//!
//! ```text
//! site ─▶ compose ─▶ unique-id · user · media · text ─▶ url-shorten · user-mention      at once
//!                 └▶ post-storage · user-timeline · home-timeline ─▶ social-graph       when the post is together
//! site ─▶ home-timeline │ user-timeline ─▶ post-storage
//! ```
//! Tiers, paths and what they say to each other are DeathStarBench's; its memcached, Redis and MongoDB beside each service are a store in it.

mod compose;
mod leaves;
pub mod load;
mod site;
mod timelines;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    codec::include_proto!("social");
}
pub use proto::social::*;

use super::Failure;
use super::tier::{Graph, Rig};
use codec::memory::OutOfMemory;

/// Users. DeathStarBench's graph of friends, socfb-Reed98, has as many.
pub const USERS: u64 = 962;

/// Starts the tiers; requests go to `site`.
///
/// # Errors
/// A tier cannot listen or connect.
pub fn start(rig: &Rig) -> Result<Graph<'_>, Failure> {
    let mut graph = Graph::new("social", rig);
    graph.add("unique-id", &[], |_| Ok(UniqueIdServer::new(leaves::Numbers::default())))?;
    graph.add("user", &[], |_| Ok(UserServer::new(leaves::Users::new())))?;
    graph.add("media", &[], |_| Ok(MediaServiceServer::new(leaves::Medias::new())))?;
    graph.add("url-shorten", &[], |_| Ok(UrlShortenServer::new(leaves::Urls::new())))?;
    graph.add("user-mention", &[], |_| Ok(UserMentionsServer::new(leaves::Mentions::new())))?;
    graph.add("social-graph", &[], |_| Ok(SocialGraphServer::new(leaves::Followers::new())))?;
    graph.add("post-storage", &[], |_| Ok(PostStorageServer::new(timelines::Posted::new())))?;
    let asked = ["url-shorten", "user-mention"];
    graph.add("text", &asked, |beside| Ok(TextServer::new(compose::Texts::new(beside)?)))?;
    graph.add("user-timeline", &["post-storage"], |beside| {
        Ok(UserTimelineServer::new(timelines::ByUser::new(beside)?))
    })?;
    graph.add("home-timeline", &["post-storage", "social-graph"], |beside| {
        Ok(HomeTimelineServer::new(timelines::AtHome::new(beside)?))
    })?;
    let asked = ["unique-id", "user", "media", "text", "post-storage", "user-timeline", "home-timeline"];
    graph.add("compose", &asked, |beside| Ok(ComposeServer::new(compose::Composer::new(beside)?)))?;
    let asked = ["compose", "home-timeline", "user-timeline"];
    graph.add("site", &asked, |beside| Ok(SiteServer::new(site::Pages::new(beside)?)))?;
    Ok(graph)
}

/// A user's name.
pub fn username(user: i64) -> String {
    format!("username_{user}")
}

/// The user of a name, if it is one.
pub fn user_of(name: &str) -> Option<i64> {
    name.strip_prefix("username_")?.parse().ok().filter(|user| (0..USERS as i64).contains(user))
}

fn copy_mention(from: UserMentionView<'_>, to: &mut UserMentionMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_user_id(from.user_id());
    to.set_username(from.username())
}

fn copy_url(from: UrlView<'_>, to: &mut UrlMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_shortened_url(from.shortened_url())?;
    to.set_expanded_url(from.expanded_url())
}

fn copy_media(from: MediaView<'_>, to: &mut MediaMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_media_id(from.media_id());
    to.set_media_type(from.media_type())
}

/// A post into another message, as whoever has it from elsewhere passes it on.
fn copy_post(from: PostView<'_>, to: &mut PostMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_post_id(from.post_id());
    if let Some(creator) = from.creator() {
        let mut copy = to.creator_mut()?;
        copy.set_user_id(creator.user_id());
        copy.set_username(creator.username())?;
    }
    to.set_req_id(from.req_id());
    to.set_text(from.text())?;
    from.user_mentions()
        .iter()
        .try_for_each(|mention| copy_mention(mention, &mut to.push_user_mentions()?))?;
    from.media().iter().try_for_each(|media| copy_media(media, &mut to.push_media()?))?;
    from.urls().iter().try_for_each(|url| copy_url(url, &mut to.push_urls()?))?;
    to.set_timestamp(from.timestamp());
    to.set_post_type(from.post_type());
    Ok(())
}

fn copy_posts(from: PostsView<'_>, to: &mut PostsMut<'_, '_>) -> Result<(), OutOfMemory> {
    from.posts().iter().try_for_each(|post| copy_post(post, &mut to.push_posts()?))
}

#[cfg(test)]
mod tests;
