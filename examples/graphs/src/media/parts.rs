//! The services that bring a part of a review each: unique-id, user, text, rating, movie-id.

use super::*;
use crate::asks::{Answer, Asks, Job, built};
use crate::keep::Keep;
use crate::tier::{Beside, Peer};
use base::prng::mix64;
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, NotServed};
use std::sync::atomic::{AtomicU64, Ordering};
use store::Verb;

type Gatherer = Peer<ComposeReviewClient>;

fn gatherer(beside: &Beside<'_>) -> Result<Gatherer, NotServed> {
    beside.peer(0, &COMPOSE_REVIEW, ComposeReviewClient::new)
}

/// Brings a part to where reviews are put together.
fn bring(
    job: &Job,
    to: Gatherer,
    req_id: i64,
    fill: impl Fn(&mut PartMut<'_, '_>) -> Result<(), OutOfMemory> + Send + 'static,
) -> Answer<Done> {
    job.ask::<Done>(to.to("Upload"), move |channel, options, at| {
        to.client.upload_async(channel, options, at, |part| {
            built(part, |part| {
                part.set_req_id(req_id);
                fill(part)
            })
        })
    })
}

/// Gives reviews their numbers.
pub struct Numbers {
    asks: Asks,
    gatherer: Gatherer,
    given: AtomicU64,
}

impl Numbers {
    pub fn new(beside: &Beside<'_>) -> Result<Numbers, NotServed> {
        Ok(Numbers { asks: beside.asks.clone(), gatherer: gatherer(beside)?, given: AtomicU64::new(0) })
    }
}

impl UniqueId for Numbers {
    fn upload(
        &self,
        request: UploadUniqueIdRequestView<'_>,
        reply: Deferred<Done>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (gatherer, req_id) = (self.gatherer, request.req_id());
        let id = (mix64(self.given.fetch_add(1, Ordering::Relaxed)) >> 1) as i64;
        self.asks.spawn(async move {
            let brought = bring(&job, gatherer, req_id, move |part| {
                part.set_unique_id(id);
                Ok(())
            });
            let done = job.answer(brought).await;
            job.reply(reply, done, |_, _| Ok(()));
        });
    }
}

/// Knows users by their names.
pub struct Users {
    asks: Asks,
    gatherer: Gatherer,
    keep: Keep,
}

impl Users {
    pub fn new(beside: &Beside<'_>) -> Result<Users, NotServed> {
        let keep = Keep::new(4);
        for user in 0..USERS {
            keep.put(&username(user), &user.to_le_bytes(), Verb::Set).expect("there is room");
        }
        Ok(Users { asks: beside.asks.clone(), gatherer: gatherer(beside)?, keep })
    }
}

impl User for Users {
    fn upload(&self, request: UploadUserRequestView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (gatherer, req_id, name) = (self.gatherer, request.req_id(), request.username());
        let user = self.keep.get(name, |bytes| bytes.try_into().map(i64::from_le_bytes).ok()).flatten();
        let Some(user) = user else {
            return reply.fail(Status::new(Code::NotFound, format!("nobody is called {name:?}")));
        };
        self.asks.spawn(async move {
            let brought = bring(&job, gatherer, req_id, move |part| {
                part.set_user_id(user);
                Ok(())
            });
            let done = job.answer(brought).await;
            job.reply(reply, done, |_, _| Ok(()));
        });
    }
}

/// Takes texts in.
pub struct Texts {
    asks: Asks,
    gatherer: Gatherer,
}

impl Texts {
    pub fn new(beside: &Beside<'_>) -> Result<Texts, NotServed> {
        Ok(Texts { asks: beside.asks.clone(), gatherer: gatherer(beside)? })
    }
}

impl Text for Texts {
    fn upload(&self, request: UploadTextRequestView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (gatherer, req_id, text) = (self.gatherer, request.req_id(), request.text().to_owned());
        self.asks.spawn(async move {
            let brought = bring(&job, gatherer, req_id, move |part| part.set_text(&text));
            let done = job.answer(brought).await;
            job.reply(reply, done, |_, _| Ok(()));
        });
    }
}

/// Counts ratings, and tells the movies' keeper of every [`AT_ONCE`] of a movie.
pub struct Ratings {
    asks: Asks,
    gatherer: Gatherer,
    movies: Peer<MovieInfoServiceClient>,
    keep: Keep,
}

