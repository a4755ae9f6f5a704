//! A site of movie reviews: what happens when somebody writes one, and when somebody reads a movie's page.
//!
//! ```text
//! site ─▶ unique-id · user · text ─▶ compose-review                                          at once
//!     └─▶ movie-id ─▶ compose-review · rating ─▶ compose-review (and movie-info, at times)
//!                       compose-review ─▶ review-storage · user-review · movie-review         when all five parts are there
//! site ─▶ page ─▶ movie-info · movie-review ─▶ review-storage                                 at once
//!             └─▶ cast-info · plot                                                            when the movie is known
//! ```
//! Tiers, paths and what they say to each other are DeathStarBench's; its memcached, Redis and MongoDB beside each service are a store in it.

mod leaves;
pub mod load;
mod page;
mod parts;
mod reviews;
mod site;

#[allow(missing_docs, clippy::undocumented_unsafe_blocks, dead_code)]
mod proto {
    codec::include_proto!("media");
}
pub use proto::media::*;

use super::Failure;
use super::tier::{Graph, Rig};
use codec::memory::OutOfMemory;

/// Movies, and users.
pub const MOVIES: u64 = 1000;
pub const USERS: u64 = 1000;

/// Starts the tiers; requests go to `site`.
///
/// # Errors
/// A tier cannot listen or connect.
pub fn start(rig: &Rig) -> Result<Graph<'_>, Failure> {
    let mut graph = Graph::new("media", rig);
    graph.add("cast-info", &[], |_| Ok(CastInfoServiceServer::new(leaves::Casts::new())))?;
    graph.add("plot", &[], |_| Ok(PlotServer::new(leaves::Plots::new())))?;
    graph.add("movie-info", &[], |_| Ok(MovieInfoServiceServer::new(leaves::Movies::new())))?;
    graph.add("review-storage", &[], |_| Ok(ReviewStorageServer::new(reviews::Stored::new())))?;
    graph.add("user-review", &[], |_| Ok(UserReviewServer::new(reviews::ByUser::new())))?;
    graph.add("movie-review", &["review-storage"], |beside| {
        Ok(MovieReviewServer::new(reviews::ByMovie::new(beside)?))
    })?;
    graph.add("compose-review", &["review-storage", "user-review", "movie-review"], |beside| {
        Ok(ComposeReviewServer::new(reviews::Composer::new(beside)?))
    })?;
    graph.add("unique-id", &["compose-review"], |beside| {
        Ok(UniqueIdServer::new(parts::Numbers::new(beside)?))
    })?;
    graph.add("user", &["compose-review"], |beside| Ok(UserServer::new(parts::Users::new(beside)?)))?;
    graph.add("text", &["compose-review"], |beside| Ok(TextServer::new(parts::Texts::new(beside)?)))?;
    graph.add("rating", &["compose-review", "movie-info"], |beside| {
        Ok(RatingServer::new(parts::Ratings::new(beside)?))
    })?;
    graph.add("movie-id", &["compose-review", "rating"], |beside| {
        Ok(MovieIdServer::new(parts::Titles::new(beside)?))
    })?;
    graph.add("page", &["movie-info", "movie-review", "cast-info", "plot"], |beside| {
        Ok(PageServer::new(page::Pages::new(beside)?))
    })?;
    graph.add("site", &["unique-id", "user", "text", "movie-id", "page"], |beside| {
        Ok(SiteServer::new(site::Browsed::new(beside)?))
    })?;
    Ok(graph)
}

/// A user's name.
pub fn username(user: u64) -> String {
    format!("username_{user}")
}

/// A movie's title, and its number.
pub fn title(movie: u64) -> String {
    format!("The Return of Number {movie}")
}

pub fn movie_id(movie: u64) -> String {
    format!("{:08}", 10_000_000 + movie * 7919)
}

fn copy_review(from: ReviewView<'_>, to: &mut ReviewMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_review_id(from.review_id());
    to.set_user_id(from.user_id());
    to.set_req_id(from.req_id());
    to.set_text(from.text())?;
    to.set_movie_id(from.movie_id())?;
    to.set_rating(from.rating());
    to.set_timestamp(from.timestamp());
    Ok(())
}

fn copy_reviews(from: ReviewsView<'_>, to: &mut ReviewsMut<'_, '_>) -> Result<(), OutOfMemory> {
    from.reviews().iter().try_for_each(|review| copy_review(review, &mut to.push_reviews()?))
}

fn copy_cast(from: CastInfoView<'_>, to: &mut CastInfoMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_cast_info_id(from.cast_info_id());
    to.set_name(from.name())?;
    to.set_gender(from.gender());
    to.set_intro(from.intro())
}

fn copy_movie(from: MovieInfoView<'_>, to: &mut MovieInfoMut<'_, '_>) -> Result<(), OutOfMemory> {
    to.set_movie_id(from.movie_id())?;
    to.set_title(from.title())?;
    for cast in from.casts().iter() {
        let mut copy = to.push_casts()?;
        copy.set_cast_id(cast.cast_id());
        copy.set_character(cast.character())?;
        copy.set_cast_info_id(cast.cast_info_id());
    }
    to.set_plot_id(from.plot_id());
    from.thumbnail_ids().iter().try_for_each(|id| to.push_thumbnail_ids(id).map(drop))?;
    from.photo_ids().iter().try_for_each(|id| to.push_photo_ids(id).map(drop))?;
    from.video_ids().iter().try_for_each(|id| to.push_video_ids(id).map(drop))?;
    to.set_avg_rating(from.avg_rating());
    to.set_num_rating(from.num_rating());
    Ok(())
}

#[cfg(test)]
mod tests;
