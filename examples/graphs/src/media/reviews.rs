//! Reviews: compose-review, which gathers their parts and has them stored; review-storage; movie-review and user-review, which list them.

use super::*;
use crate::asks::{Asks, Job, built};
use crate::keep::Keep;
use crate::parts::application;
use crate::tier::{Beside, Peer};
use codec::encode::Encoder;
use codec::typed::{MessageView, Owned};
use fabric::service::Context;
use fabric::status::{Code, Status};
use fabric::stub::{Deferred, NotServed};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use store::Verb;

/// Text, rating, movie, number, user.
pub const PARTS: u64 = 5;

/// Gathers parts. Those of a review that is never complete go when their room is wanted.
pub struct Composer {
    asks: Asks,
    keep: Keep,
    storage: Peer<ReviewStorageClient>,
    by_user: Peer<UserReviewClient>,
    by_movie: Peer<MovieReviewClient>,
}

impl Composer {
    pub fn new(beside: &Beside<'_>) -> Result<Composer, NotServed> {
        Ok(Composer {
            asks: beside.asks.clone(),
            keep: Keep::new(32),
            storage: beside.peer(0, &REVIEW_STORAGE, ReviewStorageClient::new)?,
            by_user: beside.peer(1, &USER_REVIEW, UserReviewClient::new)?,
            by_movie: beside.peer(2, &MOVIE_REVIEW, MovieReviewClient::new)?,
        })
    }

    /// Keeps a part; all of them if it was the last.
    fn gather(&self, part: PartView<'_>) -> Result<Option<Vec<Owned<Part>>>, Status> {
        let kind = kind(part).ok_or_else(|| Status::new(Code::InvalidArgument, "an empty part"))?;
        let (req_id, mut encoder) = (part.req_id(), Encoder::default());
        let bytes =
            part.encode(&mut encoder).map_err(|error| Status::new(Code::Internal, error.to_string()))?;
        if !self.keep.put(&format!("{req_id}:{kind}"), bytes, Verb::Add)? {
            return Err(Status::new(Code::AlreadyExists, format!("review {req_id} has part {kind} already")));
        }
        let count = format!("{req_id}:count");
        if self.keep.count(&count, 1)? < PARTS {
            return Ok(None);
        }
        self.keep.take(&count, |_| ());
        let lost = || Status::new(Code::ResourceExhausted, format!("a part of review {req_id} had to go"));
        let parts = (0..PARTS).map(|kind| {
            let part = self.keep.message::<Part>(&format!("{req_id}:{kind}"))?.ok_or_else(lost)?;
            self.keep.take(&format!("{req_id}:{kind}"), |_| ());
            Ok(part)
        });
        parts.collect::<Result<Vec<_>, Status>>().map(Some)
    }
}

/// Which part it is, below [`PARTS`].
fn kind(part: PartView<'_>) -> Option<u64> {
    Some(match part.part()? {
        part::Part::Text(_) => 0,
        part::Part::Rating(_) => 1,
        part::Part::MovieId(_) => 2,
        part::Part::UniqueId(_) => 3,
        part::Part::UserId(_) => 4,
    })
}

/// A review's head: what goes to lists.
#[derive(Clone, Debug, Default)]
struct Head {
    req_id: i64,
    review_id: i64,
    user_id: i64,
    movie_id: String,
    timestamp: i64,
}

impl Head {
    fn of(parts: &[Owned<Part>]) -> Head {
        let timestamp =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let mut head = Head { timestamp, ..Head::default() };
        for part in parts {
            head.req_id = part.view().req_id();
            match part.view().part() {
                Some(part::Part::MovieId(id)) => head.movie_id = id.to_owned(),
                Some(part::Part::UniqueId(id)) => head.review_id = id,
                Some(part::Part::UserId(id)) => head.user_id = id,
                _ => {}
            }
        }
        head
    }
}

fn fill(review: &mut ReviewMut<'_, '_>, head: &Head, parts: &[Owned<Part>]) -> Result<(), OutOfMemory> {
    review.set_review_id(head.review_id);
    review.set_user_id(head.user_id);
    review.set_req_id(head.req_id);
    review.set_movie_id(&head.movie_id)?;
    review.set_timestamp(head.timestamp);
    for part in parts {
        match part.view().part() {
            Some(part::Part::Text(text)) => review.set_text(text)?,
            Some(part::Part::Rating(rating)) => review.set_rating(rating),
            _ => {}
        }
    }
    Ok(())
}

