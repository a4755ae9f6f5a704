//! What browsers talk to: it has the parts of a review brought to where they are put together, and pages read.

use super::*;
use crate::asks::{Asks, built};
use crate::tier::{Beside, Peer};
use fabric::service::Context;
use fabric::stub::{Deferred, NotServed};

/// See the file's head.
pub struct Browsed {
    asks: Asks,
    unique_id: Peer<UniqueIdClient>,
    user: Peer<UserClient>,
    text: Peer<TextClient>,
    movie_id: Peer<MovieIdClient>,
    page: Peer<PageClient>,
}

impl Browsed {
    pub fn new(beside: &Beside<'_>) -> Result<Browsed, NotServed> {
        Ok(Browsed {
            asks: beside.asks.clone(),
            unique_id: beside.peer(0, &UNIQUE_ID, UniqueIdClient::new)?,
            user: beside.peer(1, &USER, UserClient::new)?,
            text: beside.peer(2, &TEXT, TextClient::new)?,
            movie_id: beside.peer(3, &MOVIE_ID, MovieIdClient::new)?,
            page: beside.peer(4, &PAGE, PageClient::new)?,
        })
    }
}

impl Site for Browsed {
    fn compose(&self, request: ComposeRequestView<'_>, reply: Deferred<Done>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (req_id, rating) = (request.req_id(), request.rating());
        let (username, title) = (request.username().to_owned(), request.title().to_owned());
        let words = request.text().to_owned();
        let Browsed { unique_id, user, text, movie_id, .. } = *self;
        self.asks.spawn(async move {
            let numbered = job.ask::<Done>(unique_id.to("Upload"), move |channel, options, at| {
                unique_id.client.upload_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        Ok(())
                    })
                })
            });
            let signed = job.ask::<Done>(user.to("Upload"), move |channel, options, at| {
                user.client.upload_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_username(&username)
                    })
                })
            });
            let worded = job.ask::<Done>(text.to("Upload"), move |channel, options, at| {
                text.client.upload_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_text(&words)
                    })
                })
            });
            let rated = job.ask::<Done>(movie_id.to("Upload"), move |channel, options, at| {
                movie_id.client.upload_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_title(&title)?;
                        request.set_rating(rating);
                        Ok(())
                    })
                })
            });
            let (numbered, signed) = (job.answer(numbered).await, job.answer(signed).await);
            let (worded, rated) = (job.answer(worded).await, job.answer(rated).await);
            job.reply(reply, numbered.and(signed).and(worded).and(rated), |_, _| Ok(()));
        });
    }

    fn read_page(&self, request: PageRequestView<'_>, reply: Deferred<PageReply>, context: &mut Context<'_>) {
        let mut job = self.asks.job(context);
        let (req_id, movie, page) = (request.req_id(), request.movie_id().to_owned(), self.page);
        let (start, stop) = (request.review_start(), request.review_stop());
        self.asks.spawn(async move {
            let read = job.ask::<PageReply>(page.to("Read"), move |channel, options, at| {
                page.client.read_async(channel, options, at, |request| {
                    built(request, |request| {
                        request.set_req_id(req_id);
                        request.set_movie_id(&movie)?;
                        request.set_review_start(start);
                        request.set_review_stop(stop);
                        Ok(())
                    })
                })
            });
            let page = job.answer(read).await;
            job.reply(reply, page, |reply, page| {
                let page = page.view();
                if let Some(movie) = page.movie_info() {
                    copy_movie(movie, &mut reply.movie_info_mut()?)?;
                }
                page.reviews()
                    .iter()
                    .try_for_each(|review| copy_review(review, &mut reply.push_reviews()?))?;
                page.cast_infos()
                    .iter()
                    .try_for_each(|cast| copy_cast(cast, &mut reply.push_cast_infos()?))?;
                reply.set_plot(page.plot())
            });
        });
    }
}
