//! What users of the site do, as DeathStarBench's workload has them: reviews of 256 letters; pages with ten reviews.

use super::*;
use crate::load::{KINDS, Requests};
use crate::social::load::letters;
use base::Prng;
use fabric::channel::{CallId, CallOptions, Channel, Event, StartError};
use fabric::status::{Code, Status};

/// See the file's head.
pub struct Readers {
    site: SiteClient,
    /// Of a hundred requests.
    shares: [u64; KINDS],
    asked: i64,
}

const NAMES: [&str; KINDS] = ["compose a review", "read a movie's page", ""];

impl Readers {
    /// Numbers of requests begin with `asked`.
    ///
    /// # Errors
    /// The channel leads elsewhere.
    pub fn new(channel: &Channel, shares: [u64; KINDS], asked: i64) -> Result<Readers, Failure> {
        Ok(Readers { site: SiteClient::new(channel)?, shares, asked })
    }
}

/// So many words.
pub fn words(random: &mut Prng, count: usize) -> String {
    let words: Vec<String> = (0..count)
        .map(|_| {
            let length = 2 + random.below(8) as usize;
            letters(random, length)
        })
        .collect();
    words.join(" ")
}

impl Requests for Readers {
    fn kinds(&self) -> [(&'static str, u64); KINDS] {
        std::array::from_fn(|kind| (NAMES[kind], self.shares[kind]))
    }

    fn start(
        &mut self,
        kind: usize,
        channel: &mut Channel,
        options: &CallOptions<'_>,
        user: u64,
        random: &mut Prng,
    ) -> Result<CallId, StartError> {
        let (req_id, movie) = (self.asked, random.below(MOVIES));
        let call = match kind {
            0 => self.site.compose_async(channel, options, user, |request| {
                request.set_req_id(req_id);
                request.set_username(&username(random.below(USERS)))?;
                request.set_title(&title(movie))?;
                request.set_rating(random.below(11) as i32);
                request.set_text(&letters(random, 256))
            }),
            _ => self.site.read_page_async(channel, options, user, |request| {
                request.set_req_id(req_id);
                request.set_movie_id(&movie_id(movie))?;
                request.set_review_stop(10);
                Ok(())
            }),
        };
        self.asked += i64::from(call.is_ok());
        call
    }

    fn check(&self, kind: usize, event: &mut Event<'_>) -> Result<(), Status> {
        if kind == 0 {
            return event.message::<Done>().map(drop);
        }
        match wrong(event.message::<PageReply>()?) {
            None => Ok(()),
            Some(what) => Err(Status::new(Code::DataLoss, what)),
        }
    }
}

/// What is wrong with a movie's page.
fn wrong(page: PageReplyView<'_>) -> Option<&'static str> {
    let Some(movie) = page.movie_info() else { return Some("a page without its movie") };
    let cast = movie.casts().iter().map(|cast| cast.cast_info_id());
    if page.plot().is_empty() || !cast.eq(page.cast_infos().iter().map(|info| info.cast_info_id())) {
        return Some("the page has another movie's plot or cast");
    }
    if page.reviews().len() > 10 {
        return Some("more reviews than were asked for");
    }
    let is_other =
        |review: ReviewView<'_>| review.movie_id() != movie.movie_id() || review.text().len() != 256;
    page.reviews().iter().any(is_other).then_some("a review of another movie, or words are lost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::memory::Arena;
    use codec::typed::Message;

    /// What is wrong with the page of movie `m` whose cast is one, with these.
    fn of(plot: &str, cast: i64, reviews: usize, review: &str, letters: usize) -> Option<&'static str> {
        let arena = Arena::default();
        let mut page = PageReply::new(&arena).expect("room");
        let mut movie = page.movie_info_mut().expect("room");
        movie.set_movie_id("m").expect("room");
        movie.push_casts().expect("room").set_cast_info_id(1);
        page.push_cast_infos().expect("room").set_cast_info_id(cast);
        page.set_plot(plot).expect("room");
        for _ in 0..reviews {
            let mut of = page.push_reviews().expect("room");
            of.set_movie_id(review).expect("room");
            of.set_text(&"x".repeat(letters)).expect("room");
        }
        wrong(PageReply::freeze(page))
    }

    #[test]
    fn planted_bugs_are_found() {
        assert_eq!(of("a plot", 1, 10, "m", 256), None);
        assert!(of("", 1, 1, "m", 256).is_some());
        assert!(of("a plot", 2, 1, "m", 256).is_some());
        assert!(of("a plot", 1, 11, "m", 256).is_some());
        assert!(of("a plot", 1, 1, "n", 256).is_some());
        assert!(of("a plot", 1, 1, "m", 255).is_some());
    }
}