impl ComposeReview for Composer {
    fn upload(&self, request: PartView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let gathered = self.gather(request);
        let (storage, by_user, by_movie) = (self.storage, self.by_user, self.by_movie);
        self.asks.spawn(async move {
            let done = match gathered {
                Ok(Some(parts)) => publish(&mut job, storage, by_user, by_movie, parts).await,
                Ok(None) => Ok(()),
                Err(status) => Err(status),
            };
            job.reply(reply, done, |_, ()| Ok(()));
        });
    }
}

/// Stores a review, and has it listed.
async fn publish(
    job: &mut Job,
    storage: Peer<ReviewStorageClient>,
    by_user: Peer<UserReviewClient>,
    by_movie: Peer<MovieReviewClient>,
    parts: Vec<Owned<Part>>,
) -> Result<(), Status> {
    let head = Arc::new(Head::of(&parts));
    let of = Arc::clone(&head);
    let stored = job.ask::<Done>(storage.to("Store"), move |channel, options, at| {
        storage.client.store_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(of.req_id);
                fill(&mut request.review_mut()?, &of, &parts)
            })
        })
    });
    let of = Arc::clone(&head);
    let users = job.ask::<Done>(by_user.to("Upload"), move |channel, options, at| {
        by_user.client.upload_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(of.req_id);
                request.set_user_id(of.user_id);
                request.set_review_id(of.review_id);
                request.set_timestamp(of.timestamp);
                Ok(())
            })
        })
    });
    let movies = job.ask::<Done>(by_movie.to("Upload"), move |channel, options, at| {
        by_movie.client.upload_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(head.req_id);
                request.set_movie_id(&head.movie_id)?;
                request.set_review_id(head.review_id);
                request.set_timestamp(head.timestamp);
                Ok(())
            })
        })
    });
    let (stored, users, movies) =
        (job.answer(stored).await, job.answer(users).await, job.answer(movies).await);
    stored.and(users).and(movies).map(drop)
}

/// Reviews by their numbers.
pub struct Stored(Keep);

impl Stored {
    pub fn new() -> Stored {
        Stored(Keep::new(128))
    }
}

impl ReviewStorage for Stored {
    fn store(
        &self,
        request: StoreReviewRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let review =
                request.review().ok_or_else(|| Status::new(Code::InvalidArgument, "there is no review"))?;
            self.0.put_message(&review.review_id().to_string(), review)
        })
    }

    fn read(
        &self,
        request: ReadReviewsRequestView<'_>,
        reply: &mut ReviewsMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            for id in request.review_ids() {
                if let Some(review) = self.0.message::<Review>(&id.to_string())? {
                    copy_review(review.view(), &mut reply.push_reviews()?)?;
                }
            }
            Ok(())
        })
    }
}

/// What each user has reviewed.
pub struct ByUser(Keep);

impl ByUser {
    pub fn new() -> ByUser {
        ByUser(Keep::new(4))
    }
}

impl UserReview for ByUser {
    fn upload(
        &self,
        request: UploadUserReviewRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| self.0.prepend(&request.user_id().to_string(), request.review_id()))
    }
}

/// What was said of each movie.
pub struct ByMovie {
    asks: Asks,
    keep: Keep,
    storage: Peer<ReviewStorageClient>,
}

impl ByMovie {
    pub fn new(beside: &Beside<'_>) -> Result<ByMovie, NotServed> {
        let storage = beside.peer(0, &REVIEW_STORAGE, ReviewStorageClient::new)?;
        Ok(ByMovie { asks: beside.asks.clone(), keep: Keep::new(4), storage })
    }
}

impl MovieReview for ByMovie {
    fn upload(
        &self,
        request: UploadMovieReviewRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| self.keep.prepend(request.movie_id(), request.review_id()))
    }

    fn read(
        &self,
        request: ReadMovieReviewsRequestView<'_>,
        reply: Deferred<Reviews>,
        context: &mut Context<'_>,
    ) {
        let mut job = self.asks.job(context);
        let reviews = self.keep.list(request.movie_id(), request.start(), request.stop());
        let (storage, req_id) = (self.storage, request.req_id());
        self.asks.spawn(async move {
            let asked = job.ask::<Reviews>(storage.to("Read"), move |channel, options, at| {
                storage.client.read_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        reviews.iter().try_for_each(|&id| request.push_review_ids(id).map(drop))
                    })
                })
            });
            let reviews = job.answer(asked).await;
            job.reply(reply, reviews, |reply, reviews| copy_reviews(reviews.view(), reply));
        });
    }
}
