//! Puts a movie's page together: the movie and its reviews at once, then who plays and what it is about.

use super::*;
use crate::asks::{Asks, Job, built};
use crate::tier::{Beside, Peer};
use codec::typed::Owned;
use fabric::service::Context;
use fabric::status::Status;
use fabric::stub::{Deferred, NotServed};

/// See the file's head.
pub struct Pages {
    asks: Asks,
    peers: Peers,
}

#[derive(Clone, Copy)]
struct Peers {
    movies: Peer<MovieInfoServiceClient>,
    reviews: Peer<MovieReviewClient>,
    casts: Peer<CastInfoServiceClient>,
    plots: Peer<PlotClient>,
}

impl Pages {
    pub fn new(beside: &Beside<'_>) -> Result<Pages, NotServed> {
        let peers = Peers {
            movies: beside.peer(0, &MOVIE_INFO_SERVICE, MovieInfoServiceClient::new)?,
            reviews: beside.peer(1, &MOVIE_REVIEW, MovieReviewClient::new)?,
            casts: beside.peer(2, &CAST_INFO_SERVICE, CastInfoServiceClient::new)?,
            plots: beside.peer(3, &PLOT, PlotClient::new)?,
        };
        Ok(Pages { asks: beside.asks.clone(), peers })
    }
}

struct Parts {
    movie: Owned<MovieInfo>,
    reviews: Owned<Reviews>,
    casts: Owned<CastInfos>,
    plot: Owned<PlotReply>,
}

impl Page for Pages {
    fn read(&self, request: PageRequestView<'_>, reply: Deferred<PageReply>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (req_id, movie) = (request.req_id(), request.movie_id().to_owned());
        let (range, peers) = ((request.review_start(), request.review_stop()), self.peers);
        self.asks.spawn(async move {
            let parts = gather(&mut job, peers, req_id, movie, range).await;
            job.reply(reply, parts, |reply, parts| {
                copy_movie(parts.movie.view(), &mut reply.movie_info_mut()?)?;
                let reviews = parts.reviews.view().reviews();
                reviews.iter().try_for_each(|review| copy_review(review, &mut reply.push_reviews()?))?;
                let casts = parts.casts.view().cast_infos();
                casts.iter().try_for_each(|cast| copy_cast(cast, &mut reply.push_cast_infos()?))?;
                reply.set_plot(parts.plot.view().plot())
            });
        });
    }
}

async fn gather(
    job: &mut Job,
    peers: Peers,
    req_id: i64,
    movie: String,
    range: (i32, i32),
) -> Result<Parts, Status> {
    let Peers { movies, reviews, casts, plots } = peers;
    let of = movie.clone();
    let info = job.ask::<MovieInfo>(movies.to("Read"), move |channel, options, at| {
        movies.client.read_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_movie_id(&of)
            })
        })
    });
    let reviewed = job.ask::<Reviews>(reviews.to("Read"), move |channel, options, at| {
        reviews.client.read_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_movie_id(&movie)?;
                request.set_start(range.0);
                request.set_stop(range.1);
                Ok(())
            })
        })
    });
    let movie = match job.answer(info).await {
        Ok(movie) => movie,
        Err(status) => {
            // Waited for, too: nothing goes on when the page has ended.
            let _ = job.answer(reviewed).await;
            return Err(status);
        }
    };
    let plot_id = movie.view().plot_id();
    let people: Vec<i64> = movie.view().casts().iter().map(|cast| cast.cast_info_id()).collect();
    let played = job.ask::<CastInfos>(casts.to("Read"), move |channel, options, at| {
        casts.client.read_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                people.iter().try_for_each(|&person| request.push_cast_ids(person).map(drop))
            })
        })
    });
    let plot = job.ask::<PlotReply>(plots.to("Read"), move |channel, options, at| {
        plots.client.read_async(channel, options, at, |request| {
            built(request, |request| {
                request.set_req_id(req_id);
                request.set_plot_id(plot_id);
                Ok(())
            })
        })
    });
    let (reviews, casts, plot) =
        (job.answer(reviewed).await, job.answer(played).await, job.answer(plot).await);
    Ok(Parts { movie, reviews: reviews?, casts: casts?, plot: plot? })
}
