//! What is known of movies: cast-info, plot, movie-info. The same at every start but for ratings.

use super::load::words;
use super::*;
use crate::keep::Keep;
use crate::parts::application;
use base::Prng;
use codec::memory::Arena;
use codec::typed::Message;
use fabric::service::Context;
use fabric::status::{Code, Status};
use store::Verb;

/// People.
const PEOPLE: u64 = 4000;

/// Keeps a message that `fill` builds.
fn keep_built<M: Message>(
    keep: &Keep,
    key: &str,
    fill: impl FnOnce(&mut M::Mut<'_, '_>) -> Result<(), OutOfMemory>,
) -> Result<(), Status> {
    let arena = Arena::default();
    let mut message = M::new(&arena)?;
    fill(&mut message)?;
    keep.put_message(key, M::freeze(message))
}

/// Who plays.
pub struct Casts(Keep);

impl Casts {
    pub fn new() -> Casts {
        let (keep, mut random) = (Keep::new(8), Prng::new(1));
        for person in 0..PEOPLE as i64 {
            let kept = keep_built::<CastInfo>(&keep, &person.to_string(), |cast| {
                cast.set_cast_info_id(person);
                cast.set_name(&words(&mut random, 2))?;
                cast.set_gender(random.below(2) == 0);
                cast.set_intro(&words(&mut random, 20))
            });
            kept.expect("there is room");
        }
        Casts(keep)
    }
}

impl CastInfoService for Casts {
    fn read(
        &self,
        request: ReadCastInfoRequestView<'_>,
        reply: &mut CastInfosMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            for id in request.cast_ids() {
                let cast = self.0.message::<CastInfo>(&id.to_string())?;
                let cast = cast
                    .ok_or_else(|| Status::new(Code::NotFound, format!("there is nobody of number {id}")))?;
                copy_cast(cast.view(), &mut reply.push_cast_infos()?)?;
            }
            Ok(())
        })
    }
}

/// What movies are about.
pub struct Plots(Keep);

impl Plots {
    pub fn new() -> Plots {
        let (keep, mut random) = (Keep::new(4), Prng::new(2));
        for plot in 0..MOVIES {
            let length = 30 + random.below(60) as usize;
            let text = words(&mut random, length);
            keep.put(&plot.to_string(), text.as_bytes(), Verb::Set).expect("there is room");
        }
        Plots(keep)
    }
}

impl Plot for Plots {
    fn read(
        &self,
        request: ReadPlotRequestView<'_>,
        reply: &mut PlotReplyMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let id = request.plot_id();
            let set = self.0.get(&id.to_string(), |plot| reply.set_plot(&String::from_utf8_lossy(plot)));
            Ok(set.ok_or_else(|| Status::new(Code::NotFound, format!("there is no plot of number {id}")))??)
        })
    }
}

/// Movies, with their ratings.
pub struct Movies(Keep);

impl Movies {
    pub fn new() -> Movies {
        let (keep, mut random) = (Keep::new(8), Prng::new(3));
        for movie in 0..MOVIES {
            let kept = keep_built::<MovieInfo>(&keep, &movie_id(movie), |info| {
                info.set_movie_id(&movie_id(movie))?;
                info.set_title(&title(movie))?;
                for cast in 0..3 + random.below(10) as i32 {
                    let mut plays = info.push_casts()?;
                    plays.set_cast_id(cast);
                    plays.set_character(&words(&mut random, 2))?;
                    plays.set_cast_info_id(random.below(PEOPLE) as i64);
                }
                info.set_plot_id(movie as i64);
                info.push_thumbnail_ids(&format!("thumbnail-{movie}"))?;
                info.push_photo_ids(&format!("photo-{movie}"))?;
                info.push_video_ids(&format!("video-{movie}")).map(drop)
            });
            kept.expect("there is room");
        }
        Movies(keep)
    }
}

fn no_movie(id: &str) -> Status {
    Status::new(Code::NotFound, format!("there is no movie {id}"))
}

impl MovieInfoService for Movies {
    fn read(
        &self,
        request: ReadMovieInfoRequestView<'_>,
        reply: &mut MovieInfoMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let id = request.movie_id();
            let movie = self.0.message::<MovieInfo>(id)?.ok_or_else(|| no_movie(id))?;
            Ok(copy_movie(movie.view(), reply)?)
        })
    }

    fn update_rating(
        &self,
        request: UpdateRatingRequestView<'_>,
        _: &mut DoneMut<'_, '_>,
        _: &mut Context<'_>,
    ) -> Result<(), Status> {
        application(|| {
            let id = request.movie_id();
            let movie = self.0.message::<MovieInfo>(id)?.ok_or_else(|| no_movie(id))?;
            let (before, new) = (movie.view().num_rating(), request.num_uncommitted_rating());
            let sum =
                movie.view().avg_rating() * f64::from(before) + f64::from(request.sum_uncommitted_rating());
            let count = before.saturating_add(new.max(0));
            keep_built::<MovieInfo>(&self.0, id, |rated| {
                copy_movie(movie.view(), rated)?;
                rated.set_avg_rating(if count > 0 { sum / f64::from(count) } else { 0.0 });
                rated.set_num_rating(count);
                Ok(())
            })
        })
    }
}