/// Ratings of a movie that are told together.
pub const AT_ONCE: u64 = 4;

impl Ratings {
    pub fn new(beside: &Beside<'_>) -> Result<Ratings, NotServed> {
        let movies = beside.peer(1, &MOVIE_INFO_SERVICE, MovieInfoServiceClient::new)?;
        Ok(Ratings { asks: beside.asks.clone(), gatherer: gatherer(beside)?, movies, keep: Keep::new(4) })
    }

    /// Counts one; the sum and number of those that are to be told now.
    fn count(&self, movie: &str, rating: i32) -> Result<Option<(i32, i32)>, Status> {
        let (sum_key, number_key) = (format!("{movie}:sum"), format!("{movie}:number"));
        let rating =
            u64::try_from(rating).map_err(|_| Status::new(Code::InvalidArgument, "a rating is 0 or more"))?;
        let sum = self.keep.count(&sum_key, rating)?;
        let number = self.keep.count(&number_key, 1)?;
        if number < AT_ONCE {
            return Ok(None);
        }
        self.keep.take(&sum_key, |_| ());
        self.keep.take(&number_key, |_| ());
        Ok(Some((i32::try_from(sum).unwrap_or(i32::MAX), number as i32)))
    }
}

impl Rating for Ratings {
    fn upload(&self, request: UploadRatingRequestView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (gatherer, movies, req_id, rating) =
            (self.gatherer, self.movies, request.req_id(), request.rating());
        let movie = request.movie_id().to_owned();
        let counted = match self.count(&movie, rating) {
            Ok(counted) => counted,
            Err(status) => return reply.fail(status),
        };
        self.asks.spawn(async move {
            let told = counted.map(|(sum, number)| {
                job.ask::<Done>(movies.to("UpdateRating"), move |channel, options, at| {
                    movies.client.update_rating_async(channel, options, at, |request| {
                        built(request, |request| {
                            request.set_req_id(req_id);
                            request.set_movie_id(&movie)?;
                            request.set_sum_uncommitted_rating(sum);
                            request.set_num_uncommitted_rating(number);
                            Ok(())
                        })
                    })
                })
            });
            let brought = bring(&job, gatherer, req_id, move |part| {
                part.set_rating(rating);
                Ok(())
            });
            let mut done = job.answer(brought).await;
            if let Some(told) = told {
                done = job.answer(told).await.and(done);
            }
            job.reply(reply, done, |_, _| Ok(()));
        });
    }
}

/// Knows movies by their titles.
pub struct Titles {
    asks: Asks,
    gatherer: Gatherer,
    ratings: Peer<RatingClient>,
    keep: Keep,
}

impl Titles {
    pub fn new(beside: &Beside<'_>) -> Result<Titles, NotServed> {
        let keep = Keep::new(4);
        for movie in 0..MOVIES {
            keep.put(&title(movie), movie_id(movie).as_bytes(), Verb::Set).expect("there is room");
        }
        let ratings = beside.peer(1, &RATING, RatingClient::new)?;
        Ok(Titles { asks: beside.asks.clone(), gatherer: gatherer(beside)?, ratings, keep })
    }
}

impl MovieId for Titles {
    fn upload(
        &self,
        request: UploadMovieIdRequestView<'_>,
        reply: Deferred<Done>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let (gatherer, ratings, req_id, rating) =
            (self.gatherer, self.ratings, request.req_id(), request.rating());
        let movie = self.keep.get(request.title(), |id| String::from_utf8_lossy(id).into_owned());
        let Some(movie) = movie else {
            let status = Status::new(Code::NotFound, format!("there is no movie {:?}", request.title()));
            return reply.fail(status);
        };
        self.asks.spawn(async move {
            let part = movie.clone();
            let brought = bring(&job, gatherer, req_id, move |to| to.set_movie_id(&part));
            let rated = job.ask::<Done>(ratings.to("Upload"), move |channel, options, at| {
                ratings.client.upload_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_movie_id(&movie)?;
                        request.set_rating(rating);
                        Ok(())
                    })
                })
            });
            let (brought, rated) = (job.answer(brought).await, job.answer(rated).await);
            job.reply(reply, brought.and(rated), |_, _| Ok(()));
        });
    }
}
